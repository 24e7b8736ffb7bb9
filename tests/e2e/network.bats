#!/usr/bin/env bats
# Agents on different machines: network namespaces, a bridge between them, and a cable that can be pulled.
# Takes about 3 minutes.
load lib

# Two namespaces behind one bridge; this one reaches both. Names carry the test's pid, so that two runs do not meet.
make_network() {
    NS=psgd$$
    if ! { ip netns add "${NS}x" && ip netns exec "${NS}x" true; } 2>/dev/null; then
        ip netns del "${NS}x" 2>/dev/null
        skip "network namespaces need root, iproute2 and the right to mount"
    fi
    ip netns del "${NS}x"
    NET=10.$((RANDOM % 100 + 100)).$((RANDOM % 250)) # a network of the test's own
    BRIDGE=pb$$
    ip link add "$BRIDGE" type bridge
    ip addr add "$NET.1/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    local n
    for n in 0 1; do
        ip netns add "$NS$n"
        ip link add "pv$n-$$" type veth peer name cable netns "$NS$n"
        ip link set "pv$n-$$" master "$BRIDGE" up
        ip -n "$NS$n" addr add "$NET.$((n + 2))/24" dev cable
        ip -n "$NS$n" link set cable up
        ip -n "$NS$n" link set lo up
    done
}

# start_agents_in_network [OPTION...]: one in each namespace; %n in an option is 2 or 3, the last number of its address.
# worker.json names both.
start_agents_in_network() {
    local n
    head -c 32 /dev/urandom | base64 | tr '+/' '-_' | head -c 43 >token
    chmod 600 token
    for n in 0 1; do
        ip netns exec "$NS$n" "$BUILD/agent" --bind "$NET.$((n + 2))" --port 15387 --dir "$T/agent$n" --token-file token \
            --insecure-no-tls "${@//%n/$((n + 2))}" 2>"agent$n.log" 3>&- &
        AGENTS[n]=$!
    done
    for n in 2 3; do within 60 curl -sf -o /dev/null "http://$NET.$n:15387/healthz"; done
    echo "{\"Worker\":[\"$NET.2\",\"$NET.3\"]}" >worker.json
}

# One more, on the bridge, for a server; worker.json names all three.
start_server_in_network() {
    "$BUILD/agent" --bind "$NET.1" --port 15387 --dir "$T/agent2" --token-file token --insecure-no-tls 2>agent2.log 3>&- &
    AGENTS[2]=$!
    within 60 curl -sf -o /dev/null "http://$NET.1:15387/healthz"
    echo "{\"PS\":[\"$NET.1\"],\"Worker\":[\"$NET.2\",\"$NET.3\"]}" >worker.json
}

# partition WAY...: what node 1 hears (input), says (output), or both is lost. Agents still hear each other.
partition() {
    local way
    for way in "$@"; do
        echo "table inet cut { chain $way { type filter hook $way priority 0
            tcp sport 15387 accept; tcp dport 15387 accept; meta ${way:0:1}ifname cable drop; }; }"
    done | ip netns exec "${NS}1" nft -f -
}

heal() { ip netns exec "${NS}1" nft delete table inet cut; }

needs_partitions() {
    if ! partition input 2>/dev/null; then skip "partitions need nftables"; fi
    heal
}

net_submit() { "$SUBMIT" --insecure-no-tls --token-file token --node_count 2 --seed 3 --record-every 100 "$@"; }

