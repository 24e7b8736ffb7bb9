#!/usr/bin/env bats
# The model of a running job: GET /v1/jobs/ID/model, and job_submit snapshot.
load lib

meta() { # meta FILE KEY: of a model's metadata
    python3 -c '
import json, sys
raw = open(sys.argv[1], "rb").read()
print(json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])["__metadata__"][sys.argv[2]])' "$1" "$2"
}

weights() { # weights FILE: its values as bytes, in hexadecimal
    python3 -c '
import sys
raw = open(sys.argv[1], "rb").read()
print(raw[8 + int.from_bytes(raw[:8], "little"):].hex())' "$1"
}

# A rule without an exchange that takes a millisecond for each step and ends the job after a given one.
write_ender() {
    cat >ender.c <<'CODEC'
#include <time.h>

#include "codec_events.h"

struct ender {
    int at;
};

static int ender_on_step(struct codec *c)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    c->run->wants_stop = c->run->step == (uint64_t)((struct ender *)c->state)->at;
    return CODEC_GO;
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct ender, at, 1000000000, 1, 1000000000, "the last step"), {0}};
static const struct codec_events ender = {.on_step = ender_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "ender", .source = "a test", .state_size = sizeof(struct ender), .options = options,
             .more = CODEC_MORE(.events = &ender, .compression = CODEC_UNCOMPRESSED))
CODEC
}

@test "the model of a running node is that after a whole step, to the bit" {
    start_agents 1
    write_ender
    long_job --node_count 1 --codec ender.c --model softmax --detach --no-queue -o long
    within 60 is_at_step 0 100
    "$SUBMIT" snapshot -o now.safetensors >said
    "$SUBMIT" snapshot -o later.safetensors
    local step to
    step=$(meta now.safetensors step)
    [ "$(cat said)" = "now.safetensors: node(0) of $(only_job 0) after step $step, in epoch $(meta now.safetensors epoch)" ]
    [ "$(meta later.safetensors step)" -gt "$step" ]
    [ "$(weights now.safetensors)" != "$(weights later.safetensors)" ]
    # Only a regular file is replaced; as root a rename would also replace /dev/null.
    mkfifo pipe
    for to in pipe agent0; do
        run "$SUBMIT" snapshot -o "$to"
        echo "$output"
        [ "$status" -ne 0 ]
        [ "${lines[0]}" = "error: $to: not a regular file, and left as it is" ]
    done
    [ -p pipe ]
    "$SUBMIT" snapshot --json -o as.safetensors |
        jq -e '.data | .step >= 100 and .epoch >= 1 and .node == 0 and .file == "as.safetensors"'
    "$SUBMIT" predict ./now.safetensors --dataset "$FEW" -o p.csv # it is a whole model
    "$SUBMIT" cancel -q "$(only_job 0)"
    long_job -q --node_count 1 --codec "ender.c:at=$step" --model softmax -o ended
    [ "$(meta ended/model/final.safetensors step)" -eq "$step" ]
    [ "$(weights now.safetensors)" = "$(weights ended/model/final.safetensors)" ]
    # Nothing of it is left among the job's files.
    [ -z "$(find agent0/jobs -name 'now*')" ]
}

@test "the model of a job with servers is at the node that holds it, which the answer of another node names" {
    start_agents 4
    write_workers 2 1
    paced ps
    long_job --codec gated.c --psgd asgd --model softmax --detach --no-queue -o asgd
    within 60 is_at_step 0 20
    "$SUBMIT" snapshot --node -2 -o server.safetensors
    "$SUBMIT" snapshot --node 1 -o worker.safetensors
    [ "$(meta server.safetensors step)" -gt 20 ] # gradients of both workers
    [ "$(meta server.safetensors arch)" = "$(meta worker.safetensors arch)" ]
    "$SUBMIT" cancel -q "$(only_job 0)"
    # The servers of a mean have it for a moment only, and several servers a part each.
    paced fedavg
    long_job --codec gated.c --local-steps 5 --model softmax --detach --no-queue -o mean
    within 60 is_at_step 0 20
    run "$SUBMIT" snapshot --node -2 -o no.safetensors
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *"codec gated keeps the model on the workers, not on the server; ask a worker"* ]]
    "$SUBMIT" snapshot -o mean.safetensors
    "$SUBMIT" cancel -q "$(only_job 0)"
    write_workers 2 2
    paced ps
    long_job --codec gated.c --model softmax --detach --no-queue -o two
    within 60 is_at_step 0 20
    run "$SUBMIT" snapshot --node -3 -o no.safetensors
    [[ "$output" == *"a server of several holds a part of the model only; ask a worker"* ]]
    "$SUBMIT" cancel -q "$(only_job 0)"
    [ -z "$(ls no.*)" ]
}

