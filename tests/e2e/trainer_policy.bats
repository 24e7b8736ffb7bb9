#!/usr/bin/env bats
# Which training programs an agent runs: its policy, its refusals, and what it says about Python.
load lib

# reserve N ID [KEY=VALUE...]: a worker of a job with a training program; prints the answer.
reserve() {
    local n=$1 id=$2
    shift 2
    jq -n --arg id "$id" '{id: $id, attempt: 1, node: 0, role: "worker", node_count: 1, trainer: "train.py"} + $ARGS.named' "$@" |
        api "$n" POST /v1/jobs -H 'Content-Type: application/json' --data @-
}

policy() { api "$1" GET /v1/agent | jq -r .trainers; }

# write_python FILE JSON: an interpreter that answers that, and notes that it was started.
write_python() {
    printf '#!/bin/sh\necho >>"%s.started"\ncat <<END\n%s\nEND\n' "$T/$1" "$2" >"$1"
    chmod +x "$1"
}

@test "an agent beyond loopback, or without a token, runs no training program unless it is told to" {
    start_agent 0
    start_agent 1 --no-token
    start_agent 2 --bind 0.0.0.0 --insecure-no-tls
    start_agent 3 --no-token --trainers any
    [ "$(policy 0)" = any ]
    [ "$(policy 1)" = none ]
    [ "$(policy 2)" = none ]
    [ "$(policy 3)" = any ]
    grep 'training programs: any, as this agent.s user, isolation none' agent0.log
    [ "$(grep -c 'training programs' agent2.log)" -eq 0 ]
    reserve 2 j-program >refused.json
    jq -e '.status == 403 and .code == "TRAINER_REFUSED" and (.detail | contains("so not train.py (--trainers none)"))
        and (.hint | contains("agent --trainers allowlist, or any"))' refused.json
    [ "$(status_of 2 GET /v1/jobs/j-program)" = 404 ]
    [[ "$(api 2 GET /problems/TRAINER_REFUSED)" == *"they may do more there than a codec"* ]]
}

