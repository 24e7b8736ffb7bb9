#!/usr/bin/env bats
# Jobs that end before their epochs are done: after a number of steps, or by their evaluations.
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

# An epoch of these has 20 steps of 64 and two workers.
PART=(--dataset "digits:train=2560,test=500")

stopped() { jq -c '[.stopped | .reason, .step]' "$1/run.json"; }
steps() { jq -c '[.nodes[] | select(.role == "worker") | .steps]' "$1/run.json"; }

@test "--max-steps ends a job after that step of each worker, in ssgd and asgd, with and without a server" {
    local list sync
    start_cluster
    for list in worker ps; do
        for sync in ssgd asgd; do
            "$SUBMIT" --workers $list.json --codec fedavg:every=10 --psgd $sync --node_count 2 --model softmax \
                "${PART[@]}" --epochs 3 --max-steps 35 -o $list-$sync >table 2>&1
            grep -q '^The job ended after step 35, the limit of --max-steps, --max-mb or --max-tokens\.$' table
            [ "$(rows $list-$sync/records/eval.csv 1 epoch step | paste -sd,)" = "1 20,2 35" ]
            jq -e '.state == "succeeded" and .settings.epochs == 2 and (.stopped | .reason == "max_steps" and .step == 35) and
                [.nodes[] | select(.role == "worker") | .steps] == [35, 35]' $list-$sync/run.json
        done
        # The last round is closed early, and all end equal.
        jq -e .models_agree $list-ssgd/run.json
    done
}

@test "a number of steps without --epochs is as many epochs as it takes, and the schedule's length" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --model softmax --batch_size 16 --max-steps 250 --schedule linear \
        --dataset digits:train=1600,test=200 --learn_rate 1 --record-every 50 -o out
    [ "$(rows out/records/train.csv 0 step lr | paste -sd,)" = "50 0.804,100 0.604,150 0.404,200 0.204,250 0.004" ]
    jq -e '.settings.epochs == 3' out/run.json # of 100 steps
    # The mini-batches of all workers: a step has one of each.
    "$SUBMIT" simulate -q --codec plain --node_count 4 --model softmax "${PART[@]}" --max-mb 61 -o sim
    [ "$(stopped sim)" = '["max_steps",16]' ]
    # Resumed, it counts the steps of both jobs, and ends as one that was never interrupted.
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax "${PART[@]}" --max-steps 50 --checkpoint-every 1 -o half
    "$SUBMIT" -q --resume half --max-steps 90 -o rest
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax "${PART[@]}" --max-steps 90 -o whole
    [ "$(stopped rest)" = '["max_steps",90]' ]
    cmp <(tail -c 31400 rest/model/final.safetensors) <(tail -c 31400 whole/model/final.safetensors) # 7,850 floats
    run "$SUBMIT" -q --resume half --max-steps 30 -o none
    [ "$status" -eq 6 ]
    [[ "$output" == *"epoch 1 is reached already"* ]]
}