has_tmpfile() { readlink "/proc/$1"/fd/* | grep -qF "$2/"; } # has_tmpfile PID FOLDER: it has a file open there

@test "of a node that takes no step, or is not running, there is no model to fetch" {
    start_agents 2
    gated plain
    long_job -q --codec gated.c --round-timeout "$TEST_LIMIT" --model softmax --detach --no-queue -o gated >id
    within 60 is_at_gate 0
    local id
    id=$(cat id)
    run api 0 GET "/v1/jobs/$id/model?timeout_s=0.5"
    echo "$output"
    [ "$(jq -r '.code, .status' <<<"$output" | paste -sd ' ')" = 'TIMED_OUT 504' ]
    [[ "$output" == *"node 0 of $id has completed no step in time"* ]]
    [ "$(status_of 0 GET "/v1/jobs/$id/model?timeout_s=x")" -eq 400 ]
    # Another job waits behind this one.
    api 0 POST /v1/jobs -H 'Content-Type: application/json' -o /dev/null -d '{"id":"j-behind","attempt":1,"node":0,"role":"worker",
        "name":"behind","codec":"plain","node_count":1,"server_count":0,"submitter":"ann","no_queue":false,"time_limit_s":60}'
    [[ "$(api 0 GET /v1/jobs/j-behind/model)" == *'"status":409'*"j-behind is pending"*"Ask again when it is running."* ]]
    # A command that is killed while it waits leaves no file.
    mkdir empty
    "$BUILD/job_submit" snapshot -o empty/now.safetensors 3>&- &
    local killed=$!
    within 60 has_tmpfile "$killed" "$T/empty"
    kill -9 "$killed"
    wait "$killed" || true
    [ -z "$(ls empty)" ]
    # Requests that wait when the gate opens, and later ones, get the model of the next step.
    api 0 GET "/v1/jobs/$id/model" -o now.safetensors &
    local waiting=$!
    open_gate
    wait $waiting
    [ "$(meta now.safetensors job_id)" = "$id" ]
    "$SUBMIT" cancel -q "$id"
    run api 0 GET "/v1/jobs/$id/model"
    [[ "$output" == *'"status":409'*"$id is "*" and has no model that changes"*"the artifact final.safetensors"* ]]
    [ "$(status_of 0 GET /v1/jobs/j-nothere/model)" -eq 404 ]
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:${PORTS[0]}/v1/jobs/$id/model")" -eq 401 ]
}

@test "the model of a job whose agent was restarted, and that of an executor" {
    start_agents 2
    long_job --node_count 1 --codec dummy --model softmax --detach --no-queue -o out
    within 60 is_at_step 0 20
    kill_agent 0
    start_agent 0
    "$SUBMIT" snapshot -o now.safetensors
    [ "$(meta now.safetensors step)" -ge 20 ]
    "$SUBMIT" cancel -q "$(only_job 0)"
    # Two nodes that wait for each other.
    cat >wait.c <<'EXECUTOR'
#include "executor.h"

static int run(struct executor *x)
{
    struct executor_bytes bytes;

    return x->host->receive(x, 1 - x->node, &bytes);
}

EXECUTOR_PLUGIN(.name = "wait", .run = run)
EXECUTOR
    "$SUBMIT" run -q --exec wait.c --node_count 2 --detach --no-queue -o waits
    within 60 is_in_state 0 running
    run "$SUBMIT" snapshot -o no.safetensors
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *"runs an executor, which trains no model"* ]]
    "$SUBMIT" cancel -q "$(only_job 0)"
}
