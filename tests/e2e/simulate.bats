#!/usr/bin/env bats
# job_submit simulate: a job without agents.
# Takes about 1 minute.
load lib
load documents

# bats test_tags=check
@test "the simulations in docs/simulator.md run as described" {
    ln -s "$BUILD" build
    blocks sh docs/simulator.md >session.sh
    grep -q 'simulate -q --codec fedavg' session.sh
    run limited bash -e session.sh
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -r .state thousand/run.json)" = succeeded ]
    [ "$(jq -r .state sim-star/run.json)" = succeeded ]
    [ "$(jq -r .facts.simulation.result.models_agree sim-mesh/run.json)" = true ]
}

# bats test_tags=long,check
@test "the comparison in docs/sync-async.md runs and gives the times in its tables" {
    ln -s "$BUILD" build
    blocks sh docs/sync-async.md >session.sh
    run limited bash -e session.sh
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 22 ]
    grep '^|' "$ROOT/docs/sync-async.md" | grep -oE '[0-9]+\.[0-9]+ s\b' | sort -u >shown
    [ "$(wc -l <shown)" -ge 15 ]
    while read -r time; do [[ "$output" == *" $time "* ]] || { echo "no $time" && false; }; done <shown
}

# simulated OPTION...: seconds of a job of five exchanges, in which steps and the test set take no time
simulated() {
    rm -rf out
    "$SUBMIT" simulate -q --codec allreduce --gradients 1000 --epochs 1 --steps 5 --step-time 1e-6 --eval-time 1e-6 "$@" -o out >/dev/null
    jq .facts.simulation.result.sim_time_s out/run.json
}

@test "workers of a simulated machine share its link, and only a cut holds up messages between them" {
    local far="--node_count 2 --link any,1s" four="--node_count 4 --link 1Mbit,0s --path allreduce --allreduce ring" apart shared
    # shellcheck disable=SC2086
    {
        simulated $far | jq -e '. >= 5'
        simulated $far --workers-per-machine 2 | jq -e '. < 0.1'
        simulated $far --workers-per-machine 2 --cut '0|1@0s-3s' | jq -e '. >= 3 and . < 3.1'
        apart=$(simulated $four)
        shared=$(simulated $four --workers-per-machine 2 --allreduce direct)
    }
    # Ring, apart: 2 x 3/4 of a vector through each link. Direct, two on a machine: 2 x 2 vectors through each.
    jq -n -e "$shared / $apart | . > 2.4 and . < 2.7"
    run "$SUBMIT" simulate --codec fedavg --node_count 2 --servers 1 --path tree --gradients 10 -o no
    [ "$status" -eq 2 ]
    [[ "$output" == *"--servers 1: path tree is between workers only"*"hint: Leave --servers out, or take --path servers."* ]]
}

@test "servers of a simulation that a rule cannot use are refused, with a hint that helps" {
    local job=(simulate -q --node_count 2 --servers 2 --gradients 10 -o no)
    run "$SUBMIT" "${job[@]}" --codec plain
    [ "$status" -eq 2 ]
    [[ "$output" == *"--servers 2: codec plain cannot use them"*"hint: Leave --servers out."* ]]
    run "$SUBMIT" "${job[@]}" --codec plain --path servers
    [ "$status" -eq 6 ]
    [[ "$output" == *"--path servers: codec plain has no server side"*"hint: Leave --path out"* ]]
    run "$SUBMIT" "${job[@]}" --codec dc_asgd --psgd asgd --clip-norm 1
    [ "$status" -eq 6 ]
    [[ "$output" == *"no node has the whole gradient, whose norm --clip-norm limits"*"hint: Take one server, or ps"* ]]
}

