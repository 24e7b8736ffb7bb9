# others.bash -- programs at an address where a client expects an agent, and the bytes that they receive from it.
# shellcheck shell=bash disable=SC2034 # variables are used by the tests

# other KIND [HOST:PORT]: starts the other program under ENTER, at the address LISTEN; its port is OTHER. It writes the bytes that it
# receives to the file saw, or SAW.
other() {
    local saw=${SAW:-$T/saw}
    : >"$saw"
    rm -f "$T/port"
    "${ENTER[@]}" "$TOOLS/limit" "$TEST_LIMIT" python3 "$BATS_TEST_DIRNAME/mitm.py" "$1" "$saw" "${2:-}" "$T/evil/tls.crt" "$T/evil/tls.key" \
        >"$T/port" 3>&- &
    AGENTS+=($!)
    within 60 test -s "$T/port"
    OTHER=$(<"$T/port")
}

# another_key: evil/ has the key and certificate of an agent that nobody knows.
another_key() {
    XDG_STATE_HOME=$T/evil-state start_agent 9
    end_agent 9
    mv agent9 evil
}

unseen() { ! grep -aqF -- "$1" saw; }

nothing_secret_crossed() {
    local secret
    for secret in "$(<agent0/token)" Bearer Authorization X-Job-Key '"code"' '"model"' .shstrtab 'POST /' 'PUT /'; do
        unseen "$secret" || { echo "the other program saw $secret" && return 1; }
    done
}
