#!/usr/bin/env bats
# The agent decides from a node's files whether it has succeeded, not from the report of its process (agent/jobs/success.h).
load lib

# lie WITH: a job whose codec reports success in its third step, and leaves what tests/codecs/false_end.c lists.
lie() {
    run "$SUBMIT" --workers worker.json --node_count 1 --epochs 1 --model softmax --batch_size 10 \
        --codec "$BUILD/tests/codecs/false_end.so:with=$1" -o "lie-$1"
    echo "$output"
}

@test "a codec that reports a success its node has not had ends its job as failed, and the contradiction is named" {
    start_agent 0
    write_workers 1
    local sentences=(
        'job_runner has reported success: j-* has no final.safetensors'
        'job_runner has reported success: final.safetensors: not a safetensors file'
        'job_runner has reported success: * and the last row of train.csv of step '
        'job_runner has reported success: * was the last that its node has reported'
    )
    for with in 0 1 2 3; do
        lie $with
        [ "$status" -eq 1 ]
        [[ "$output" == *FalseSuccess* ]]
        # shellcheck disable=SC2053 # a pattern
        [[ "$output" == *${sentences[$with]}* ]]
        [ "$(jq -r '.state' "lie-$with/run.json")" = failed ]
    done
}

@test "the digest of a node's weights is that of the model that was fetched, whatever the node has reported" {
    start_agent 0
    write_workers 1
    lie 5
    [ "$status" -eq 0 ] # a codec can forge all that its agent looks at
    [[ "$output" == *"Node 0 reported another SHA-256 of the weights than that of the final model"* ]]
    [ "$(jq -r '.nodes[0].params_sha256' lie-5/run.json)" = "$(head -c 31400 /dev/zero | sha256sum | cut -d ' ' -f 1)" ]
}

@test "the digests that honest nodes report are those of their models, with running statistics and rules of their own, too" {
    start_agents 2
    local n=0 options
    for options in '--codec plain --model lenet-bn' '--codec easgd --model softmax'; do
        # shellcheck disable=SC2086 # words
        "$SUBMIT" --node_count 2 --dataset digits:train=64,test=20 --batch_size 16 --max-steps 2 $options -o honest$((n += 1)) >log 2>&1
        jq -e '.nodes | all(.params_sha256 | test("^[0-9a-f]{64}$"))' honest$n/run.json
        run grep 'reported another SHA-256' log
        [ "$status" -eq 1 ]
    done
}

# said OUT TEXT: the end of the node in these results.
said() { jq -r 'select(.event == "end").message' "$1/events.jsonl" | tee /dev/stderr | grep -qx "$2"; }

@test "the agent reports the steps of a successful node: all, those left to a resumed job, or those that its codec requested" {
    start_agent 0
    write_workers 1
    local one=(--workers worker.json --node_count 1 --model softmax --batch_size 10 --record-every 7)
    "$SUBMIT" "${one[@]}" --epochs 2 --checkpoint-every 1 --codec fedavg -o whole
    said whole "all [0-9]* steps are done"
    "$SUBMIT" "${one[@]}" --epochs 3 --resume whole --codec fedavg -o resumed
    said resumed "all [0-9]* steps are done"
    "$SUBMIT" "${one[@]}" --epochs 2 --codec "$BUILD/tests/codecs/control.so" -o early
    said early "its codec ended the training after step 7 of [0-9]*"
}