@test "a simulation leaves the files of a job, with simulated times" {
    run "$SUBMIT" simulate -q --codec fedavg --node_count 3 --gradients 100 --epochs 2 --steps 4 -o out
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Simulated 0.08 s"* ]]
    [ -e out/logs/submit.log ]
    for f in README.txt run.json report.html records/train.csv records/eval.csv records/comm.csv model/final.safetensors; do
        [ -s "out/$f" ]
    done
    [ "$(head -1 out/records/comm.csv | tr , '\n' | tail -1)" = sim_time_s ]
    [ "$(wc -l <out/records/train.csv)" -eq $((1 + 3 * 8)) ]
    [ "$(wc -l <out/records/eval.csv)" -eq $((1 + 3 * 2)) ]
    "$SUBMIT" simulate -q --codec fedavg --node_count 3 --gradients 100 --epochs 2 --steps 4 -o again
    cmp out/records/train.csv again/records/train.csv
    cmp out/records/comm.csv again/records/comm.csv
    cmp out/model/final.safetensors again/model/final.safetensors
}

@test "a simulation can take its measurements from an earlier one" {
    local job=(--codec allreduce --node_count 2 --model softmax --epochs 1 --link "any,0s" --processors 2 --dataset "$FEW")
    "$SUBMIT" simulate -q "${job[@]}" -o measured
    jq .facts.simulation.result measured/run.json >result.json
    [ "$(jq -r .step_time result.json | tr , '\n' | wc -l)" -eq 16 ]
    # On a busy machine a long message may take no longer than a short one: any value.
    [[ "$(jq -r .overhead result.json)" =~ ^([0-9.e+-]+Gbit|any),[0-9.e+-]+us$ ]]
    "$SUBMIT" simulate -q "${job[@]}" --step-time "$(jq -r .step_time result.json)" --eval-time "$(jq .eval_time_s result.json)" \
        --codec-rate "$(jq .codec_rate_mbps result.json)" --overhead "$(jq -r .overhead result.json)" -o given
    jq -e --slurpfile was result.json '.facts.simulation.result.sim_time_s / $was[0].sim_time_s | . > 0.9999 and . < 1.0001' \
        given/run.json
    # A file keeps them for simulations of the same model, batch and nodes, whatever their rule.
    job[1]=plain
    "$SUBMIT" simulate -q "${job[@]}" --measured times.json -o kept
    job[1]=fedavg
    "$SUBMIT" simulate -q "${job[@]}" --measured times.json -o taken
    "$SUBMIT" simulate -q "${job[@]}" --measured times.json --batch_size 32 -o other
    [ "$(jq .facts.simulation.result.step_time kept/run.json)" = "$(jq .facts.simulation.result.step_time taken/run.json)" ]
    [ "$(jq -c 'map(.of.batch_size)' times.json)" = '[64,32]' ]
    [ "$(jq '.[1].measured.step_time' times.json)" = "$(jq .facts.simulation.result.step_time other/run.json)" ]
    echo '{}' >times.json
    run "$SUBMIT" simulate -q "${job[@]}" --measured times.json -o wrong
    [ "$status" -eq 6 ]
    [[ "$output" == *"times.json: it has no list of measured times"* ]]
    [ ! -e wrong ]
}

@test "--overhead works on a machine that cannot send messages to itself" {
    unshare -rn true 2>/dev/null || skip "no network namespaces here"
    local job=(--codec plain --path gather --node_count 2 --model softmax --epochs 1 --dataset "$FEW" -q)
    run unshare -rn "$SUBMIT" simulate "${job[@]}" -o without
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == *"hint: Set the time of a message with --overhead"* ]]
    unshare -rn "$SUBMIT" simulate "${job[@]}" --overhead any,0s -o with
}

@test "--json is one object with every node" {
    "$SUBMIT" simulate -q --json --codec plain --node_count 4 --gradients 100 -o out |
        jq -e '.ok and (.data.nodes | length == 4) and .data.facts.simulation.result.messages == 240'
}

