#!/usr/bin/env bats
# Agents and users with certificates of a CA of their own: mutual TLS.
load lib
load certificates

# start_certified N CERTIFICATE [OPTION...]: agent number N, with TLS only, of another user, with that certificate.
start_certified() {
    local n=$1 certificate=$2
    shift 2
    isolation_needs
    : >"invitation$n" # not that of an agent before
    XDG_STATE_HOME=$T/state$n "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port "${PORTS[n]:-0}" --dir "$T/agent$n" \
        --tls-cert "$certificate.pem" --tls-key "$certificate.key" "${UNISOLATED[@]}" "$@" >"invitation$n" 2>>"$T/agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 grep -q '^job_submit join' "invitation$n"
    PORTS[n]=$(sed 's/[^:]*:\([0-9]*\)#.*/\1/; q' "invitation$n")
}

train() { "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax "$@"; }

# refused WORDS ARGUMENT...: a job with these arguments is, with exit status 7 and these words.
refused() {
    local words=$1
    shift
    run train "$@" -o no
    echo "$words: $output"
    [ "$status" -eq 7 ]
    [[ "$output" == *"$words"* ]]
}

here=('ip_address = "127.0.0.1"' tls_www_server)

@test "agents and a user know each other by certificates of one CA, without pins and tokens" {
    needs_certtool
    local n id
    make_ca ca
    for n in 0 1; do
        make_certificate ca "agent-$n" "${here[@]}"
        start_certified $n "agent-$n" --client-ca ca.pem
    done
    make_certificate ca ann tls_www_client
    make_certificate ca bob tls_www_client
    write_workers 2
    train --ca ca.pem --cert ann.pem --key ann.key -o one
    [ "$(jq -r '[.nodes[].submitter] | unique[]' one/run.json)" = "CN=ann" ]
    [ ! -e "$XDG_STATE_HOME/psgd/joined" ]
    # Scope submit, and jobs of one's own only.
    id=$(jq -r .id one/run.json)
    "$SUBMIT" status "$id" --ca ca.pem --cert ann.pem --key ann.key
    as_client() { command curl -s --cacert ca.pem --cert "$1.pem" --key "$1.key" "https://127.0.0.1:${PORTS[0]}$2" "${@:3}"; }
    [ "$(as_client ann /v1/jobs | jq -r '.jobs[].id')" = "$id" ]
    [ "$(as_client bob /v1/jobs | jq -c .jobs)" = '[]' ]
    [ "$(as_client bob "/v1/jobs/$id" -o /dev/null -w '%{http_code}')" = 404 ]
    [[ "$(as_client ann /v1/agent/drain -X POST)" == *"needs a token of scope admin; the one of CN=ann has submit"* ]]
    # A token serves, too: of a member, or the agent's own.
    (umask 077 && limited "$BUILD/agent" token add carol --dir "$T/agent0" >carol.token)
    [ "$(command curl -s --cacert ca.pem -H "Authorization: Bearer $(<carol.token)" "https://127.0.0.1:${PORTS[0]}/v1/jobs" | jq -c .jobs)" = '[]' ]
    "$SUBMIT" agents drain "127.0.0.1:${PORTS[0]}" --ca ca.pem --token-file agent0/token
    "$SUBMIT" agents resume "127.0.0.1:${PORTS[0]}" --ca ca.pem --token-file agent0/token
    run "$SUBMIT" doctor --ca ca.pem --cert ann.pem --key ann.key
    [[ "$output" == *"its certificate is one of --ca, token from nowhere: --cert replaces it"* ]]
    # No member can take the name of a certificate.
    run limited "$BUILD/agent" token add CN=ann --dir "$T/agent0"
    [ "$status" -eq 2 ]
    [[ "$output" == *'does not begin with "CN="'* ]]
}

@test "a server without the CA's certificate for its name and the present day gets nothing" {
    needs_certtool
    local kind
    make_ca ca
    make_ca other_ca
    make_certificate ca ann tls_www_client
    make_certificate ca right "${here[@]}"
    make_certificate ca wrong-name 'dns_name = "other.example"' tls_www_server
    make_certificate ca expired 'ip_address = "127.0.0.1"' tls_www_server "${LONG_AGO[@]}"
    make_certificate other_ca foreign "${here[@]}"
    make_token token
    start_certified 0 right --client-ca ca.pem --cluster-token "$T/token"
    for kind in wrong-name expired foreign; do
        : >saw
        rm -f port
        "$TOOLS/limit" "$TEST_LIMIT" python3 "$BATS_TEST_DIRNAME/mitm.py" relay-tls "$T/saw" "127.0.0.1:${PORTS[0]}" \
            "$kind.pem" "$kind.key" >port 3>&- &
        AGENTS+=($!)
        within 60 test -s port
        echo "{\"Worker\":[\"127.0.0.1:$(<port)\"]}" >worker.json
        refused "has no certificate that a CA of ca.pem has signed, that is valid now and that has this name; nothing was sent to it" \
            --node_count 1 --ca ca.pem --token-file token
        refused "has no certificate that a CA of" --node_count 1 --ca ca.pem --cert ann.pem --key ann.key
        run grep -aE -e "$(<token)|Bearer|X-Job-Key|POST |PUT |GET " saw
        echo "seen: $output"
        [ "$status" -eq 1 ]
    done
    # The agent itself, by a name that is not in its certificate.
    echo "{\"Worker\":[\"localhost:${PORTS[0]}\"]}" >worker.json
    refused "has this name; nothing was sent to it" --node_count 1 --ca ca.pem --token-file token
    echo "{\"Worker\":[\"127.0.0.1:${PORTS[0]}\"]}" >worker.json
    train --node_count 1 --ca ca.pem --token-file token -o one
    # A key of the list of workers holds beside the CA.
    jq --arg at "127.0.0.1:${PORTS[0]}" '.nodes[$at] = {fingerprint: ("sha256//" + "A" * 43 + "=")}' worker.json >pinned.json
    refused "has another key than the list of workers names" --workers pinned.json --node_count 1 --ca ca.pem --token-file token
}

@test "a client without a certificate, or with an invalid one, is refused with the reason" {
    needs_certtool
    local n
    make_ca ca
    make_ca other_ca
    make_certificate other_ca foreign tls_www_client
    make_certificate ca expired tls_www_client "${LONG_AGO[@]}"
    make_certificate ca server "${here[@]}"
    make_certificate ca long tls_www_client "cn = \"$(printf '%062d' 0)\""
    make_certificate ca ann tls_www_client
    for n in 0 1; do start_certified $n server --client-ca ca.pem; done
    write_workers 2
    refused "a token or a client's certificate is needed" --ca ca.pem
    refused "the client's certificate is not accepted: no CA of --client-ca has signed it" --ca ca.pem --cert foreign.pem --key foreign.key
    refused "the client's certificate is not accepted: it has expired" --ca ca.pem --cert expired.pem --key expired.key
    refused "the client's certificate is not accepted: its purpose is not that of a TLS client" --ca ca.pem --cert server.pem --key server.key
    refused "the client's certificate is not accepted: its common name is missing, longer than 61 bytes" --ca ca.pem --cert long.pem --key long.key
    # A valid token does not replace a valid certificate.
    refused "the client's certificate is not accepted: it has expired" --ca ca.pem --cert expired.pem --key expired.key --token-file agent0/token
    # /healthz needs nothing.
    [ "$(command curl -s --cacert ca.pem --cert foreign.pem --key foreign.key "https://127.0.0.1:${PORTS[0]}/healthz")" = ok ]
    # A client without a certificate of the CA is admitted as before: by its pin, or by a token.
    "$SUBMIT" join - <invitation0
    "$SUBMIT" join - <invitation1
    train -o joined
    # An agent without --client-ca asks for no certificate.
    end_agent 0 || true
    start_certified 0 server
    refused "a token is needed" --ca ca.pem --cert ann.pem --key ann.key --node_count 1
}

@test "files of certificates that others can change, keys that others can read, and half a pair are refused" {
    needs_certtool
    make_ca ca
    make_certificate ca ann tls_www_client
    make_certificate ca agent "${here[@]}"
    echo '{"Worker":["127.0.0.1:1"]}' >worker.json
    run "$SUBMIT" --ca ca.pem --cert ann.pem -o no
    [ "$status" -eq 2 ]
    [[ "$output" == *"--cert FILE and --key FILE go together, and with --ca FILE"* ]]
    chmod 666 ca.pem
    refused "--ca: $(realpath ca.pem) can be written to by others" --ca ca.pem
    run limited "$BUILD/agent" --port 0 --dir agent0 --tls-cert agent.pem --tls-key agent.key --client-ca ca.pem
    [ "$status" -eq 7 ]
    [[ "$output" == *"can be written to by others"* ]]
    chmod 644 ca.pem
    chmod 640 ann.key agent.key
    refused "--key: ann.key can be read by others" --ca ca.pem --cert ann.pem --key ann.key
    run limited "$BUILD/agent" --port 0 --dir agent0 --tls-cert agent.pem --tls-key agent.key
    [ "$status" -eq 7 ]
    [[ "$output" == *"agent.key can be read by others"* ]]
    chmod 600 ann.key agent.key
    run limited "$BUILD/agent" --port 0 --dir agent0 --tls-cert agent.pem
    [ "$status" -eq 2 ]
    run limited "$BUILD/agent" --port 0 --dir agent0 --tls-cert agent.pem --tls-key ann.key
    [ "$status" -eq 71 ]
    [[ "$output" == *"are not a key and its certificate"* ]]
    echo nothing >empty.pem
    run limited "$BUILD/agent" --port 0 --dir agent0 --tls-cert agent.pem --tls-key agent.key --client-ca empty.pem
    [ "$status" -eq 71 ]
    start_certified 0 agent
    write_workers 1
    run train --node_count 1 --ca empty.pem -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *"--ca: empty.pem has no certificate in PEM"* ]]
}
