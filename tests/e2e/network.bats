#!/usr/bin/env bats
# Agents on different machines: network namespaces, a bridge between them, and a cable that can be unplugged.
# Takes about 3 minutes.
load lib
load documents
load certificates
load namespaces
load others

# start_agents_in_network [OPTION...]: one on each machine; %n in an option is 2 or 3, the last number of its address.
# worker.json names both.
start_agents_in_network() {
    local n
    make_token token
    for n in 0 1; do
        ENTER=("${NODE0[@]}")
        [ $n -eq 0 ] || ENTER=("${NODE1[@]}")
        start_agent_at $n "$NET.$((n + 2))" "${@//%n/$((n + 2))}"
    done
    echo "{\"Worker\":[\"$NET.2\",\"$NET.3\"]}" >worker.json
}

# Another agent, on the bridge, for a server; worker.json names all three.
start_server_in_network() {
    ENTER=("${WORLD[@]}")
    start_agent_at 2 "$NET.1"
    echo "{\"PS\":[\"$NET.1\"],\"Worker\":[\"$NET.2\",\"$NET.3\"]}" >worker.json
}

start_agent_at() { # start_agent_at N ADDRESS [OPTION...]
    local n=$1 address=$2
    shift 2
    isolation_needs "$@"
    "${ENTER[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind "$address" --port 15387 --dir "$T/agent$n" \
        --token-file "$T/token" --insecure-no-tls --codecs any "${UNISOLATED[@]}" "$@" 2>"agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 "${WORLD[@]}" curl -sf --max-time 60 -o /dev/null "http://$address:15387/healthz"
}

# partition WAY...: drops packets that node 1 receives (input), sends (output), or both. Agents still reach each other.
partition() {
    local way
    for way in "$@"; do
        echo "table inet cut { chain $way { type filter hook $way priority 0
            tcp sport 15387 accept; tcp dport 15387 accept; meta ${way:0:1}ifname cable drop; }; }"
    done | "${NODE1[@]}" nft -f -
}

heal() { "${NODE1[@]}" nft delete table inet cut; }

needs_partitions() {
    if ! partition input 2>/dev/null; then skip "partitions need nftables"; fi
    heal
}

# A job here ends only when a node is lost, not because a round takes long.
net_submit() {
    "${WORLD[@]}" "$SUBMIT" --insecure-no-tls --token-file token --node_count 2 --dataset "$FEW" --batch_size 16 --seed 3 \
        --record-every 10 --round-timeout "$TEST_LIMIT" "$@"
}

# On both machines the file `hosts` is /etc/hosts. Skips if that is not permitted.
use_names() {
    # shellcheck disable=SC2016 # the other shell's own
    local named=(unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$T/hosts")
    "${NODE0[@]}" "${named[@]}" true || skip "a file of names of one's own is not to be had here"
    NODE0+=("${named[@]}")
    NODE1+=("${named[@]}")
}

n_logged() { cat agent?/jobs/*/run/node.log 2>/dev/null | grep -c "$1" || true; } # n_logged WORDS: by nodes, of all jobs so far
is_logged() { [ "$(n_logged "$1")" -gt "$2" ]; }                            # is_logged WORDS N: more than N times

same_model() { # a model file begins with metadata, including the job's name; the parameters are its end
    cmp <(tail -c $((4 * 118282)) "$1/model/final.safetensors") <(tail -c $((4 * 118282)) "$2/model/final.safetensors") &&
        cmp <(without_times "$1/records/eval.csv") <(without_times "$2/records/eval.csv")
}

# Starts a job with these options in the background, PID, and returns when both nodes wait at its gate.
start_gated() {
    rm -rf gate/* agent*/jobs/*/run/at-gate-*
    net_submit --codec gated.c "$@" 2>log 3>&- &
    PID=$!
    within 60 is_at_gate 0
    within 60 is_at_gate 1
}

@test "agents on two machines train, and one that becomes unreachable is lost by timeout" {
    make_network
    start_agents_in_network
    # Without a join: before a token is sent to an agent, the agent proves over TLS that it has it.
    "${WORLD[@]}" "$SUBMIT" --token-file token --codec plain --node_count 2 --dataset "$FEW" --epochs 1 -o proven
    gated plain
    start_gated --epochs 100000 -o two
    "${NODE1[@]}" ip link set cable down
    open_gate
    within 60 grep -q 'node(0): failed, NodeLost: node 1 is lost' log
    local s=0
    wait $PID || s=$? # its agent has some time to come back and report the node's end
    [ $s -eq 1 ]
    grep -q 'node 1 is lost: it has not answered for 3 s, and could not be reached again for 9.5 s' agent0.log
    grep -q 'node 0 is lost' agent1.log || { cat agent1.log agent1/jobs/*/run/node.log; false; }
}