@test "a node that dies ends the simulated job with status 1 and the reason" {
    run "$SUBMIT" simulate -q --codec fedavg --node_count 3 --gradients 100 --kill 1@50ms -o out
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"node(1), NodeLost"* ]]
    [ "$(jq -r '.nodes[1].state' out/run.json)" = failed ]
}

@test "impossible simulations are refused with a message, and leave no folder" {
    run "$SUBMIT" simulate -q --codec fedavg --link slow -o out
    [ "$status" -eq 2 ]
    [[ "$output" == *"100Mbit,20ms"* ]]
    run "$SUBMIT" simulate -q --codec plain --node_count 2 --servers 1 --gradients 10 -o out
    [ "$status" -eq 2 ]
    run "$SUBMIT" simulate -q --codec plain --node_count 2 --gradients 10 --kill 7@1s -o out
    [ "$status" -eq 6 ]
    [[ "$output" == *"no node 7"* ]]
    [ ! -e out ]
    run "$SUBMIT" simulate -q --codec plain --node_count 2 --resume somewhere
    [ "$status" -eq 2 ]
    [[ "$output" == *"--resume is for other verbs"* ]]
}

@test "a simulation has no checkpoints to resume, but can start from a model" {
    "$SUBMIT" simulate -q --codec fedavg --servers 1 --node_count 2 --model softmax --epochs 1 --dataset "$FEW" -o sim
    run "$SUBMIT" --resume sim --epochs 2 -o out
    [ "$status" -eq 6 ]
    [[ "$output" == *"sim/run.json: a simulation keeps no checkpoints; start from its model with --init-from"* ]]
    start_agents 1
    "$SUBMIT" -q --codec dummy --node_count 1 --model softmax --epochs 1 --init-from sim/model/final.safetensors --dataset "$FEW" -o out

}

@test "programs that others start report it, and their version" {
    local program
    for program in simulator predictor codec_check job_runner; do
        run limited "$BUILD/$program" --
        [ "$status" -eq 2 ]
        [[ "$output" == "$program is started by "*", not by hand" ]]
        [ "$program" = job_runner ] || [[ "$(limited "$BUILD/$program" --help)" == "$program is started by "*", not by hand." ]]
        [ "$(limited "$BUILD/$program" --version)" = "$program (psgd) $("$SUBMIT" --version | cut -d ' ' -f 2)" ]
    done
    # People start one with --job.
    [[ "$(limited "$BUILD/job_runner" --help)" == "usage: job_runner --job DIR [options]"*"--timeout S"* ]]
}

@test "a codec that crashes ends the simulator and not job_submit" {
    cat >crash.c <<'C'
#include <stdlib.h>
#include "codec_events.h"
static int encode(struct codec *c, struct wire_out *out) { (void)c; (void)out; abort(); }
static int merge(struct codec *c, int from, struct wire_in *in) { (void)c; (void)from; (void)in; return CODEC_GO; }
static const struct codec_round crash = {.encode = encode, .merge = merge};
CODEC_PLUGIN(.name = "crash", .source = "none", .more = CODEC_MORE(.round = &crash))
C
    run "$SUBMIT" simulate -q --codec crash.c --node_count 2 --gradients 10 -o out
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == *"killed by signal 6"* ]]
    [[ "$output" == *"codec crash has a bug"* ]]
}

write_loop() { # loop.c, a codec that hangs in its first encode, without taking the processor from other tests
    cat >loop.c <<'C'
#include <unistd.h>
#include "codec_events.h"
static int encode(struct codec *c, struct wire_out *out)
{
    volatile int busy = 1;
    (void)c, (void)out;
    while (busy)
        usleep(10000);
    return CODEC_GO;
}
static int merge(struct codec *c, int from, struct wire_in *in) { (void)c; (void)from; (void)in; return CODEC_GO; }
static const struct codec_round loop = {.encode = encode, .merge = merge};
CODEC_PLUGIN(.name = "loop", .source = "none", .more = CODEC_MORE(.round = &loop))
C
    LOOPING=("$SUBMIT" simulate --codec loop.c --node_count 2 --gradients 10 --steps 2 --epochs 1 -o out)
}

