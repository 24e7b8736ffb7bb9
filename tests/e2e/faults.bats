#!/usr/bin/env bats
# Faults: the remaining nodes report node and cause at once, keep the results so far, and run the next job.
# Takes about 2 minutes.
load lib
load namespaces

ends_failed() { # of the job whose job_submit is $1: status 1
    local s=0
    wait "$1" || s=$?
    [ $s -eq 1 ]
}

# A job of 240 steps that waits at the gate of `gated`.
PAST_GATE=(--dataset "$FEW" --epochs 3 --batch_size 16 --model softmax)

runner_of() { api "$1" GET /v1/jobs | jq '.jobs[0].pid'; }

@test "a node that is stopped reports the reason of its job" {
    start_agents 1
    paced_plain >paced.c
    run long_job --codec paced.c --node_count 1 --time-limit 1 -o out
    [ "$status" -eq 1 ]
    [[ "$output" == *"failed: node(0), TimeLimit: "* ]]
    run tail -n 1 out/logs/worker-0.log
    echo "$output"
    [[ "$output" == "asked to stop"*"; the agent's log has the reason" ]] # before the start, where the machine is busy
    run grep -r UserCancelled out
    [ "$status" -eq 1 ]
}

@test "an event rule runs on agents as on the mesh" {
    start_agents 3
    "$SUBMIT" --codec "$BUILD/tests/codecs/ping.so" --node_count 3 --dataset "$FEW" --epochs 1 --model softmax -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
}

@test "every collective works on agents: in shared memory, over connections, encrypted" {
    start_agents 3
    local n=0 way
    for way in "--local-path auto" "--local-path off" "--local-path off --data-tls on"; do
        n=$((n + 1))
        # It ends the job on any other result.
        # shellcheck disable=SC2086
        "$SUBMIT" -q --codec "$BUILD/tests/codecs/collect.so" --node_count 3 --dataset "$FEW" --epochs 1 --model softmax $way -o out$n
    done
    grep -q 'collectives use memory shared by all 3 workers' out1/logs/worker-0.log
    grep -qx 'link to node 1: TLS 1.3, AES-128-GCM' out3/logs/worker-0.log
}

# A long job, $JOB, whose node 1 is killed while it trains. A round may take longer than job_submit has: the job ends because of
# the loss, and not because a peer timed out.
kill_one_of_a_long_job() { # kill_one_of_a_long_job CODEC
    start_agents 2
    long_job --codec "$1" --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    JOB=$!
    within 60 is_at_step 0 50
    kill -9 "$(runner_of 1)"
}

kill_one_of_three_machines() { # kill_one_of_three_machines MACHINE
    start_three_machines
    long_job --codec allreduce --node_count 5 --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    JOB=$!
    within 60 is_at_step 0 50
    kill -9 "$(runner_of "$1")"
    within 60 grep -q 'RunnerDied' log
    ends_failed "$JOB"
    grep -q "node($1)" log
}

# bats test_tags=long
@test "kill -9 of the worker that connects its machine with the others" { kill_one_of_three_machines 2; }

# bats test_tags=long
@test "kill -9 of a worker that shares memory with the one that connects its machine" { kill_one_of_three_machines 1; }

@test "kill -9 of a runner while it trains" {
    kill_one_of_a_long_job plain
    within 60 grep -q 'RunnerDied' log
    ends_failed "$JOB"
    grep -q 'node(1)' log
    [ "$(jq -r .state out/run.json)" = failed ]
    serves_the_next_job
}

reserve_by_hand() { # reserve_by_hand ID: on agent 0, without packages
    api 0 POST /v1/jobs -H 'Content-Type: application/json' -d "{\"id\":\"$1\",\"attempt\":1,\"node\":0,\"role\":\"worker\",
        \"name\":\"hand\",\"codec\":\"plain\",\"node_count\":2,\"server_count\":0,\"submitter\":\"test\"}" >/dev/null
}

