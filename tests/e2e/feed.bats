#!/usr/bin/env bats
# Mini-batches on demand: --feed shared.
load lib

# rows N: rows of train.csv of node N in result folder out.
rows() { awk -F, -v node="$1" 'NR > 1 && $2 == node' out/records/train.csv; }

@test "each mini-batch is computed once, and the others compute the share of a worker that is stopped" {
    start_agents 4
    write_workers 3 1
    mkdir -p "$T/gate"
    # Node 2 stops in its fourth mini-batch until the others have computed all remaining ones.
    cat >gate.c <<C
#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "codec_events.h"

static void wait_for(const char *path)
{
    while (access(path, F_OK) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static float contribute(struct codec *c, float *const *v)
{
    if (c->run->node == 2 && c->run->step == 3) {
        close(creat("at-gate-2", 0600));
        wait_for("gate-open");
    }
    if (c->run->node != 2 && c->run->step == 3)
        wait_for("gate-begin");
    memcpy(v[0], c->grads, c->n_params * sizeof *v[0]);
    return 1;
}

static const struct codec_combine rule = {.when = CODEC_EACH_STEP, .contribute = contribute};

CODEC_PLUGIN(.name = "gate", .source = "test", .equation = "g <- mean g", .combine = &rule,
             .more = CODEC_MORE(.updates_on_server = true))
C
    "$SUBMIT" --codec gate.c --parallel_sgd asgd --feed shared --node_count 3 --batch_size 64 --epochs 4 --model softmax -o out \
        >log 2>&1 3>&- &
    local pid=$! total
    within 60 is_at_gate 2
    total=$(api 0 GET /v1/jobs | jq '.jobs[0].progress.steps')
    tell_nodes gate-begin
    within 60 is_at_step 3 $((total - 2)) # the server's steps are the contributions that it has
    open_gate
    wait $pid
    [ "$(jq -r .state out/run.json)" = succeeded ]
    [ "$(rows 2 | wc -l)" -eq 5 ] # the one it stood still in, and the one it had asked for
    [ "$(tail -n +2 out/records/train.csv | wc -l)" -eq "$total" ]
    [ -z "$(tail -n +2 out/records/train.csv | cut -d, -f4,5 | sort | uniq -d)" ]
    # The model is the servers', on all workers.
    [ "$(tail -n +2 out/records/eval.csv | awk -F, '{ last[$2] = $6 "," $7 } END { for (n in last) print last[n] }' | sort -u | wc -l)" -eq 1 ]
}

@test "--max-mb counts the mini-batches of all workers" {
    start_agents 3
    write_workers 2 1
    "$SUBMIT" --codec ps --parallel_sgd asgd --feed shared --node_count 2 --max-mb 50 --model softmax -o out
    [ "$(tail -n +2 out/records/train.csv | wc -l)" -eq 50 ]
}

@test "jobs that cannot share mini-batches are refused with the reason" {
    echo '{"PS": ["127.0.0.1:1"], "Worker": ["127.0.0.1:2", "127.0.0.1:3"]}' >worker.json
    refused() {
        local expected=$1
        shift
        run "$SUBMIT" --feed shared --node_count 2 --model softmax "$@"
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$expected"* ]]
    }
    refused 'unequal numbers of steps; that is for --parallel_sgd asgd' --codec ps
    refused 'leave --redundancy, --block_assignment and --block-ratio out' --codec ps --parallel_sgd asgd --block-ratio 2,1
    refused 'writes no checkpoints' --codec ps --parallel_sgd asgd --checkpoint-every 1
    echo '{"Worker": ["127.0.0.1:2", "127.0.0.1:3"]}' >worker.json
    refused 'the first parameter server chooses the next mini-batch, and the job has no server' --codec asgd --parallel_sgd asgd
}