has_simulator() { # in the folder of the results
    pgrep -x simulator | while read -r pid; do readlink "/proc/$pid/cwd"; done | grep -qx "$T/out"
}

has_none() { ! has_simulator; }

@test "--timeout ends a simulation whose codec loops" {
    write_loop
    run "${LOOPING[@]}" -q --timeout 1
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"the 1 s of --timeout are over"* ]]
    has_none
}

@test "one signal ends a simulation whose codec loops" {
    write_loop
    "${LOOPING[@]}" -q >printed 2>&1 3>&- &
    local pid=$! status=0
    within 60 has_simulator
    kill -TERM $pid
    wait $pid || status=$?
    cat printed
    [ $status -eq 143 ]
    has_none
}

@test "a simulator ends with its job_submit, however that ends" {
    export TMPDIR=$T
    write_loop
    "${LOOPING[@]}" -q 3>&- &
    local pid=$!
    within 60 has_simulator
    kill -9 $pid
    wait $pid || true
    within 60 has_none
}

# same_as_real SIMULATED REAL: the weights bit for bit, every node's bytes, and its rows of train.csv and eval.csv, but for times.
same_as_real() {
    python3 - "$1" "$2" <<'PY'
import csv, json, struct, sys
def weights(folder):
    raw = open(f"{folder}/model/final.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    at = {k: t["data_offsets"] for k, t in json.loads(raw[8 : 8 + n]).items() if k != "__metadata__"}
    return {k: raw[8 + n + a : 8 + n + b] for k, (a, b) in at.items()}
def traffic(folder):
    nodes = json.load(open(f"{folder}/run.json"))["nodes"]
    return {n["node"]: [n["comm"][k] for k in ("sent_messages", "recv_messages", "sent_bytes", "recv_bytes")] for n in nodes}
def rows(folder, name):
    with open(f"{folder}/records/{name}.csv") as f:
        kept = [{k: v for k, v in row.items() if not k.endswith("_s")} for row in csv.DictReader(f)]
    return sorted(kept, key=lambda row: (int(row["node"]), int(row["step"])))
for what in (weights, traffic, lambda folder: rows(folder, "train"), lambda folder: rows(folder, "eval")):
    assert what(sys.argv[1]) == what(sys.argv[2])
PY
}

@test "a simulation ends with the weights and bytes of the real job, bit for bit" {
    start_agents 4
    same() { # same NAME WORKERS SERVERS OPTIONS...
        local name=$1 workers=$2 servers=$3
        shift 3
        write_workers "$workers" "$servers"
        # An all-reduce in shared memory sends no messages; a simulation has connections.
        "$SUBMIT" -q --local-path off --node_count "$workers" --epochs 1 --model softmax --dataset "$FEW" "${@/--workers-per-machine=*/-q}" \
            -o "$name-real"
        "$SUBMIT" simulate -q --node_count "$workers" --servers "$servers" --epochs 1 --model softmax --dataset "$FEW" \
            --step-time 0.01 --straggler 0.2:3 "$@" -o "$name"
        same_as_real "$name" "$name-real"
    }
    same plain 2 0 --codec plain --path gather --gradient-descent adam
    same star 2 1 --codec fedavg --local-steps 4 --eval-every 3 --gradient-descent momentum --learn-rate 0.02
    same elastic 2 0 --codec easgd:every=3 # its model is the center
    same blocks 4 0 --codec plain --path gather --batch-size 16
    same ratio 3 0 --codec fedavg --path gather --local-steps 7 --block-ratio 2,1,1 --batch-size 16
    # Three vectors and more have several orders of summation: workers that share memory take that of the nodes, and others
    # the algorithm for one machine.
    same here 3 0 --codec allreduce --batch-size 16 --workers-per-machine=3
    "$SUBMIT" -q --node_count 3 --epochs 1 --model softmax --dataset "$FEW" --batch-size 16 --codec allreduce -o shared
    "$SUBMIT" simulate -q --node_count 3 --epochs 1 --model softmax --dataset "$FEW" --batch-size 16 --codec allreduce --allreduce direct -o direct
    [ "$(jq .nodes[0].params_sha256 shared/run.json)" = "$(jq .nodes[0].params_sha256 direct/run.json)" ]
    # Sums of compressed vectors are rounded on their way, over connections alike.
    same halves 2 0 --codec allreduce --compress fp16
    # Its running statistics lie behind all trained parameters, and so do the last of the layers that are compressed.
    same norm 2 0 --codec plain --model lenet-bn --compress topk:ratio=0.1,per=layer
}

# random_data MODEL FOLDER: .npy files with 64 samples for training and 16 for the test, of the model's shape.
random_data() {
    mkdir -p "$2"
    python3 - "$1" "$2" <<'PY'
import json, random, struct, sys
model, folder = json.load(open(sys.argv[1])), sys.argv[2]
random.seed(5)
first, last = model["layers"][0], model["layers"][-1]
def save(name, kind, shape, values):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join("%d, " % n for n in shape))
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(f"{folder}/{name}.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%d%s" % (len(values), {"f4": "f", "i4": "i"}[kind]), *values))
size = 1
for n in model["input"]:
    size *= n