# Prints the code blocks of docs/two-machines.md in sh, with the addresses of this network; only the N-th.
two_machines() {
    blocks sh docs/two-machines.md "$1" | sed "s/192\\.168\\.1/$NET/g"
}

# start_by_document N BLOCK MACHINE [SED]: agent N by the BLOCK-th command of the document, with the address of MACHINE (1 is the
# bridge, 2 and 3 are at the cables' ends) and further changes. It prints its invitation to the file invitation$N.
start_by_document() {
    local n=$1 agent
    case $3 in
    1) ENTER=("${WORLD[@]}") ;;
    2) ENTER=("${NODE0[@]}") ;;
    3) ENTER=("${NODE1[@]}") ;;
    esac
    agent=$(two_machines "$2" | sed "s/$NET\\.2/$NET.$3/; ${4-}")
    # shellcheck disable=SC2086 # the document's words
    XDG_STATE_HOME=$T/state$n "${ENTER[@]}" "$TOOLS/limit" "$TEST_LIMIT" $agent --dir "$T/agent$n" >"invitation$n" 2>"agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 grep -q '^job_submit join' "invitation$n"
}

@test "two machines in three commands, closed to everybody else" {
    make_network
    local began=$SECONDS n
    ln -s "$BUILD" build
    for n in 0 1; do start_by_document $n 1 $((n + 2)); done
    for n in 0 1; do
        cp "invitation$n" "first$n"
        "${WORLD[@]}" bash -c "build/$(cat "first$n")"
        # It is used; another one is made on the agent's machine.
        run "${WORLD[@]}" bash -c "build/$(cat "first$n")"
        [ "$status" -eq 7 ]
        [[ "$output" == *"not a code that this agent accepts now"* ]]
        "$BUILD/agent" token invite --dir "$T/agent$n" >"invitation$n"
    done
    two_machines 3 >train.sh
    "${WORLD[@]}" bash -e train.sh
    echo "# two machines, from the agents' start to the trained model: $((SECONDS - began)) s" >&3
    [ "$(jq -r .state logs/j-*/run.json)" = succeeded ]
    # Another user has no token, and learns no secret; over HTTP there is no answer.
    run env XDG_STATE_HOME="$T/other" "${WORLD[@]}" "$SUBMIT" --codec fedavg --node_count 2 -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"was not joined, and nothing is sent to it unencrypted"* ]]
    run "${WORLD[@]}" curl -s --max-time 20 "http://$NET.2:15387/healthz"
    [ "$status" -eq 52 ]
    [ "$("${WORLD[@]}" curl -sk --max-time 20 -o /dev/null -w '%{http_code}' "https://$NET.2:15387/v1/jobs")" = 401 ]
    # A code presented to another key is not sent, nor is anything else.
    run "${WORLD[@]}" bash -c "build/$(sed "s/$NET.2/$NET.3/" <(tail -1 invitation0))"
    [ "$status" -eq 7 ]
    [[ "$output" == *"has another key"* ]]
    # An agent that was replaced is refused.
    end_agent 1 || true
    rm "$T"/agent1/tls.*
    XDG_STATE_HOME=$T/state1 "${NODE1[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind "$NET.3" --dir "$T/agent1" >replaced 2>>agent1.log 3>&- &
    AGENTS[1]=$!
    within 60 grep -q '^job_submit join' replaced
    run "${WORLD[@]}" "$SUBMIT" --codec fedavg --node_count 2 -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"node(1): agent $NET.3:15387 has another key than the one that was joined"* ]]
    "${WORLD[@]}" bash -c "build/$(cat replaced)"
    # A token that was taken back, while the agent runs.
    "$BUILD/agent" token revoke "$(jq -r '.members[0].name' "$T/agent0/members.json")" --dir "$T/agent0"
    run "${WORLD[@]}" "$SUBMIT" --codec fedavg --node_count 2 -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"the token is not this agent's"* ]]
    cp -r "$XDG_STATE_HOME" stolen # also from elsewhere
    run env XDG_STATE_HOME="$T/stolen" "${NODE1[@]}" "$SUBMIT" --codec fedavg --node_count 1 -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"the token is not this agent's"* ]]
    # No secret is in a log.
    in_none "$(jq -r .token "$XDG_STATE_HOME"/psgd/joined/*.json | head -1)" agent?.log
    in_none "$(sed 's/.*#//; s/.$//' first0)" agent?.log
}

