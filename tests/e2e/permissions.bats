#!/usr/bin/env bats
# Permissions on an agent: tokens, their scopes and their end, and keys of jobs.
load lib

agent_token() { limited "$BUILD/agent" token "$@" --dir "$T/agent0"; }

# give NAME [OPTION...]: a token for NAME in the file NAME.token; NAME's files are in a folder of their own.
give() {
    (umask 077 && agent_token add "$@" >"$1.token")
}

as() { # as NAME ARGUMENT...: job_submit of another user
    local name=$1
    shift
    XDG_STATE_HOME=$T/state-of-$name "$SUBMIT" "$@" --token-file "$T/$name.token"
}

with_token_of() { # with_token_of NAME METHOD PATH [curl options]
    local TOKENS=("$T/$1.token")
    api 0 "${@:2}"
}

@test "a token allows the requests of its scope, and a refusal names both scopes" {
    start_agents 1
    give reader --scope read
    give bob
    [ "$(with_token_of reader GET /v1/jobs)" = '{"jobs":[]}' ]
    run with_token_of reader PUT /v1/blobs/sha256/"$(printf '%064d' 0)" -H 'Content-Type: application/json' -d x
    [[ "$output" == *'"status":403'*"this needs a token of scope submit; the one of reader has read"* ]]
    run as reader --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"needs a token of scope submit; the one of reader has read"* ]]
    # A job needs a key, if its submitter is not the owner.
    run with_token_of bob POST /v1/jobs -H 'Content-Type: application/json' -d '{"id":"j-abcdef","attempt":1,"node":0,"role":"worker","node_count":1}'
    [[ "$output" == *'"status":400'*"X-Job-Key"* ]]
    as bob --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o bob
    [ "$(jq -r '.nodes[0].submitter' bob/run.json)" = bob ]
    # A token of scope read sees the jobs of others; one of scope submit lists the jobs submitted from here.
    local id
    id=$(jq -r .id bob/run.json)
    [ "$(as reader list -q)" = "$id" ]
    [[ "$(as reader list)" == *"$id "*" succeeded "*" plain "*"on the agents, of bob"* ]]
    [ "$(as reader list --json | jq -c '.data.jobs[] | [.id, .state, .submitted_by]')" = "[\"$id\",\"succeeded\",\"bob\"]" ]
    for which in "" "$id" "$(jq -r .name bob/run.json)"; do
        # shellcheck disable=SC2086 # none, or a word
        run as reader status $which
        [ "$status" -eq 0 ]
        [[ "$output" == *"Job $id ("*", plain): succeeded"*"worker  succeeded"*"submitted by bob"* ]]
    done
    [ "$(as reader status --json | jq -c '.data | [.id, .state, .nodes[0].state]')" = "[\"$id\",\"succeeded\",\"succeeded\"]" ]
    run as reader status j-nonesuch
    [ "$status" -eq 6 ]
    [[ "$output" == *"no job j-nonesuch was submitted from here"* ]]
    give carol
    [ "$(as carol list -q)" = "" ]
    run agent_token list
    [[ "$output" == *"reader "*" read "*"never"* ]]
    [[ "$output" == *"owner "*" admin "* ]]
}