for part, n in (("train", 64), ("test", 16)):
    tokens = first["kind"] == "embedding"
    x = [random.randrange(first["vocab"]) if tokens else random.gauss(0, 1) for _ in range(n * size)]
    save(f"x_{part}", "i4" if tokens else "f4", [n] + model["input"], x)
    if model["loss"] == "mse":
        save(f"y_{part}", "f4", [n, last["units"]], [random.gauss(0, 1) for _ in range(n * last["units"])])
    else:
        save(f"y_{part}", "i4", [n], [i % last["units"] for i in range(n)])
PY
}

# Without two models that take minutes, whose layers other models have, too.
# bats test_tags=long
@test "every small model that ships ends with the same weights in a simulation and on agents, bit for bit" {
    start_agents 2
    local model job vocab
    for model in "$ROOT"/nn/models/*.json; do
        [[ $model != */alexnet.json && $model != */lstm-imdb.json ]] || continue
        echo "$model"
        random_data "$model" data
        vocab=$(jq -r '.layers[0].vocab // empty' "$model")
        job=(-q --codec plain --path gather --node_count 2 --epochs 2 --batch_size 8 --learn_rate 0.001 --model "$model"
            --dataset "npy${vocab:+:vocab=$vocab}" --data data)
        "$SUBMIT" "${job[@]}" -o real >/dev/null
        "$SUBMIT" simulate "${job[@]}" --step-time 0.01 -o simulated >/dev/null
        same_as_real simulated real
        rm -r data real simulated
    done
}

# bats test_tags=long
@test "steps that are not finite are skipped in a simulation as in the real job, bit for bit" {
    start_agents 2
    prepare_overflow
    for codec in plain fedavg; do
        job=(--codec "$codec" "${OVERFLOW[@]}")
        "$SUBMIT" -q "${job[@]}" --local-path off --on-nonfinite skip -o $codec-real
        run "$SUBMIT" simulate -q "${job[@]}" --on-nonfinite skip -o $codec
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *" non-finite gradients or updates were skipped."* ]]
        same_as_real $codec $codec-real
    done
    run "$SUBMIT" simulate -q "${job[@]}" -o stop
    [ "$status" -eq 1 ]
    [[ "$output" == *NumericDivergence*"the loss is "* ]]
    run "$SUBMIT" simulate -q --codec plain --node_count 2 --epochs 1 --model mlp-relu --learn_rate 1e30 --on-nonfinite skip -o out
    [ "$status" -eq 1 ]
    [[ "$output" == *"the loss on the test set is"* ]]
}

