#!/usr/bin/env bats
# The agent's HTTP API, through curl.
load lib

FEW=digits:train=2560,test=400

# slow_job [OPTION...]: it runs until it is cancelled, and takes little of the processors from its 60th step on.
slow_job() {
    paced plain
    long_job --codec gated.c --round-timeout "$TEST_LIMIT" --dataset "$FEW" --detach --no-queue -o long "$@"
}

@test "the status needs no token on this machine and lists running jobs" {
    start_agents 2
    slow_job --name watched
    within 60 is_at_step 0 5
    run curl -s "http://127.0.0.1:${PORTS[0]}/v1/status"
    jq -e '.running[0] | .name == "watched" and .codec == "gated" and .progress.epoch >= 1 and .metrics.loss > 0
        and .started_at != null and .node_count == 2' <<<"$output"
    has_sent_much() { status_page 0 | jq -e '.running[0].comm.sent_bytes > 1000000'; }
    within 60 has_sent_much
    [[ "$output" != *"$(cat agent0/token)"* ]]
    "$SUBMIT" cancel -q "$(only_job 0)"
}

@test "other requests need the token, a valid Host and no foreign Origin" {
    start_agents 1
    u=http://127.0.0.1:${PORTS[0]}
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$u/v1/jobs")" -eq 401 ]
    [ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer nonsense' "$u/v1/jobs")" -eq 401 ]
    [ "$(status_of 0 GET /v1/jobs)" -eq 200 ]
    [ "$(status_of 0 GET /v1/jobs -H 'Host: evil.example')" -eq 403 ]
    [ "$(status_of 0 GET /v1/status -H 'Host: evil.example')" -eq 403 ]
    [ "$(status_of 0 GET /v1/jobs -H 'Origin: http://evil.example')" -eq 403 ]
    [ "$(status_of 0 DELETE /v1/jobs/j-abcdefgh -H 'Origin: http://evil.example')" -eq 403 ]
    [ "$(status_of 0 GET /v1/jobs -H 'Sec-Fetch-Site: cross-site')" -eq 403 ]
    [ "$(status_of 0 GET /healthz)" -eq 200 ]
    [ "$(status_of 0 GET /nothing)" -eq 404 ]
    [ "$(status_of 0 PUT /v1/jobs)" -eq 405 ]
    [ "$(status_of 0 GET '/v1/../../etc/passwd' --path-as-is)" -eq 404 ]
    [ "$(stat -c %a agent0/token)" = 600 ]
}

@test "errors are problem+json" {
    start_agents 1
    run api 0 GET /v1/jobs/j-nothere -D headers
    grep -qi 'content-type: application/problem+json' headers
    [ "$(echo "$output" | jq -r .code)" = NOT_FOUND ]
    [ "$(echo "$output" | jq -r .status)" -eq 404 ]
}

@test "a job's records, logs, artifacts and events are available to curl" {
    start_agents 2
    "$SUBMIT" -q --codec plain --node_count 2 --epochs 1 --dataset "$FEW" -o out
    id=$(only_job 0)
    [ "$(api 0 GET "/v1/jobs/$id" | jq -r .state)" = succeeded ]
    [ "$(api 0 GET "/v1/jobs/$id/records.csv?kind=train" | wc -l)" -eq 21 ]
    [ "$(api 0 GET "/v1/jobs/$id/records.csv?kind=eval" | wc -l)" -eq 2 ]
    cmp <(api 0 GET "/v1/jobs/$id/records.csv" | tail -c +1001) <(api 0 GET "/v1/jobs/$id/records.csv?after=1000")
    [ -z "$(api 0 GET "/v1/jobs/$id/records.csv?after=1000000000")" ]
    [[ "$(api 0 GET "/v1/jobs/$id/logs")" == *"ready: codec plain"* ]]
    # A long log is served in parts, and its last line may be incomplete.
    { seq 1300000 && printf 'the end'; } >"agent0/jobs/$id/run/node.log"
    cmp <("$SUBMIT" logs "$id" --node 0) <({ seq 1300000 && echo 'the end'; } | sed 's/^/worker-0 | /')
    [ "$(api 0 GET "/v1/jobs/$id/artifacts" | jq '.artifacts | length')" -ge 6 ]
    api 0 GET "/v1/jobs/$id/artifacts/final.safetensors" -o m
    cmp m out/model/final.safetensors
    [ "$(api 0 GET "/v1/jobs/$id/events" -H 'Accept: application/x-ndjson' | grep -c . )" -ge 5 ]
    [ "$(api 0 GET "/v1/jobs/$id/events" -H 'Accept: application/x-ndjson' | grep . | tail -1 | jq -r .event)" = end ]
    [ "$(api 0 GET "/v1/jobs/$id/wait?timeout_s=1" | jq -r .state)" = succeeded ]
    [ "$(status_of 0 DELETE "/v1/jobs/$id")" -eq 204 ]
    [ "$(status_of 0 GET "/v1/jobs/$id")" -eq 410 ]
}