@test "a listed program runs, another one is refused with the line that would allow it" {
    local hex
    start_agent 0 --trainers allowlist
    echo "a package" >trainer
    hex=$(sha256sum trainer | cut -d' ' -f1)
    reserve 0 j-program --arg trainer_sha256 "$hex" >refused.json
    jq -e --arg h "$hex" '.code == "TRAINER_REFUSED" and (.detail | contains("SHA-256 " + $h)) and (.hint | contains($h))' refused.json
    [[ "$(jq -r .hint refused.json)" == *"$T/agent0/trainers.allow on that agent's machine"* ]]
    sha256sum trainer >>agent0/trainers.allow
    reserve 0 j-program --arg trainer_sha256 "$hex" >job.json
    jq -e '.trainer == "train.py" and .requirements == ["settings", "codec", "model", "trainer"]' job.json
    [ "$(status_of 0 PUT "/v1/blobs/sha256/$hex" -H 'Content-Type: application/octet-stream' --data-binary @trainer)" = 201 ]
    chmod g+w agent0/trainers.allow
    [ "$(status_of 0 PUT /v1/jobs/j-program/packages/trainer -H 'Content-Type: application/json' \
        --data "{\"files\":{\"trainer.safetensors\":\"$hex\"}}")" = 403 ]
    chmod g-w agent0/trainers.allow
    [ "$(status_of 0 PUT /v1/jobs/j-program/packages/trainer -H 'Content-Type: application/json' \
        --data "{\"files\":{\"trainer.safetensors\":\"$hex\"}}")" = 204 ]
    cmp trainer agent0/jobs/j-program/packages/trainer.safetensors
}

@test "Python is started when a client asks what a training program finds, and doctor shows it" {
    write_python python '{"python": "3.99.1", "numpy": "1.2", "torch": "", "gpus": ["H100"]}'
    start_agent 0 --trainer-python ./python
    start_agent 1 --trainers none --trainer-python ./python
    write_workers 2
    api 0 GET /v1/agent >agent.json
    jq -e --arg p "$T/./python" '.trainer_python == $p and .python == null and .gpus == null' agent.json
    [ ! -e python.started ]
    api 0 GET /v1/agent/trainers >found.json
    jq -e '.trainers == "any" and .python == "3.99.1" and .numpy == "1.2" and .torch == null and .gpus == ["H100"]
        and .trainer_error == null' found.json
    api 0 GET /v1/agent | jq -e '.python == "3.99.1"'
    "$SUBMIT" doctor >doctor.txt
    grep "ok       trainers       it runs any training program at isolation level none, with Python 3.99.1 ($T/./python), numpy 1.2, no torch, GPUs: H100." doctor.txt
    grep 'ok       trainers       it runs no training programs (--trainer); agent --trainers allowlist, or any, allows them.' doctor.txt
    [ "$(wc -l <python.started)" -eq 1 ]
}

@test "an interpreter that is none is told at the start, or when it is asked" {
    run limited "$BUILD/agent" --port 0 --dir "$T/agent0" --trainer-python "$T/nothing"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--trainer-python $T/nothing: there is no such program"* ]]
    start_agent 0 --trainer-python /bin/false
    write_workers 1
    [ "$(api 0 GET /v1/agent/trainers | jq -r .trainer_error)" = "/bin/false: ended with status 1; is it Python 3?" ]
    "$SUBMIT" doctor >doctor.txt
    grep 'warning  trainers       it runs any training program at isolation level none, and none in Python: /bin/false: ended with status 1' doctor.txt
    grep -A1 'warning  trainers' doctor.txt | grep 'to do: Install python3 there, or start its agent with --trainer-python FILE'
}

@test "job_submit passes the refusal on before anything is shipped, and a line in the list allows the program" {
    cat >train.py <<'END'
import psgd.trainer

w = psgd.trainer.open({"W": (3,)})
for _ in psgd.trainer.steps(range(10)):
    w.gradient(loss=1.0, samples=1, lr=0.1)
    w.stepped()
END
    start_agent 0
    start_agent 1 --trainers allowlist
    write_workers 2
    run "$SUBMIT" --codec fedavg --trainer train.py --node_count 2 -o out
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"node(1): agent 127.0.0.1:${PORTS[1]}: training program train.py (its package has SHA-256 "*") is not on this agent's list (--trainers allowlist)"* ]]
    [[ "$output" == *"hint: To allow it, add a line with "*" to $T/agent1/trainers.allow on that agent's machine."* ]]
    [[ "$output" != *"Reply requirements"* ]]
    sed -n 's/.*add a line with \([0-9a-f]*\) to .*/\1/p' <<<"$output" >agent1/trainers.allow
    "$SUBMIT" -q --codec fedavg --trainer train.py --node_count 2 -o out
    [ "$(api 1 GET /v1/jobs | jq -r '.jobs[0].trainer_sha256')" = "$(<agent1/trainers.allow)" ]
    [ "$(api 1 GET /v1/jobs | jq -r '.jobs[0].trainer')" = train.py ]
}

@test "an agent that root runs gives each program a user of its own, in a folder that others may not enter; others refuse to" {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
    cat >train.py <<'END'
import os
import psgd.trainer

w = psgd.trainer.open({"W": (3,)}, batches=10)
while w.next():
    w.gradient(loss=1.0, samples=1, lr=0.1)
    w.stepped()
print("user", os.getuid(), oct(os.stat(".").st_mode), os.path.exists("../../packages"))
END
    mkdir -m 700 closed
    if [ "$(id -u)" != 0 ]; then
        run limited "$BUILD/agent" --port 0 --dir "$T/closed/agent" --trainer-isolation user
        [ "$status" -ne 0 ]
        [[ "$output" == *"--trainer-isolation user: this agent cannot give each program a user"*"only an agent that root runs"* ]]
        return
    fi
    start_agent 0 --dir "$T/closed/agent" --trainer-isolation user --trainer-python /usr/bin/python3
    write_workers 1
    "$SUBMIT" --node_count 1 --codec plain --epochs 1 --trainer train.py --token-file closed/agent/token -q -o out
    grep -E '^user 18[78][0-9]{7} 0o40700 False$' out/logs/worker-0.log
    grep -q ', isolation user: ' out/logs/worker-0.log
}
