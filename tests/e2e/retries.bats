#!/usr/bin/env bats
# Attempts: a job that loses a node continues from its checkpoints, on the remaining agents or on a spare.
# Takes about 1 minute.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib
load documents

job=(--node_count 2 --model softmax --batch_size 20 --agent-timeout 2)

# Two workers and a spare.
start_three() {
    local n
    for n in 0 1 2; do start_agent $n; done
    write_workers 2
    jq --arg spare "127.0.0.1:${PORTS[2]}" '.Spare = [$spare]' worker.json >with_spare.json
}

# A job of 60 epochs of 32 steps, which takes 50 ms for each step from the 60th on until the gate is open.
few=("${job[@]}" --dataset "$FEW" --epochs 60 --codec gated.c)
slow_at_gate() {
    gated allreduce
    sed -i -e '/while (access/d' -e 's/tv_nsec = 10000000/tv_nsec = 50000000/' gated.c
}

# begin OUT OPTION...: that job in the background, until its checkpoints were copied once; JOB is its process.
begin() {
    local out=$1
    shift
    [ -e gated.c ] || slow_at_gate
    "$SUBMIT" "${few[@]}" -o "$out" "$@" >"$out.log" 2>&1 3>&- &
    JOB=$!
    HOLDERS+=("$JOB")
    within 60 has_copies "$out"
}
has_copies() { [ -e "$1/mirror/checkpoints/node-0.safetensors" ] && [ -e "$1/mirror/checkpoints/node-1.safetensors" ]; }

# end_of OUT: the status of the job in the background.
end_of() {
    status=0
    wait "$JOB" || status=$?
    cat "$1.log"
}

# lose N: agent number N and its runner end, as if its machine were gone; the others go on.
lose() {
    # shellcheck disable=SC2046 # one word for each process
    kill -9 "${AGENTS[$1]}" $(pgrep -P "${AGENTS[$1]}")
    wait "${AGENTS[$1]}" 2>/dev/null || true
    AGENTS[$1]=
    [ ! -d gate ] || open_gate
}

weights() { tail -c 31400 "$1/model/final.safetensors"; }
steps_of() { awk -F, -v n="$1" '$2 == n {print $7}' "$2/records/train.csv" | sort -n; } # steps_of NODE OUT

@test "a lost machine is replaced by a spare: the job continues from copied checkpoints, and ends with the same bits" {
    start_three
    slow_at_gate
    open_gate
    "$SUBMIT" --workers worker.json "${few[@]}" -o alone
    rm gate/open
    begin out --workers with_spare.json --checkpoint-every 1 --retries 2
    lose 1
    end_of out
    [ "$status" -eq 0 ]
    grep -q 'Attempt 2 of at most 3 goes on from the last checkpoints of all nodes' out.log
    grep -q "does not answer; the spare 127.0.0.1:${PORTS[2]} takes its place" out.log
    cmp <(weights alone) <(weights out)
    # All rows of the remaining node, once; of the lost one those since the checkpoint, because the others are on its machine.
    cmp <(steps_of 0 alone) <(steps_of 0 out)
    cmp <(steps_of 1 alone | tail -n "$(steps_of 1 out | wc -l)") <(steps_of 1 out)
    [ "$(jq -r '.state, .attempt, (.facts.attempts[] | .attempt, .node, .reason, .folder)' out/run.json | paste -sd' ')" = \
        "succeeded 2 1 1 NodeLost attempts/1" ]
    [ "$(jq -r .state out/attempts/1/run.json)" = failed ]
    run "$SUBMIT" status "$(jq -r .id out/run.json)"
    [ "$status" -eq 0 ]
    [[ "$output" == *succeeded* ]]
    run "$SUBMIT" fetch "$(jq -r .id out/run.json)" -o elsewhere
    [ "$status" -eq 0 ]
    [[ "$output" == *"train.csv has no rows before step $(jq .facts.continues.step out/run.json): "*"/elsewhere/attempts/1/records/train.csv, with the rows of the attempt before, is missing."* ]]
}

# bats test_tags=long
@test "a lost parameter server is replaced, too, and the job ends with the same bits" {
    local n with_server=(--node_count 2 --codec fedavg --local-steps 10 --model softmax --batch_size 2 --epochs 20 --checkpoint-every 1)
    for n in 0 1 2 3; do start_agent $n; done
    write_workers 2 1
    jq --arg spare "127.0.0.1:${PORTS[3]}" '.Spare = [$spare]' worker.json >with_spare.json
    "$SUBMIT" "${with_server[@]}" -o alone
    "$SUBMIT" --workers with_spare.json "${with_server[@]}" --agent-timeout 2 --retries 1 -o out >out.log 2>&1 3>&- &
    JOB=$!
    HOLDERS+=("$JOB")
    within 60 test -e out/mirror/checkpoints/ps-0.safetensors
    lose 2
    end_of out
    [ "$status" -eq 0 ]
    grep -q "node(-2): .* does not answer; the spare 127.0.0.1:${PORTS[3]} takes its place" out.log
    cmp <(weights alone) <(weights out)
}

# bats test_tags=long
@test "a killed worker is tried again on the same agents, without a checkpoint from the first step on" {
    start_three
    "$SUBMIT" --workers worker.json "${job[@]}" --epochs 60 --codec allreduce --retries 1 --retry-on node_lost,runner_died -o out >out.log 2>&1 3>&- &
    JOB=$!
    HOLDERS+=("$JOB")
    within 60 grep -q 'node(1): running, epoch' out.log
    kill -9 "$(pgrep -P "${AGENTS[1]}" | head -1)"
    end_of out
    [ "$status" -eq 0 ]
    grep -q 'begins anew: without --checkpoint-every there are no checkpoints' out.log
    [ "$(steps_of 0 out | uniq -c | awk '$1 != 1' | wc -l)" -eq 0 ]
    [ "$(steps_of 0 out | tail -1)" -eq 36000 ]
    # The agents have both attempts, and tell them apart.
    [ "$(find agent0/jobs -maxdepth 1 -name 'j-*' | wc -l)" -eq 2 ]
}

