#!/usr/bin/env bats
# Jobs repeat to the byte. tests/equal/jobs has more of them, for a comparison with an older build: make equal BASE=DIR.
load lib

@test "records, models and checkpoints of a job are the same in each run, but for times, on agents, resumed, and simulated" {
    local run
    for run in 1 2; do
        "$ROOT/tests/equal/equal" run "$BUILD" "run$run" '^(fedavg|servers-down|feed|(half|rest)-fedavg-ps|sim-lost-asgd)$'
    done
    run "$ROOT/tests/equal/equal" compare run1 run2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *" files of 6 jobs: 0 differ" ]]
    # The compared files exist, and a value that differs is found.
    local file
    for file in fedavg/records-train.csv fedavg/model-final.safetensors rest-fedavg-ps/checkpoints-ps-1.safetensors feed/records-eval.csv \
        sim-lost-asgd/records-comm.csv; do
        [ "$(wc -l <"run2/$file")" -gt 2 ]
    done
    sed -i '2s/,1,/,2,/' run2/fedavg/records-train.csv
    run "$ROOT/tests/equal/equal" compare run1 run2
    [ "$status" -eq 1 ]
    [[ "$output" == "fedavg/records-train.csv: differs"*": 1 differ" ]]
}