# bats test_tags=long
@test "collectives are simulated chunk by chunk, as over connections" {
    start_agents 3
    local algorithm # --allreduce auto takes others on one machine than between the machines that are simulated
    for algorithm in ring circulant; do
        "$SUBMIT" -q --codec allreduce --allreduce $algorithm --local-path off --node_count 3 --epochs 1 --dataset "$FEW" -o real
        "$SUBMIT" simulate -q --codec allreduce --allreduce $algorithm --node_count 3 --epochs 1 --dataset "$FEW" --step-time 0.01 -o simulated
        same_as_real simulated real
        rm -r real simulated
    done
}

@test "every order is tried, and one that fails is reported and can be replayed" {
    run "$SUBMIT" simulate -q --codec fedavg --node_count 2 --gradients 10 --steps 2 --epochs 1 --exhaustive -o all
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"5 orders of deliveries: all succeed"* ]]
    # A worker that skips its second round if the other's contribution is late.
    cat >late.c <<'C'
#include "codec_events.h"
struct late { uint32_t n_received; };
static int on_step(struct codec *c)
{
    struct late *l = c->state;
    wire_put_u32(codec_message(c), 7);
    if (c->run->step == 2 && l->n_received == 0)
        return codec_fail(c, "no contribution arrived");
    return codec_send(c, 1 - c->run->node);
}
static int on_message(struct codec *c, int from, struct wire_in *in)
{
    (void)from;
    ((struct late *)c->state)->n_received += wire_get_u32(in) == 7;
    return CODEC_GO;
}
static const struct codec_events late = {.on_step = on_step, .on_message = on_message};
CODEC_PLUGIN(.name = "late", .source = "none", .state_size = sizeof(struct late),
             .more = CODEC_MORE(.events = &late))
C
    run "$SUBMIT" simulate -q --codec late.c --node_count 2 --gradients 10 --steps 2 --epochs 1 --exhaustive -o one
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"no contribution arrived"* ]]
    order=$(sed -n 's/.*--replay \([^ ]*\) .*/\1/p' <<<"$output")
    run "$SUBMIT" simulate -q --codec late.c --node_count 2 --gradients 10 --steps 2 --epochs 1 --replay "$order" -o again
    [ "$status" -eq 1 ]
    [[ "$output" == *"no contribution arrived"* ]]
    [ -s again/records/train.csv ]
}

# forge SUMMARY: forge.c, a codec that writes this summary and ends the simulator.
forge() {
    cat >forge.c <<'C'
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "codec_events.h"
static int forge_grad(struct codec *c)
{
    char line[4096] = "", path[4200];
    FILE *f = fopen("/proc/self/cmdline", "r");
    (void)c;
    fread(line, 1, sizeof line - 1, f);
    snprintf(path, sizeof path, "%s/summary.json", line + strlen(line) + 1);
    f = fopen(path, "w");
    fputs(SUMMARY, f);
    fclose(f);
    _exit(0);
}
static const struct codec_events forge = {.on_grad = forge_grad};
CODEC_PLUGIN(.name = "forge", .source = "a test", .more = CODEC_MORE(.events = &forge))
C
    sed -i "s/SUMMARY/$(jq -n --arg s "$1" '$s' | sed 's/[\\&/]/\\&/g')/" forge.c
}

@test "a summary written by a codec is not trusted" {
    forge '{"ok":false,"code":0}'
    run "$SUBMIT" simulate --codec forge.c --node_count 2 --gradients 10 --epochs 1 --steps 2 -o out
    echo "$output"
    [ "$status" -eq 6 ]
    [[ "$output" == *"the simulator's summary is malformed"* ]]
    # nor does it control the terminal
    forge '{"ok":true,"nodes":[],"search":{"orders":1,"failure":"x\u001b[2J","order":"0s\u001b[2J"}}'
    run "$SUBMIT" simulate --codec forge.c --node_count 2 --gradients 10 --epochs 1 --steps 2 --exhaustive -o search
    echo "$output"
    [[ "$output" == *"--replay 0s?[2J instead"* ]]
    [[ "$output" != *$'\e'* ]]
}

