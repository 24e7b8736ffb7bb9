#!/usr/bin/env bats
# Training programs that fail while they train, or have no more data.
load lib

# columns FILE 'NAME ...': of all rows of a CSV file, sorted.
columns() { awk -F, -v columns="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(columns, name, " ") }
    { for (i = 1; i <= n; i++) printf "%s ", $at[name[i]]; print "" }' "$1" | sort; }

# A program that does what its argument says in step 20.
compile_faulty() {
    cat >faulty.c <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "psgd_trainer.h"
int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "none";
    const struct psgd_tensor layout[] = {{"head.weight", 2, {2, strcmp(fault, "shape") == 0 ? (size_t)getpid() : 3}, false}};
    struct psgd *p;
    int what;

    if (psgd_open(&p, layout, 1) < 0)
        return fprintf(stderr, "%s\n", psgd_error()), 1;
    psgd_batches(p, 50);
    while ((what = psgd_next(p)) > PSGD_STOP) {
        if (what == PSGD_EVALUATE) {
            psgd_log(p, "val/f1", 0.5);
            psgd_evaluated(p, 0.25, 0.75, 10);
        }
        if (what != PSGD_GO)
            continue;
        if (psgd_plan(p)->step == 20 && (psgd_plan(p)->node == 1 || strcmp(fault, "finish-all") == 0)) {
            if (strcmp(fault, "exit") == 0)
                return fprintf(stderr, "first line\nno more data in /data/part-7\n"), 3;
            if (strcmp(fault, "kill") == 0)
                raise(SIGKILL);
            if (strcmp(fault, "fail") == 0)
                return psgd_fail(p, "the third batch is empty"), 1;
            if (strcmp(fault, "leave") == 0)
                return 0;
        }
        if (psgd_plan(p)->step >= 20 && strncmp(fault, "finish", 6) == 0 && (psgd_plan(p)->node == 1 || strcmp(fault, "finish-all") == 0))
            psgd_finish(p);
        for (int i = 0; i < 6; i++)
            psgd_grads(p)[i] = strcmp(fault, "nan") == 0 && psgd_plan(p)->step == 20 ? 0.0f / 0.0f : psgd_params(p)[i] - 1;
        const float *by = psgd_gradient(p, 1.5, 8, 0.1);
        for (int i = 0; by && i < 6; i++)
            psgd_params(p)[i] -= 0.1f * by[i];
        psgd_stepped(p);
    }
    if (what < 0)
        fprintf(stderr, "%s\n", psgd_error());
    psgd_close(p);
    return what < 0;
}
C
    cc -I"$ROOT/shared/trainer" faulty.c "$ROOT/shared/trainer/psgd_trainer.c" -o faulty
}

# fails FAULT MESSAGE REASON [OPTION...]
fails() {
    local fault=$1 message=$2 reason=$3
    shift 3
    run "$SUBMIT" --workers worker.json --node_count 2 --epochs 2 --trainer faulty -o "out-$fault" "$@" -- "$fault"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *"$message"* ]]
    jq -e --arg reason "$reason" '[.nodes[].reason] | index($reason)' "out-$fault/run.json"
}

@test "a program that ends, gives up or is killed names the reason of the job's end" {
    start_agents 2
    compile_faulty
    fails exit 'faulty ended with status 3: no more data in /data/part-7' TrainerFailed --codec fedavg
    fails kill 'faulty was killed by signal 9' TrainerFailed --codec allreduce
    fails fail 'faulty: the third batch is empty' TrainerFailed --codec fedavg
    fails leave 'faulty has ended, and the job has not' TrainerFailed --codec allreduce
    fails shape "'head.weight' is (2, " TrainerFailed --codec fedavg
    fails nan 'node 0, epoch 1, step 21: the gradient of head.weight is not finite' NumericDivergence --codec allreduce
}

# ends_all OPTION...: a job with these options whose programs have no more data ends early. In an asynchronous one a worker may have
# made its other steps, which are empty, before it hears of the other one.
ends_all() {
    rm -rf ends
    "$SUBMIT" --workers worker.json --node_count 2 --epochs 40 --trainer faulty -q -o ends "$@" -- finish-all
    jq -e '.state == "succeeded" and .stopped.reason == "finished" and ([.nodes[] | select(.node >= 0) | .steps] | length == 2 and min < 2000)' ends/run.json
}

@test "a program's records, metrics and model are those of its job, also after one worker has no more data" {
    start_agents 2
    compile_faulty
    "$SUBMIT" --workers worker.json --node_count 2 --epochs 2 --trainer faulty --codec fedavg --local-steps 5 -q -o out -- finish
    [ "$(columns out/records/eval.csv 'node epoch step loss accuracy' | head -2)" = $'0 1 50 0.25 0.75 \n0 2 100 0.25 0.75 ' ]
    [ "$(columns out/records/metrics.csv 'node step metric value' | head -1)" = '0 100 val/f1 0.5 ' ]
    [ "$(columns out/records/train.csv 'node step samples loss lr' | grep -c '^0 .* 1.5 0.1 $')" = 100 ]
    [ "$(columns out/records/train.csv 'node step samples' | grep '^1 100 ')" = '1 100 160 ' ]
    "$SUBMIT" model inspect out/model/final.safetensors >said
    grep 'head.weight' said

    "$SUBMIT" --workers worker.json --node_count 2 --epochs 2 --trainer faulty --codec allreduce -o short -- finish-all >said 2>&1
    jq -e '.state == "succeeded" and .stopped.reason == "finished" and .stopped.step == 21 and ([.nodes[].steps] == [21, 21])' short/run.json
    grep 'ended after step 21 of 100: faulty has no more data on any worker' said

    # What a finished program passes on is not used, but it makes the others' updates.
    "$SUBMIT" --workers worker.json --node_count 2 --epochs 2 --trainer faulty --codec allreduce -q -o follow -- finish
    jq -e '[.nodes[] | select(.node >= 0) | .params_sha256] | length == 2 and .[0] == .[1] and .[0] != null' follow/run.json
    [ "$(columns follow/records/train.csv 'node step samples' | grep '^1 100 ')" = '1 100 160 ' ]

    # Under rules with messages of their own, with workers that are drawn, and in asynchronous jobs, too.
    ends_all --codec gossip
    ends_all --codec allreduce --participate 0.5
    ends_all --codec plain --parallel_sgd asgd
    start_agent 2
    write_workers 2 1
    ends_all --codec asgd --parallel_sgd asgd
}

@test "a job of --on-node-loss continue goes on without a worker whose program has ended" {
    local rule
    start_agents 2
    compile_faulty
    for rule in "fedavg --local-steps 5" allreduce; do
        # shellcheck disable=SC2086 # options
        "$SUBMIT" -q --workers worker.json --node_count 2 --epochs 2 --trainer faulty --codec $rule --on-node-loss continue \
            -o "${rule%% *}" -- kill
        jq -e '.state == "succeeded" and .nodes[0].steps == 100 and .nodes[1].reason == "TrainerFailed"' "${rule%% *}/run.json"
    done
}
