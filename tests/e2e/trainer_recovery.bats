#!/usr/bin/env bats
# Jobs with a training program that lose a node, are tried again, resumed, looked at or cancelled.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib

# A program of 10 batches an epoch, whose state is in its checkpoints. In step 25 it waits on node 1 until the file that its argument
# names is there, and says so.
write_program() {
    cat >train.py <<'PY'
import os
import sys
import time

import psgd.trainer

w = psgd.trainer.open({"W": (2,)})
rate = 0.1


def restore(state):
    global rate
    rate = float(state)


w.keep(lambda: repr(rate).encode(), restore)
print("process", os.getpid())
for batch in psgd.trainer.steps(range(10)):
    gate = sys.argv[1] if len(sys.argv) > 1 else "/"
    if w.steps_done == 25 and w.info.node == 1 and not os.path.exists(gate):
        open(gate + ".reached", "w").close()
        while not os.path.exists(gate):
            time.sleep(0.01)
    rate *= 0.99
    for k in range(2):
        w.grad["W"][k] = w["W"][k] - (k + 1) * (w.info.node + 1) - batch / 10
    by = w.gradient(loss=sum(g * g for g in w.grad["W"]), samples=4, lr=rate)
    for k in range(2):
        w["W"][k] -= rate * by["W"][k]
    w.stepped()
PY
}

job=(--trainer train.py --codec fedavg --local-steps 5 --node_count 2 --epochs 4 --checkpoint-every 1)

# begin OUT OPTION...: that job in the background, until the program of node 1 waits; SUBMITTER is its process.
begin() {
    local out=$1
    shift
    "$SUBMIT" --workers worker.json "${job[@]}" -o "$out" "$@" -- "$T/gate-$out" >"$out.log" 2>&1 3>&- &
    SUBMITTER=$!
    HOLDERS+=("$SUBMITTER")
    within 60 test -e "gate-$out.reached"
}

# end_of OUT: its status, once the gate is open.
end_of() {
    touch "gate-$1"
    status=0
    wait "$SUBMITTER" || status=$?
    cat "$1.log"
}

# process_of NODE: of its program, which runs.
process_of() { sed -nE 's/^process ([0-9]+)$/\1/p' "agent$1/jobs/$(only_job "$1")/run/node.log"; }

# model OUT: its values as bytes.
model() { tail -c 8 "$1/model/final.safetensors" | xxd -p; }

@test "a job whose training program is killed is tried again from its checkpoints, or resumed, and ends with the same bits" {
    start_agents 2
    write_program
    "$SUBMIT" -q --workers worker.json "${job[@]}" -o whole
    begin tried --retries 1 --retry-on trainer_failed
    within 60 test -e tried/mirror/checkpoints/node-1.safetensors
    kill -9 "$(process_of 1)"
    end_of tried
    [ "$status" -eq 0 ]
    grep -q 'node(1): failed, TrainerFailed: train.py was killed by signal 9' tried.log
    grep -q 'Attempt 2 of at most 2 goes on from the last checkpoints of all nodes' tried.log
    [ "$(jq -r '.state, .attempt, .facts.attempts[0].reason' tried/run.json | paste -sd' ')" = "succeeded 2 TrainerFailed" ]
    [ "$(model tried)" = "$(model whole)" ]
    "$SUBMIT" list -q >/dev/null
    api 0 DELETE "/v1/jobs/$(jq -r .id tried/run.json)" && api 1 DELETE "/v1/jobs/$(jq -r .id tried/run.json)"

    begin killed
    kill -9 "$(process_of 1)"
    end_of killed
    [ "$status" -eq 1 ]
    grep -q 'next: job_submit --resume' killed.log
    "$SUBMIT" -q --workers worker.json --resume killed -o resumed
    [ "$(model resumed)" = "$(model whole)" ]
}

@test "without one of its training programs a job continues, if it may" {
    start_agents 2
    write_program
    begin left --path gather --on-node-loss continue --min-nodes 1
    kill -9 "$(process_of 1)"
    end_of left
    [ "$status" -eq 0 ]
    [ "$(jq -r '.nodes[] | .state, .reason' left/run.json | paste -sd' ')" = "succeeded null failed TrainerFailed" ]
    [ "$(jq '.nodes[0].steps' left/run.json)" = 40 ]
    grep -q 'train.py was killed by signal 9' left.log
}

@test "the model of a running training program is that after a whole step, to the bit" {
    start_agents 1
    write_program
    sed -i 's/^    rate \*= 0.99/    time.sleep(0.002)/' train.py
    local alone=(--workers worker.json --trainer train.py --codec fedavg --local-steps 5 --node_count 1) step
    "$SUBMIT" "${alone[@]}" --epochs 100000 --detach --no-queue -o long >said
    within 60 is_at_step 0 20
    "$SUBMIT" snapshot -o now.safetensors >said
    step=$(sed -nE 's/.* after step ([0-9]+), in epoch .*/\1/p' said)
    "$SUBMIT" cancel -q "$(only_job 0)"
    "$SUBMIT" -q "${alone[@]}" --epochs 100000 --max-steps "$step" -o ended
    cmp <(tail -c 8 now.safetensors) <(tail -c 8 ended/model/final.safetensors)
}

@test "a cancelled training program ends in the middle of a step, and is removed with its job" {
    start_agents 2
    write_program
    begin shown
    local id pids
    id=$(only_job 0)
    pids="$(process_of 0) $(process_of 1)"
    "$SUBMIT" cancel -q "$id"
    status=0
    wait "$SUBMITTER" || status=$?
    cat shown.log
    [ "$(jq -r .state shown/run.json)" = cancelled ]
    for pid in $pids; do within 60 has_ended "$pid"; done
    grep -q '^train.py had computed for' "agent1/jobs/$id/run/node.log"
    [ -e "agent1/jobs/$id/trainer/program/train.py" ]
    api 1 DELETE "/v1/jobs/$id"
    [ ! -e "agent1/jobs/$id" ]
}
