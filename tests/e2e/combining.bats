#!/usr/bin/env bats
# Rules that combine, on agents: their paths, draws of workers, aggregates, and refusals.
# Takes about 3 minutes.
load lib

# close_to A B: the weights of two result folders differ by rounding at most.
close_to() {
    python3 - "$1" "$2" <<'PY'
import array, json, struct, sys
def weights(folder):
    raw = open(f"{folder}/model/final.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: array.array("f", raw[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]])
            for k, t in json.loads(raw[8 : 8 + n]).items() if k != "__metadata__"}
a, b = weights(sys.argv[1]), weights(sys.argv[2])
assert a.keys() == b.keys()
assert max(abs(x - y) for k in a for x, y in zip(a[k], b[k])) < 1e-5
PY
}

bn_model() {
    cat >bn.json <<'J'
{"version": 1, "name": "bn", "input": [784], "layers": [{"kind": "batch_norm"}, {"kind": "dense", "units": 32}, {"kind": "batch_norm"}, {"kind": "relu"}, {"kind": "dense", "units": 10}], "loss": "softmax_cross_entropy"}
J
}

PART=(--dataset "digits:train=5760,test=200") # 30 steps of three workers

train() { "$SUBMIT" -q --node_count 3 --epochs 1 --model softmax "${PART[@]}" "$@"; }

@test "a rule ends with the same weights by each path, but for rounding, and run.json names the path" {
    start_agents 4
    write_workers 3 1
    local codec path codecs=(fedavg:every=10 signsgd)
    ! is_long || codecs+=(diloco:every=10)
    for codec in "${codecs[@]}"; do
        for path in allreduce gather servers; do
            echo "$codec by $path"
            train --codec "$codec" --path $path -o "$path"
            jq -e ".models_agree and .settings.path == \"$path\"" $path/run.json
        done
        close_to gather allreduce
        close_to gather servers
        rm -r allreduce gather servers
    done
}

# SGD: the mean, by samples, of weights that differ by one step is that of a step by the mean gradient.
# bats test_tags=long
@test "with --block-ratio workers hold unequal numbers of blocks, and train as one node does on all of them" {
    start_agents 4
    write_workers 3 1
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model softmax "${PART[@]}" --batch_size 64 -o one
    train --codec plain --batch_size 16 --block-ratio 2,1,1 -o plain
    [ "$(jq .models_agree plain/run.json)" = true ]
    close_to one plain
    awk -F, '$7 == 1 { n[$2] = $8 } END { exit !(n[0] == 32 && n[1] == 16 && n[2] == 16) }' plain/records/train.csv
    local path
    for path in allreduce gather servers 'allreduce --local-path off'; do
        # shellcheck disable=SC2086
        train --codec fedavg:every=1 --path $path --batch_size 16 --block-ratio 2,1,1 -o "$path"
        close_to one "$path"
    done
}

@test "with --participate other workers take part in each round, and the others neither compute nor send" {
    start_agents 4
    write_workers 3 1
    local path
    for path in gather servers; do
        train --codec fedavg:every=2 --path $path --participate 0.6 -o $path
        [ "$(jq .models_agree $path/run.json)" = true ]
    done
    close_to gather servers
    python3 - <<'PY'
import csv
for folder in "gather", "servers":
    rows = list(csv.DictReader(open(f"{folder}/records/train.csv")))
    at = {}
    for r in rows:
        at.setdefault(int(r["step"]), []).append(r["loss"] != "")
    assert sorted(at) == list(range(1, 31)) and all(sorted(some) == [False, True, True] for some in at.values())
    idle = [r for r in rows if r["loss"] == ""]
    assert {r["node"] for r in idle} == {"0", "1", "2"} # each sits out at some time
    assert all(r["accuracy"] == "" and int(r["sent_bytes"]) == 0 for r in idle)
    for node in "012":
        mine = [r for r in rows if r["node"] == node]
        assert int(mine[-1]["samples"]) == 64 * sum(r["loss"] != "" for r in mine)
PY
    # The gradients of some workers are an update of all.
    train --codec plain --participate 0.6 --learn_rate 0.2 -o plain
    [ "$(jq .models_agree plain/run.json)" = true ]
    [ "$(jq -n "$(tail -1 plain/records/eval.csv | cut -d, -f7) > 0.4")" = true ]
}

