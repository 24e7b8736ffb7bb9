#!/usr/bin/env bats
# Sweeps on agents: the job that was running when a sweep was interrupted or killed, and successive halving.
# In the simulator: compare.bats.
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

@test "runs of a halved sweep go on from checkpoints, after kill -9 too, and begin anew under a rule that keeps none" {
    start_agents 2
    local pid job=(--node_count 2 --epochs 4 --model softmax --dataset "digits:train=640,test=200")
    local rates=(--set "lr=0.001,0.1,0.5")
    SWEEP=("$SUBMIT" sweep --search halving --set "codec=fedavg:every=5,doublebuffer" "${rates[@]}" --best-of lr "${job[@]}" -o swept)
    "${SWEEP[@]}" >table 2>log 3>&- &
    pid=$!
    within 60 eval 'compgen -G "swept/runs/*_lr=0.*_epochs=2/run.json" >/dev/null'
    kill -9 $pid
    wait $pid || true
    cat log
    grep -q 'codec=doublebuffer, lr=0.001: longer runs begin anew, because codec doublebuffer: an exchange may be' log
    jq -r .id swept/runs/*/run.json | sort >before
    "${SWEEP[@]}" >table 2>log
    cat log table
    jq -r .id swept/runs/*/run.json | sort >after
    [ "$(comm -23 before after | wc -l)" -eq 0 ]
    [ "$(find swept/runs -mindepth 1 -maxdepth 1 | wc -l)" -eq 8 ]
    grep -Eq 'Rung 2 of 2, run 1 of 2: codec=fedavg:every=5_lr=0.[15], from its checkpoint\.' log
    grep -Eq 'Rung 2 of 2, run 2 of 2: codec=doublebuffer_lr=0.[15], anew: it has no checkpoint\.' log
    python3 "$ROOT/tests/e2e/sweep_figures.py" swept lr ''
    grep -Eq '^fedavg:every=5 +0.001 +1.* +2 +3 of 3, stopped' table
    # Both halves have the same bits as a whole run, and the sum of their bytes.
    local best
    best=$(python3 -c 'import csv; print(*[r["lr"] for r in csv.DictReader(open("swept/sweep.csv")) if r["best"] == "1" and r["codec"] == "fedavg:every=5"])')
    "$SUBMIT" -q --codec fedavg:every=5 --learn_rate "$best" "${job[@]}" -o whole >/dev/null
    [ "$(jq -c '[.nodes[].params_sha256]' "swept/runs/codec=fedavg:every=5_lr=$best/run.json")" = "$(jq -c '[.nodes[].params_sha256]' whole/run.json)" ]
    # In steps.
    "$SUBMIT" sweep -q --json --search halving "${rates[@]}" --codec fedavg:every=5 "${job[@]}" --max-steps 15 -o steps >doc
    jq -ec '[.data.combinations[].rungs | map([.steps, .resumed, .goes_on])] | sort == [[[8, 0, false]], [[8, 0, false]], [[8, 0, true], [15, 1, false]]]' doc
    python3 "$ROOT/tests/e2e/sweep_figures.py" steps '' ''
}

two_are_at_gate() { [ "$(compgen -G "$T/agent*/jobs/*/run/at-gate-0" | wc -l)" -eq 2 ]; }

@test "runs of a sweep run at once, each on agents of its own, and an interrupted sweep goes on with their jobs" {
    local pid status list
    start_agents 5
    gated fedavg
    SWEEP=("$SUBMIT" sweep --parallel auto --codec gated.c --round-timeout "$TEST_LIMIT" --set "learn_rate=0.05,0.1,0.2" --node_count 2 --epochs 4 --model softmax --dataset "digits:train=2560,test=400" -o swept)
    run "${SWEEP[@]}" --parallel 3
    [ "$status" -eq 2 ]
    [[ "$output" == *"--parallel 3: runs of 2 workers at once; worker.json lists 5 workers"* ]]
    "${SWEEP[@]}" 2>log 3>&- &
    pid=$!
    within 60 two_are_at_gate
    kill -9 $pid
    wait $pid || true
    [ "$(jobs .state | sort | uniq -c | xargs)" = "2 running" ]
    list=$(jobs .id | sort)
    # Again: both are watched, and no third one begins.
    "${SWEEP[@]}" 2>log 3>&- &
    pid=$!
    within 60 grep -q "Waiting for" swept/logs/learn_rate=0.05.log
    within 60 grep -q "Waiting for" swept/logs/learn_rate=0.1.log
    kill -INT $pid
    status=0
    wait $pid || status=$?
    cat log
    [ "$status" -eq 130 ]
    [ "$(jobs .id | sort)" = "$list" ]
    open_gate
    "${SWEEP[@]}" >table 2>log
    cat log table
    [ "$(jobs .state | sort | uniq -c | xargs)" = "3 succeeded" ]
    [ "$(cut -d, -f1-3 swept/sweep.csv | xargs)" = "learn_rate,runs,failed 0.05,1,0 0.1,1,0 0.2,1,0" ]
    [ "$(jq -r '.nodes[].address' swept/runs/learn_rate=0.{05,1}/run.json | sort -u | wc -l)" -eq 4 ]
    [ "$(jq -r '.Worker[]' swept/lanes/*.json | sort -u | wc -l)" -eq 4 ]
    write_workers 4 1
    run "${SWEEP[@]}" --parallel 2
    [ "$status" -eq 2 ]
    [[ "$output" == *"--parallel: worker.json lists parameter servers, and each job takes all of them"* ]]
    run "$SUBMIT" sweep --simulate --parallel 2 --set lr=0.1,0.2 --codec fedavg --node_count 2 -o other
    [ "$status" -eq 2 ]
    [[ "$output" == *"--parallel is for jobs on agents"* ]]
}
