#!/usr/bin/env bats
# Wrong input: one message with the fault, its place and the remedy, and the exit status for it. Nothing is started.
load lib
load namespaces

# refused STATUS WORDS ARGS...: job_submit ends with the status and prints the words.
refused() {
    local wanted=$1 words=$2
    shift 2
    run "$SUBMIT" "$@"
    echo "status $status"
    [ "$status" -eq "$wanted" ] && [[ "$output" == *"$words"* ]]
}

# apart COMMAND...: as `run`, with stderr separate. bats 1.2 of Debian 11 has no --separate-stderr.
apart() {
    status=0
    "$@" >stdout.txt 2>stderr.txt || status=$?
    output=$(cat stdout.txt) stderr=$(cat stderr.txt)
    rm stdout.txt stderr.txt
}

listed() { # a valid worker.json, without agents
    echo '{"Worker":["127.0.0.1:1","127.0.0.1:2"]}' >worker.json
}

# shellcheck disable=SC2030,SC2031 # `run` sets status and stderr in each test anew
@test "every command reports a stdout that cannot be written" {
    [ -w /dev/full ] || skip "there is no /dev/full"
    for command in "list --json" "help" "list --help" "codecs list" "version" ""; do
        # shellcheck disable=SC2086
        apart bash -c "'$SUBMIT' $command >/dev/full"
        echo "$command: $status $stderr"
        [ "$status" -eq 6 ]
        [ "$(grep -c 'standard output could not be written' <<<"$stderr")" -eq 1 ]
        # shellcheck disable=SC2086
        apart bash -c "'$SUBMIT' $command >&-"
        [ "$status" -eq 6 ]
        [[ "$stderr" == *"standard output could not be written"* ]]
    done
}

# shellcheck disable=SC2031
unread() { # unread ARGS...: job_submit, whose stdout is not read
    apart python3 -c '
import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.call(sys.argv[1:], stdout=w))' "$SUBMIT" "$@"
    echo "status $status: $stderr"
}

@test "a closed pipe ends a command that only prints, without a message" {
    for command in "list --json" "help" "simulate --help" "codecs show fedavg"; do
        # shellcheck disable=SC2086
        unread $command
        [ "$status" -eq 141 ]
        [ "$stderr" = "" ]
    done
    unread simulate -q --codec plain --node_count 2 --gradients 10 --epochs 1 -o out
    [ "$status" -eq 0 ]
    [ -s out/run.json ]
    unread simulate -q --codec plain --node_count 2 --gradients 10 --epochs 1 --kill 1@1ms -o lost
    [ "$status" -eq 1 ]
}

@test "invalid UTF-8 is shown with question marks, and refused in names that must be found again" {
    start_agents 1
    cat >$'caf\xe9.c' <<'C'
#include "codec_events.h"
static int encode(struct codec *c, struct wire_out *out) { (void)out; return codec_fail(c, "caf\xe9 is closed"); }
static int merge(struct codec *c, int from, struct wire_in *in) { (void)c; (void)from; (void)in; return CODEC_GO; }
static const struct codec_round cafe = {.encode = encode, .merge = merge};
CODEC_PLUGIN(.name = "cafe", .source = "caf\xe9", .more = CODEC_MORE(.round = &cafe))
C
    run "$SUBMIT" codecs test $'caf\xe9.c' --check ends --json
    [ "$status" -eq 1 ]
    [[ "$output" == *'caf? is closed'* ]]
    "$SUBMIT" codecs show $'caf\xe9.c' --json | jq -e '.data.source == "caf?"'
    # also escapes that would color a terminal
    sed 's/caf.xe9/\\033[31mred/g' $'caf\xe9.c' >red.c
    refused 1 "?[31mred is closed" codecs test red.c --check ends
    refused 0 "cafe: ?[31mred" codecs show red.c
    refused 1 "?[31mred is closed" simulate --codec red.c --node_count 2 --gradients 10 --steps 2 --epochs 1 --exhaustive -o searched
    USER=$'j\xe9' refused 1 "caf? is closed" --codec $'caf\xe9.c' --node_count 1 --dataset "$FEW" -o out
    [ "$(jq -r '.reason' out/run.json)" = CodecFailed ]
    refused 1 "caf? is closed" simulate --codec $'caf\xe9.c' --node_count 2 --gradients 10 -o simulated
    refused 6 "/caf?: the path is not UTF-8" --codec plain --node_count 1 -o $'caf\xe9'
    [ ! -e $'caf\xe9' ]
    mkdir $'h\xe9' && cd $'h\xe9'
    refused 6 "the path is not UTF-8" simulate --codec plain --node_count 2 --gradients 10 -o out
    refused 0 "Results in" simulate --codec plain --node_count 2 --gradients 10 -o "$T/again"
    refused 6 'caf?' validate --codec plain --node_count 1 --json --workers ../worker.json --model $'caf\xe9'
}

