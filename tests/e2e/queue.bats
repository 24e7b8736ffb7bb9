#!/usr/bin/env bats
# The queue of detached jobs: docs/queue.md.
load lib.bash

tiny=(--codec fedavg --model softmax --dataset "digits:train=640,test=100" --epochs 1)

queued() { "$SUBMIT" -q "${tiny[@]}" --detach "$@" 2>>queued.log; }
in_queue() { [ "$("$SUBMIT" list --json | jq -r --arg id "$1" '.data.jobs[] | select(.id == $id).state')" = queued ]; }
place_of() { "$SUBMIT" status "$1" --json | jq .data.place; }
status_says() { [[ "$("$SUBMIT" status "$1")" == *"$2"* ]]; }
is_empty() { ! ls -d "$XDG_STATE_HOME"/psgd/queue/j-* 2>/dev/null >&2; }
# kill_processes_of ID: kills the queue's watcher and the process of a job; until they are gone they have their locks.
kill_processes_of() {
    local pid
    for pid in $(cat "$XDG_STATE_HOME/psgd/queue/watcher") $(pgrep -f "job_submit queue run $1"); do
        kill -9 "$pid"
        within 60 is_gone "$pid"
    done
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
ended_as() { [ "$(jq -r .state "$1/run.json" 2>/dev/null)" = "$2" ]; }

@test "a detached job is accepted while no agent runs, starts when they do, and its results are fetched" {
    start_agents 2
    stop_agents
    id=$(queued --node_count 2 -o out)
    in_queue "$id"
    [[ "$("$SUBMIT" status "$id")" == *"waits in the queue since "*", place 1 of 1"* ]]
    run "$SUBMIT" logs "$id"
    [ "$status" -eq 6 ]
    [[ "$output" == *"$id waits in the queue, place 1 of 1, and has not been started"*"job_submit wait $id"* ]]
    within 60 status_says "$id" 'does not answer'
    start_agent 0
    start_agent 1
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Job $id "*": succeeded"* ]]
    ended_as out succeeded
    [ -s out/model/final.safetensors ]
    within 60 is_empty
    [ -z "$(ls "$XDG_STATE_HOME/psgd/queue/packages")" ]
}

@test "waiting jobs are listed, moved, cancelled; a smaller one starts before one that cannot start" {
    start_agents 2
    gated plain
    long_job --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 1 --detach --no-queue -o holder # has agent 0
    local two one last
    two=$(queued --node_count 2 -o two)
    one=$(queued --node_count 1 -o one)
    within 60 ended_as one succeeded
    in_queue "$two"
    within 60 is_listed "$two"
    last=$(queued --node_count 2 --priority 3 -o last)
    within 60 second_is "$two"
    first_is "$last"
    "$SUBMIT" move "$two" first
    within 60 first_is "$two"
    "$SUBMIT" move "$last" --priority 100
    within 60 first_is "$last"
    run "$SUBMIT" cancel "$last"
    [ "$status" -eq 0 ]
    [ "$output" = "$last: cancelled" ]
    run "$SUBMIT" wait "$last"
    [ "$status" -eq 8 ]
    "$SUBMIT" cancel "$(only_running 0)"
    run "$SUBMIT" wait "$two"
    [ "$status" -eq 0 ]
    [ ! -e last/run.json ]
}
is_listed() {
    [[ "$("$SUBMIT" list)" == *"$1"*"queued, place 1"*"1 of 2 agents that it may use are free, it needs 2"*"job_submit queue watch"* ]]
}
second_is() { [ "$(place_of "$1")" -eq 2 ]; }
first_is() { [ "$(place_of "$1")" -eq 1 ]; }
only_running() { api "$1" GET '/v1/jobs?state=running' | jq -r '.jobs[0].id'; }

@test "the next command starts a watcher that was killed; a job whose process was killed is followed" {
    start_agents 2
    gated plain
    local id
    id=$("$SUBMIT" -q --codec gated.c --round-timeout "$TEST_LIMIT" "${PAST_GATE[@]}" --node_count 2 --detach -o out 2>queued.log)
    within 60 is_in_state 0 running
    kill_processes_of "$id"
    open_gate
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 0 ]
    [ "$(jq -r '.state, .attempt' out/run.json | paste -sd' ')" = 'succeeded 1' ]
}

@test "a job that runs is followed although its files in the queue cannot be read any more" {
    start_agents 1
    gated plain
    local id queue=$XDG_STATE_HOME/psgd/queue
    id=$("$SUBMIT" -q --codec gated.c --round-timeout "$TEST_LIMIT" "${PAST_GATE[@]}" --node_count 1 --detach -o out 2>queued.log)
    within 60 is_in_state 0 running
    kill_processes_of "$id"
    echo '{' >"$queue/$id/job.json"
    "$SUBMIT" wait "$id" >waited.log 2>&1 3>&- &
    local waiter=$!
    within 60 is_followed_by_defaults "$id"
    open_gate
    wait "$waiter"
    [ "$(jq -r '.state, .attempt' out/run.json | paste -sd' ')" = 'succeeded 1' ]
    within 60 is_empty
}
is_followed_by_defaults() { grep -q 'job.json in the queue cannot be read: the job is followed with the default options' "$XDG_STATE_HOME/psgd/queue/$1/log"; }