# ready_by_hand ID: a job of one node on agent 0 that is ready and is not started; its packages are those of the previous job.
ready_by_hand() {
    local id=$1 p f old
    old=$(only_job 0)
    reserve_by_hand "$id"
    for p in settings:settings.json codec:codec.so model:model.json data:train.safetensors,test.safetensors; do
        f=$(for n in $(echo "${p#*:}" | tr , ' '); do
            echo "\"$n\":\"$(sha256sum "agent0/jobs/$old/packages/$n" | cut -d' ' -f1)\""
        done | paste -sd,)
        api 0 PUT "/v1/jobs/$id/packages/${p%%:*}" -H 'Content-Type: application/json' -d "{\"files\":{$f}}"
    done
    within 60 is_in_state 0 ready
}

@test "kill -9 of a runner that shares memory with the others" {
    kill_one_of_a_long_job allreduce
    within 60 grep -q 'RunnerDied' log
    ends_failed "$JOB"
    grep -q 'node(1)' log
}

@test "a lost worker can be tolerated: the others finish without it while there are enough" {
    start_agents 4
    write_workers 3 1
    gated fedavg 'c->run->node == 1'
    "$SUBMIT" --codec gated.c --node_count 3 "${PAST_GATE[@]}" --local-steps 5 --record-every 100 --on-node-loss continue \
        --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    local pid=$!
    within 60 is_at_gate 1
    kill -9 "$(runner_of 1)"
    wait $pid
    grep -q 'The job continued without node(1): RunnerDied' log
    [ "$(jq -r '.state + " " + .nodes[0].state + " " + .nodes[1].state' out/run.json)" = "succeeded succeeded failed" ]
    [ "$(jq .models_agree out/run.json)" = true ]
    [ "$(jq .settings.divides_test out/run.json)" = false ] # the lost worker's part would be missing
    grep -q 'continuing without it' out/logs/ps-0.log
    [ -s out/model/final.safetensors ]
}