# bats test_tags=long
@test "a robust aggregate withstands a worker whose gradients have the wrong sign and a great weight" {
    start_agents 3
    {
        sed '/^static const struct codec_combine/,$d' "$ROOT/codecs/plain.c"
        cat <<'EOF'
static float contribute(struct codec *c, float *const *v)
{
    for (size_t i = 0; i < c->n_params; i++)
        v[0][i] = c->run->node == 1 ? -10 * c->grads[i] : c->grads[i];
    return c->run->node == 1 ? 1e30f : 1;
}

static const struct codec_combine faulty = {.when = CODEC_EACH_STEP, .contribute = contribute};

CODEC_PLUGIN(.name = "faulty", .source = "a test", .combine = &faulty)
EOF
    } >faulty.c
    train --codec faulty.c --dataset digits --on-nonfinite skip -o mean
    [ "$(jq -n "$(tail -1 mean/records/eval.csv | cut -d, -f7) < 0.3")" = true ]
    local aggregate
    for aggregate in median trimmed:1 geomedian; do
        train --codec faulty.c --dataset digits --aggregate $aggregate -o robust
        [ "$(jq .models_agree robust/run.json)" = true ]
        [ "$(jq -n "$(tail -1 robust/records/eval.csv | cut -d, -f7) > 0.5")" = true ]
        rm -r robust
    done
}