@test "comm.csv of a simulation has all bytes of its totals: of rules of rounds and of events, with servers and without" {
    local of=(--node_count 4 --gradients 1000 --steps 6 --epochs 1 --link "1Gbit,1ms")
    "$SUBMIT" simulate -q --codec gossip "${of[@]}" -o gossip
    "$SUBMIT" simulate -q --codec plain --psgd asgd "${of[@]}" -o plain
    "$SUBMIT" simulate -q --codec downpour --psgd asgd --servers 2 "${of[@]}" -o downpour
    "$SUBMIT" simulate -q --codec fedavg --local-steps 2 --servers 1 "${of[@]}" -o fedavg
    "$SUBMIT" simulate -q --codec ndc --redundancy 2 "${of[@]}" -o ndc
    python3 - <<'PY'
import csv, json
for folder in "gossip", "plain", "downpour", "fedavg", "ndc":
    rows = list(csv.DictReader(open(f"{folder}/records/comm.csv")))
    for n in json.load(open(f"{folder}/run.json"))["nodes"]:
        for way, short in ("sent", "sent"), ("received", "recv"):
            mine = [r for r in rows if int(r["node"]) == n["node"] and r["direction"] == way]
            assert sum(int(r["wire_bytes"]) for r in mine) == n["comm"][f"{short}_bytes"] > 0, (folder, n["node"], way)
    if folder in ("gossip", "ndc"):  # each step is a round
        assert {int(r["round"]) for r in rows} == set(range(1, 7)), folder
PY
}

@test "a rule with servers sends as many bytes as its declared costs" {
    python3 - "$SUBMIT" <<'PY'
import csv, json, re, subprocess, sys
N, S = 1000, 2

def value(text):  # "4 S + 2 x 4 n_params bytes"
    terms = [re.sub(r"n_params", str(N), re.sub(r"\bS\b", str(S), term)).replace("bytes", "").replace("x", " ").split() for term in text.split(" + ")]
    return sum(eval("*".join(t)) for t in terms)

def sums(folder, node, way):
    rows = [r for r in csv.DictReader(open(f"{folder}/records/comm.csv")) if int(r["node"]) == node and r["direction"] == way]
    return sum(int(r["messages"]) for r in rows), sum(int(r["raw_bytes"]) for r in rows)

for codec in "asgd", "fedavg", "slowmo", "scaffold", "ps", "diloco", "signsgd", "dc_asgd", "sync_replicas", "downpour":
    shown = json.loads(subprocess.run([sys.argv[1], "codecs", "show", codec, "--json"], check=True, capture_output=True).stdout)["data"]
    parts = (shown["cost"] or shown["paths"]["servers"]).split("; asgd: ")
    modes = [mode for mode in ("ssgd", "asgd") if shown[f"has_{mode}"]]
    for mode, part in zip(modes, parts):
        folder = f"{codec}-{mode}"
        local = ["--local-steps", "2"] if shown["exchanges"] == "parameters" else []
        subprocess.run([sys.argv[1], "simulate", "-q", "--codec", codec, "--psgd", mode, "--servers", str(S), "--node_count", "2", "--gradients", str(N),
                        "--steps", "4", "--epochs", "1", "--link", "any,1ms", "-o", folder, *local], check=True, capture_output=True)
        up = re.search(r"(?:each step )?([^,;]*?) bytes to S servers", part).group(1)
        back = re.search(r"and ([^,]*?) bytes back", part)
        for way, cost in ("sent", up), ("received", back.group(1) if back else up):
            messages, raw = sums(folder, 0, way)
            assert messages > 0 and raw * S == value(cost) * messages, (codec, mode, way, cost, messages, raw)
PY
}
