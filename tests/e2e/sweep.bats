#!/usr/bin/env bats
# Sweeps on agents: the job that was running when a sweep was interrupted or killed. In the simulator:
# compare.bats.
load lib

# Two settings of a job on two agents; each run waits at the gate.
start_sweep() {
    start_agents 2
    gated fedavg
    SWEEP=("$SUBMIT" sweep --codec gated.c --round-timeout "$TEST_LIMIT" --set "learn_rate=0.05,0.1" --node_count 2 --epochs 4 --model softmax --dataset "digits:train=2560,test=400" -o swept)
}

jobs() { "$SUBMIT" list --json | jq -r ".data.jobs[] | $1"; }

@test "a sweep that was interrupted, then killed, in its first job continues with that job" {
    local pid first status
    start_sweep
    "${SWEEP[@]}" 2>log 3>&- &
    pid=$!
    within 60 is_at_gate 0
    kill -INT $pid
    status=0
    wait $pid || status=$?
    cat log
    [ "$status" -eq 130 ]
    grep -q 'the same command waits for it, .*job_submit cancel ID ends it' log
    first=$(jobs .id)
    [ "$(jobs .state)" = running ]
    [ "$(jobs .folder)" = "$PWD/swept/runs/learn_rate=0.05" ]
    # Again: it is watched, until kill -9 ends that, too.
    "${SWEEP[@]}" 2>log 3>&- &
    pid=$!
    within 60 grep -q "Waiting for $first" swept/logs/learn_rate=0.05.log
    kill -9 $pid
    wait $pid || true
    cat log
    rm swept/runs/learn_rate=0.05/run.json # as if it was killed when the job had just started
    open_gate
    "${SWEEP[@]}" >table
    cat table
    [ "$(jobs .state | sort -u)" = succeeded ]
    [ "$(jobs .id | wc -l)" -eq 2 ]
    [ "$(api 0 GET /v1/jobs | jq '.jobs | length')" -eq 2 ] # none ran twice
    [ "$(jq -r .id swept/runs/learn_rate=0.05/run.json)" = "$first" ]
    [ "$(cut -d, -f1-3 swept/sweep.csv)" = "$(printf 'learn_rate,runs,failed\n0.05,1,0\n0.1,1,0')" ]
    "$SUBMIT" wait -q "$first" >/dev/null
    # A job whose agents do not answer may be running: it is not run again.
    stop_agents
    local run=swept/runs/learn_rate=0.1 record
    first=$(jq -r .id $run/run.json)
    record=$XDG_STATE_HOME/psgd/jobs/$first.json
    jq '.state = "running"' $run/run.json >it && mv it $run/run.json
    jq 'del(.state)' "$record" >it && mv it "$record"
    run "${SWEEP[@]}"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"learn_rate=0.1: "*" does not answer"* ]]
    [ "$(jq -r '.id + .state' $run/run.json)" = "${first}running" ]
}