@test "every route answers as /openapi.json says" {
    start_agents 2
    "$SUBMIT" -q --codec plain --node_count 2 --epochs 1 --dataset "$FEW" -o out
    ended=$(only_job 0)
    slow_job
    within 60 is_at_step 0 5
    run python3 "$ROOT/tests/e2e/openapi.py" "127.0.0.1:${PORTS[0]}" "$(cat agent0/token)" "$ended" "$(only_job 0)"
    echo "$output"
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
    "$SUBMIT" cancel -q "$(only_job 0)"
    [ "$status" -eq 0 ] || skip "Python's jsonschema is not installed: the documents were not compared with their schemas"
}

@test "blobs are stored by their SHA-256 only" {
    start_agents 1
    echo hello >b
    sum=$(sha256sum b | cut -d' ' -f1)
    [ "$(status_of 0 HEAD "/v1/blobs/sha256/$sum" -I)" -eq 404 ]
    [ "$(status_of 0 PUT "/v1/blobs/sha256/$sum" -H 'Content-Type: application/octet-stream' --data-binary @b)" -eq 201 ]
    [ "$(status_of 0 PUT "/v1/blobs/sha256/$sum" -H 'Content-Type: application/octet-stream' --data-binary @b)" -eq 200 ]
    [ "$(status_of 0 HEAD "/v1/blobs/sha256/$sum" -I)" -eq 200 ]
    wrong=$(echo "$sum" | tr 0-9a-f 1-9a-f0)
    [ "$(status_of 0 PUT "/v1/blobs/sha256/$wrong" -H 'Content-Type: application/octet-stream' --data-binary @b)" -eq 422 ]
    [ "$(status_of 0 HEAD "/v1/blobs/sha256/$wrong" -I)" -eq 404 ]
}

@test "with --tls on a loopback address the agent's own user need not join, and another must" {
    "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port 0 --dir "$T/agent0" >invitation 2>agent0.log 3>&- &
    AGENTS[0]=$!
    within 60 grep -q '^job_submit join' invitation
    PORTS[0]=$(sed "s/.*:\([0-9]*\)#.*/\1/" invitation)
    grep -q " listens on 127.0.0.1:${PORTS[0]} with TLS only, " agent0.log
    write_workers 1
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax --epochs 1 --dataset "$FEW" -o own
    [ "$(jq -r .state own/run.json)" = succeeded ]
    run env XDG_STATE_HOME="$T/other" "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax --epochs 1 --dataset "$FEW" -o other
    [ "$status" -eq 7 ]
    [[ "$output" == *"cannot be authenticated, and nothing is sent to it"*"hint: Join it"* ]]
    export XDG_STATE_HOME=$T/other
    bash -c "'$BUILD'/$(cat invitation)"
    "$SUBMIT" -q --codec allreduce --node_count 1 --model softmax --epochs 1 --dataset "$FEW" -o joined
    jq -e '.members[0].name | endswith("@" + $host)' --arg host "$(uname -n)" agent0/members.json
    # Texts that are not an invitation.
    local text
    for text in 127.0.0.1 "127.0.0.1#short#short" "127.0.0.1:0#$(printf 'a%.0s' {1..43})#$(printf 'b%.0s' {1..43})"; do
        run "$SUBMIT" join "$text"
        echo "$output"
        [ "$status" -eq 2 ] || [ "$status" -eq 6 ]
    done
    run "$SUBMIT" join
    [ "$status" -eq 2 ]
    [[ "$output" == *"join needs ADDRESS#PIN#CODE"* ]]
}