# bats test_tags=long
@test "an agent that is stopped and started again gets its node in a further attempt" {
    start_agents 2
    begin out --retries 1 --checkpoint-every 1
    end_process "${AGENTS[1]}" || true
    open_gate
    start_agent 1
    end_of out
    [ "$status" -eq 0 ]
    grep -q 'node(1): cancelled, AgentStopped' out.log
    [ "$(jq -c '[.facts.attempts[].reason]' out/run.json)" = '["AgentStopped"]' ]
}

@test "with --detach a process stays that tries again, and wait shows the end" {
    start_three
    local id
    slow_at_gate
    id=$("$SUBMIT" --workers with_spare.json "${few[@]}" --checkpoint-every 1 --retries 1 --detach --no-queue -o out 2>said)
    grep -q 'is watched in the background' said
    within 60 has_copies out
    lose 1
    within 60 grep -q 'Start job' <(cat out/logs/submit.log) # of whichever attempt
    within 120 ended_well out
    grep -q "takes its place" out/attempts/1/logs/submit.log out/logs/submit.log
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 0 ]
    [ "$(jq -r '.state, .attempt' out/run.json | paste -sd' ')" = "succeeded 2" ]
}
ended_well() { [ "$(jq -r '.state, .is_complete' "$1/run.json" 2>/dev/null | paste -sd' ')" = "succeeded true" ]; }

# bats test_tags=long
@test "workers of the list that have no node take the place of lost ones, before spares" {
    local n
    for n in 0 1 2 3; do start_agent $n; done
    write_workers 3
    jq --arg spare "127.0.0.1:${PORTS[3]}" '.Spare = [$spare]' worker.json >with_spare.json
    begin out --workers with_spare.json --checkpoint-every 1 --retries 2
    lose 1
    end_of out
    [ "$status" -eq 0 ]
    grep -q "does not answer; the worker 127.0.0.1:${PORTS[2]} takes its place" out.log
    [ "$(jq -r '.state, .attempt' out/run.json | paste -sd' ')" = "succeeded 2" ]
    # The next job finds it lost at once; without --retries only spares are taken.
    run "$SUBMIT" --workers with_spare.json "${job[@]}" --epochs 1 --codec allreduce --retries 1 -o second
    [ "$status" -eq 0 ]
    [[ "$output" == *"the worker 127.0.0.1:${PORTS[2]} takes its place"* ]]
    run "$SUBMIT" --workers with_spare.json "${job[@]}" --epochs 1 --codec allreduce -o third
    [ "$status" -eq 0 ]
    [[ "$output" == *"the spare 127.0.0.1:${PORTS[3]} takes its place"* ]]
    run "$SUBMIT" --workers worker.json "${job[@]}" --epochs 1 --codec allreduce -o fourth
    [ "$status" -eq 3 ]
}

# bats test_tags=long
@test "an agent whose replacement failed is used again, and its node continues" {
    start_agent 0
    start_agent 1
    PORTS[2]=$(free_port) # of an agent that is never there
    write_workers 3
    begin out --workers worker.json --checkpoint-every 1 --retries 1 --agent-timeout "$TEST_LIMIT"
    lose 1
    within 60 grep -q "does not answer; the worker 127.0.0.1:${PORTS[2]} takes its place" out.log
    start_agent 1
    end_of out
    [ "$status" -eq 0 ]
    [ "$(jq -r '.state, .attempt, (.nodes[1].address)' out/run.json | paste -sd' ')" = "succeeded 2 127.0.0.1:${PORTS[1]}" ]
}

@test "an attempt that cannot be started leaves the results of the one before, and job_submit names what is missing" {
    start_three
    begin out --workers worker.json --checkpoint-every 1 --retries 3
    lose 1
    end_of out
    [ "$status" -eq 1 ]
    grep -q "attempt 2 cannot be started: node(1): agent 127.0.0.1:${PORTS[1]} does not answer" out.log
    [ "$(jq -r '.state, .attempt' out/run.json | paste -sd' ')" = "failed 1" ]
    [ "$(wc -l <out/records/train.csv)" -gt 1 ]
    [ ! -e out/attempts ]
}

@test "a failure that would occur again is not retried, and an unknown reason is refused" {
    CRASHES=1
    start_three
    run "$SUBMIT" --workers worker.json "${job[@]}" --dataset "$FEW" --epochs 1 --codec "$BUILD/tests/codecs/crash.so" --retries 5 -o failed
    [ "$status" -ne 0 ]
    [[ "$output" != *"Attempt 2"* ]]
    run "$SUBMIT" --workers worker.json "${job[@]}" --codec allreduce --retries 1 --retry-on node_lost,bad_luck -o no
    [ "$status" -eq 2 ]
    [[ "$output" == *'--retry-on: "bad_luck" is not one of node_lost|runner_died|oom'* ]]
}

# bats test_tags=check
@test "the command of docs/failures.md" {
    start_three
    ln -s "$BUILD" build
    bash -ec "$(blocks sh docs/failures.md 3)"
    [ "$(jq -r '.settings.checkpoint_every, .state' logs/latest/run.json | paste -sd' ')" = "1 succeeded" ]
    [ ! -e logs/latest/mirror ]
}