@test "members with the same rights do not reach each other's jobs, nor learn that they exist" {
    start_agents 1
    give bob
    give carol
    give reader --scope read
    gated plain
    as bob --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 1 --dataset "$FEW" --epochs 5 --model softmax -o bob 2>log 3>&- &
    local pid=$! id
    within 60 is_at_gate 0
    id=$(only_job 0)
    # The submitter is the name of the token; the name that the client sends is a field of its own.
    [ "$(api 0 GET "/v1/jobs/$id" | jq -r .submitter)" = bob ]
    [ "$(api 0 GET "/v1/jobs/$id" | jq -r .submitter_unverified)" != bob ]
    run as bob status
    [ "$status" -eq 0 ]
    [[ "$output" == *"submitted by bob"* ]]
    # Carol has bob's index of jobs, and so the job's id.
    mkdir -p state-of-carol/psgd && cp -r state-of-bob/psgd/jobs state-of-carol/psgd/
    local verb
    for verb in "cancel $id" "fetch $id -o stolen" "status $id" "logs $id"; do
        # shellcheck disable=SC2086 # words
        run as carol $verb
        [ "$status" -ne 0 ]
        [[ "$output" == *"unknown job"* ]]
    done
    [ "$(with_token_of carol GET /v1/jobs)" = '{"jobs":[]}' ]
    local path method
    for path in "" /wait /events /logs /records.csv /artifacts /artifacts/train.csv; do
        [ "$(with_token_of carol GET "/v1/jobs/$id$path" -o /dev/null -w '%{http_code}')" = 404 ]
    done
    [ "$(with_token_of carol DELETE "/v1/jobs/$id" -o /dev/null -w '%{http_code}')" = 404 ]
    for method in "POST /cancel" "PUT /packages/codec" "POST /start"; do
        [ "$(with_token_of carol "${method% *}" "/v1/jobs/$id${method#* }" -H 'Content-Type: application/json' -d '{}' \
            -o /dev/null -w '%{http_code}')" = 404 ]
    done
    # The same for a key of another job; an id in use is refused without further facts.
    [ "$(with_token_of carol GET "/v1/jobs/$id" -H "X-Job-Key: $(head -c 43 /dev/zero | tr '\0' a)" -o /dev/null -w '%{http_code}')" = 404 ]
    run with_token_of carol POST /v1/jobs -H "X-Job-Key: $(head -c 43 /dev/zero | tr '\0' a)" -H 'Content-Type: application/json' \
        -d '{"id":"'"$id"'","attempt":1,"node":0,"role":"worker","node_count":1}'
    [[ "$output" == *"the id $id is in use"* && "$output" != *bob* ]]
    run as carol --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax --no-queue -o no
    [ "$status" -eq 4 ]
    [[ "$output" == *"runs another job"* && "$output" != *"$id"* ]]
    # Scope read sees all jobs and changes none; the owner may do everything.
    [ "$(with_token_of reader GET /v1/jobs | jq -r '.jobs[0].id')" = "$id" ]
    [ "$(with_token_of reader POST "/v1/jobs/$id/cancel" -o /dev/null -w '%{http_code}')" = 403 ]
    [ "$(status_of 0 POST "/v1/jobs/$id/cancel")" = 202 ]
    local s=0
    wait $pid || s=$?
    [ $s -eq 8 ]
}

@test "tokens are replaced and taken back while the agent runs" {
    start_agents 1
    give bob
    cp bob.token old.token
    job() { as "$1" --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o "$2"; }
    job bob one
    # Two tokens at once, then the new one only.
    (umask 077 && agent_token rotate bob >bob.token)
    run cmp -s bob.token old.token
    [ "$status" -eq 1 ]
    job bob two
    XDG_STATE_HOME=$T/state-of-bob job old three
    (umask 077 && agent_token rotate bob --keep 0s >bob.token)
    job bob four
    run job old no
    [ "$status" -eq 7 ]
    [[ "$output" == *"does not know this token: it may have been revoked"* ]]
    # A job that was submitted with the first token is still bob's.
    run as bob status
    [ "$status" -eq 0 ]
    agent_token revoke bob
    run job bob no
    [ "$status" -eq 7 ]
    [[ "$output" == *"does not know this token: it may have been revoked"* ]]
    run agent_token revoke bob
    [ "$status" -eq 6 ]
    # One with an end.
    give carol --expires 1s
    has_expired() { ! with_token_of carol GET /v1/jobs -f >/dev/null; }
    within 60 has_expired
    # The owner's: job_submit of the owner needs no new option.
    cp -p agent0/token former
    agent_token rotate
    run cmp -s agent0/token former
    [ "$status" -eq 1 ]
    "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o five
    "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax --token-file former -o six
    agent_token rotate --keep 0s
    agent_token revoke owner
    run "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax --token-file former -o no
    [ "$status" -eq 7 ]
    # A damaged list admits no member, only the owner, and is logged once.
    give dave
    echo '{' >agent0/members.json
    [ "$(with_token_of dave GET /v1/jobs -o /dev/null -w '%{http_code}')" = 401 ]
    [ "$(with_token_of dave GET /v1/jobs -o /dev/null -w '%{http_code}')" = 401 ]
    [ "$(status_of 0 GET /v1/jobs)" = 200 ]
    [ "$(grep -c 'tokens: .*members.json' agent0.log)" -eq 1 ]
    local f
    for f in *.token former agent0/token; do
        in_none "$(<"$f")" agent0.log agent0/jobs one two
    done
}

@test "a token that many agents share, beside each agent's own" {
    make_token cluster.token
    chmod 640 cluster.token
    run limited "$BUILD/agent" --port 0 --dir agent0 --cluster-token cluster.token
    [ "$status" -eq 7 ]
    [[ "$output" == *"can be read by others"* ]]
    chmod 600 cluster.token
    start_agent 0 --cluster-token "$T/cluster.token"
    start_agent 1 --cluster-token "$T/cluster.token"
    write_workers 2
    as cluster --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o one
    [ "$(jq -r '[.nodes[].submitter] | unique[]' one/run.json)" = cluster ]
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o two
    [ "$(jq -r '[.nodes[].submitter] | unique[]' two/run.json)" = owner ]
    # Two users who share the token have each their own jobs.
    mkdir -p state-of-eve/psgd && cp -r state-of-cluster/psgd/jobs state-of-eve/psgd/
    cp -p cluster.token eve.token
    run as eve logs
    [ "$status" -ne 0 ]
    [[ "$output" == *"unknown job"* ]]
    # It is replaced by writing the file.
    cp -p cluster.token eve.token
    make_token cluster.token
    as cluster --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o three
    run as eve --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o no
    [ "$status" -eq 7 ]
}

@test "a list of workers that names keys needs no proof, and refuses all other keys" {
    local n pin
    for n in 0 1; do XDG_STATE_HOME=$T/state-of-agent$n start_agent $n; done
    write_workers 2
    for n in 0 1; do
        pin=$(sed 's/.*#//' "agent$n/address" | tr -- '-_' '+/')
        jq --arg at "127.0.0.1:${PORTS[n]}" --arg pin "sha256//$pin=" --arg token "$T/agent$n/token" \
            '.nodes[$at] = {fingerprint: $pin, token_file: $token}' worker.json >named.json
        mv named.json worker.json
    done
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o one
    # A short token proves nothing, and need not.
    (umask 077 && echo aaaaaaaaaaaaaaaaaaaa >agent0/token)
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax --detach --no-queue -o two
    "$SUBMIT" wait
    # The two keys exchanged.
    jq '.nodes |= (to_entries | [.[0].value.fingerprint, .[1].value.fingerprint] as $pin | .[0].value.fingerprint = $pin[1]
        | .[1].value.fingerprint = $pin[0] | from_entries)' worker.json >wrong.json
    run "$SUBMIT" --workers wrong.json --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"has another key than the list of workers names: it may be another program; nothing was sent to it"* ]]
    # An agent that was joined with another key than the list has is refused: neither key is preferred.
    agent_token invite | sed "s/^job_submit join '//; s/'$//" >invitation
    "$SUBMIT" join - <invitation
    run "$SUBMIT" --workers wrong.json --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"has another fingerprint in the list of workers than the key that was joined"* ]]
}