# shellcheck disable=SC2030
@test "no worker.json" {
    refused 6 "worker.json" --codec plain --node_count 2
    echo '["127.0.0.1:1","127.0.0.1:2"]' >executors.json
    refused 6 "executors.json is here; if it is the list: --workers executors.json" --codec plain --node_count 2
    refused 6 "2: there is no such file; --workers or PSGD_WORKERS name the file" --codec plain --workers 2
    [[ "$output" == *"The number of workers is --node_count 2."* ]]
    refused 3 "127.0.0.1:1" --codec plain --node_count 2 --dataset "$FEW" --workers executors.json
}

# reports SENTENCE ARGS...: job_submit prints the sentence, and nothing about the missing worker.json.
reports() {
    local sentence=$1
    shift
    refused 6 "error: $sentence" --node_count 2 "$@"
    # shellcheck disable=SC2031 # not another shell's
    [[ "$output" != *"worker.json"* ]]
}

@test "a command with invalid options of its job, before worker.json is opened" {
    [ ! -e worker.json ]
    reports 'unknown codec "nosuchcodec"' --codec nosuchcodec
    reports 'codec easgd:alhpa=0.3: no parameter "alhpa" (did you mean "alpha"?)' --codec easgd:alhpa=0.3
    reports 'codec easgd:alpha=much: alpha: "much" is not a number' --codec easgd:alpha=much
    reports 'unknown codec "nosuchcodec"' --codec fedavg --server_codec nosuchcodec
    reports '--server_codec fedavg: codec plain has no server side' --codec plain --server_codec fedavg
    reports 'unknown model "nosuchmodel"' --codec plain --model nosuchmodel
    reports 'no data set is called "nosuchset"' --codec plain --dataset nosuchset
    reports 'no partition is called "nosuchrule"' --codec plain --partition nosuchrule
    reports 'transform: "nosuchword" is none of unit' --codec plain --transform nosuchword
    reports '--compress: no compressor is called "nosuchcompressor"' --codec fedpaq --compress nosuchcompressor
    reports '--compress int8: codec fedavg accepts lossless compression only' --codec fedavg --compress int8
    reports '--compress-down fp16: codec plain has no server side' --codec plain --compress-down fp16
    reports '--optimizer pa exchanges parameters, or gradients for weights on servers, but codec plain exchanges gradients' --codec plain --optimizer pa
    reports '--optimizer fast exchanges gradients, but codec fedavg exchanges parameters' --codec fedavg --optimizer fast
    reports '--local-steps 5 and --codec easgd:every=10' --codec easgd:every=10 --local-steps 5
    reports '--block_assignment: ' --codec plain --redundancy 3
    reports '--feed: a job with shared mini-batches writes no checkpoints' --codec ps --parallel_sgd asgd --feed shared --checkpoint-every 1
    reports 'plain,./mine.c: No such file or directory' --codec plain,./mine.c
    [[ "$output" == *"hint: A list of codecs can have a file only in the form '{\"layer0\": \"./mine.c\", \"*\": \"plain\"}'."* ]]
    reports '--local-steps has no effect in this job: codec plain exchanges in each step' --codec plain --local-steps 5
    reports '--local-steps has no effect in this job: codec gossip exchanges' --codec gossip --local-steps 5
    reports '--retry-on has no effect in this job: without --retries' --codec plain --retry-on node_lost
}