@test "an all-reduce of fp16 or bf16 sends half the bytes, of fixed8 a quarter, over connections and with processes on one machine" {
    local chain ratio
    start_agents 2
    for chain in fp16/2 bf16:ef=true/2 fixed8/3.94; do
        ratio=${chain#*/} chain=${chain%/*}
        train --codec allreduce --compress "$chain" --local-path off --node_count 2 -o half
        jq -e ".settings.path == \"allreduce\" and .models_agree and
            (.nodes[0].comm.compression_ratio / $ratio | . > 0.97 and . <= 1.001)" half/run.json
        train --codec fedpaq --compress "$chain" --node_count 2 -o shared
        jq -e '.settings.path == "allreduce" and .models_agree' shared/run.json
        rm -r half shared
    done
}

# bats test_tags=long
@test "with --overlap 1 the weights are one exchange late, on agents as in a simulation, and equal at the end" {
    start_agents 2
    local codec
    for codec in allreduce diloco:every=10; do
        train --codec $codec --node_count 2 --overlap 1 -o agents
        "$SUBMIT" simulate -q --codec $codec --node_count 2 --overlap 1 --epochs 1 --model softmax "${PART[@]}" -o simulated
        [ "$(jq .models_agree agents/run.json)" = true ]
        [ "$(jq -r .settings.overlap agents/run.json)" = 1 ]
        close_to agents simulated
        rm -r agents simulated
    done
    train --codec allreduce --node_count 2 --overlap 1 -o option
    train --codec doublebuffer --node_count 2 -o rule
    cmp <(cut -d, -f2- option/records/eval.csv) <(cut -d, -f2- rule/records/eval.csv)
}

@test "running statistics of batch normalization are not compressed" {
    local of codec chain
    bn_model
    for of in fedpaq:every=2/qsgd:bits=4 plain/qsgd:bits=4 fedpaq:every=2/fixed8; do
        codec=${of%/*} chain=${of#*/}
        "$SUBMIT" simulate -q --codec "$codec" --node_count 2 --learn_rate 0.2 --dataset digits:train=6400,test=800 --model bn.json --compress "$chain" -o out
        [ "$(jq -n "$(tail -1 out/records/eval.csv | cut -d, -f6) < 1")" = true ] # compressed: 27
        rm -r out
    done
}

# The running mean and variance of the model in folder $1.
statistics() {
    python3 - "$1/model/final.safetensors" <<'P'
import array, json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
for name in ("running_mean", "running_var"):
    at = json.loads(b[8:8 + n])["layer0.batch_norm." + name]["data_offsets"]
    print(array.array("f", b[8 + n + at[0]:8 + n + at[1]])[0])
P
}

# All samples are 3, so each batch has mean 3 and variance 0, and n batches move the statistics to 3 (1 - 0.9^n) and 0.9^n.
# bats test_tags=check
@test "running statistics are the exponential average of all batches on every path, however late a gradient is" {
    echo '{"version":1,"name":"first","input":[1],"layers":[{"kind":"batch_norm"},{"kind":"dense","units":2}],"loss":"softmax_cross_entropy"}' >first.json
    { echo x,label; for _ in $(seq 60); do echo 3,0; echo 3,1; done; } >three.csv
    cat >sum.c <<'C'
#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->grads, c->n_params * sizeof *v[0]);
    return c->samples;
}
static const struct codec_combine sum = {.when = CODEC_EACH_STEP, .reduction = CODEC_SUM, .contribute = contribute};
CODEC_PLUGIN(.name = "sum", .source = "a test", .combine = &sum)
C
    local n options
    while read -r n options; do
        # shellcheck disable=SC2086
        "$SUBMIT" simulate -q --node_count 3 --dataset csv --data three.csv --model first.json --batch_size 4 --max-steps 7 \
            --step-time 0.01 --lr 0.01 $options -o out >/dev/null
        statistics out >got
        echo "$options: $n batches, $(tr '\n' ' ' <got)"
        jq -es "((.[0] - 3 * (1 - pow(0.9; $n))) | fabs < 2e-6) and ((.[1] - pow(0.9; $n)) | fabs < 1e-6)" got
        rm -r out
    done <<'EOF'
7 --codec plain --path gather
7 --codec plain --path allreduce --compress fp16
7 --codec plain --path allreduce --compress bf16
7 --codec plain --block-ratio 2,1,1
7 --codec signsgd --path allreduce
7 --codec sum.c --path gather
7 --codec sum.c --path allreduce --compress fp16
7 --codec ps --servers 2
7 --codec ps_sum --servers 1
7 --codec doublesqueeze --servers 2 --compress topk
7 --codec fedavg:every=2 --servers 1
7 --codec sync_replicas --servers 1 --psgd asgd --compress topk
7 --codec plain --psgd asgd --path gather
7 --codec signsgd --psgd asgd --path gather
6 --codec doublebuffer
6 --codec plain --overlap 1 --compress fp16
6 --codec sum.c --path allreduce --overlap 1
21 --codec ps --psgd asgd --servers 1 --link any,0s
21 --codec ps --psgd asgd --servers 2 --link 1Mbit,100ms
EOF
}

@test "with --overlap 1 running statistics are a worker's own or a mean, and a rule that stops ends with equal weights" {
    bn_model
    "$SUBMIT" simulate -q --codec localsgd:every=30 --overlap 1 --node_count 4 --model bn.json --epochs 4 --batch_size 16 \
        --learn_rate 0.1 --dataset digits:train=6400,test=800 -o out
    [ "$(jq -r .facts.simulation.result.models_agree out/run.json)" = true ]
    [ "$(jq -n "$(tail -1 out/records/eval.csv | cut -d, -f7) > 0.8")" = true ]
    cat >stop.c <<'C'
#include "codec_events.h"

static int stop_apply(struct codec *c, const float *const *v)
{
    memcpy(c->params, v[0], c->n_params * sizeof **v);
    c->run->wants_stop = c->run->round == 3;
    return CODEC_GO;
}

static const struct codec_combine stop = {.when = CODEC_EACH_ROUND, .apply = stop_apply};

CODEC_PLUGIN(.name = "stop", .source = "a test", .combine = &stop)
C
    "$SUBMIT" simulate -q --codec stop.c:every=5 --overlap 1 --node_count 3 --dataset digits:train=24000,test=200 -o stopped
    jq -e '.state == "succeeded" and .facts.simulation.result.models_agree' stopped/run.json
    [ "$(tail -1 stopped/records/train.csv | cut -d, -f7)" -lt 100 ]
}

