#!/usr/bin/env bats
# What training programs do to the machine: output without end, processes that they leave behind, an end that they ignore.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib

setup_file() { export FAULTY=$BUILD/tests/trainers/faulty; }

# fault NAME ARGUMENT...: a job of two workers whose program fails as tests/trainers/faulty.c does.
fault() {
    local name=$1
    run "$SUBMIT" --workers worker.json --trainer "$FAULTY" --codec fedavg --node_count 2 --epochs 2 -o "$name" -- "$@"
    echo "$output"
}

reason() { jq -r ".nodes[$2] | .reason + \": \" + .message" "$1/run.json"; }

# No process of a program runs, and none that one has started: their numbers are in the logs.
nothing_is_left() {
    local pid
    for pid in $(sed -nE 's/^left process ([0-9]+)$/\1/p' "$T"/agent*/jobs/*/run/node.log) \
        $(sed -nE 's/^faulty runs as process ([0-9]+),.*/\1/p' "$T"/agent*/jobs/*/run/node.log); do
        within 60 has_ended "$pid"
    done
    [ -z "$(compgen -G "$T/agent*/jobs/*/trainer/tmp")" ]
}

@test "a program that crashes, or closes its socket, fails its node with the reason" {
    start_agents 2
    fault crash 1
    [ "$status" -eq 1 ]
    [ "$(reason crash 1)" = "TrainerFailed: faulty was killed by signal 11 (Segmentation fault)" ]
    # What the program says on the other node is no warning: it follows from that.
    [[ $output != *"faulty ended with status 1"* ]]
    fault close 1
    [ "$status" -eq 1 ]
    [ "$(reason close 1)" = "TrainerFailed: faulty has closed its connection to psgd, and still runs" ]
    nothing_is_left
}

# fails_with NAME REASON: of node 1, on which the program sends what no program should.
fails_with() {
    fault "$1" 1
    [ "$status" -eq 1 ]
    [ "$(reason "$1" 1)" = "TrainerFailed: faulty has sent $2" ]
}

@test "a program that sends other bytes than records of psgd fails its node with the reason" {
    start_agents 2
    fails_with short 'a record of another size'
    fails_with garbage 'a record of version 1044266558, and this psgd has version 1'
    fails_with sequence 'a malformed record METRIC'
    fails_with descriptors 'a malformed record METRIC'
    nothing_is_left
    serves_the_next_job
}

@test "a program whose state is larger than any checkpoint fails its node with the reason" {
    start_agents 1
    cat >train.py <<'PY'
import os

import psgd.trainer


def save():
    (file,) = (int(fd) for fd in os.listdir("/proc/self/fd") if "trainer-state" in os.path.realpath(f"/proc/self/fd/{fd}"))
    os.truncate(file, 65 << 30)  # sparse
    return b""


w = psgd.trainer.open({"w": (2,)}, batches=3)
w.keep(save, print)
while w.next():
    w.stepped(loss=1.0, samples=1, lr=0.1)
PY
    run -1 "$SUBMIT" --trainer train.py --codec fedavg --epochs 2 --checkpoint-every 1 -o out
    [ "$(reason out 0)" = "TrainerFailed: train.py has given 69793218560 bytes for a checkpoint, of which 68719476736 is the most" ]
}

@test "a program whose parameters are not finite fails its node with the reason" {
    start_agents 2
    fault nan 1
    [ "$status" -eq 1 ]
    [[ "$(reason nan 1)" == "NumericDivergence: round 1, step 50: node 1 contributed a vector that is not finite: w is nan" ]]
}

@test "a program that does not end its step is named by the nodes that wait for it" {
    start_agents 2
    run "$SUBMIT" --trainer "$FAULTY" --codec allreduce --node_count 2 --epochs 2 --round-timeout 3 -o sleep -- sleep 1
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$(reason sleep 0)" == "RoundTimeout: node 1's part of all-reduce "*": faulty on node 1 computes, and has not called psgd" ]]
    # It also learns that they have waited for too long while its program computes.
    [[ "$(reason sleep 1)" == "RoundTimeout: node 1: faulty has computed for "*" s without a call to psgd, and node 0 waits for it" ]]
    nothing_is_left
}

@test "a program that does not end its step where no node waits for it is told by a warning" {
    start_agents 1
    "$SUBMIT" --trainer "$FAULTY" --codec fedavg --node_count 1 --epochs 2 --round-timeout 0.3 -o alone -- sleep >said 2>&1 3>&- &
    local submitter=$!
    HOLDERS+=("$submitter")
    within 60 grep -F 'node 0: faulty has computed for 3 s without a call, after step 10: it hangs, or takes long' said
    "$SUBMIT" cancel -q "$(only_job 0)"
    wait $submitter || true
    nothing_is_left
}

@test "a program that goes on after the job is told by a warning, and ends when the job is cancelled" {
    start_agents 1
    "$SUBMIT" --trainer "$FAULTY" --codec fedavg --node_count 1 --epochs 1 -o linger -- linger >said 2>&1 3>&- &
    local submitter=$!
    HOLDERS+=("$submitter")
    within 60 grep -F 'node 0: all steps are done, and faulty has not ended: it has ' said
    "$SUBMIT" cancel -q "$(only_job 0)"
    wait $submitter || true
    # The runner itself has ended it.
    grep -F 'asked to stop while faulty was ending' agent0/jobs/*/run/node.log
    nothing_is_left
}

@test "a program that prints 100 MB goes on, and the log stays small" {
    start_agents 2
    fault flood
    [ "$status" -eq 0 ]
    [ "$(stat -c %s "$(echo agent0/jobs/*/run/node.log)")" -lt 17000000 ]
    grep -a 'the program has written 16 MiB' agent0/jobs/*/run/node.log
}

@test "processes that a program leaves behind end with it" {
    start_agents 2
    fault fork
    [ "$status" -eq 0 ]
    [ "$(cat agent0/jobs/*/run/node.log | grep -c '^left process ')" -eq 2 ]
    nothing_is_left
}

@test "a program that ignores its end is killed, whatever ends its job" {
    start_agents 2
    for how in cancel runner monitor; do
        "$SUBMIT" --workers worker.json --trainer "$FAULTY" --codec fedavg --node_count 2 --epochs 2 -o "$how" -- ignore >said 2>&1 3>&- &
        local submitter=$! job pid
        within 60 job_runs
        job=$(only_job 0)
        for n in 0 1; do within 60 grep -q 'left process' "agent$n/jobs/$job/run/node.log"; done
        pid=$(api 0 GET "/v1/jobs/$job" | jq .pid)
        case $how in
        cancel) "$SUBMIT" cancel "$job" ;;
        runner) kill -9 "$pid" ;;
        monitor) kill -9 "$(pgrep -P "$pid" -x job_monitor)" ;;
        esac
        wait $submitter || true
        cat said
        nothing_is_left
    done
}

job_runs() { [ "$(api 0 GET /v1/jobs | jq -r '.jobs[0].state')" = running ]; }