@test "a number of steps that is not positive is refused before any request to an agent" {
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

@test "--target-accuracy ends a synchronous job on all nodes after the same step, with the model that reached it" {
    local codec
    start_cluster
    for codec in easgd:every=10 gossip allreduce "easgd:every=10 --workers ps.json"; do
        # shellcheck disable=SC2086
        "$SUBMIT" --codec $codec --node_count 2 --model softmax "${PART[@]}" --epochs 50 --eval-every 13 --target-accuracy 0.7005 \
            -o "$codec" >table 2>&1
        grep -Eq '^The job ended by its evaluation after step [0-9]+ of 1000: the accuracy of 0\.7[0-9]+ has reached --target-accuracy 0\.7005\.$' table
        jq -e '.state == "succeeded" and .stopped.reason == "target_accuracy" and .stopped.accuracy >= 0.7005 and
            ([.nodes[] | select(.role == "worker") | .steps] | unique) == [.stopped.step] and .stopped.step < 900' "$codec/run.json"
    done
    # No earlier evaluation has reached it, there is no later one, and it is the mean of the workers that reached it.
    python3 - easgd:every=10* allreduce <<'PY'
import csv, json, sys
for out in sys.argv[1:]:
    why = json.load(open(f"{out}/run.json"))["stopped"]
    at = {}
    for r in csv.DictReader(open(f"{out}/records/eval.csv")):
        at.setdefault(int(r["step"]), []).append(float(r["accuracy"]))
    assert max(at) == why["step"] and [k for k in at if sum(at[k]) / 2 >= 0.7005] == [why["step"]], at
    assert abs(sum(at[why["step"]]) / 2 - why["accuracy"]) < 1e-9
PY
    jq -e .models_agree allreduce/run.json
    "$SUBMIT" simulate -q --codec allreduce --node_count 2 --model softmax "${PART[@]}" --epochs 50 --eval-every 13 \
        --target-accuracy 0.7005 -o sim
    [ "$(stopped sim)" = "$(stopped allreduce)" ]
    cmp <(rows sim/records/eval.csv 0 step loss) <(rows allreduce/records/eval.csv 0 step loss)
}

@test "--target-accuracy ends an asynchronous job, with the servers' model or the workers' own" {
    local list codec
    start_cluster
    for list in worker ps; do
        codec=plain
        [ $list = worker ] || codec="ps"
        "$SUBMIT" -q --workers $list.json --codec $codec --psgd asgd --node_count 2 --model softmax "${PART[@]}" --epochs 500 \
            --eval-every 13 --target-accuracy 0.7005 -o $list
        jq -e '.state == "succeeded" and .stopped.reason == "target_accuracy" and
            all(.nodes[] | select(.role == "worker"); .steps < 10000)' $list/run.json
    done
    # All workers evaluate the servers' weights at the end.
    [ "$(jq '[.nodes[] | select(.role == "worker") | .eval_loss] | unique | length' ps/run.json)" -eq 1 ]
    "$SUBMIT" simulate -q --codec ps --servers 1 --psgd asgd --node_count 3 --model softmax "${PART[@]}" --epochs 500 \
        --eval-every 13 --target-accuracy 0.7005 -o sim
    jq -e '.stopped.reason == "target_accuracy"' sim/run.json
}

@test "--patience ends a job that no longer improves, also one that was interrupted, after the same step" {
    local last job
    start_cluster
    job=(-q --codec fedavg:every=10 --node_count 2 --model softmax "${PART[@]}" --learn_rate 1 --patience 2)
    "$SUBMIT" "${job[@]}" --epochs 60 -o whole
    [ "$(jq -r .stopped.reason whole/run.json)" = patience ]
    last=$(($(jq .stopped.step whole/run.json) / 20))
    [ "$last" -gt 3 ]
    "$SUBMIT" "${job[@]}" --epochs $((last - 1)) --checkpoint-every 1 -o half
    [ "$(jq .stopped half/run.json)" = null ]
    "$SUBMIT" -q --resume half --epochs 60 -o rest
    [ "$(stopped rest)" = "$(stopped whole)" ]
    [ "$(steps rest)" = "$(steps whole)" ]
    # Such a job continues from its last checkpoint if the limit is removed.
    "$SUBMIT" -q --resume rest --epochs $((last + 3)) --patience 0 -o on
    [ "$(steps on)" = "[$(((last + 3) * 20)),$(((last + 3) * 20))]" ]
}

@test "a codec sees the evaluations of all workers, and ends its job by them" {
    start_cluster
    for list in worker ps; do
        "$SUBMIT" --workers $list.json --codec "$ROOT/tests/codecs/plateau.c:every=10,patience=1" --node_count 2 --model softmax \
            "${PART[@]}" --learn_rate 1 --epochs 500 --eval-every 13 -o $list >table 2>&1
        grep -Eq '^The job ended after step [0-9]+ of 10000: its codec plateau stopped it\.$' table
        jq -e '.stopped.reason == "codec" and ([.nodes[] | select(.role == "worker") | .steps] | unique) == [.stopped.step]' $list/run.json
        # Both have seen the same loss, and cut their rate alike.
        cmp <(rows $list/records/codec.csv 0 step value) <(rows $list/records/codec.csv 1 step value)
        [[ $(rows $list/records/codec.csv 0 value | sort -u | paste -sd,) =~ ^0.125,0.25,0.5,1(.0)?$ ]]
    done
    # In asgd a server's codec decides, and the workers end.
    "$SUBMIT" -q --workers ps.json --codec "$ROOT/tests/codecs/plateau.c:every=10,patience=1" --psgd asgd --node_count 2 \
        --model softmax "${PART[@]}" --learn_rate 1 --epochs 500 --eval-every 13 -o asgd
    jq -e '.state == "succeeded" and .stopped.reason == "codec"' asgd/run.json
}

@test "an impossible end by evaluations is refused before any request to an agent" {
    local value
    echo '{"Worker": ["127.0.0.1:1"]}' >worker.json
    for value in target-accuracy=1.5 target-accuracy=-0.1 target-accuracy=best patience=-1 patience=2.5; do
        run "$SUBMIT" --$value -o out
        [ "$status" -eq 2 ]
        [[ "$output" == *"--${value%%=*}"* ]]
    done
    run "$SUBMIT" --model linear --dataset simlin --target-accuracy 0.9 -o out
    [ "$status" -ne 0 ]
    [[ "$output" == *"simlin has no classes, so there is no accuracy; --patience uses the loss"* ]]
    run "$SUBMIT" simulate --gradients 10 --target-accuracy 0.9 -o out
    [ "$status" -ne 0 ]
    "$SUBMIT" simulate -q --gradients 10 --node_count 2 --steps 20 --epochs 500 --patience 2 -o sim
    [ "$(jq -r .stopped.reason sim/run.json)" = patience ]
}
