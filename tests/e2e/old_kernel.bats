#!/usr/bin/env bats
# bats file_tags=check
# Agents, runners and job_submit as on Linux 4.18 (shared/base/compat.h): a filter refuses every newer call.
load lib

# BUILD and SUBMIT run on the older kernel; KEPT is the original BUILD.
setup_old_kernel() {
    local name
    cc -std=c11 -D_GNU_SOURCE -I"$ROOT" -o old_kernel "$ROOT/tests/e2e/old_kernel.c" "$ROOT/tests/lib/old_kernel.c"
    run ./old_kernel true
    [ "$status" -ne 125 ] || skip "$output"
    KEPT=$BUILD
    BUILD=$T/bin
    SUBMIT=$BUILD/job_submit
    mkdir "$BUILD"
    for name in agent job_submit job_runner; do
        printf '#!/bin/sh\nexec "%s/limit" %d "%s" "%s" "$@"\n' "$TOOLS" "$TEST_LIMIT" "$T/old_kernel" "$KEPT/$name" >"$BUILD/$name"
        chmod +x "$BUILD/$name"
    done
}

# has_filter PID: one more than this shell, which a container may have given one. Linux 5.9 counts them.
has_filter() { [ "$(filters "$1")" -gt "$(filters $$)" ]; }
filters() { awk '/^Seccomp(_filters)?:/ { n = $2 } END { print n }' "/proc/$1/status"; }

runner_of() { api "$1" GET "/v1/jobs/$(only_job "$1")" | jq -r .pid; } # runner_of N

# bats test_tags=long
@test "a job with a codec to compile ends with the same weights as on a newer kernel" {
    setup_old_kernel
    local side
    cp "$ROOT/codecs/fedavg.c" mine.c
    start_agents 2
    has_filter "${AGENTS[0]}"
    "$SUBMIT" --codec mine.c --node_count 2 --epochs 1 --local-steps 20 -o old
    [ "$(jq -r .state old/run.json)" = succeeded ]
    grep -q 'over connections: this kernel cannot make memory that only its owner can write' old/logs/worker-0.log
    stop_agents
    BUILD=$KEPT
    start_agents 2
    run has_filter "${AGENTS[0]}"
    [ "$status" -ne 0 ]
    limited "$KEPT/job_submit" --codec mine.c --node_count 2 --epochs 1 --local-steps 20 -o young
    for side in old young; do [ "$(jq .models_agree $side/run.json)" = true ]; done
    cmp <(tail -c 400000 old/model/final.safetensors) <(tail -c 400000 young/model/final.safetensors)
}

# bats test_tags=long
@test "an agent on an older kernel that is killed and restarted adopts its runner and is notified of its end" {
    setup_old_kernel
    local pid runner
    start_agents 2
    long_job --codec plain --agent-timeout 60 -o out 2>log 3>&- &
    pid=$!
    within 60 is_at_step 0 20
    runner=$(runner_of 1)
    has_filter "$runner"
    kill_agent 1
    start_agent 1
    within 60 is_in_state 1 running
    grep -q "process $runner still runs and is adopted" agent1.log
    kill -9 "$runner"
    within 60 is_in_state 1 failed
    wait $pid || true
    [ "$(jq -r .state out/run.json)" = failed ]
    "$SUBMIT" --codec plain --node_count 2 --epochs 1 -o next
    [ "$(jq -r .state next/run.json)" = succeeded ]
}

@test "a codec is checked and a job simulated on an older kernel" {
    setup_old_kernel
    "$SUBMIT" codecs test "$ROOT/codecs/fedavg.c" --check ends
    "$SUBMIT" simulate -q --codec fedavg --node_count 4 --epochs 1 -o sim
    [ "$(jq -r .state sim/run.json)" = succeeded ]
}

# The agent asks on this kernel, and its nodes start on the older one.
@test "a node without a tree of directories of its own fails if its agent found that nodes have one" {
    setup_old_kernel
    cp "$KEPT/agent" "$T/bin/agent"
    ln -s "$KEPT/codecs" "$T/bin/codecs"
    printf '#!/bin/sh\nexec "%s/job_runner" "$@"\n' "$KEPT" >"$T/bin/job_runner"
    start_agent 0 --require-isolation none
    write_workers 1
    [ "$(api 0 GET /v1/agent | jq .isolation.own_tree)" = true ] || skip "no namespace of mounts here"
    printf '#!/bin/sh\nexec "%s" "%s/job_runner" "$@"\n' "$T/old_kernel" "$KEPT" >"$T/bin/job_runner"
    run "$KEPT/job_submit" --codec fedavg --node_count 1 --dataset "$FEW" --epochs 1 -o out
    [ "$status" -ne 0 ]
    [[ "$output" == *"this node has no tree of directories of its own, although its agent found at its start that nodes can have one: "* ]]
    [ "$(jq -r '.reason' out/run.json)" = IsolationTooLow ]
    grep -q '^isolation: process, without a tree of directories of its own: no Landlock' out/logs/worker-0.log
}