@test "an option without effect, by each verb that takes it; not one that changes nothing" {
    local verb why
    echo '{"Worker":["127.0.0.1:1","127.0.0.1:2"]}' >worker.json
    for verb in "" validate "simulate -q"; do
        # shellcheck disable=SC2086 # no verb is no word
        refused 6 'error: --local-steps has no effect in this job: codec plain exchanges' $verb --codec plain --node_count 2 --local-steps 5
    done
    why='has no effect in this job: codec plain sums no vectors over all workers here'
    refused 6 "--allreduce $why" validate --codec plain --path gather --allreduce ring --node_count 2
    why='has no effect in this job: --gradients stands in for model and data'
    refused 6 "--batch_size $why" simulate --codec plain --gradients 10 --batch_size 5
    refused 6 "--model $why" simulate --codec plain --gradients 10 --model softmax
    refused 6 '--steps has no effect in this job: an epoch has the steps of its data set' simulate --codec plain --steps 5
    refused 6 '--server-link has no effect in this job: without --servers' simulate --codec plain --gradients 10 --server-link any,0s
    "$SUBMIT" simulate -q --codec plain --gradients 10 --local-steps 0 --path gather --allreduce auto -o neutral
    "$SUBMIT" simulate -q --codec plain --gradients 10 --node_count 2 --allreduce ring -o ring
}

@test "a job that the rule's open() refuses is refused before any request to an agent" {
    echo '{"PS":"127.0.0.1:3","Worker":["127.0.0.1:1","127.0.0.1:2"]}' >worker.json
    local asgd=(--node_count 2 --parallel_sgd asgd)
    refused 6 "backups=2 leave no gradient" --codec sync_replicas:backups=2 "${asgd[@]}" --dataset "$FEW" --model softmax
    refused 6 "n_fetch=3 is not a multiple of n_push=2" --codec downpour:n_push=2,n_fetch=3 "${asgd[@]}" --dataset "$FEW" --model softmax
    refused 6 "running statistics (batch_norm)" --codec dc_asgd "${asgd[@]}" --dataset "$FEW" --model lenet-bn
    refused 6 "running statistics (batch_norm)" validate --codec laq --node_count 2 --dataset "$FEW" --model lenet-bn
    [[ "$output" == *"code: CODEC"* && "$output" != *"Add worker"* ]]
}

@test "broken JSON, with line and column" {
    printf '{\n  "Worker": [1\n' >worker.json
    refused 6 "worker.json:3:" --codec plain --node_count 2
    printf '{"Wroker": ["a"]}' >worker.json
    refused 6 'did you mean "Worker"' --codec plain --node_count 2
    printf '{"Worker": ["127.0.0.1:1","127.0.0.1:1"]}' >worker.json
    refused 6 "127.0.0.1:1" --codec plain --node_count 2
}

@test "more workers than agents can run in one job" {
    listed
    refused 6 "at most 4096 workers" validate --codec dummy --node_count 4097 --model softmax --batch_size 1
}

# bats test_tags=long
@test "a simulation may have more workers than agents can run" {
    # With a server: if every worker were connected with each other, the BYE frames alone would be 17 million messages.
    run "$SUBMIT" simulate -q --codec fedavg --servers 1 --node_count 4097 --gradients 10 --steps 1 --epochs 1 -o out
    [ "$status" -eq 0 ]
}

@test "an unreachable agent" {
    listed
    refused 3 "127.0.0.1:1" --codec plain --node_count 2 --dataset "$FEW"
}

# serves CODE: prints a port on which this Python code, the body of a server with the socket s, answers.
serves() {
    "$TOOLS/limit" "$TEST_LIMIT" python3 -c "
import http.server, socket
s = socket.create_server(('127.0.0.1', 0))
open('port', 'w').write(str(s.getsockname()[1]))
$1" 2>/dev/null 3>&- &
    SERVER=$!
    within 60 [ -s port ]
    echo "{\"Worker\":[\"127.0.0.1:$(cat port)\"]}" >worker.json
}

@test "a web server that is not an agent" {
    serves "
h = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler, False)
h.socket = s
h.serve_forever()"
    run "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *"nothing was sent to it"* ]]
    run "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --insecure-no-tls
    end_process $SERVER || true
    [ "$status" -eq 3 ]
    [[ "$output" == *"answered with status 501 and no JSON"* ]]
    [[ "$output" == *"Another program than an agent may use this port."* ]]
}

@test "a server that does not respond, interrupted by Ctrl-C" {
    serves "
held = []
while True:
    c = s.accept()[0]
    held.append(c)
    open('asked', 'ab').write(c.recv(4096).split(b'\r\n')[0] + b'\n')"
    "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --insecure-no-tls 2>log 3>&- &
    local pid=$! s=0
    within 60 grep -q "node(0): agent 127.0.0.1:$(cat port) has not answered yet; waiting until" log
    kill -INT $pid
    wait $pid || s=$?
    end_process $SERVER || true
    cat log
    [ $s -eq 130 ]
    [ "$(grep -c 'does not answer' log)" -eq 0 ]
    # There is no slot to release, and no agent has received a request to.
    cat asked
    [ "$(wc -l <asked)" -eq 1 ]
}

