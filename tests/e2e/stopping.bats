#!/usr/bin/env bats
# Jobs that end before their epochs are done: after a number of steps, or by what their evaluations show.
load lib

# rows FILE NODE COLUMN...: these columns of a node's rows.
rows() {
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])):
    if r["node"] == sys.argv[2]: print(*(r[k] for k in sys.argv[3:]))' "$@"
}

# Two workers, and a third agent as their server for the jobs that name ps.json.
start_cluster() {
    start_agents 3
    write_workers 2 1
    mv worker.json ps.json
    write_workers 2
}

# An epoch has 187 steps of 64 and two workers.
stopped() { jq -c '[.stopped | .reason, .step]' "$1/run.json"; }
steps() { jq -c '[.nodes[] | select(.role == "worker") | .steps]' "$1/run.json"; }

@test "--max-steps ends a job after that step of each worker, in ssgd and asgd, with and without a server" {
    local list sync
    start_cluster
    for list in worker ps; do
        for sync in ssgd asgd; do
            "$SUBMIT" --workers $list.json --codec fedavg:every=10 --psgd $sync --node_count 2 --model softmax \
                --epochs 3 --max-steps 205 -o $list-$sync >table 2>&1
            grep -q '^The job ended after step 205, as --max-steps or --max-mb asks\.$' table
            [ "$(stopped $list-$sync)" = '["max_steps",205]' ]
            [ "$(steps $list-$sync)" = "[205,205]" ]
            [ "$(rows $list-$sync/records/eval.csv 1 epoch step | paste -sd,)" = "1 187,2 205" ]
            jq -e '.state == "succeeded" and .settings.epochs == 2' $list-$sync/run.json
        done
        # The last round is closed early, and all end equal.
        jq -e .models_agree $list-ssgd/run.json
    done
}

@test "a number of steps without --epochs is as many epochs as it takes, and the schedule's length" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --model softmax --batch_size 256 --max-steps 250 --schedule linear \
        --learn_rate 1 --record-every 50 -o out
    [ "$(rows out/records/train.csv 0 step lr | paste -sd,)" = "50 0.804,100 0.604,150 0.404,200 0.204,250 0.004" ]
    jq -e '.settings.epochs == 3' out/run.json # of 93 steps
    # The mini-batches of all workers: a step has one of each.
    "$SUBMIT" simulate -q --codec plain --node_count 4 --model softmax --max-mb 401 -o sim
    [ "$(stopped sim)" = '["max_steps",101]' ]
    # Resumed, it counts the steps of both jobs, and ends as one that was never interrupted.
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax --max-steps 500 --checkpoint-every 1 -o half
    "$SUBMIT" -q --resume half --max-steps 900 -o rest
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax --max-steps 900 -o whole
    [ "$(stopped rest)" = '["max_steps",900]' ]
    cmp <(tail -c 31400 rest/model/final.safetensors) <(tail -c 31400 whole/model/final.safetensors) # 7,850 floats
    run "$SUBMIT" -q --resume half --max-steps 300 -o none
    [ "$status" -eq 6 ]
    [[ "$output" == *"epoch 1 is reached already"* ]]
}

@test "a number of steps that is none is refused before agents are asked" {
    local value
    for value in -1 1.5 many 2000000000; do
        run "$SUBMIT" --max-steps=$value -o out
        [ "$status" -eq 2 ]
        [[ "$output" == *"--max-steps"* ]]
        [ ! -e out ]
    done
    run "$SUBMIT" --max-mb=-3 -o out
    [ "$status" -eq 2 ]
}
