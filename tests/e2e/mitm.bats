#!/usr/bin/env bats
# Other programs on the port of an agent, and between job_submit and an agent, receive no token, code or package. mitm.py writes all
# bytes that a client sends to the file `saw`.
load lib
load others

train() { "$SUBMIT" -q --codec plain --node_count 1 --model softmax --dataset digits:train=1280,test=200 --epochs 1 "$@"; }

@test "whoever takes the port of a dead agent gets no token, no package and no job" {
    start_agents 1
    another_key
    train -o before
    kill_agent 0
    local kind
    for kind in fake fake-tls tls12; do
        PORT=${PORTS[0]} other $kind
        run train -o no
        echo "$output"
        [ "$status" -ne 0 ]
        [ $kind = fake-tls ] || [[ "$output" == *"does not answer in TLS 1.3; nothing was sent to it"* ]]
        [ $kind != fake-tls ] || [[ "$output" == *"has another key than the agent that is known at this address: it may be another user's program; nothing was sent to it"* ]]
        nothing_secret_crossed
        end_process "${AGENTS[-1]}" || true
        unset 'AGENTS[-1]'
    done
}

@test "with its token an agent is reached through a tunnel at any local port, and a client without it is refused" {
    start_agents 1
    another_key
    cp agent0/token copied
    echo '{"Worker":["127.0.0.1:1"]}' >worker.json
    other relay "127.0.0.1:${PORTS[0]}"
    echo "{\"Worker\":[\"127.0.0.1:$OTHER\"]}" >worker.json
    train --token-file copied -o tunnel
    [ "$(jq -r .state tunnel/run.json)" = succeeded ]
    nothing_secret_crossed
    # Without a token nothing can be proved.
    run train -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"cannot be authenticated, and nothing is sent to it"* ]]
    # A token that the agent does not know.
    make_token unknown
    run train --token-file unknown -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"does not know this token: it may have been revoked, or this may be another user's program; nothing was sent to it"* ]]
    # A short one.
    (umask 077 && echo aaaaaaaaaaaaaaaaaaaa >short)
    run train --token-file short -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"a token of less than 32 characters is too short for a proof"* ]]
    local kind
    for kind in fake fake-tls relay-tls tls12; do
        other $kind "127.0.0.1:${PORTS[0]}"
        echo "{\"Worker\":[\"127.0.0.1:$OTHER\"]}" >worker.json
        run train --token-file copied -o no
        echo "$kind: $output"
        [ "$status" -ne 0 ]
        [[ "$output" == *"nothing was sent to it"* ]]
        nothing_secret_crossed
    done
}

@test "a machine between a user and an agent reads neither code nor token" {
    start_agents 1
    another_key
    local invitation kind pin
    invitation=$(limited "$BUILD/agent" token invite --dir "$T/agent0" | sed "s/^job_submit join '//; s/'$//")
    pin=${invitation#*#}
    export XDG_STATE_HOME=$T/other-user
    for kind in fake fake-tls relay-tls tls12; do
        other $kind "127.0.0.1:${PORTS[0]}"
        run "$SUBMIT" join "127.0.0.1:$OTHER#$pin"
        echo "$kind: $output"
        [ "$status" -ne 0 ]
        [[ "$output" == *"nothing was sent to it"* ]]
        nothing_secret_crossed
        unseen "${invitation##*#}"
    done
    # A relay of bytes may be on the way; its recording contains no secret.
    other relay "127.0.0.1:${PORTS[0]}"
    "$SUBMIT" join "127.0.0.1:$OTHER#$pin"
    unseen "${invitation##*#}"
    cp saw recorded
    python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(open("recorded", "rb").read())
s.shutdown(socket.SHUT_WR)
while s.recv(65536):
    pass' "${PORTS[0]}" || true
    [ "$(jq '.members | length' agent0/members.json)" -eq 1 ]
    # The code was used.
    run "$SUBMIT" join "$invitation"
    [ "$status" -eq 7 ]
    [[ "$output" == *"not a code that this agent accepts now"* ]]
    # And with the joined agent gone, its port's next owner gets nothing.
    echo "{\"Worker\":[\"127.0.0.1:$OTHER\"]}" >worker.json
    train -o joined
    [ "$(jq -r .state joined/run.json)" = succeeded ]
    unseen "$(jq -r .token "$T"/other-user/psgd/joined/*.json)"
}