# between PORT: redirects packets from the user's machine to the agent on node 0 to that port of node 1.
between() {
    "${WORLD[@]}" nft -f - <<<"table ip attack { chain output { type nat hook output priority -100
        ip daddr $NET.2 tcp dport 15387 dnat to $NET.3:$1; }; }"
}
apart_again() { "${WORLD[@]}" nft delete table ip attack; }

@test "a machine between a user and an agent reads nothing, and can impersonate neither" {
    make_network
    another_key
    if ! between 1 2>/dev/null; then skip "redirection needs nftables"; fi
    apart_again
    XDG_STATE_HOME=$T/state0 "${NODE0[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind "$NET.2" --dir "$T/agent0" --codecs any \
        >invitation 2>agent0.log 3>&- &
    AGENTS[0]=$!
    within 60 grep -q '^job_submit join' invitation
    echo "{\"Worker\":[\"$NET.2\"]}" >worker.json
    local kind joined=false join
    ENTER=("${NODE1[@]}") # of the other programs
    export LISTEN=$NET.3
    join=$(sed "s/^job_submit join '//; s/'$//" invitation)
    ask() { "${WORLD[@]}" "$SUBMIT" -q --codec plain --node_count 1 --dataset "$FEW" --model softmax --epochs 1 "$@"; }
    # Before the join, and after it.
    while :; do
        for kind in fake fake-tls relay-tls tls12; do
            other $kind "$NET.2:15387"
            between "$OTHER"
            if $joined; then run ask -o no; else run "${WORLD[@]}" "$SUBMIT" join "$join"; fi
            apart_again
            echo "$kind, joined $joined: $output"
            [ "$status" -ne 0 ]
            [[ "$output" == *"nothing was sent to it"* ]]
            nothing_secret_crossed
            unseen "${join##*#}"
            end_process "${AGENTS[-1]}" || true
            unset 'AGENTS[-1]'
        done
        ! $joined || break
        "${WORLD[@]}" "$SUBMIT" join "$join"
        joined=true
    done
    # A relay of bytes receives TLS only, and its recording contains no secret.
    other relay "$NET.2:15387"
    between "$OTHER"
    ask -o relayed
    apart_again
    [ "$(jq -r .state relayed/run.json)" = succeeded ]
    nothing_secret_crossed
    unseen "$(jq -r .token "$XDG_STATE_HOME"/psgd/joined/*.json)"
    cp saw recorded
    local n
    n=$(find agent0/jobs -maxdepth 1 -name 'j-*' | wc -l)
    "${NODE1[@]}" python3 -c 'import socket, sys
s = socket.create_connection((sys.argv[1], 15387))
s.sendall(open("recorded", "rb").read())
s.shutdown(socket.SHUT_WR)
while s.recv(65536):
    pass' "$NET.2" || true
    [ "$(find agent0/jobs -maxdepth 1 -name 'j-*' | wc -l)" -eq "$n" ]
}