# A job of three workers and no server, of which node 1 is killed while it trains.
continues_without_one() { # continues_without_one CODEC OPTION...
    start_agents 3
    gated "$1" 'c->run->node == 1'
    shift
    "$SUBMIT" --codec gated.c "$@" --node_count 3 "${PAST_GATE[@]}" --record-every 100 --on-node-loss continue --min-nodes 2 \
        --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    local pid=$! n
    within 60 is_at_gate 1
    kill -9 "$(runner_of 1)"
    wait $pid || { cat log agent?/jobs/*/run/node.log; false; }
    grep -q 'The job continued without node(1): RunnerDied' log
    [ "$(jq -r '[.state, .nodes[].state] | join(" ")' out/run.json)" = "succeeded succeeded failed succeeded" ]
    [ "$(jq .models_agree out/run.json)" = true ]
    for n in 0 2; do
        grep -q 'node 1 is lost: .*; continuing without it' out/logs/worker-$n.log
    done
}

@test "plain: without servers, too, the others continue without a lost worker, and end equal" {
    continues_without_one plain
}

@test "fedavg: the others continue without a lost worker after its local steps" {
    continues_without_one fedavg --local-steps 5
}

# plain at a fixed pace of 10 ms per step: its progress then depends on its waiting, not on the load of the machine.
paced_plain() {
    printf '#define _GNU_SOURCE\n#include <time.h>\n'
    sed '/^static const struct codec_combine/,$d' "$ROOT/codecs/plain.c"
    cat <<'EOF'
static int apply(struct codec *c, const float *const *v)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    memcpy(c->grads, v[0], c->n_params * sizeof *v[0]);
    return CODEC_GO;
}

EOF
    sed -n '/^static const struct codec_combine/,$p' "$ROOT/codecs/plain.c" | sed 's/"plain"/"paced"/; s/\(= {\.when = CODEC_EACH_STEP\)}/\1, .apply = apply}/'
}

is_lost() { grep -q "node $1 is lost: it has received nothing for 9.5 s" agent0/jobs/*/run/node.log; } # is_lost N

step_of() { api "$1" GET /v1/jobs | jq '.jobs[0].progress.step // 0'; }

# bats test_tags=long
@test "asgd: no worker waits for one that hangs; it is lost after 10 s, and the others finish" {
    start_agents 3
    paced_plain >paced.c
    # 2500 steps, 25 s at least: longer than the time until the worker is lost.
    "$SUBMIT" --codec paced.c --psgd asgd --node_count 3 --epochs 20 --record-every 1000 --on-node-loss continue --min-nodes 2 \
        -o out 2>log 3>&- &
    local pid=$! hung before after
    within 60 is_at_step 0 50
    hung=$(runner_of 1)
    kill -STOP "$hung"
    before=$(step_of 0)
    within 60 is_lost 1
    after=$(step_of 0)
    # A node that waited for its messages would have taken no steps until then; at its own pace it has taken 950.
    [ $((after - before)) -ge 20 ]
    echo "# node 0 took $((after - before)) steps beside one that hangs" >&3
    within "$PROGRAM_LIMIT" is_in_state 0 succeeded
    within "$PROGRAM_LIMIT" is_in_state 2 succeeded
    # Only job_submit waits for it, and reports so.
    within 60 grep -q 'node(1): no event for .* s, and others are done; waiting for it until ' log
    kill -CONT "$hung"
    wait $pid || { cat log agent?/jobs/*/run/node.log; false; }
    grep -q 'The job continued without node(1)' log
    grep -q 'messages were dropped' out/logs/worker-0.log
}

@test "a lost worker ends the job if too few remain, and rules that need all workers report it at the start" {
    start_agents 4
    write_workers 3 1
    local pid
    long_job --codec fedavg --node_count 3 --local-steps 5 --on-node-loss continue --min-nodes 3 \
        --round-timeout "$TEST_LIMIT" -o few 2>log 3>&- &
    pid=$!
    within 60 is_at_step 1 50
    kill -9 "$(runner_of 1)"
    ends_failed $pid
    grep -q 'node(1)' log
    run "$SUBMIT" --codec doublebuffer --node_count 3 --on-node-loss continue -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *"(--overlap 1) need path allreduce or tree"*"hint: Take --overlap 0"* ]]
    run "$SUBMIT" --codec "$BUILD/tests/codecs/ping.so" --node_count 3 --on-node-loss continue -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *"cannot continue after a node is lost"*"hint: Leave --on-node-loss continue out"* ]]
    run "$SUBMIT" --codec allreduce --path allreduce --node_count 3 --on-node-loss continue -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *"path allreduce waits for every worker, and --on-node-loss is continue"*"hint: Take --path gather, or servers."* ]]
    [ ! -e no ]
}

@test "kill -9 of a runner that is ready, before the start" {
    start_agents 2
    serves_the_next_job
    ready_by_hand j-byhand01
    kill -9 "$(runner_of 0)"
    within 60 is_in_state 0 failed
    [ "$(api 0 GET /v1/jobs/j-byhand01 | jq -r .reason)" = RunnerDied ]
    rm -r next && serves_the_next_job
}

@test "kill -9 of an agent whose node is ready: its runner ends, and after the restart the job has failed" {
    start_agents 2
    serves_the_next_job
    ready_by_hand j-byhand02
    local runner
    runner=$(runner_of 0)
    kill_agent 0
    within 60 has_ended "$runner"
    start_agent 0
    [ "$(api 0 GET /v1/jobs/j-byhand02 | jq -r '.state + " " + .reason')" = "failed AgentRestarted" ]
    rm -r next && serves_the_next_job
}

@test "a reservation ends when its submitter's event stream closes" {
    start_agents 2
    serves_the_next_job
    ready_by_hand j-byhand03
    api 0 GET /v1/jobs/j-byhand03/events -N >events 3>&- &
    within 60 test -s events # earlier events are sent first
    is_in_state 0 ready
    end_descendants $!
    kill -9 $! 2>/dev/null || true
    within 60 is_in_state 0 cancelled # without a stream it would take 30 s
    [ "$(api 0 GET /v1/jobs/j-byhand03 | jq -r .reason)" = LeaseExpired ]
}

@test "kill -9 of an agent while its node trains: the job fails and names the node; restarted, it accepts jobs again" {
    start_agents 2
    paced_plain >paced.c
    long_job --codec paced.c --path gather --round-timeout "$TEST_LIMIT" --agent-timeout 2 -o out 2>log 3>&- &
    local pid=$!
    within 60 is_at_step 0 50
    kill_agent 1
    within 60 grep -q 'node(1): .*agent 127' log
    ends_failed $pid
    grep -q 'NodeLost' log
    [ -s out/records/train.csv ]
    # Its runner was not killed; without its peer it ends by itself, and before --round-timeout.
    within 60 no_runner
    start_agent 1
    serves_the_next_job
}

@test "an agent that is killed and restarted adopts its running job" {
    start_agents 2
    long_job --codec plain --agent-timeout 20 -o out 2>log 3>&- &
    local pid=$!
    within 60 is_at_step 0 50
    kill_agent 1
    run "$SUBMIT" status
    [ "$status" -eq 0 ]
    [[ "$output" == *'): running'* ]]
    [[ "$output" =~ '   1  worker  unreachable '.*' -            -' ]]
    [[ "$("$SUBMIT" list)" == *' running '* ]]
    start_agent 1
    within 60 is_in_state 1 running
    "$SUBMIT" cancel "$(only_job 0)"
    wait $pid || [ $? -eq 8 ]
    [ "$(jq -r .state out/run.json)" = cancelled ]
    serves_the_next_job
    # The outcome of a job is known without its agents, and the reason of a failed one.
    kill_agent 0
    kill_agent 1
    "$SUBMIT" status "$(jq -r .id out/run.json)" >printed
    grep -q '): cancelled' printed
    grep -q '^node(.): UserCancelled: ' printed
}

# bats test_tags=long
@test "a job queued at an agent that is killed waits for its restart, and then continues" {
    start_agents 2
    local forgets
    for forgets in no yes; do
        long_job --codec plain --name holder --detach --no-queue -o "holder-$forgets"
        local holder queued
        holder=$(jq -r .id "holder-$forgets/run.json")
        "$SUBMIT" --codec plain --node_count 2 --epochs 1 --model softmax --agent-timeout 60 \
            -o "next-$forgets" 2>"log-$forgets" 3>&- &
        local pid=$!
        within 60 grep -q 'waiting in its queue' "log-$forgets"
        queued=$(sed -n 's/.*127.0.0.1:\([0-9]*\) has .*waiting in its queue.*/\1/p' "log-$forgets" | head -1)
        local n=0
        [ "${PORTS[0]}" = "$queued" ] || n=1
        kill_agent $n
        within 60 grep -q "does not answer.*; waiting until ..:..:.. for it to come back" "log-$forgets"
        [ $forgets = no ] || find agent$n/jobs -mindepth 1 -maxdepth 1 ! -name "$holder" -exec rm -r {} +
        start_agent $n
        within 60 grep -q 'answers again' "log-$forgets"
        "$SUBMIT" cancel "$holder"
        wait $pid
        [ "$(jq -r .state "next-$forgets/run.json")" = succeeded ]
    done
}

# bats test_tags=long
@test "a job queued at an agent that does not restart is ended with that reason, and releases the others" {
    start_agents 2
    long_job --codec plain --detach --no-queue -o holder
    "$SUBMIT" --codec plain --node_count 2 -o out 2>log 3>&- &
    local pid=$! n=0 s=0
    within 60 grep -q 'waiting in its queue' log
    grep -q "127.0.0.1:${PORTS[0]} has .*waiting in its queue" log || n=1
    kill_agent $n
    wait $pid || s=$?
    [ $s -eq 3 ]
    grep -q 'lost before the start: .*did not come back within 10 s' log
    [ ! -e out ]
    start_agent $n
    "$SUBMIT" cancel "$(jq -r .id holder/run.json)"
}

@test "a job whose agent lost its last events in a power failure ends, although its end has a number that was seen before" {
    start_agents 1
    long_job --codec plain --node_count 1 -o out >log 2>&1 3>&- &
    local job=$! status=0 pid
    within 60 has_events 10
    pid=$(api 0 GET /v1/jobs | jq '.jobs[0].pid')
    kill_agent 0
    kill -9 "$pid"
    # Only synced bytes are left: the journal up to the start, and nothing of the runner.
    sed -i '/"state":"running"/q' agent0/jobs/*/journal.jsonl
    : >"$(echo agent0/jobs/*/run/events.jsonl)"
    : >"$(echo agent0/jobs/*/run/node.log)"
    start_agent 0
    wait "$job" || status=$?
    cat log
    [ "$status" -eq 1 ]
    grep -q "ended the stream of events without the job's end; requesting the job's state until" log
    grep -q RunnerDied log
}

# set_syncs N: so many syncs, below 256, the agent that runs with `counts` has made.
set_syncs() { printf %b "\\0$(printf %03o "$1")" | dd of=counts bs=1 seek=16 conv=notrunc status=none; }

@test "a job whose end an agent cannot write fails with that reason, and succeeds once it is written" {
    case $BUILD in */asan | */tsan) skip "a sanitizer must be loaded first" ;; esac
    start_agent 0
    # From the 200th sync on each fails; the job makes fewer.
    mkdir faulty
    printf '#!/bin/sh\nexec env LD_PRELOAD=%s PSGD_FAIL_COUNT=%s PSGD_FAIL_CALL=sync:200:5:on %s "$@"\n' \
        "$BUILD/tests/soak/fail_call.so" "$T/counts" "$BUILD/agent" >faulty/agent
    chmod +x faulty/agent
    BUILD=faulty start_agent 1
    write_workers 2
    gated plain
    "$SUBMIT" --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 2 "${PAST_GATE[@]}" --agent-timeout 3 -o out >log 2>&1 3>&- &
    local job=$!
    within 60 is_at_gate 1
    set_syncs 200
    open_gate
    ends_failed "$job" || { cat log && false; }
    cat log
    grep -q "node(1): agent 127.0.0.1:${PORTS[1]} cannot write the job's end: succeeded, which .*: Input/output error; waiting until" log
    grep -q 'failed: node(1), JournalFailed: succeeded, which this agent cannot write yet' log
    [ "$(jq -c '[.state, .reason, .is_complete]' out/run.json)" = '["failed","JournalFailed",false]' ]
    [ -s out/model/final.safetensors ]
    [ "$("$SUBMIT" list --json | jq -r '.data.jobs[0].state')" = failed ]
    set_syncs 0
    within 60 is_in_state 1 succeeded
    "$SUBMIT" fetch -q "$(only_job 1)" -o out
    [ "$(jq -c '[.state, .is_complete]' out/run.json)" = '["succeeded",true]' ]
}