@test "a job that an agent refuses has failed, and says why" {
    start_agents 1
    stop_agents
    start_agent 0 --codecs builtin
    sed "s/static/static /" "$ROOT/codecs/plain.c" >own.c
    local id
    id=$(queued --codec own.c --node_count 1 -o out)
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$id failed in the queue: NotStarted: "*CODEC_REFUSED* ]]
}

@test "a waiting job needs none of the files that its options name: the trace is written at its end" {
    start_agents 1
    stop_agents
    local id
    cp worker.json moved.json
    id=$(queued --workers moved.json --node_count 1 --trace trace.json --mlflow mlruns -o out)
    rm moved.json
    start_agent 0
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 0 ]
    jq -e '.traceEvents | length > 0' trace.json
    [ -d mlruns ]
}

of_user() { # of_user USER OPTION...: as another user, who has the agents' token
    USER=$1 XDG_STATE_HOME=$T/state-$1 "$SUBMIT" -q "${tiny[@]}" --token-file agent0/token --node_count 1 --detach "${@:2}" 2>>queued.log
}

@test "the files of waiting jobs take --queue-space on the disk at most, and a job beyond it leaves nothing behind" {
    start_agents 1
    "$SUBMIT" agents drain "127.0.0.1:${PORTS[0]}"
    local first files space
    first=$(queued --node_count 1 -o first)
    files=$(ls "$XDG_STATE_HOME/psgd/queue/packages")
    space=$(find "$XDG_STATE_HOME/psgd/queue/packages" -type f -printf '%s\n' | awk '{ n += $1 } END { print 1.1 * n / 2 ^ 30 }')
    queued --node_count 1 --queue-space "$space" -o same # most of its files are those of the first job
    run "$SUBMIT" -q "${tiny[@]}" --detach --node_count 1 --dataset digits:train=1280,test=100 --queue-space "$space" -o second
    [ "$status" -eq 6 ]
    [[ "$output" == *"with this job the files in $XDG_STATE_HOME/psgd/queue take "*" GiB, and may take $space"*"larger --queue-space"* ]]
    [ ! -e second ]
    [ "$("$SUBMIT" list --json | jq '.data.jobs | length')" -eq 2 ]
    "$SUBMIT" cancel "$(jq -r .id <<<"$("$SUBMIT" list --json | jq '.data.jobs[0]')")"
    [ "$(ls "$XDG_STATE_HOME/psgd/queue/packages")" = "$files" ]
    in_queue "$first"
}

@test "users take turns: one job of the second user does not wait for all of the first" {
    start_agents 1
    "$SUBMIT" agents drain "127.0.0.1:${PORTS[0]}"
    local n
    for n in 1 2 3; do of_user ann -o "ann$n"; done
    of_user bob -o bob
    within 60 both_wait
    [ "$(curl -s "http://127.0.0.1:${PORTS[0]}/v1/status" | jq -r '.queues[] | select(.user == "ann").jobs | length')" -eq 3 ]
    # Somebody else sees them, too.
    run "$SUBMIT" list
    [ "$(grep -c ' queued .*waits for the agents, of ann$' <<<"$output")" -eq 3 ]
    [[ "$output" == *"waits for the agents, of bob"*"Jobs of ann that wait for these agents: 3"* ]]
    [ "$("$SUBMIT" list --json | jq -rc '[.data.waiting_of_others[] | [.user, .waiting]] | sort')" = '[["ann",3],["bob",1]]' ]
    # Each user's list has the own jobs once.
    [ "$(of_whom ann)" = 'bob null null null' ]
    "$SUBMIT" agents resume "127.0.0.1:${PORTS[0]}"
    for n in ann1 ann2 ann3 bob; do within 60 ended_as $n succeeded; done
    [[ "$(users_in_order)" == "ann bob "* || "$(users_in_order)" == "bob ann "* ]]
}
of_whom() { XDG_STATE_HOME=$T/state-$1 "$SUBMIT" list --json --token-file agent0/token | jq -r '[.data.jobs[].submitted_by] | sort_by(. // "zzz") | map(. // "null") | join(" ")'; }
both_wait() { [ "$(api 0 GET /v1/queue | jq -r '[.queues[] | "\(.user)\(.waiting)"] | sort | join(" ")')" = "ann3 bob1" ]; }
users_in_order() { api 0 GET /v1/jobs | jq -r '.jobs | sort_by(.started_at) | map(.submitter_unverified | split("@")[0]) | join(" ")'; }

@test "after --aging seconds agents are kept for the first job, and a smaller one starts after it" {
    start_agent 0 --aging 0
    start_agent 1 --aging 0
    write_workers 2
    gated plain
    long_job --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 1 --detach --no-queue -o holder # has agent 0
    local two one
    two=$(queued --node_count 2 -o two)
    within 60 status_says "$two" "1 of 2 agents that it may use are free"
    within 60 all_have_answered "$two" # so it is known that the job could start if both were free
    one=$(queued --node_count 1 -o one)
    within 60 status_says "$one" "place 2 of 2"
    "$SUBMIT" cancel "$(only_running 0)"
    within 60 ended_as two succeeded
    within 60 ended_as one succeeded
    [[ "$(started "$two")" < "$(started "$one")" ]]
}
all_have_answered() { ! status_says "$1" "has not answered yet"; }
started() { { api 0 GET "/v1/jobs/$1" && api 1 GET "/v1/jobs/$1"; } | jq -rs 'map(.started_at | select(. != null)) | sort[0]'; }
