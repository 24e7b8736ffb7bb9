#!/usr/bin/env bats
# Faults of a codec on agents: they end its node only, the job reports how, and the agents run the next job.
# Takes about 1 minute.
load lib

@test "a codec that crashes is a failure of that node, reported with its signal" {
    CRASHES=1
    start_agents 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/crash.so" --node_count 2 --dataset "$FEW" -o out
    [ "$status" -eq 1 ]
    [[ "$output" == *"RunnerDied"* ]]
    # A sanitizer handles the signal, exits instead, and prints last.
    local how="signal 11" last="ready: codec crash"
    case $BUILD in */asan | */tsan) how="exited with status" last="SUMMARY: " ;; esac
    [[ "$output" == *"$how"* ]]
    [ "$(jq -r .state out/run.json)" = failed ]
    [ -s out/records/train.csv ]
    # Information that a user needs next: whose code it was, and the node's last output.
    local hash
    hash=$(sha256sum "$BUILD/tests/codecs/crash.so" | cut -d' ' -f1)
    [[ "$output" == *"failed: node("*"The node ran codec crash, SHA-256 $hash."*"The last lines of its log:"*"$last"* ]]
    jq -e --arg h "$hash" --arg l "$last" '.failure | (.node == 0 or .node == 1) and .codec == "crash"
        and .codec_sha256 == $h and ([.last_log[] | select(contains($l))] | length == 1)' out/run.json
    serves_the_next_job
}

@test "of an overlong log the end is fetched" {
    [ "$(df --output=avail -k "$T" | tail -n 1)" -gt 600000 ] || skip "a log of 270 MiB needs more room in ${TMPDIR:-/tmp}"
    start_agents 1
    cat >talks.c <<'C'
#include <stdio.h>

#include "codec_events.h"

static int talk(struct codec *c)
{
    static char line[1 << 20] = {[0 ... sizeof line - 2] = '0', '\n'};

    for (int i = 0; i < 270 && c->run->step == 0; i++)
        fwrite(line, 1, sizeof line, stdout);
    puts("the last word");
    fflush(stdout);
    return CODEC_GO;
}

static const struct codec_events talks = {.on_grad = talk};

CODEC_PLUGIN(.name = "talks", .source = "a test", .more = CODEC_MORE(.events = &talks))
C
    "$SUBMIT" --codec talks.c --node_count 1 --dataset "$FEW" --epochs 1 --model softmax --round-timeout 200 -o out >log 2>&1
    [ "$(stat -c %s out/logs/worker-0.log)" -eq $((4 << 20)) ]
    grep -q 'the last word' out/logs/worker-0.log
    grep -q 'of which the last 4194304 are fetched' log
}

@test "a codec that calls exit(0) has failed" {
    start_agents 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/call_exit.so" --node_count 2 --dataset "$FEW" -o out
    [ "$status" -eq 1 ]
    [[ "$output" == *"failed: node("*"), CodecFailed: codec call_exit has called exit: a node ends when its job does"* ]]
    jq -e '.failure | .codec == "call_exit" and (.codec_sha256 | length) == 64 and (.last_log | length) > 0' out/run.json
    serves_the_next_job
}

@test "a codec that calls chdir creates no file elsewhere" {
    start_agents 1
    "$SUBMIT" --codec "$BUILD/tests/codecs/change_folder.so" --node_count 1 --dataset "$FEW" --epochs 2 --checkpoint-every 1 --model softmax -o out
    [ -s out/model/final.safetensors ]
    [ -s out/checkpoints/node-0.safetensors ]
    [ -s out/records/codec.csv ]
}

@test "a codec that loops is ended and reported by its node" {
    start_agents 2
    for codec in $(is_long && echo spin) spin_blocked; do # the second blocks every signal
        rm -rf out
        run "$SUBMIT" --codec "$BUILD/tests/codecs/$codec.so" --node_count 2 --dataset "$FEW" --epochs 1 --round-timeout 4 -o out
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"failed: node(0), CodecFailed: codec $codec has not returned from on_step() for 3 s: does it loop?"* ]]
        [[ "$output" != *"does it loop?."* ]]
        "$SUBMIT" why out >why.txt
        grep "CodecFailed .*does it loop?" why.txt
        ! grep -F '?.' why.txt || false
        [ "$(jq -r '.failure.codec' out/run.json)" = "$codec" ]
    done
    serves_the_next_job
}