@test "a wrong token" {
    start_agents 2
    head -c 32 /dev/urandom | base64 | tr '+/' '-_' | head -c 43 >wrong
    chmod 600 wrong
    rm "$XDG_STATE_HOME"/psgd/agents/*
    refused 7 "token" --codec plain --node_count 2 --dataset "$FEW" --token-file wrong
    refused 7 "token" --codec plain --node_count 2 --dataset "$FEW"
    run "$SUBMIT" --codec plain --node_count 1 --epochs 1 --model softmax --dataset "$FEW" --token-file agent0/token -o out
    [ "$status" -eq 0 ]
}

@test "an argument too many, or an empty one for a job, is refused and no job chosen instead" {
    run "$SUBMIT" status j-aaaaaa j-bbbbbb
    [ "$status" -eq 2 ]
    [[ "$output" == *'"j-bbbbbb" is one argument too many for status'* ]]
    run "$SUBMIT" list word
    [ "$status" -eq 2 ]
    [[ "$output" == *'"word" is one argument too many for list'* ]]
    for verb in submit validate launch simulate; do
        run "$SUBMIT" $verb word
        [ "$status" -eq 2 ]
        [[ "$output" == *'"word": a job takes options only'* ]]
    done
    run "$SUBMIT" cancel ''
    [ "$status" -eq 2 ]
    [[ "$output" == *"the job's id is empty"* ]]
}

@test "an unknown codec, with the nearest one" {
    listed
    refused 6 "fedavg" --codec fedavgg --node_count 2
}

@test "a codec that does not compile, with the compiler's own messages" {
    listed
    printf '#include "codec.h"\nint x = "y"\n' >bad.c
    refused 6 "bad.c:2:" --codec bad.c --node_count 2
    # Also if the parent of job_submit ignores SIGCHLD.
    run env --ignore-signal=CHLD "$SUBMIT" codecs show bad.c
    [ "$status" -eq 6 ]
    [[ "$output" == *"cc does not compile it (status 1"* ]]
}

@test "a codec of another ABI version, naming both" {
    listed
    refused 6 "ABI 0" --codec "$BUILD/tests/codecs/old_abi.so" --node_count 2
    [[ "$output" == *"this psgd has ABI 11"* ]]
    [[ "$output" == *"ABI 11 moved all but combinations to codec_events.h"* ]]
    printf '#include "codec.h"\nint n(struct codec *c)\n{\n    return c->node;\n}\n' >old.c
    refused 6 "the other facts of the job are c->run->node" --codec old.c --node_count 2
    # An executor has a node and a host, too.
    printf '#include "executor.h"\nint n(struct executor *x)\n{\n    return x->node + y;\n}\n' >executor.c
    run "$SUBMIT" run --workers worker.json --node_count 1 --exec executor.c -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *"executor.c:4:"* && "$output" != *"ABI 11"* ]]
}

@test "a shared object that is no codec" {
    listed
    printf 'int x;\n' >none.c
    refused 6 "error: codec none.c: not a codec: it has no symbol codec_plugin" --codec none.c --node_count 2
    # neither a temporary file that no longer exists nor the same path twice
    printf '#include "codec.h"\nint x = "y"\n' >bad.c
    refused 6 "error: codec bad.c: cc does not compile it" --codec bad.c --node_count 2
    refused 6 "error: ../: is a folder, expected a file" --codec ../ --node_count 2
}

@test "a missing or full folder for temporary files is reported as such, and not as a fault of the codec" {
    listed
    printf '#include "codec.h"\nint x;\n' >some.c
    TMPDIR=$T/nowhere refused 6 "$T/nowhere/psgd-" --codec some.c --node_count 2
    [[ "$output" == *"TMPDIR=FOLDER to use another folder"* ]]
    make_disk 8k "$T/tiny"
    run "${ON_DISK[@]}" env -C "$T" TMPDIR="$T/tiny" "$SUBMIT" --codec some.c --node_count 2
    [ "$status" -eq 6 ]
    [[ "$output" == *"too little for temporary files"*"code: DISK_FULL"* ]]
}

@test "a codec that exits, kills or blocks the process that loads it" {
    listed
    for act in 'exit(0);' 'raise(SIGSEGV);' 'abort();'; do
        {
            printf '#include <signal.h>\n#include <stdlib.h>\n'
            cat "$ROOT/codecs/dummy.c"
            printf '__attribute__((constructor)) static void act(void) { %s }\n' "$act"
        } >act.c
        refused 6 "loading it" --codec act.c --node_count 2
    done
    head -c 3000 "$BUILD/codecs/dummy.so" >torn.so
    refused 6 "torn.so" --codec torn.so --node_count 2
}

@test "a server codec that is incompatible with the workers'" {
    echo '{"PS":"127.0.0.1:3","Worker":["127.0.0.1:1","127.0.0.1:2"]}' >worker.json
    refused 6 "combination" --codec fedavg --server_codec dummy --node_count 2
    refused 6 "no server side" --codec fedavg --server_codec plain --node_count 2
    refused 6 "codec plain has no server side" --codec plain --server_codec fedavg --node_count 2
}

@test "a server codec for a job without servers" {
    listed
    refused 6 "--server_codec easgd: the job has no parameter servers" -q --codec fedavg --server_codec easgd --node_count 2
    refused 3 "127.0.0.1:1" -q --codec fedavg --server_codec null --node_count 2 --dataset "$FEW"
}

@test "unusual spellings of addresses and files" {
    printf '\357\273\277{"Worker":["127.0.0.1:1"]}' >worker.json
    refused 6 "byte order mark" --codec plain
    echo '{"Worker":["https://127.0.0.1:1"]}' >worker.json
    refused 6 "scheme" --codec plain
    echo '{"Worker":["http://127.0.0.1:1"]}' >worker.json
    refused 3 "127.0.0.1:1" --codec plain --dataset "$FEW"
}

@test "more nodes than the list has" {
    listed
    refused 6 "3" --codec plain --node_count 3
    [[ "$output" == *"2"* ]]
}

@test "a missing and a truncated IDX file, with expected and found bytes" {
    listed
    mkdir d
    refused 6 "train-images-idx3-ubyte" --codec plain --node_count 2 --dataset mnist --data d
    python3 - <<'PY'
import struct
def put(name, magic, dims, n):
    open("d/" + name, "wb").write(struct.pack(">I%dI" % len(dims), magic, *dims) + bytes(n))
put("train-images-idx3-ubyte", 0x803, (300, 28, 28), 300 * 784 - 5)
put("train-labels-idx1-ubyte", 0x801, (300,), 300)
put("t10k-images-idx3-ubyte", 0x803, (10, 28, 28), 7840)
put("t10k-labels-idx1-ubyte", 0x801, (10,), 10)
PY
    refused 6 "235216" --codec plain --node_count 2 --dataset mnist --data d
    [[ "$output" == *"235211"* ]]
}

@test "a file is refused for a data set that is generated" {
    listed
    refused 2 "--data t.csv: data set digits is generated and reads no file" --codec plain --node_count 2 --data t.csv
    [[ "$output" == *"--dataset"* ]]
    refused 2 "--data d: data set simlin:in=8 is generated" --codec plain --model linear --dataset simlin:in=8 --data d
}

@test "unknown options, verbs and arguments, with the nearest one" {
    listed
    refused 2 "node_count" --codec plain --node_cuont 2
    refused 2 "cancel" cancle
    refused 2 "Did you mean wait?" attach
    refused 2 "Did you mean list?" jobs
    refused 6 "job_submit --resume FOLDER continues a job on agents" resume missing
    refused 2 "Did you mean --trainer train.py?" train.py --codec plain
    refused 2 "Arguments of the training program come last, after --" --trainer train.py --codec plain --rate 0.1
    refused 2 "adam" --codec plain --gradient-descent addam
    refused 2 "epochs" --codec plain --epochs 0
    refused 2 "epochs" --codec plain --epochs many
    refused 2 "--node" --codec plain --node 2
    refused 2 "give one of them" --codec plain --optimizer adam --gradient-descent sgd
}

@test "a model that does not match the data, or is invalid" {
    listed
    echo '{"version":1,"name":"m","input":[100],"layers":[{"kind":"dense","units":10}],"loss":"softmax_cross_entropy"}' >m.json
    refused 6 "784" --codec plain --node_count 2 --dataset "$FEW" --model m.json
    eval "$(sed -n 's/^hint: A model that fits: \(echo .* >model.json\), then --model model.json$/\1/p' <<<"$output")"
    "$SUBMIT" validate -q --dataset "$FEW" --model model.json
    echo '{"version":1,"name":"m","input":[784],"layers":[{"kind":"dance","units":10}],"loss":"softmax_cross_entropy"}' >m.json
    refused 6 'dense' --codec plain --node_count 2 --model m.json
    refused 6 "mlp-tutorial" --codec plain --node_count 2 --model mlp-tutorail
}

@test "settings that contradict each other" {
    listed
    refused 6 "redundancy" --codec plain --node_count 2 --redundancy 3
    refused 6 "parameters" --codec plain --node_count 2 --optimizer pa
    refused 6 "samples" --codec plain --node_count 2 --batch_size 20000
}

@test "a result folder that cannot be written, or is not empty" {
    listed
    refused 6 "/proc/nowhere" --codec plain --node_count 2 -o /proc/nowhere
    mkdir full && touch full/x
    refused 6 "full" --codec plain --node_count 2 -o full
}

@test "an agent's port in use" {
    start_agent 0
    run limited "$BUILD/agent" --port "${PORTS[0]}" --dir other
    [ "$status" -eq 71 ]
    [[ "$output" == *"${PORTS[0]}"* ]]
}

@test "an agent's folder in use, wrong options, and an insecure address" {
    start_agent 0
    run limited "$BUILD/agent" --port 0 --dir agent0
    [ "$status" -ne 0 ]
    run limited "$BUILD/agent" --prot 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"--port"* ]]
    run limited "$BUILD/agent" --bind 0.0.0.0 --port 0 --dir open --no-token
    [ "$status" -eq 7 ]
    make_token token
    chmod 644 token
    run limited "$BUILD/agent" --token-file token --port 0 --dir open
    [ "$status" -eq 7 ]
    [[ "$output" == *"can be read by others"*"chmod 600"* ]]
}

@test "an agent's folder, or one above it, that others could change" {
    mkdir -p shared/agent
    chmod 777 shared
    run limited "$BUILD/agent" --port 0 --dir shared/agent
    [ "$status" -eq 7 ]
    [[ "$output" == *"$T/shared can be written to by others (mode 777)"*"chmod go-w"* ]]
    chmod 755 shared
    if [ "$(id -u)" -eq 0 ]; then
        chown 4711 shared/agent
        run limited "$BUILD/agent" --port 0 --dir shared/agent
        [ "$status" -eq 7 ]
        [[ "$output" == *"$T/shared/agent belongs to user 4711, not to user 0"* ]]
        make_token token
        chown 4711 token
        run limited "$BUILD/agent" --port 0 --dir own --token-file token
        [ "$status" -eq 7 ]
        [[ "$output" == *"token belongs to user 4711"* ]]
    fi
}

@test "an agent continues while no process reads its log" {
    : >>"$T/agent0.log"
    mkfifo log
    exec 7<>log # a reader that never reads
    "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --port 0 --dir "$T/agent0" 2>log 3>&- &
    AGENTS[0]=$!
    local link
    has_link() { link=$(ls "$XDG_STATE_HOME"/psgd/agents/*.token 2>/dev/null); }
    within 60 has_link
    link=${link##*/}
    PORTS[0]=${link%.token}
    # A pipe holds 64 KiB. The log has a line for each second with refused requests, and for each answered POST.
    within 60 curl -sf -o /dev/null "http://127.0.0.1:${PORTS[0]}/healthz"
    local i
    for i in $(seq 1200); do
        printf 'url = "http://127.0.0.1:%d/v1/jobs/j-none%02d/cancel"\nrequest = "POST"\noutput = "/dev/null"\n' "${PORTS[0]}" $((i % 100))
    done >requests
    curl -sS -H "Authorization: Bearer $(<agent0/token)" -K requests
    curl -sf "http://127.0.0.1:${PORTS[0]}/healthz"
    dd if=log iflag=nonblock bs=1M count=1 >read.log 2>/dev/null || true # now it reads
    status_of 0 POST /v1/jobs/j-nothing/cancel
    dd if=log iflag=nonblock bs=1M count=1 >>read.log 2>/dev/null || true
    exec 7<&-
    grep -q 'lines were left out: nobody read them' read.log
}

@test "an unknown job" {
    start_agents 2
    refused 6 "j-nothere" status j-nothere
}