@test "three machines share a copied token, without a join" {
    make_network
    local n began=$SECONDS
    ln -s "$BUILD" build
    bash -ec "$(two_machines 4)"
    [ "$(stat -c '%a %s' cluster.token)" = "600 44" ]
    for n in 0 1 2; do
        mkdir "machine$n"
        cp -p cluster.token "machine$n"
        start_by_document $n 5 $(((n + 1) % 3 + 1)) "s|cluster\\.token|$T/machine$n/&|"
    done
    echo "{\"Worker\": [\"$NET.2\", \"$NET.3\", \"$NET.1\"]}" >worker.json
    "${WORLD[@]}" bash -ec "$(two_machines 6 | sed "s/node_count 2/node_count 3 --dataset $FEW -o three/")"
    echo "# three machines, one copied token, from the agents' start to the trained model: $((SECONDS - began)) s" >&3
    [ "$(jq -r '.state, (.nodes | map(.submitter) | unique[])' three/run.json | paste -sd' ')" = "succeeded cluster" ]
    # A program at the address of an agent, on another machine: it gets neither token nor package.
    end_agent 1 || true
    XDG_STATE_HOME=$T/state1 "${NODE1[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind "$NET.3" --dir "$T/impostor" >impostor.out 2>agent3.log 3>&- &
    AGENTS[1]=$!
    within 60 grep -q '^job_submit join' impostor.out
    run "${WORLD[@]}" "$SUBMIT" --token-file cluster.token --codec fedavg --node_count 3 -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"agent $NET.3:15387 does not know this token"*"nothing was sent to it"* ]]
    in_none "$(<cluster.token)" agent?.log three agent0 agent1 agent2
}

# start_task LOG LINE COMMAND...: a task of a cluster, by that line of the document's block and the one with its hosts, on a machine
# that COMMAND enters, as a user of its own.
start_task() {
    XDG_STATE_HOME=$T/state-$1 "${@:3}" "$TOOLS/limit" "$PROGRAM_LIMIT" \
        bash -ec "$(two_machines 7 | sed -n "1p; ${2}p" | sed "s/--epochs 50/--epochs 1 --dataset $FEW -o out/")" 2>"$1.log" 3>&- &
}

@test "the tasks of a cluster on two machines are started by one command each, with a token that all have" {
    make_network
    ln -s "$BUILD" build
    make_token cluster.token
    start_task ps 2 "${NODE0[@]}"
    local ps=$! worker chief
    start_task worker 3 "${NODE1[@]}"
    worker=$!
    start_task chief 4 "${NODE0[@]}"
    chief=$!
    wait "$chief" && wait "$worker" && wait "$ps"
    [ "$(jq -r '[.nodes[].state] | join(" ")' out/run.json)" = "succeeded succeeded succeeded" ]
    in_none "$(<cluster.token)" ps.log worker.log chief.log state-*/psgd/launch/*/agent.log
}

@test "two machines with certificates of their own CA" {
    needs_certtool
    make_network
    local n
    ln -s "$BUILD" build
    make_ca ca
    make_certificate ca ann tls_www_client
    for n in 0 1; do
        mkdir "machine$n"
        make_certificate ca "machine$n/agent" 'cn = "agent"' "ip_address = \"$NET.$((n + 2))\"" tls_www_server
        start_by_document $n 8 $((n + 2)) "s|agent\\.|machine$n/agent.|g"
    done
    echo "{\"Worker\": [\"$NET.2\", \"$NET.3\"]}" >worker.json
    "${WORLD[@]}" bash -ec "$(two_machines 9) --dataset $FEW -o one"
    [ "$(jq -r '.state, (.nodes | map(.submitter) | unique[])' one/run.json | paste -sd' ')" = "succeeded CN=ann" ]
}

@test "messages between nodes are encrypted between machines, and the weights are the same" {
    make_network
    start_agents_in_network
    local tls n
    for tls in auto off; do
        net_submit --codec plain --path gather --epochs 1 --record-every 1 --data-tls $tls -o $tls
    done
    for n in 0 1; do
        grep -qx "link to node $((1 - n)): TLS 1.3, AES-128-GCM" auto/logs/worker-$n.log
        grep -qx "link to node $((1 - n)): not encrypted" off/logs/worker-$n.log
    done
    cmp <(without_times auto/records/train.csv) <(without_times off/records/train.csv)
    same_model auto off
}

@test "nodes use another network than the agents' if worker.json names it" {
    make_network
    local data=10.78.0
    "${NODE0[@]}" ip addr add "$data.2/24" dev cable
    "${NODE1[@]}" ip addr add "$data.3/24" dev cable
    # Each name has the other machine's address, too, and first: an agent binds its own, a node tries both.
    printf '%s\n' "$data.3 data-2" "$data.2 data-2" "$data.2 data-3" "$data.3 data-3" >hosts
    use_names
    start_agents_in_network --data-bind "data-%n"
    jq '.nodes = {(.Worker[0]): {advertise: "data-2"}, (.Worker[1]): {advertise: "data-3"}}' worker.json >named.json
    net_submit --workers named.json --codec plain --epochs 1 -o one
    grep -q "^node 0 at data-2:[0-9]*: $data.3: Connection refused; $data.2: not tried yet; retrying" one/logs/worker-1.log
    # There is no listener for nodes at the agents' address.
    run net_submit --codec plain --epochs 1 -o two
    [ "$status" -eq 1 ]
    [[ "$output" == *"Connection refused"* ]]
}

# continues_after BREAK MEND: a job of two nodes whose connection is broken, detected, and mended, ends with the bits
# of the folder `whole`.
continues_after() {
    local suspected linked
    suspected=$(n_logged 'has not answered for 3 s')
    linked=$(n_logged 'is reconnected')
    rm -rf cut
    start_gated "${JOB[@]}" -o cut
    $1
    open_gate
    within 60 is_logged 'has not answered for 3 s' "$suspected" # 6.5 s before the other one is lost
    $2
    wait $PID || { cat log agent?/jobs/*/run/node.log; false; }
    same_model whole cut
    is_logged 'is reconnected' "$linked"
}

