#!/usr/bin/env bats
# Nodes that are slow, or unresponsive for some time, but alive.
# Takes about 1 minute.
load lib

T_CODECS=$BUILD/tests/codecs

is_ahead() { [ -e "agent$1/jobs/$(only_job "$1")/run/is-ahead" ]; }

@test "a slow holder of redundant blocks is waited for at the end, and loses nothing" {
    start_agents 3
    # 1,200 samples in rows of 3 x 20: 20 steps, two blocks each. Node 2 does not start before node 0 has taken 15 of them: if
    # node 0 waited for it, neither would continue.
    "$SUBMIT" --codec "$T_CODECS/slow.so" --node_count 3 --redundancy 2 --dataset digits:train=1200,test=200 --batch_size 20 --epochs 1 --model softmax -o out \
        >log 2>&1 3>&- &
    local pid=$!
    within 60 is_ahead 0
    touch "agent2/jobs/$(only_job 2)/run/is-ahead"
    wait $pid
    [ "$(jq -r .state out/run.json)" = succeeded ]
    [ "$(tail -n +2 out/records/eval.csv | cut -d, -f3-7 | sort -u | wc -l)" -eq 1 ]
}

@test "a node that does not read for 11 s is not lost" {
    start_agents 3
    "$SUBMIT" --codec plain --node_count 3 --redundancy 2 --dataset "$FEW" --epochs 1000000 --record-every 1000 -o out 2>log 3>&- &
    local pid=$! runner
    within 60 is_at_step 0 20
    runner=$(api 2 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$runner"
    sleep 11
    kill -CONT "$runner"
    is_in_state 0 running
    is_in_state 1 running
    is_in_state 2 running
    "$SUBMIT" cancel -q "$(only_job 0)"
    wait $pid || [ $? -eq 8 ]
}

@test "a node that receives more than it reads slows its sender and breaks nothing" {
    start_agents 2
    "$SUBMIT" --codec "$T_CODECS/one_way.so" --node_count 2 --epochs 2 -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
}

# bats test_tags=long
@test "many small blocks, and no time to read between them" {
    start_agents 8
    "$SUBMIT" --codec plain --node_count 8 --redundancy 4 --batch_size 16 --epochs 1 --model softmax -o out
    [ "$(tail -n +2 out/records/eval.csv | cut -d, -f3-7 | sort -u | wc -l)" -eq 1 ]
}

# bats test_tags=long
@test "gradients are sent through parameter servers, too" {
    start_agents 4
    write_workers 2 2
    "$SUBMIT" --codec doublesqueeze --node_count 2 --epochs 1 -o servers
    write_workers 2
    "$SUBMIT" --codec plain --node_count 2 --epochs 1 -o plain
    cmp <(cut -d, -f2-7 servers/records/eval.csv) <(cut -d, -f2-7 plain/records/eval.csv)
}

@test "a worker that takes more than twice the median is reported as a straggler" {
    start_agents 3
    cat >late.c <<'C'
#include <time.h>
#include "codec_events.h"
static int late_on_step(struct codec *c) /* node 2 takes half a second longer, from step 10 on */
{
    const struct timespec nap = {.tv_nsec = 500000000};

    if (c->run->node == 2 && c->run->step >= 10)
        nanosleep(&nap, NULL);
    return CODEC_GO;
}
static const struct codec_events late = {.on_step = late_on_step};
CODEC_PLUGIN(.name = "late", .source = "a test", .more = CODEC_MORE(.events = &late))
C
    "$SUBMIT" --codec late.c --node_count 3 --dataset digits:train=1200,test=200 --epochs 1 --batch_size 20 --model softmax -o out >table 2>log
    cat table log
    local said='node(2) is slower than twice the median since step [0-9]*: [0-9.e+]* ms a step, the median [0-9.e+]* ms\.'
    grep "$said" log
    grep "^$said" table
    jq -e '.stragglers | length == 1 and .[0].node == 2 and .[0].since_step >= 1 and .[0].step_s > 2 * .[0].median_s' out/run.json
}
