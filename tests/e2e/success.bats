#!/usr/bin/env bats
# A node's success is what its agent finds, not what its process reports (agent/success.h).
load lib

# lie WITH: a job whose codec reports success in its third step, and leaves what tests/codecs/liar.c lists.
lie() {
    run "$SUBMIT" --workers worker.json --node_count 1 --epochs 1 --model softmax --batch_size 10 \
        --codec "$BUILD/tests/codecs/liar.so:with=$1" -o "lie-$1"
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

# said OUT TEXT: the end of the node in these results.
said() { jq -r 'select(.event == "end").message' "$1/events.jsonl" | tee /dev/stderr | grep -qx "$2"; }

@test "the agent says what a success did: all steps, those left to a resumed job, or as many as its codec wished" {
    start_agent 0
    write_workers 1
    local one=(--workers worker.json --node_count 1 --model softmax --batch_size 10 --record-every 7)
    "$SUBMIT" "${one[@]}" --epochs 2 --checkpoint-every 1 --codec fedavg -o whole
    said whole "all [0-9]* steps are done"
    "$SUBMIT" "${one[@]}" --epochs 3 --resume whole --codec fedavg -o resumed
    said resumed "all [0-9]* steps are done"
    "$SUBMIT" "${one[@]}" --epochs 2 --codec "$BUILD/tests/codecs/control.so" -o early
    said early "its codec has ended it after step 7 of [0-9]*"
}
