#!/usr/bin/env bats
# The cost of one worker that does not read for the others. Messages are counted here; the time is a row of
# `make bench-stalled`.
load lib

# sent_since_silence PEER: messages that node 0 has sent to PEER after the last round in which it received one of node 1.
sent_since_silence() {
    awk -F, -v peer="$1" '
        NR == FNR { if ($4 == 1 && $5 == "received") last = $2; next }
        $4 == peer && $5 == "sent" && $2 > last { n += $6 }
        END { print n + 0 }' agent0/jobs/*/run/comm.csv agent0/jobs/*/run/comm.csv
}

has_sent() { [ "$(sent_since_silence "$1")" -ge "$2" ]; }

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

@test "asgd: nothing more is sent to a worker that does not read, and the others continue without it" {
    start_agents 3
    "$SUBMIT" --codec plain --psgd asgd --node_count 3 --epochs 100000 --record-every 1 --on-node-loss continue --min-nodes 2 \
        -o out 2>log 3>&- &
    local pid=$! hung
    within 60 is_at_step 0 100
    hung=$(api 1 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$hung"
    within 60 is_lost
    within 60 has_sent 2 $((10 * $(most_under_way)))
    echo "# sent since it is silent: $(sent_since_silence 1) to it, $(sent_since_silence 2) to the other" >&3
    [ "$(sent_since_silence 1)" -le "$(most_under_way)" ]
    "$SUBMIT" cancel -q "$(only_job 0)" # returns when all have ended: the agent has killed the one that hangs
    wait $pid || true
    [ "$(jq -r .state out/run.json)" = cancelled ]
}
