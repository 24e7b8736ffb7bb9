#!/usr/bin/env bats
# job_submit doctor: its report on agents that can be used, and on those that cannot.
# Takes about 1 minute.
load lib
load namespaces

# finding NODE CHECK: level and text of one finding in doctor.json.
finding() {
    jq -r --argjson node "$1" --arg check "$2" \
        '.data.nodes[] | select(.node == $node) | .findings[] | select(.check == $check) | "\(.level): \(.text)"' doctor.json
}

n_errors() { jq '[.data.nodes[].findings[] | select(.level == "error")] | length' doctor.json; }

# serve_as_agent CODE: a server on PORT that runs CODE for each connection `c`.
serve_as_agent() {
    PORT=$(free_port)
    python3 - "$PORT" "$1" >/dev/null 3>&- <<'PYTHON' &
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256) as s:
    open("listens", "w").close()
    held = []
    while True:
        c, _ = s.accept()
        held.append(c)
        exec(sys.argv[2])
PYTHON
    HOLDERS+=($!)
    disown $!
    within 60 test -e listens
    rm listens
}

@test "usable agents: status 0, and a list of what a job has there" {
    start_agents 2
    [ "$(api 1 GET /v1/agent | jq .runner)" = null ] # an agent starts its runner when it is asked for it
    "$SUBMIT" doctor --json >doctor.json
    api 1 GET /v1/agent | jq -e .runner.engine
    [ "$(jq '.data.nodes | length' doctor.json)" -eq 2 ]
    [ "$(n_errors)" -eq 0 ]
    [[ "$(finding 0 reached)" == "ok: it answered in "*" a round trip takes "* ]]
    [[ "$(finding 1 kernels)" == "ok: it computes with OpenBLAS"* ]]
    [[ "$(finding 1 version)" == "ok: psgd "*", codecs of ABI "*", frames of version "* ]]
    [[ "$(finding 0 disk)" == *" are left for packages and results" ]]
    [[ "$(finding 0 memory)" == *"processors, "*"GiB of memory"* ]]
    for check in files processes inotify backlog 'shared memory' overcommit compiler load; do
        echo "$check: $(finding 0 "$check")"
        [ -n "$(finding 0 "$check")" ]
    done
    [ "$(jq '.data.nodes[0] | .clock_ahead_s < 60 and .clock_ahead_s > -60 and .round_trip_s > 0' doctor.json)" = true ]
    run "$SUBMIT" doctor
    [ "$status" -eq 0 ]
    [[ "$output" == *"node(1) 127.0.0.1:${PORTS[1]}: can be used"* ]]
    # All checks that agree with this machine are one line.
    [ "$(grep -c '^  ok       compiler ' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^  ok       as here  .*, compiler' <<<"$output")" -eq 2 ]
}

@test "without worker.json this machine is checked, and a list that is named must exist" {
    "$SUBMIT" doctor --json >doctor.json
    [ "$(jq '.data.nodes | length' doctor.json)" -eq 0 ]
    [ "$(jq -r '.data.here.findings[] | select(.check == "kernels").text' doctor.json | cut -c 1-26)" = \
        'it computes with OpenBLAS ' ]
    CC=/nonexistent/cc run "$SUBMIT" doctor -q
    [[ "$output" == *"codecs "*"/nonexistent/cc does not run"*"to do: Install gcc or clang, or set CC."* ]]
    run "$SUBMIT" doctor --workers none.json
    [ "$status" -eq 6 ]
}