# gated_job CODEC OPTION...: JOB, which has also run undisturbed into the folder `whole`.
gated_job() {
    gated "$1"
    JOB=("${@:2}")
    open_gate
    net_submit --codec gated.c "${JOB[@]}" -o whole
}

unplug() { "${NODE1[@]}" ip link set cable down; }
plug() { "${NODE1[@]}" ip link set cable up; }

@test "a cable unplugged for seconds costs a job only time" {
    make_network
    start_agents_in_network
    gated_job plain --epochs 3
    continues_after unplug plug
}

# bats test_tags=long
@test "a node whose name gets another address is reached again at that of the start" {
    make_network
    printf '%s\n' "$NET.2 node-a" "$NET.3 node-b" >hosts
    use_names
    start_agents_in_network
    jq --arg a "$NET.2" --arg b "$NET.3" '.nodes = {($a): {advertise: "node-a"}, ($b): {advertise: "node-b"}}' worker.json >named.json
    # shellcheck disable=SC2317 # continues_after calls it
    rename_and_unplug() {
        printf '%s\n' "192.0.2.2 node-a" "192.0.2.3 node-b" >hosts # of addresses for documents
        unplug
    }
    gated_job plain --epochs 3 --workers named.json
    continues_after rename_and_unplug plug
    [ "$("${NODE0[@]}" getent hosts node-b | cut -d' ' -f1)" = 192.0.2.3 ]
}

# bats test_tags=long
@test "a partition of seconds, in both directions or one, does not change a bit of an all-reduce" {
    make_network
    needs_partitions
    start_agents_in_network
    local ways
    gated_job allreduce --epochs 3
    # shellcheck disable=SC2086,SC2317 # split into words, and continues_after calls it
    part() { partition $ways; }
    for ways in "input output" input output; do continues_after part heal; done
}

# bats test_tags=long
@test "a partition of seconds does not change a bit of fedavg with a server" {
    make_network
    needs_partitions
    start_agents_in_network
    start_server_in_network
    gated_job fedavg --local-steps 5 --epochs 3
    part() { partition input output; }
    continues_after part heal
}

# bats test_tags=long
@test "a longer partition ends the job and names the node; with a server the others can continue" {
    make_network
    needs_partitions
    start_agents_in_network
    local ways s lost
    gated allreduce
    for ways in "input output" output; do
        start_gated --epochs 100000 -o "ends-${ways:0:1}"
        # shellcheck disable=SC2086
        partition $ways
        open_gate
        within 60 grep -q 'node([01]): failed, NodeLost: node [01] is lost' log
        s=0
        wait $PID || s=$?
        [ $s -eq 1 ]
        heal
        grep -q 'could not be reached again for 9.5 s' log
    done
    start_server_in_network
    gated fedavg
    start_gated --local-steps 5 --epochs 3 --on-node-loss continue --min-nodes 1 -o on
    lost=$(n_logged 'node 1 is lost: ')
    partition input output
    open_gate
    within 60 is_logged 'node 1 is lost: ' "$lost"
    heal
    wait $PID || { cat log agent?/jobs/*/run/node.log; false; }
    grep -q 'The job continued without node(1): NodeLost' log
    [ "$(jq -r .state on/run.json)" = succeeded ]
}