# bats test_tags=long
@test "workers of several machines take path tree: shared memory inside a machine, connections of one worker between" {
    start_three_machines
    local codec n
    for codec in allreduce scaffold:every=10 fedavg:every=10; do
        train --codec $codec --node_count 5 -o tree 2>&1
        train --codec $codec --node_count 5 --path allreduce --local-path off -o flat
        jq -e '.models_agree and .settings.path == "tree" and .facts.path.wanted == "auto" and .facts.path.machines == 3
            and .facts.path.estimates.tree.bytes < .facts.path.estimates.allreduce.bytes' tree/run.json
        grep -q "Path tree: an exchange takes 2 messages one after the other and .* through a machine's link" tree/logs/submit.log
        for n in 0 1 2 3; do grep -q 'collectives use memory shared by the 2 workers on this machine' tree/logs/worker-$n.log; done
        grep -q 'this worker is alone on its machine' tree/logs/worker-4.log
        close_to flat tree
        # Workers 1 and 3 exchange with their neighbour only.
        jq -e '[.nodes[1, 3].comm.peers[] | select(.sent_bytes > 0) | .peer] == [0, 2]' tree/run.json
        rm -r tree flat
    done
}

# bats test_tags=long
@test "path tree without shared memory, with items of fp16, and one exchange late" {
    start_three_machines
    local options
    for options in "--codec allreduce --local-path off" "--codec allreduce --compress fp16" "--codec diloco:every=10 --overlap 1"; do
        # shellcheck disable=SC2086
        train $options --node_count 5 -o tree
        # shellcheck disable=SC2086
        train $options --node_count 5 --path allreduce -o flat
        jq -e '.models_agree and .settings.path == "tree"' tree/run.json
        [[ $options == *fp16* ]] || close_to flat tree
        rm -r tree flat
    done
}