# with_secret SECRET: the processes of the cluster that have it in their arguments or environment.
with_secret() {
    local pid
    for pid in "${AGENTS[@]}" "$JOB" $(pgrep -g "$(pgrep -d, -f "$BUILD/job_runner")" 2>/dev/null); do
        ! grep -qaF -- "$1" "/proc/$pid/cmdline" "/proc/$pid/environ" 2>/dev/null || echo "$pid"
    done
}

@test "no secret is in an argument, an environment, a file that others can read, an answer or a log" {
    start_agents 2
    gated allreduce
    "$SUBMIT" --codec gated.c --round-timeout "$TEST_LIMIT" --node_count 2 --dataset "$FEW" --epochs 100 --checkpoint-every 1 -o out -v >log 2>&1 3>&- &
    JOB=$!
    HOLDERS+=("$JOB")
    within 60 is_at_gate 1 # it has checkpoints by then
    local id secrets n path
    id=$(jq -r .id out/run.json)
    mapfile -t secrets < <(cat agent?/token "$XDG_STATE_HOME/psgd/job.secret")
    [ "${#secrets[@]}" -eq 3 ]
    [ -n "$(with_secret --dir)" ] # it finds what is there
    run in_none "$id" log agent0.log agent1.log out agent0/jobs agent1/jobs
    [ "$status" -eq 1 ]
    for n in "${secrets[@]}"; do
        [ -z "$(with_secret "$n")" ]
        for path in "jobs/$id" agent status "jobs/$id/logs"; do api 0 GET "/v1/$path"; done >answers
        in_none "$n" answers log agent0.log agent1.log out agent0/jobs agent1/jobs
    done
    kill "$JOB"
    "$SUBMIT" cancel "$id" || true
    # The agents' folders have no file that others can read.
    [ -z "$(find agent0 agent1 -type f -perm /044 ! -path '*/run/*' -print)" ]
}
