#!/usr/bin/env bats
# The cost of one worker that does not read for the others, and that it is named. Messages are counted here; times are rows of
# `make bench-stalled` and `make bench-detection`.
# Takes about 2 minutes.
load lib

# The round of the last row but one in node 0's record: the last may not be written whole.
last_round() { tail -n 2 agent0/jobs/*/run/comm.csv | head -n 1 | cut -d , -f 2; }

# A round after the one given is in the record.
is_past_round() { [ "$(last_round)" -gt "$1" ]; }

# sent_after ROUND PEER: messages that node 0 has sent to PEER in the rounds after ROUND.
sent_after() {
    awk -F, -v round="$1" -v peer="$2" '$4 == peer && $5 == "sent" && $2 > round { n += $6 } END { print n + 0 }' \
        agent0/jobs/*/run/comm.csv
}

has_sent_after() { [ "$(sent_after "$1" "$2")" -ge "$3" ]; }

is_lost() { grep -q 'node 1 is lost: it has received nothing for 9.5 s' agent0/jobs/*/run/node.log; }

# Messages of the job's size, 473,192 bytes with the header, that may be in flight to a peer that does not read: as many as both
# sockets of a connection hold, three in shared memory, the eight after which plain stops sending in asgd, and eight
# for those partly sent.
most_under_way() {
    local send receive
    read -r _ _ send </proc/sys/net/ipv4/tcp_wmem
    read -r _ _ receive </proc/sys/net/ipv4/tcp_rmem
    echo $(((send + receive) / 473192 + 3 + 8 + 8))
}

# bats test_tags=long
@test "asgd: nothing more is sent to a worker that does not read, and the others continue without it" {
    start_agents 3
    "$SUBMIT" --codec plain --psgd asgd --node_count 3 --epochs 100000 --record-every 1 --on-node-loss continue --min-nodes 2 \
        -o out 2>log 3>&- &
    local pid=$! hung stopped
    within 60 is_at_step 0 100
    hung=$(api 1 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$hung"
    # Twice, because rows from before the stop may still be on their way to the file.
    stopped=$(last_round)
    within 60 is_past_round "$stopped"
    stopped=$(last_round)
    within 60 is_past_round "$stopped"
    stopped=$(last_round)
    # If node 0 waited for the stopped worker, it would not send worker 2 more than can be in flight before worker 1 is lost.
    within 60 has_sent_after "$stopped" 2 $(($(most_under_way) + 1))
    run is_lost
    [ "$status" -eq 1 ]
    within 60 has_sent_after "$stopped" 2 $((10 * $(most_under_way)))
    echo "# sent since it is stopped: $(sent_after "$stopped" 1) to it, $(sent_after "$stopped" 2) to the other" >&3
    [ "$(sent_after "$stopped" 1)" -le "$(most_under_way)" ]
    within 60 is_lost
    "$SUBMIT" cancel -q "$(only_job 0)" # returns when all have ended: the agent has killed the one that hangs
    wait $pid || true
    [ "$(jq -r .state out/run.json)" = cancelled ]
}

# names_it N: the job has failed on agent N, and its reason names node 2.
names_it() {
    local job
    job=$(api "$1" GET '/v1/jobs?limit=1')
    [[ $job == *'"state":"failed"'* && $job == *'"reason":"RoundTimeout"'* && $job =~ '"message":"'[^\"]*'node 2'[^0-9] ]]
}

# hang WORKERS SERVERS OPTION...: a job whose worker 2 is stopped in training. Every other node must name it.
hang() {
    local n n_workers=$1 n_servers=$2
    shift 2
    start_agents $((n_workers + n_servers))
    write_workers "$n_workers" "$n_servers"
    "$SUBMIT" "$@" --node_count "$n_workers" --dataset "$FEW" --epochs 1000000 --record-every 1000 --round-timeout 6 -o out 2>log 3>&- &
    local pid=$! hung
    within 60 is_at_step 0 20
    hung=$(api 2 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$hung"
    within 60 grep -q RoundTimeout log
    for n in $(seq 0 $((n_workers + n_servers - 1))); do
        [ "$n" -eq 2 ] || within 60 names_it "$n"
    done
    wait $pid || [ $? -eq 1 ]
    cat log
    grep ' failed: node([-0-9]*), RoundTimeout: .*node 2\b' log
    # It was continued to be ended, and so could say why.
    grep -q 'asked to stop' agent2/jobs/*/run/node.log
}

@test "a stopped worker is named by every node: all-reduce over TCP" {
    hang 3 0 --codec allreduce --local-path off
}

@test "a stopped worker is named by every node: all-reduce in shared memory" {
    hang 3 0 --codec allreduce
}

# bats test_tags=long
@test "a stopped worker is named by every node: contributions to all" {
    hang 3 0 --codec fedavg --path gather --local-steps 5 --local-path off
}

# bats test_tags=long
@test "a stopped worker is named by every node: path tree" {
    hang 4 0 --codec allreduce --path tree
}

# bats test_tags=long
@test "a stopped worker is named by every node: parameter servers" {
    hang 3 2 --codec ps
}

# bats test_tags=long
@test "a stopped worker is named by every node: neighbors only" {
    hang 4 0 --codec gossip --local-path off
}

# names COMMAND...: the output of job_submit names node 1 as the node that others wait for.
names() { "$SUBMIT" "$@" | grep -q 'waits for node(1)'; }
names_none() { ! names status; }
names_in_json() { [ "$("$SUBMIT" list --json | jq '.data.jobs[0].waits_for')" = 1 ]; }

@test "a stopped worker is named by list, status and why while the job waits" {
    local hung
    start_agents 3
    write_workers 2 1
    long_job -q --codec ps --round-timeout 1000 --detach --no-queue -o out >/dev/null
    within 60 is_at_step 0 20
    hung=$(api 1 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$hung"
    within 60 names status
    within 60 names list
    within 60 names why
    within 60 names_in_json
    kill -CONT "$hung"
    within 60 names_none
    "$SUBMIT" cancel -q "$(only_job 0)"
}
