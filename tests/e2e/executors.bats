#!/usr/bin/env bats
# Executors: functions of a user's C file that run on each node's shard of the input (docs/executors.md).
load lib

# execute OUT FILE [OPTION...]: a job of two nodes.
execute() {
    local out=$1 file=$2
    shift 2
    run "$SUBMIT" run --workers worker.json --node_count 2 --exec "$file" -o "$out" "$@"
    echo "$output"
}

@test "the examples give what other programs compute from the same input" {
    start_agents 2
    execute hello "$ROOT/examples/executors/hello.c"
    [ "$status" -eq 0 ]
    [ "$(cat hello/output/node-0.txt hello/output/node-1.txt)" = $'Hello World from node 0 of 2\nHello World from node 1 of 2' ]
    [ "$(jq 'select(.event == "progress").step' hello/events.jsonl | tail -1)" -eq 100 ]
    jq -e '[.nodes[].isolation] == ["'"$(isolation_here)"'", "'"$(isolation_here)"'"]' hello/run.json

    seq 0 999 >numbers.txt
    execute sum "$ROOT/examples/executors/reduce_sum.c" --data numbers.txt
    [ "$status" -eq 0 ]
    [ "$(cat sum/output/node-*.txt)" = "$(awk '{ sum += $1 } END { print sum }' numbers.txt)" ]
    grep -q 'the sum of this shard is [0-9]' sum/logs/worker-1.log

    mkdir text
    cat "$ROOT"/docs/*.md >text/documents
    printf 'no line feed at the end' >text/few
    cat "$ROOT"/agent/*.c >text/source
    execute words "$ROOT/examples/executors/word_count.c" --data text -- lower
    [ "$status" -eq 0 ]
    { cat text/documents text/few; echo; cat text/source; } | LC_ALL=C tr '[:upper:]' '[:lower:]' | LC_ALL=C tr -s ' \t\n\v\f\r' '\n' |
        grep -v '^$' | LC_ALL=C sort | uniq -c | awk '{print $2, $1}' | LC_ALL=C sort >wanted
    cat words/output/node-*.txt | LC_ALL=C sort | diff wanted -
    [ "$(wc -l <words/output/node-1.txt)" -gt 1000 ]
    awk '{print $1}' words/output/node-1.txt | LC_ALL=C sort -c

    "$SUBMIT" rerun words --set node_count=1 -o again
    diff wanted again/output/node-0.txt
    printf 'a\0b' >text/page.png
    execute wrong "$ROOT/examples/executors/word_count.c" --data text
    [ "$status" -ne 0 ]
    [[ "$output" == *"--data text: text/page.png has a zero byte, so it is no text"* ]]
    [[ "$output" == *"the input of node "*" is no text: its byte "*" is zero; give --data a file"* ]]
    run "$SUBMIT" --resume words
    [[ "$output" == *"an executor keeps no checkpoints; job_submit rerun runs it again"* ]]
}

@test "messages and vectors of any length arrive whole, through memory and through encrypted connections" {
    start_agents 3
    local all=(run --workers worker.json --node_count 3 --exec "$ROOT/tests/executors/exchanges.c")
    "$SUBMIT" "${all[@]}" -o memory -- 3000000
    grep -q 'messages go through memory shared with all peers' memory/logs/worker-0.log
    "$SUBMIT" "${all[@]}" --local-path off --data-tls on -o encrypted -- 16000000 # more than the kernel keeps
    [ "$(cat encrypted/output/* memory/output/* | sort -u)" = '6 nan' ]
    "$SUBMIT" "${all[@]}" --node_count 1 -o alone
    [ "$(cat alone/output/*)" = '1 nan' ]
}

@test "an agent with a list of codecs compiles a listed executor's source, and refuses another one" {
    mkdir -m 700 agent0
    sha256sum "$ROOT/examples/executors/hello.c" >agent0/codecs.allow
    chmod 600 agent0/codecs.allow
    start_agent 0 --codecs allowlist
    start_agent 1
    write_workers 1 1 # agent 1 is a parameter server
    "$SUBMIT" run --workers worker.json --exec "$ROOT/examples/executors/hello.c" -o out 2>log
    grep -q 'run: the parameter server of worker.json takes no part in this job' log
    [ "$(cat out/output/node-0.txt)" = 'Hello World from node 0 of 1' ]
    grep -q 'executor hello (made for .*) is compiled here' out/logs/worker-0.log
    run "$SUBMIT" run --workers worker.json --exec "$ROOT/examples/executors/word_count.c" -o other
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"codec word_count (SHA-256 "*") is neither built into this agent nor on its list"* ]]
}

@test "an executor's job that cannot run is refused with the reason before any request to an agent" {
    echo '{"Worker":["127.0.0.1:1","127.0.0.1:2"]}' >worker.json
    local hello=$ROOT/examples/executors/hello.c
    mkdir empty
    echo 'int main(' >broken.c
    cp "$hello" program.txt
    while IFS='|' read -r text options; do
        # shellcheck disable=SC2086 # several options
        run "$SUBMIT" run --workers worker.json --node_count 2 $options
        echo "$output"
        [ "$status" -ne 0 ]
        [[ "$output" == *"$text"* ]]
        [[ "$output" != *"connect"* ]]
    done <<EOT
run needs an executor: --exec FILE.c|
not an executor: it has no symbol executor_plugin|--exec $ROOT/codecs/fedavg.c
does not compile it|--exec broken.c
an executor is a C file, NAME.c, or an object|--exec program.txt
No such file|--exec missing.c
--epochs is for other verbs|--exec $hello --epochs 2
--data nowhere: No such file|--exec $hello --data nowhere
--data empty: the folder has no file|--exec $hello --data empty
worker.json lists 2 workers|--exec $hello --node_count 3
EOT
    run "$SUBMIT" --workers worker.json --codec "$hello"
    echo "$output"
    [[ "$output" == *"not a codec: it has no symbol codec_plugin"*"job_submit run --exec FILE"* ]]
}

# bats test_tags=long
@test "each way in which an executor ends its node has a message and an exit status, and none is a success" {
    start_agents 2
    while IFS='|' read -r way text; do
        execute "out-$way" "$ROOT/tests/executors/ends.c" --round-timeout 4 -- "$way"
        [ "$status" -eq 1 ]
        [[ "$output" == *"$text"* ]]
        [ "$(jq -r .state "out-$way/run.json")" = failed ]
    done <<'EOT'
fail|failed: node(1), CodecFailed: executor ends: the answer is 42
number|failed: node(1), CodecFailed: executor ends: its run() returned 7 without an error message
exit|failed: node(1), CodecFailed: executor ends has called exit
leave|failed: node(1), RunnerDied: job_runner exited with status 0
loop|failed: node(1), CodecFailed: executor ends has not called its host for 3 s: does it loop?
absence|node 1, holds up the job: node 0 has waited for it too long
return|failed: node(0), NodeLost: a message of node 1 cannot arrive: its sender has ended
host|failed: node(1), CodecFailed: executor ends: node 1 sends to node 2; a message goes to another node, 0 to 1
lie|FalseSuccess: job_runner has reported success: its last progress is 99 of 100, so its executor has not returned
EOT
}

is_connected() { grep -qs 'connected to 1 node' agent"$1"/jobs/*/run/node.log; }

@test "a node that is killed is named, and the others end" {
    start_agents 2
    "$SUBMIT" run --workers worker.json --node_count 2 --exec "$ROOT/tests/executors/ends.c" -o out -- absence >log 2>&1 3>&- &
    local job=$! status=0
    within 60 is_connected 0
    within 60 is_in_state 1 running
    kill -9 "$(api 1 GET /v1/jobs | jq '.jobs[0].pid')"
    wait "$job" || status=$?
    cat log
    [ "$status" -eq 1 ]
    grep -q 'failed: node(1), RunnerDied: job_runner was killed by signal 9' log
    grep -q 'node(0): failed, NodeLost: node 1 is lost' log
}
