#!/usr/bin/env bats
# What training programs do to the machine: output without end, processes that they leave behind, an end that they ignore.
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