@test "an impossible path, draw or aggregate is refused with the reason when the job is checked" {
    start_agents 5
    no() { # no SENTENCE OPTION...
        run "$SUBMIT" validate --node_count "${nodes:-4}" "${PART[@]}" "${@:2}"
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$1"* ]]
    }
    write_workers 5 0
    no "path servers needs parameter servers, and the job has none" --codec fedavg --path servers
    no "path allreduce waits for every worker, and the job is asynchronous" --codec fedavg --path allreduce --psgd asgd
    no "path allreduce waits for every worker, and --on-node-loss is continue" --codec plain --path allreduce --on-node-loss continue
    no "path allreduce takes one gradient of each worker, and the job has redundant blocks" --codec plain --path allreduce --redundancy 2
    no "path allreduce sums vectors on their way, and this --compress makes each a message" --codec fedpaq --path allreduce --compress qsgd
    no "path allreduce sums vectors on their way, and --aggregate compares them" --codec fedavg --path allreduce --aggregate median
    no "path allreduce sums over all workers, and --participate draws some" --codec fedavg --path allreduce --participate 0.5
    no "has no round whose contributions --aggregate could compare" --codec fedavg --psgd asgd --aggregate median
    no "has no round that --participate could draw workers for" --codec fedavg --psgd asgd --participate 0.5
    no "uses each contribution when it arrives, without a weight" --codec fedavg --block-ratio 2,1,1,1 --psgd asgd
    no "agrees about lost workers only if all have the same number of blocks" --codec fedavg --block-ratio 2,1,1,1 --on-node-loss continue
    no "path allreduce takes one gradient of each worker" --codec plain --block-ratio 2,1,1,1 --path allreduce
    no "cannot use redundant blocks or --block-ratio" --codec signsgd --block-ratio 2,1,1,1
    no "codec gossip sends its own messages, which no samples weigh" --codec gossip --block-ratio 2,1,1,1
    no "needs a holder of each block in every round, and --participate leaves workers out" --codec plain --redundancy 2 --participate 0.5
    no "some are not awaited" --codec fedavg --on-node-loss continue --participate 0.5
    no "krum:1 needs at least 5 contributions, and there are 4" --codec fedavg --aggregate krum:1
    no "trimmed:1 needs at least 3 contributions, and there are 2" --codec fedavg --aggregate trimmed:1 --participate 0.5
    no "expected krum:F" --codec fedavg --aggregate krum
    no "expected mean, median, trimmed:F, krum:F or geomedian" --codec fedavg --aggregate middle
    no "codec gossip sends its own messages: --path, --aggregate, --participate and --overlap do not apply to it" --codec gossip --path gather
    no "codec gossip sends its own messages" --codec gossip --overlap 1
    no "path gather combines the contributions of the present round, and combinations one exchange late (--overlap 1) need path allreduce or tree" --codec fedavg --overlap 1 --path gather
    no "an exchange may be under way between steps" --codec fedavg --overlap 1 --checkpoint-every 1
    no "codec scaffold needs each combination before its next local steps" --codec scaffold --overlap 1
    no "codec gossip sends its own messages" --codec gossip --aggregate median
    no "codec gossip sends its own messages" --codec gossip --participate 0.5
    write_workers 4 1
    run "$SUBMIT" validate --node_count 4 "${PART[@]}" --codec fedavg --path allreduce
    [ "$status" -eq 0 ]
    [[ "$output" == *"--path allreduce: the parameter server of worker.json takes no part in this job."* ]]
    write_workers 3 2
    local nodes=3
    no "no node has the whole gradient, whose norm --clip-norm limits" --codec dc_asgd --psgd asgd --clip-norm 1
}

# The simulator's weights are a job's, to the last bit.
@test "distances and norms are of whole vectors on several servers, on agents as in the simulator" {
    # shellcheck disable=SC2054 # the name of a data set
    local job=(--codec ps --aggregate geomedian --clip-norm 0.1 --model mlp-tutorial --node_count 3 --epochs 1
        --dataset digits:train=240,test=50 --batch_size 16)
    start_agents 5
    write_workers 3 2
    "$SUBMIT" -q "${job[@]}" -o agents
    jq -e .models_agree agents/run.json
    "$SUBMIT" simulate -q "${job[@]}" --step-time 0.01 --servers 2 -o two
    "$SUBMIT" simulate -q "${job[@]}" --step-time 0.01 --servers 1 -o one
    [ "$(jq -r '.nodes[0].params_sha256' agents/run.json)" = "$(jq -r '.nodes[0].params_sha256' two/run.json)" ]
    # One server's weights, but for rounding; both servers tell each other as many bytes.
    awk -F, 'FNR > 1 { loss[FILENAME] = $6 } END { d = loss["one/records/eval.csv"] - loss["two/records/eval.csv"]; exit !(d < 1e-6 && d > -1e-6) }' \
        one/records/eval.csv two/records/eval.csv
    awk -F, '$3 < 0 && $4 < 0 { rows++; bad += $6 != 2 || $7 != 3 + 4 * 3 * 4 + 8 || $8 != $7 + 2 * 64 } END { exit !(rows == 4 * 5 && !bad) }' agents/records/comm.csv
}