@test "each agent that cannot be used is reported in one sentence with the reason" {
    start_agents 4
    # 0 can be used; 1 is dead; 2 gets a wrong token; 3 is of an older version; 4 is another program; 5 was not joined.
    end_agent 1
    (umask 077 && printf 'w%.0s' {1..43} >wrong)
    serve_as_agent 'c.recv(4096); c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 71\r\n\r\n" + b"{\"id\":\"a-0\",\"version\":\"0.0.9\",\"api\":1,\"disk_free_bytes\":1000000000000} ")'
    local old=$PORT
    serve_as_agent 'c.recv(4096); c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"); c.close()'
    jq -n --arg a "127.0.0.1:${PORTS[0]}" --arg b "127.0.0.1:${PORTS[1]}" --arg c "127.0.0.1:${PORTS[2]}" \
        --arg d "127.0.0.1:$old" --arg e "127.0.0.1:$PORT" \
        '{Worker: [$a, $b, $c, $d, $e, "192.0.2.1"], nodes: {($c): {token_file: "wrong"}}}' >worker.json
    run "$SUBMIT" doctor --json
    echo "$output"
    [ "$status" -eq 3 ]
    tail -n 1 <<<"$output" | tee doctor.json
    [ "$(n_errors)" -eq 5 ]
    [[ "$(finding 1 reached)" == "error: node(1): agent 127.0.0.1:${PORTS[1]} does not answer"* ]]
    [[ "$(finding 2 reached)" == "error: node(2): agent 127.0.0.1:${PORTS[2]}: "*token* ]]
    [[ "$(finding 3 reached)" == "error: node(3): agent 127.0.0.1:$old does not answer in TLS 1.3; nothing was sent to it"* ]]
    [[ "$(finding 4 reached)" == "error: node(4): agent 127.0.0.1:$PORT"* ]]
    [[ "$(finding 5 reached)" == "error: node(5): agent 192.0.2.1:15387 was not joined, and nothing is sent to it unencrypted" ]]
    [ "$(jq -r '.data.nodes[0].level' doctor.json)" != error ]
    [ "$(jq -r '.data.nodes[1].findings[0].fix' doctor.json)" = "Start the agent there, or correct its address in worker.json." ]
    [ "$(jq -r '.data.nodes[2].findings[0].fix' doctor.json)" = "The token came from ./wrong." ]
    echo "{\"Worker\": [\"127.0.0.1:$old\"]}" >one.json
    "$SUBMIT" doctor --workers one.json --insecure-no-tls --json >doctor.json
    [[ "$(finding 0 age)" == "warning: an agent of its version reports nothing about its machine"* ]]
    [[ "$(finding 0 version)" == "warning: psgd 0.0.9; this job_submit is "* ]]
    echo "{\"Worker\": [\"127.0.0.1:${PORTS[2]}\"]}" >one.json
    run "$SUBMIT" doctor --workers one.json --token-file wrong -q
    [ "$status" -eq 7 ]
}

@test "a hundred agents that do not answer take one deadline, which is named" {
    # The kernel accepts their connections, and no process reads from them.
    python3 - 3>&- <<'PYTHON' &
import json, os, socket, time
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(100)]
with open("ports", "w") as f:
    json.dump({"Worker": ["127.0.0.1:%d" % s.getsockname()[1] for s in held]}, f)
os.rename("ports", "worker.json")
time.sleep(600)
PYTHON
    HOLDERS+=($!)
    disown $!
    within 60 test -e worker.json
    local from=$SECONDS
    run "$SUBMIT" doctor --json
    echo "# $((SECONDS - from)) s" >&3
    [ "$status" -eq 3 ]
    [ $((SECONDS - from)) -lt 100 ]
    [[ "$output" == *"Asking 100 agents; an agent without an answer within 8 s counts as unreachable."* ]]
    tail -n 1 <<<"$output" >doctor.json
    [ "$(n_errors)" -eq 100 ]
    [ "$(jq '[.data.nodes[].findings[0].text | select(contains(" does not answer ("))] | length' doctor.json)" -eq 100 ]
}

# start_tls_agent: agent 0, with TLS on a loopback address; its invitation is in the file of that name.
start_tls_agent() {
    rm -f invitation
    "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port "${PORTS[0]:-0}" --dir "$T/agent0" >invitation 2>>agent0.log 3>&- &
    AGENTS[0]=$!
    within 60 grep -q '^job_submit join' invitation
    PORTS[0]=$(sed "s/.*:\([0-9]*\)#.*/\1/" invitation)
}

@test "an agent with another key than the one that was joined, and one with a full disk" {
    make_disk 3m "$T/agent1"
    TOKENS[1]=$T/token1
    make_token "${TOKENS[1]}"
    start_tls_agent
    ENTER=("${ON_DISK[@]}")
    start_agent 1 --token-file "${TOKENS[1]}"
    ENTER=()
    write_workers 2
    bash -c "'$BUILD'/$(cat invitation)"
    "$SUBMIT" doctor --json >doctor.json || true
    [[ "$(finding 0 access)" == "ok: its key is the pinned one, token from job_submit join" ]]
    [[ "$(finding 1 disk)" == "error: 0 B of its disk are left for packages and results" ]]
    end_agent 0
    rm agent0/tls.key agent0/tls.crt
    start_tls_agent
    run "$SUBMIT" doctor --json
    tail -n 1 <<<"$output" >doctor.json
    [ "$status" -eq 7 ]
    [[ "$(finding 0 reached)" == "error: node(0): agent 127.0.0.1:${PORTS[0]} has another key than the agent that is known at this address"* ]]
}

