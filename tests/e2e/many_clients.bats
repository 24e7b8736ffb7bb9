#!/usr/bin/env bats
# Answers of an agent to many clients at once, and to clients that guess.

load lib
load namespaces

@test "uploads that do not all fit on the disk: each is stored or refused with 507, none ends in the middle" {
    make_disk 88m "$T/disk" # of which 64 MiB are reserved: two of 10 MB fit
    "${ON_DISK[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --port 0 --dir "$T/disk/agent" 2>agent.log 3>&- &
    AGENTS[0]=$!
    within 60 grep -q ' listens on ' agent.log
    local port n sum token uploads=()
    port=$(sed -n 's/.* listens on 127.0.0.1:\([0-9]*\),.*/\1/p' agent.log)
    token=$("${ON_DISK[@]}" cat "$T/disk/agent/token")
    for n in 1 2 3 4 5 6; do
        head -c 10000000 /dev/urandom >"blob$n"
        sum=$(sha256sum <"blob$n")
        curl -sS --limit-rate 3M -o "answer$n" -w '%{http_code}\n' -H "Authorization: Bearer $token" -H 'Content-Type: application/octet-stream' \
            -T "blob$n" "http://127.0.0.1:$port/v1/blobs/sha256/${sum%% *}" >"status$n" 2>"error$n" 3>&- &
        uploads+=($!)
    done
    wait "${uploads[@]}"
    [ "$(cat status? | sort | uniq -c | tr -s ' \n' ' ')" = " 2 201 4 507 " ]
    [ -z "$(cat error?)" ]
    [ "$("${ON_DISK[@]}" find "$T/disk/agent/blobs" -type f | wc -l)" -eq 2 ]
    [ "$(grep -c 'No space left' agent.log)" -eq 0 ]
}

@test "join codes are not guessed: after ten wrong ones even the right one waits, a right token does not" {
    "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port 0 --dir agent0 >invitation 2>agent.log 3>&- &
    AGENTS[0]=$!
    within 60 grep -q '^job_submit join' invitation
    local url code n
    IFS=\'# read -r _ url _ code _ <invitation
    url=https://$url
    try() { curl -k -s -o /dev/null -w '%{http_code}' "$@"; }
    join_with() { try -d "{\"code\":\"$1\",\"name\":\"guest\"}" -H 'Content-Type: application/json' "$url/v1/join"; }
    for n in 0 1 2 3 4 5 6 7 8 9; do
        [ "$(join_with "wrong-$n")" -eq 401 ]
    done
    [ "$(join_with wrong)" -eq 429 ]
    [ "$(join_with "$code")" -eq 429 ]
    [ "$(try -H "Authorization: Bearer $(cat agent0/token)" "$url/v1/agent")" -eq 200 ]
    [ "$(grep -c 'a wrong join code' agent.log)" -ge 1 ]
}