is_at_step_in_network() {
    local url="http://$NET.2:15387/v1/jobs?state=running&limit=1"
    [[ $(curl -s -H "Authorization: Bearer $(<token)" "$url") =~ '"step":'([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$1" ]
}

same_model() { # same_model OUT OUT: a model file begins with what it is, the job's name too; the parameters are its end
    cmp <(tail -c $((4 * 118282)) "$1/model/final.safetensors") <(tail -c $((4 * 118282)) "$2/model/final.safetensors") &&
        cmp <(without_times "$1/records/eval.csv") <(without_times "$2/records/eval.csv")
}

drop_network() {
    [ -n "${BRIDGE:-}" ] || return 0
    local n
    for n in 0 1; do ip netns del "$NS$n" 2>/dev/null; done
    ip link del "$BRIDGE" 2>/dev/null
    return 0
}

teardown() {
    stop_agents
    drop_network
    cd / && rm -rf "$T"
}

@test "agents on two machines train, and one that falls silent is noticed within 10 s" {
    make_network
    start_agents_in_network
    # No token goes over an open network unasked.
    run "$SUBMIT" --token-file token --codec plain --node_count 2 -o no
    [ "$status" -eq 7 ]
    net_submit --codec plain --epochs 1 -o one
    net_submit --codec plain --epochs 100000 -o two 2>log 3>&- &
    local pid=$! s=0
    within 60 is_at_step_in_network 50
    ip -n "${NS}1" link set cable down
    within 10 grep -q 'node(0): failed, NodeLost: node 1 is lost' log
    wait $pid || s=$? # its agent has a while to come back and tell how the node ended
    [ $s -eq 1 ]
    grep -q 'node 1 is lost' agent0.log
    grep -q 'node 0 is lost' agent1.log || { cat agent1.log agent1/jobs/*/run/node.log; false; }
}

@test "what nodes tell each other is encrypted on the way between machines, and the weights are the same" {
    make_network
    start_agents_in_network
    local tls n
    for tls in auto off; do
        net_submit --codec plain --epochs 1 --record-every 1 --data-tls $tls -o $tls
    done
    for n in 0 1; do
        grep -qx "link to node $((1 - n)): TLS 1.3, AES-128-GCM" auto/logs/worker-$n.log
        grep -qx "link to node $((1 - n)): not encrypted" off/logs/worker-$n.log
    done
    cmp <(without_times auto/records/train.csv) <(without_times off/records/train.csv)
    same_model auto off
}

@test "nodes reach each other on another network than the one agents listen on, where worker.json names it" {
    make_network
    local data=10.$((RANDOM % 100 + 100)).250 n
    for n in 0 1; do ip -n "$NS$n" addr add "$data.$((n + 2))/24" dev cable; done
    start_agents_in_network --data-bind "$data.%n"
    jq --arg d "$data" '.nodes = {(.Worker[0]): {advertise: ($d + ".2")}, (.Worker[1]): {advertise: ($d + ".3")}}' \
        worker.json >named.json
    net_submit --workers named.json --codec plain --epochs 1 -o one
    # Nobody listens for nodes where the agents listen.
    run net_submit --codec plain --epochs 1 -o two
    [ "$status" -eq 1 ]
    [[ "$output" == *"Connection refused"* ]]
}

@test "a cable that is out for six seconds costs a job nothing but time" {
    make_network
    start_agents_in_network
    net_submit --codec plain --epochs 10 -o whole
    net_submit --codec plain --epochs 10 -o cut 2>log 3>&- &
    local pid=$!
    within 60 is_at_step_in_network 50
    ip -n "${NS}1" link set cable down
    sleep 6
    ip -n "${NS}1" link set cable up
    wait $pid || { cat log agent?/jobs/*/run/node.log; false; }
    cat agent?/jobs/*/run/node.log | grep -q 'has not answered for 3 s'
    cat agent?/jobs/*/run/node.log | grep -q 'is linked again'
    same_model whole cut
}

# partition_changes_nothing WAYS OPTION...: of a job with these options, which has run into the folder `whole`.
partition_changes_nothing() {
    local pid ways=$1
    shift
    rm -rf cut
    net_submit "$@" -o cut 2>log 3>&- &
    pid=$!
    within 60 is_at_step_in_network 50
    # shellcheck disable=SC2086
    partition $ways
    sleep 5
    is_at_step_in_network 50 # it still runs
    heal
    wait $pid || { cat log agent?/jobs/*/run/node.log; false; }
    same_model whole cut
    cat agent?/jobs/*/run/node.log | grep -q 'is linked again'
}

@test "a partition of five seconds, both ways or one, does not change a bit of an all-reduce" {
    make_network
    needs_partitions
    start_agents_in_network
    local ways job=(--codec allreduce --epochs 8)
    net_submit "${job[@]}" -o whole
    for ways in "input output" input output; do partition_changes_nothing "$ways" "${job[@]}"; done
}

@test "a partition of five seconds does not change a bit of fedavg with a server" {
    make_network
    needs_partitions
    start_agents_in_network
    start_server_in_network
    local job=(--codec fedavg --local-steps 5 --epochs 20)
    net_submit "${job[@]}" -o whole
    partition_changes_nothing "input output" "${job[@]}"
}

@test "a longer partition ends the job in eleven seconds, naming the node; with a server the others can go on" {
    make_network
    needs_partitions
    start_agents_in_network
    local pid ways s
    for ways in "input output" output; do
        net_submit --codec allreduce --epochs 100000 -o "ends-${ways:0:1}" 2>log 3>&- &
        pid=$!
        within 60 is_at_step_in_network 50
        # shellcheck disable=SC2086
        partition $ways
        within 11 grep -q 'node([01]): failed, NodeLost: node [01] is lost' log
        s=0
        wait $pid || s=$?
        [ $s -eq 1 ]
        heal
        grep -q 'could not be reached again for 9.5 s' log
    done
    start_server_in_network
    net_submit --codec fedavg --local-steps 5 --epochs 20 --on-node-loss continue --min-nodes 1 -o on 2>log 3>&- &
    pid=$!
    within 60 is_at_step_in_network 50
    partition input output
    sleep 15
    heal
    wait $pid || { cat log agent?/jobs/*/run/node.log; false; }
    grep -q 'The job went on without node(1): NodeLost' log
    [ "$(jq -r .state on/run.json)" = succeeded ]
}