@test "a call of a codec that does not return is named, and ends its node, from its constructors on" {
    start_agents 1
    local call options n=0
    while IFS='|' read -r codec call; do
        run "$SUBMIT" --codec "$codec" --node_count 1 --dataset "$FEW" --max-steps 4 --round-timeout 2 -o out-$((n += 1))
        echo "$output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"failed: node(0), CodecFailed: codec stuck"*" has not returned from $call for 1.5 s: does it loop?"* ]]
        within 60 no_runner
    done <<EOT
$BUILD/tests/codecs/stuck_load.so|its constructors, which run when it is loaded,
$BUILD/tests/codecs/stuck.so:at=1,naps=1|open()
$BUILD/tests/codecs/stuck.so:at=1|open()
$BUILD/tests/codecs/stuck.so:at=2,naps=1|apply()
$BUILD/tests/codecs/stuck.so:at=3,naps=1|on_gradient()
$BUILD/tests/codecs/stuck.so:at=4,naps=1|model()
EOT
    { # an executor's
        printf '#define _GNU_SOURCE\n#include <errno.h>\n#include <string.h>\n#include <unistd.h>\n'
        cat "$ROOT/examples/executors/hello.c"
        echo '__attribute__((constructor)) static void stay(void) { while (!strcmp(program_invocation_short_name, "job_runner")) pause(); }'
    } >hello.c
    run "$SUBMIT" run --exec hello.c --node_count 1 --round-timeout 2 -o out-exec
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"CodecFailed: executor hello has not returned from its constructors, which run when it is loaded, for 1.5 s"* ]]
    # A destructor may hang when all is done: the job has succeeded, and the process is gone soon.
    { echo '#define STUCK_AT_EXIT'; cat "$ROOT/tests/codecs/stuck_load.c"; } >at_exit.c
    "$SUBMIT" -q --codec at_exit.c --node_count 1 --dataset "$FEW" --max-steps 4 -o out
    within 60 no_runner
}

@test "of a codec that writes 100,000 event lines the agent takes a sample, and the job continues" {
    start_agents 2
    local id
    "$SUBMIT" -q --codec "$BUILD/tests/codecs/flood.so" --node_count 2 --epochs 1 -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
    id=$(only_job 0)
    [ "$(grep -c 'and so on' "agent0/jobs/$id/run/events.jsonl")" -eq 100000 ]
    [ "$(grep -c 'and so on' "agent0/jobs/$id/journal.jsonl")" -le 5000 ]
    grep -q 'the agent has left out [0-9]* of the [0-9]* lines that the runner wrote' "agent0/jobs/$id/journal.jsonl"
    [ "$(tail -1 "agent0/jobs/$id/journal.jsonl" | jq -r .event)" = end ]
}

@test "a codec that exhausts memory ends its node only, and the failure states its limit" {
    # A sanitizer's build has no such limit, because its own memory would count.
    case $BUILD in */asan | */tsan) skip "there is no limit to memory in a sanitizer's build" ;; esac
    start_agent 0 --job-memory 1
    start_agent 1
    write_workers 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/allocate.so" --node_count 2 --dataset "$FEW" --epochs 1 -o out
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"failed: node(0), RunnerDied: job_runner was killed by signal 11 (Segmentation fault); it used "*" GiB of memory, of the 1.0 GiB that a job may use here"* ]]
    [[ "$output" == *"The node ran codec allocate, SHA-256"* ]]
    serves_the_next_job
}

@test "a codec that hides memory from its limit ends its node only, and the failure states the memory in use" {
    case $BUILD in */asan | */tsan) skip "there is no limit to memory in a sanitizer's build" ;; esac
    start_agent 0 --job-memory 1 --slots 2
    start_agent 1
    write_workers 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/allocate.so:hides=1" --node_count 2 --dataset "$FEW" --epochs 1 -o out
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" =~ "failed: node(0), OutOfMemory: the node uses "([0-9.]+)" GiB of memory, of the 0.50 GiB that a job may use here: "[0-9.]+" GiB are private, 0.00 GiB shared, 0.00 GiB page tables" ]]
    serves_the_next_job
}

# bats test_tags=long
@test "a codec that makes one file after the other ends its node" {
    start_agents 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/many_files.so" --node_count 2 --dataset "$FEW" --epochs 1 -o out
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"failed: node(0), DiskFull: the node has written more than 1000 files"* ]]
    [ -z "$(compgen -G 'agent0/jobs/*/run/file-*')" ]
    [ -s "agent0/jobs/$(only_job 0)/run/node.log" ]
    serves_the_next_job
}

# bats test_tags=long
@test "a codec that hangs ends with the job's time limit" {
    start_agents 2
    run "$SUBMIT" --codec "$BUILD/tests/codecs/spin.so" --node_count 2 --dataset "$FEW" --epochs 1000 --time-limit 3 -o out
    [ "$status" -eq 1 ]
    [[ "$output" == *"TimeLimit"* ]]
    serves_the_next_job
}