@test "servers and spares are checked, too, and a token with too small a scope is an error" {
    start_agents 4
    jq -n --arg a "127.0.0.1:${PORTS[0]}" --arg b "127.0.0.1:${PORTS[1]}" --arg c "127.0.0.1:${PORTS[2]}" --arg d "127.0.0.1:${PORTS[3]}" \
        '{Worker: [$a, $b], PS: [$c], Spare: [$d], nodes: {($d): {token_file: "reader"}}}' >worker.json
    "$BUILD/agent" token add reader --scope read --dir agent3 | (umask 077 && grep -o '[A-Za-z0-9_-]\{43\}' >reader)
    run "$SUBMIT" doctor --json
    [ "$status" -eq 4 ]
    tail -n 1 <<<"$output" >doctor.json
    [ "$(jq -r '.data.nodes[] | "\(.role) \(.node)"' doctor.json | paste -sd,)" = "worker 0,worker 1,server -2,spare 2" ]
    [ "$(finding -2 scope)" = "ok: it grants this user scope admin" ]
    [ "$(finding 2 scope)" = "error: it grants this user scope read" ]
    [ "$(n_errors)" -eq 1 ]
    run "$SUBMIT" doctor
    [[ "$output" == *"node(2), a spare, 127.0.0.1:${PORTS[3]}: cannot be used"*"to do: On that machine: agent token add"* ]]
    jq 'del(.nodes)' worker.json >all.json
    "$SUBMIT" doctor --workers all.json --connect --json >doctor.json
    [[ "$(jq -r '.data.connect.text' doctor.json)" == "All 4 nodes have connected"* ]]
}

@test "--connect runs a job that shows whether nodes reach each other, and leaves nothing" {
    start_agents 3
    "$SUBMIT" doctor --connect --json >doctor.json
    [ "$(jq -r '.data.connect.level' doctor.json)" = ok ]
    [[ "$(jq -r '.data.connect.text' doctor.json)" == "All 3 nodes have connected and summed gradients, in "* ]]
    [ "$(api 1 GET /v1/jobs | jq '.jobs | length')" -eq 0 ]
    [ "$("$SUBMIT" list --json | jq '.data.jobs | length')" -eq 0 ]
    # The agents answer, but the address at which nodes are to be reached has no node: 192.0.2.1 is for documents.
    jq -n --arg a "127.0.0.1:${PORTS[0]}" --arg b "127.0.0.1:${PORTS[1]}" \
        '{Worker: [$a, $b], nodes: {($a): {advertise: "192.0.2.1"}}}' >worker.json
    run "$SUBMIT" doctor --connect --json
    tail -n 1 <<<"$output" >doctor.json
    cat doctor.json
    [ "$status" -ne 0 ]
    [[ "$(finding 0 'data plane')" == "error: its nodes listen at 127.0.0.1, and others connect to 192.0.2.1, where its nodes do not listen" ]]
}

@test "of a name with two addresses the one that answers is used, by doctor and by a job with a server" {
    make_names '127.0.0.1 localhost' '::1 localhost ip6-localhost' # as Debian installs it
    ENTER=("${NAMED[@]}")
    start_agents 3
    jq -n --arg ps "localhost:${PORTS[0]}" --arg a "LocalHost:${PORTS[1]}" --arg b "localhost:${PORTS[2]}" \
        '{PS: $ps, Worker: [$a, $b]}' >worker.json
    "${NAMED[@]}" "$SUBMIT" doctor --connect --json >doctor.json
    [ "$(n_errors)" -eq 0 ]
    [[ "$(finding 0 'data plane')" == "ok: its nodes listen at 127.0.0.1, and others connect to localhost (::1, 127.0.0.1)" ]]
    [[ "$(jq -r .data.connect.text doctor.json)" == "All 3 nodes have connected"* ]]
    "${NAMED[@]}" "$SUBMIT" -q --codec fedavg --node_count 2 --model softmax --dataset "$FEW" --epochs 1 -o out
    [ "$(jq -r '.state, (.nodes | length)' out/run.json | paste -sd' ')" = "succeeded 3" ]
    # Where no address is the nodes', both are named.
    jq '.nodes = {(.PS): {advertise: "ip6-localhost"}}' worker.json >six.json
    run "${NAMED[@]}" "$SUBMIT" doctor --workers six.json
    [ "$status" -eq 4 ]
    [[ "$output" == *"others connect to ip6-localhost (::1), where its nodes do not listen"* ]]
}