has_events() { [[ $(api 0 GET '/v1/jobs?limit=1') =~ '"last_seq":'([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$1" ]; } # has_events N: of the newest job

@test "kill -9 of an agent before the start: the others are released" {
    start_agents 2
    kill -STOP "${AGENTS[1]}"
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" -o out 2>log 3>&- &
    local pid=$!
    within 60 grep -q 'Try connecting' log
    kill_agent 1
    local s=0
    wait $pid || s=$?
    [ $s -eq 3 ]
    within 60 is_idle 0
    start_agent 1
    serves_the_next_job
}

@test "kill -9 of the submitter in the queue or before the start frees the agents at once" {
    start_agents 2
    echo "{\"Worker\":[\"127.0.0.1:${PORTS[1]}\"]}" >second.json
    gated plain
    "$SUBMIT" -q --workers second.json --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 1 "${PAST_GATE[@]}" --detach --no-queue -o other
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" -o out 2>log 3>&- &
    local pid=$!
    # job_submit notices this by the answer to a request that it sent after the one for the event stream.
    within 60 grep -q 'waiting in its queue' log
    [ "$(status_page 1 | jq '.queued | length')" -eq 1 ]
    kill -9 $pid
    "$SUBMIT" cancel -q "$(api 1 GET '/v1/jobs?state=running' | jq -r '.jobs[0].id')"
    within 60 is_idle 0
    within 60 is_idle 1
    serves_the_next_job
}

@test "kill -9 of the submitter while nodes train: the job continues, and its results are fetched later" {
    start_agents 2
    gated plain
    "$SUBMIT" --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 2 "${PAST_GATE[@]}" -o out 2>/dev/null 3>&- &
    local pid=$!
    within 60 is_at_gate 0
    kill -9 $pid
    open_gate
    id=$(only_job 0)
    run "$SUBMIT" wait "$id" -o later
    [ "$status" -eq 0 ]
    [ -s later/model/final.safetensors ]
}

is_job_in_state() { [ "$(api 0 GET "/v1/jobs/$1" | jq -r .state)" = "$2" ]; }

cancel_by_hand() { # cancel_by_hand ID STATE: it was in this state, and is canceled long before a kill is due
    is_job_in_state "$1" "$2"
    api 0 POST "/v1/jobs/$1/cancel" -H 'Content-Type: application/json' -d '{"grace_s":600}' >/dev/null
    within 60 is_job_in_state "$1" cancelled
}

@test "cancel in every phase leaves no runner" {
    start_agents 2
    serves_the_next_job
    ready_by_hand j-ready01
    reserve_by_hand j-queued1
    cancel_by_hand j-queued1 pending
    cancel_by_hand j-ready01 ready
    within 60 no_runner
    reserve_by_hand j-prepare
    cancel_by_hand j-prepare preparing
    within 60 no_runner
    long_job --codec plain --path gather -o out 2>/dev/null 3>&- &
    local pid=$!
    within 60 is_at_step 0 5
    "$SUBMIT" cancel "$(only_job 0)"
    wait $pid || [ $? -eq 8 ]
    within 60 no_runner
    [ "$(jq -r .state out/run.json)" = cancelled ]
    grep -qx "asked to stop; the agent's log has the reason" out/logs/worker-0.log # so it ended by itself
    rm -r next && serves_the_next_job
}

@test "a node whose agent was paused is ended when the agent responds, and its log is fetched to the end" {
    start_agents 2
    paced_plain >paced.c
    long_job -q --codec paced.c --psgd asgd --on-node-loss continue --detach --no-queue -o out # by itself node 1 would continue
    id=$(only_job 0)
    within 60 is_at_step 1 5
    kill -STOP "${AGENTS[1]}"
    "$SUBMIT" logs "$id" --follow >followed 2>log-of-follow 3>&- &
    local follow=$!
    "$SUBMIT" cancel "$id" >cancelled 2>log 3>&- &
    local cancel=$!
    within 60 is_in_state 0 cancelled # by then agent 1 has been marked unreachable once
    kill -CONT "${AGENTS[1]}"
    wait $cancel
    grep -q "$id: cancelled" cancelled
    is_in_state 1 cancelled # and has not failed because the other one was missing
    wait $follow
    grep -q '^worker-1 | ' followed
}

# bats test_tags=long
@test "a job that failed because of an unreachable agent has succeeded once the agent reports so" {
    start_agents 2
    cat >nap.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include "codec_events.h"
static int nap_on_step(struct codec *c) /* node 1 stands until the file is there */
{
    const struct timespec nap = {.tv_nsec = 10000000};
    while (c->run->node == 1 && access("go", F_OK) < 0)
        nanosleep(&nap, NULL);
    return CODEC_GO;
}
static const struct codec_events nap = {.on_step = nap_on_step};
CODEC_PLUGIN(.name = "nap", .source = "a test", .more = CODEC_MORE(.events = &nap))
C
    "$SUBMIT" -q --codec nap.c --node_count 2 --epochs 1 --model softmax --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    local pid=$! s=0 runner
    within 60 is_at_step 0 1
    runner=$(runner_of 1)
    kill -STOP "${AGENTS[1]}" "$runner"
    within 60 is_in_state 0 succeeded
    wait $pid || s=$?
    [ $s -eq 1 ]
    grep -q 'NodeLost.* and did not come back within 10 s' log
    id=$(only_job 0)
    "$SUBMIT" fetch -q "$id" -o out 2>/dev/null || true # the available results, while it is unreachable
    [ "$(jq -r '.state, .reason, .cause_node' out/run.json | xargs)" = "failed NodeLost 1" ]
    tell_nodes go
    kill -CONT "${AGENTS[1]}" "$runner"
    within 60 is_idle 1
    [ "$("$SUBMIT" list --json | jq -r '.data.jobs[0].state')" = failed ]
    "$SUBMIT" fetch -q "$id" -o out
    [ "$(jq -r '.state, .reason, .is_complete' out/run.json | xargs)" = "succeeded null true" ]
    [ "$("$SUBMIT" list --json | jq -r '.data.jobs[0].state')" = succeeded ]
}

# bats test_tags=long
@test "a job that failed because of an unreachable agent stays failed when the agent reports that its node lost the others" {
    start_agents 2
    long_job --codec plain --path gather --round-timeout "$TEST_LIMIT" -o out 2>log 3>&- &
    local pid=$!
    within 60 is_at_step 0 50
    kill -STOP "${AGENTS[1]}"
    ends_failed $pid
    id=$(only_job 0)
    within 60 is_in_state 0 cancelled
    [ "$(api 0 GET "/v1/jobs/$id" | jq -r .reason)" = JobFailed ]
    kill -CONT "${AGENTS[1]}"
    within 60 is_idle 1
    "$SUBMIT" fetch -q "$id" -o again || true
    [ "$(jq -r .state again/run.json)" = failed ]
    [ "$("$SUBMIT" list --json | jq -r '.data.jobs[0].state')" = failed ]
}

@test "an agent that is stopped ends its runner and leaves nothing behind" {
    start_agents 2
    long_job --codec plain --path gather -o out 2>/dev/null 3>&- &
    local pid=$!
    within 60 is_at_step 0 5
    end_agent 0
    [ ! -e "$XDG_STATE_HOME/psgd/agents/${PORTS[0]}.token" ]
    wait $pid || true
}

# start_on_small_disk SIZE: two agents; agent 1 writes to a disk of that size.
start_on_small_disk() {
    make_disk "$1" "$T/agent1"
    TOKENS[1]=$T/token1 # where the test sees it
    make_token "${TOKENS[1]}"
    start_agent 0
    ENTER=("${ON_DISK[@]}")
    start_agent 1 --token-file "${TOKENS[1]}"
    write_workers 2
}

@test "an agent without space for a package refuses it, and states the free space" {
    start_on_small_disk 3m
    run "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" -o out
    [ "$status" -eq 4 ]
    local expected="error: node\(1\): agent 127.0.0.1:${PORTS[1]}: [0-9]+ bytes do not fit: 0 are free for uploads on the agent's disk, and "
    grep -Eq "^${expected}64 MiB more are reserved for what jobs write \(status 507, DISK_FULL\)$" <<<"$output"
}

@test "a full disk fails the node with a message" {
    start_on_small_disk 80m
    "$SUBMIT" --codec dummy --node_count 2 --model softmax --dataset "$FEW" --batch_size 8 --epochs 1000000 -o out \
        2>log 3>&- &
    local pid=$! s=0
    within 60 is_at_step 1 100
    "${ON_DISK[@]}" dd if=/dev/zero of="$T/agent1/else" bs=1M count=80 2>/dev/null || true
    wait $pid || s=$?
    cat log
    [ $s -eq 1 ]
    grep -Eq " : Job [^ ]+ failed: node\(1\), DiskFull: ([^ ]+: )+No space left on device; free space on the disk of /[^ ]+/run on $(hostname)\$" log
    [ "$(jq -r '.state, .reason, .cause_node' out/run.json | xargs)" = "failed DiskFull 1" ]
}