@test "a rule whose contributions all have the weight 0 combines nothing, and a warning says so, not that the codec is at fault" {
    start_agents 2
    cat >zero.c <<'C'
#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    return c->run->round < 100 ? 0 : 1;
}
static const struct codec_combine zero = {.when = CODEC_EACH_ROUND, .contribute = contribute};
CODEC_PLUGIN(.name = "zero", .source = "a test", .combine = &zero)
C
    local path
    for path in allreduce gather; do
        "$SUBMIT" simulate -q --codec zero.c:every=2 --path $path --node_count 2 --max-steps 10 --model softmax --dataset "$FEW" -o $path
        jq -e '.state == "succeeded" and (.warnings | length == 1)' $path/run.json
        jq -r '.warnings[0]' $path/run.json | grep '^No exchange had a contribution with a weight, so nothing was combined'
    done
    "$SUBMIT" simulate -q --codec zero.c:every=1 --node_count 2 --epochs 1 --batch-size 1 --model softmax --dataset digits:train=220,test=10 -o some
    jq -e '.warnings == []' some/run.json
    run "$SUBMIT" --codec zero.c:every=2 --node_count 2 --max-steps 10 --model softmax --dataset "$FEW" -o agents
    [ "$status" -eq 0 ]
    [[ "$output" != *WARN* && "$output" == *"Warning: No exchange had a contribution with a weight"* ]]
    [ "$(jq -c .warnings agents/run.json)" = "$(jq -c .warnings gather/run.json)" ]
}

@test "weights whose sum is no number end the job with a sentence on every path" {
    cat >heavy.c <<'C'
#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    return 3e38f;
}
static const struct codec_combine heavy = {.when = CODEC_EACH_ROUND, .contribute = contribute};
CODEC_PLUGIN(.name = "heavy", .source = "a test", .combine = &heavy)
C
    local way
    for way in "--path gather" "--path allreduce" "--servers 1"; do
        # shellcheck disable=SC2086
        run "$SUBMIT" simulate -q --codec heavy.c:every=2 $way --node_count 2 --max-steps 4 --model softmax --dataset "$FEW" -o out
        [ "$status" -eq 1 ]
        [[ "$output" == *"codec heavy: the weights that its contribute returned have no finite sum; return smaller ones"* ]]
        rm -r out
    done
}

# Nineteen is prime to the numbers of columns: each column and most rules are tried. With eleven each rule is, too; make
# combinations tries all cells.
# bats test_tags=check
@test "jobs from the whole matrix of rules, paths, aggregates and compressors end as docs/combinations.md says" {
    local every=19
    if is_long; then every=11; fi
    "$ROOT/docs/tool/combinations" every $every >now
    diff now "$ROOT/docs/combinations.md" || { echo "make combinations writes it anew"; false; }
}

# bats test_tags=long,check
@test "every rule runs on agents, each with another compressor, or is refused, as docs/combinations.md says" {
    local rule compressor outcome page=$ROOT/docs/combinations.md
    "$ROOT/docs/tool/combinations" sample 3>&- >outcomes
    [ "$(wc -l <outcomes)" -eq "$(find "$ROOT/codecs" -maxdepth 1 -name '*.c' | wc -l)" ]
    while read -r rule compressor outcome; do
        echo "$rule $compressor: $outcome"
        # The cell of the last table but one, then its sentence.
        python3 - "$page" "$rule" "$compressor" "$outcome" <<'PY'
import re, sys
page, rule, compressor, outcome = sys.argv[1:]
text = open(page).read()
table = [re.split(r"(?<!\\) \| ?", line.strip("| \n")) for line in text.split("## Every rule")[1].split("## Why")[0].splitlines() if line[:1] == "|"]
column = [cell.strip(" `").replace("\\|", "|") for cell in table[0]].index(compressor)
cell = next(row for row in table if row[0] == f"`{rule}`")[column].strip()
said = cell if cell == "runs" else dict(re.findall(r"^(\d+)\. (.*)$", text.split("## Why not")[1], re.M))[cell]
assert said == outcome, said
PY
    done <outcomes
}
