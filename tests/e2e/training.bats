#!/usr/bin/env bats
# Training: optimizers, schedules, metrics, and numbers that overflow.
load lib

# column FILE NAME: the cells of a column.
column() {
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])): print(r[sys.argv[2]])' "$1" "$2"
}

asking_model() { # asking_model METRIC...: a model file with these metrics
    local list
    list=$(printf ',"%s"' "$@")
    echo '{"version":1,"name":"asking","input":[784],"layers":[{"kind":"dense","units":10}],
        "loss":"softmax_cross_entropy","metrics":['"${list#,}"']}' >asking.json
}

# bats test_tags=check
@test "every optimizer learns the digits, all except one with its own defaults" {
    start_agents 1
    # gradient_decay starts with Parallel-SGD's 0.03, which 375 steps shrink to a twentieth.
    for how in sgd momentum nesterov adam adamw adagrad adadelta rmsprop rmsprop_graves lion muon "gradient_decay --learn_rate 1"; do
        # shellcheck disable=SC2086
        "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model mlp-tutorial --dataset digits:train=6000,test=500 --batch_size 16 \
            --gradient-descent $how -o "$how"
        accuracy=$(tail -1 "$how/records/eval.csv" | cut -d, -f7)
        echo "$how $accuracy"
        [[ $accuracy == 0.[89]* ]]
    done
}

# STEPS: options of a step: of optimizers that have parameters of their own, or a state that the others lack.
STEPS='--optimizer lion --beta2 0.95 --weight-decay 0.5 --accumulate 2
--optimizer muon --momentum 0.9 --adamw-rate 0.001 --model mlp-relu
--optimizer adamw --beta1 0.8 --beta2 0.95 --epsilon 1e-6 --weight-decay 0.5 --decay-of matrices'

# bats test_tags=check
@test "a step is the same on agents, simulated, and in a job that is resumed" {
    start_agents 2
    local job=(-q --codec allreduce --node_count 2 --dataset "digits:train=64,test=50" --batch_size 16) name how
    while read -r -a how; do
        name=${how[1]}
        "$SUBMIT" "${job[@]}" "${how[@]}" --epochs 2 -o "$name-whole"
        "$SUBMIT" simulate "${job[@]}" "${how[@]}" --epochs 2 -o "$name-simulated"
        "$SUBMIT" "${job[@]}" "${how[@]}" --epochs 1 --checkpoint-every 1 -o "$name-half"
        "$SUBMIT" -q --resume "$name-half" --epochs 2 -o "$name-rest"
        for run in simulated rest; do
            [ "$(jq -c '[.nodes[].params_sha256]' "$name-whole/run.json")" = "$(jq -c '[.nodes[].params_sha256]' "$name-$run/run.json")" ]
        done
    done <<<"$STEPS"
    run "$SUBMIT" -q --resume lion-half --epochs 2 --beta2 0.9 -o other
    echo "$output"
    [[ "$output" == *"beta2"* ]]
    # Servers that run it need whole matrices, in the simulator alike.
    "$SUBMIT" simulate "${job[@]}" --codec ps --servers 1 --optimizer muon --epochs 1 -o one
    "$SUBMIT" simulate "${job[@]}" --codec ps --servers 2 --optimizer muon --epochs 1 --placement round_robin -o two
    [ "$(jq .nodes[0].params_sha256 one/run.json)" = "$(jq .nodes[0].params_sha256 two/run.json)" ]
    run "$SUBMIT" simulate "${job[@]}" --codec ps --servers 2 --optimizer muon -o none
    [ "$status" -ne 0 ]
    [[ "$output" == *"muon updates matrices as a whole, and each of the 2 servers that run it under codec ps may have a part of one"*round_robin* ]]
    run "$SUBMIT" "${job[@]}" --decay-of matrices -o none
    [ "$status" -ne 0 ]
    [[ "$output" == *"--decay-of has no effect in this job: without --weight-decay no parameter has one"* ]]
}

@test "a step of several passes is that of a batch as many times as large, but for rounding" {
    start_agents 2
    local job=(-q --codec allreduce --node_count 2 --epochs 1 --model mlp-tutorial --dataset "digits:train=640,test=100" --learn_rate 0.1)
    "$SUBMIT" "${job[@]}" --batch_size 32 -o whole
    "$SUBMIT" "${job[@]}" --batch_size 8 --accumulate 4 -o passes
    python3 - <<'PY'
import csv
read = lambda folder, name: list(csv.DictReader(open(f"{folder}/records/{name}.csv")))
rows = [read(folder, "train") for folder in ("whole", "passes")]
assert len(rows[0]) == len(rows[1]) == 2 * 10
near = lambda a, b, key: abs(float(a[key]) - float(b[key])) < 1e-5 * float(a[key])
for a, b in zip(*rows):
    assert all(a[k] == b[k] for k in ("node", "epoch", "step", "samples", "accuracy", "sent_bytes")), (a, b)
    assert near(a, b, "loss") and near(a, b, "grad_norm"), (a, b)
assert near(*(read(folder, "eval")[-1] for folder in ("whole", "passes")), "loss")
PY
    run "$SUBMIT" "${job[@]}" --batch_size 1000 --accumulate 1001 -o none
    [ "$status" -ne 0 ]
    echo "$output"
    [[ "$output" == *"--accumulate: 1001 passes of 1000 samples are more than 1000000 samples in a step"* ]]
}

@test "a job of a model of language may end after a number of tokens" {
    # A step has 3 workers x 8 windows x 2 passes x 64 tokens: 3072.
    for n in 3072:1 3073:2 1000000:326; do
        run "$SUBMIT" validate --model gpt-xs --dataset grammar --node_count 3 --batch_size 8 --accumulate 2 --max-tokens "${n%:*}"
        echo "$output"
        [[ "$output" == *", ${n#*:} in all"* ]]
    done
    run "$SUBMIT" validate --model softmax --dataset "$FEW" --max-tokens 1000
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *'--max-tokens: model "softmax" predicts no tokens'*--max-steps* ]]
}

@test "train.csv has the rate of the schedule at each step" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 2 --model softmax --batch_size 8 --dataset "$FEW" --learn_rate 0.5 \
        --schedule cosine:floor=0.1 --warmup-steps 4 -o out
    column out/records/train.csv lr >rates
    python3 - <<'PY'
from math import cos, isclose, pi
lr = [float(x) for x in open("rates")]
want = [0.5 * (t + 1) / 5 if t < 4 else 0.05 + 0.225 * (1 + cos(pi * (t - 4) / (len(lr) - 4))) for t in range(len(lr))]
assert len(lr) == 320 and all(isclose(a, b, rel_tol=1e-6) for a, b in zip(lr, want))
PY
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 2 --model softmax --dataset "$FEW" --schedule step:every=1,factor=0.25 -o step
    [ "$(column step/records/train.csv lr | sort -u | tr '\n' ' ')" = "0.0125 0.05 " ]
}

@test "with --eval-every the test set is also evaluated within epochs, alike on all nodes" {
    start_agents 2
    # An epoch has 30 steps: its end is evaluated once.
    local job=(-q --codec allreduce --node_count 2 --epochs 2 --model softmax --dataset "digits:train=960,test=500" --batch_size 16
        --eval-every 10)
    "$SUBMIT" "${job[@]}" -o out
    [ "$(awk -F, '$2 == 0 {print $4}' out/records/eval.csv | paste -sd' ')" = "10 20 30 40 50 60" ]
    cmp <(awk -F, '$2 == 0 {print $3, $4, $6, $7}' out/records/eval.csv) <(awk -F, '$2 == 1 {print $3, $4, $6, $7}' out/records/eval.csv)
    "$SUBMIT" simulate "${job[@]}" -o sim
    cmp <(awk -F, 'NR > 1 && $2 == 0 {print $3, $4, $6, $7}' out/records/eval.csv) <(awk -F, 'NR > 1 && $2 == 0 {print $3, $4, $6, $7}' sim/records/eval.csv)
}

@test "a clipped gradient changes the weights by no more than its limit" {
    start_agents 1
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model softmax --dataset digits:train=6400,test=200 --clip-norm 1e-7 -o out
    # 100 steps of at most 0.05 x 1e-7 have no visible effect, though the gradients themselves are long.
    python3 - out/records <<'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1] + "/train.csv")))
assert min(float(r["grad_norm"]) for r in rows) > 0.1
mean = lambda part: sum(float(r["loss"]) for r in part) / len(part)
assert abs(mean(rows[:30]) - mean(rows[-30:])) < 0.1, (mean(rows[:30]), mean(rows[-30:]))
PY
}

@test "the metrics requested by a model are recorded, and no others" {
    start_agents 2
    asking_model accuracy top5 mse rmse confusion
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 2 --model asking.json --dataset "$FEW" -o out
    [ "$(head -1 out/records/metrics.csv)" = time_s,node,epoch,step,metric,value ]
    [ "$(head -1 out/records/confusion.csv)" = node,epoch,step,label,predicted,count ]
    python3 - <<'PY'
import csv
read = lambda name: list(csv.DictReader(open(f"out/records/{name}.csv")))
evals, metrics, confusion = read("eval"), read("metrics"), read("confusion")
assert len(evals) == 4 and len(metrics) == 4 * 4
for e in evals:
    here = lambda r: (r["node"], r["epoch"], r["step"]) == (e["node"], e["epoch"], e["step"])
    m = {r["metric"]: float(r["value"]) for r in metrics if here(r)}
    cells = [(r["label"], r["predicted"], int(r["count"])) for r in confusion if here(r)]
    n = sum(c for _, _, c in cells)
    assert set(m) == {"accuracy", "top5", "mse", "rmse"}
    assert m["accuracy"] == float(e["accuracy"]) <= m["top5"] <= 1
    assert abs(m["rmse"] ** 2 - m["mse"]) < 1e-6 and 0 < m["mse"] < 0.1
    assert abs(sum(c for a, b, c in cells if a == b) / n - m["accuracy"]) < 1e-6
PY
    jq -e '[.files[].name] | index("records/metrics.csv") and index("records/confusion.csv")' out/run.json
    # Each worker has evaluated a half of the test set; here each evaluates all of it.
    "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 2 --model asking.json --dataset "$FEW" --on-node-loss continue -o whole
    [ "$(jq -c .settings.divides_test out/run.json whole/run.json | paste -sd' ')" = "true false" ]
    cmp <(sort out/records/confusion.csv) <(sort whole/records/confusion.csv)
    python3 - <<'PY'
import csv
def read(folder, name, value):
    return {tuple(r.get(k) for k in ("node", "step", "metric")): float(r[value]) for r in csv.DictReader(open(f"{folder}/records/{name}.csv"))}
for name, value in ("eval", "accuracy"), ("eval", "loss"), ("metrics", "value"):
    parts, whole = read("out", name, value), read("whole", name, value)
    assert parts.keys() == whole.keys()
    for k in whole:
        assert parts[k] == whole[k] if "accuracy" in (value, k[2]) or k[2] == "top5" else abs(parts[k] / whole[k] - 1) < 1e-6, k
PY
    asking_model top5
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model asking.json --dataset "$FEW" -o one
    [ "$(column one/records/metrics.csv metric)" = top5 ]
    [ ! -e one/records/confusion.csv ]
    "$SUBMIT" -q --codec plain --node_count 1 --epochs 1 --model softmax --dataset "$FEW" -o none
    [ ! -e none/records/metrics.csv ]
}

@test "a job whose numbers overflow ends in that step, and reports it" {
    start_agents 1
    run "$SUBMIT" --codec plain --node_count 1 --epochs 1 --model mlp-relu --learn_rate 1e30 --dataset "$FEW" -o out
    [ "$status" -ne 0 ]
    [ "$(jq -r '.nodes[0].reason' out/run.json)" = NumericDivergence ]
    message=$(jq -r '.nodes[0].message' out/run.json)
    echo "$message"
    [[ "$message" =~ ^'node 0, epoch 1, step '([0-9]+)': the loss is '.*'gradient'.*layer[0-9]+\.dense\. ]]
    # The last recorded step is the one before.
    [ "$(column out/records/train.csv step | tail -1)" -eq $((BASH_REMATCH[1] - 1)) ]
    [ "$(column out/records/train.csv loss | grep -ciE 'nan|inf')" = 0 ]
    grep -q 'hint: A smaller --learn_rate' out/logs/worker-0.log
}

@test "steps that are not finite are skipped if the job allows it, and all nodes stay equal" {
    start_agents 2
    prepare_overflow
    for codec in plain fedavg; do
        run "$SUBMIT" --codec $codec "${OVERFLOW[@]}" --on-nonfinite skip -o $codec
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"not finite"*"is left out (the first time)"* ]]
        [[ "$output" =~ 'node '[01]': '[0-9]+' gradients or updates that were not finite were left out in 12 steps' ]]
        # The weights are finite, and the same on both nodes.
        [ "$(jq .models_agree $codec/run.json)" = true ]
        [ "$(column $codec/records/train.csv step | wc -l)" -eq $((2 * 12)) ]
    done
}

@test "a job that skips every step has failed" {
    start_agents 2
    run "$SUBMIT" --codec plain --node_count 2 --epochs 1 --model mlp-relu --learn_rate 1e30 --dataset "$FEW" --on-nonfinite skip -o out
    [ "$status" -eq 1 ]
    [[ "$(jq -r '.nodes[0].message' out/run.json)" == *"the loss on the test set is"* ]]
    [ ! -e out/model/best.safetensors ]
}

# A codec that averages gradients, whose node 1 sends NaN in its fifth contribution.
poisoning_codec() {
    cat >poison.c <<'C'
#include <math.h>
#include "codec_events.h"

static int poison_encode(struct codec *c, struct wire_out *out)
{
    if (c->run->node == 1 && c->run->round == 4)
        c->grads[0] = NAN;
    wire_put_f32s(out, c->grads, c->n_params);
    return CODEC_GO;
}

static int poison_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);

    (void)from;
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + g[i] / (float)c->n_contributions;
    return CODEC_GO;
}

static const struct codec_round poison = {.before_update = true, .encode = poison_encode, .merge = poison_merge};

CODEC_PLUGIN(.name = "poison", .source = "a test", .more = CODEC_MORE(.round = &poison))
C
}

@test "a gradient that is not finite ends every node of an all-reduce in that step" {
    start_agents 2
    run "$SUBMIT" --codec allreduce --node_count 2 --epochs 1 --model mlp-relu --learn_rate 1e30 --dataset "$FEW" -o out
    [ "$status" -eq 1 ]
    [[ "$(jq -r '.reason + ": " + .message' out/run.json)" == NumericDivergence:*"epoch 1, step "*"the "*"layer"* ]]
}

# Node 1 contributes values that are not finite: weights, gradients, a number, a message to neighbors.
faulty_codecs() {
    cat >weights.c <<'C'
#include <math.h>

#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    for (size_t i = 0; c->run->node == 1 && i < c->n_params; i++)
        v[0][i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : 1e30f;
    return c->samples;
}
static const struct codec_combine rule = {.when = CODEC_EACH_ROUND, .contribute = contribute};
CODEC_PLUGIN(.name = "weights", .source = "a test", .combine = &rule)
C
    sed 's/params, c/grads, c/; s/EACH_ROUND/EACH_STEP/; s/"weights"/"gradients"/' weights.c >gradients.c
    cat >number.c <<'C'
#include <math.h>

#include "codec_events.h"

static float contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    c->numbers[1] = c->run->node == 1 ? -INFINITY : 1;
    return 1;
}
static const struct codec_combine rule = {.when = CODEC_EACH_ROUND, .n_numbers = 2, .contribute = contribute};
CODEC_PLUGIN(.name = "number", .source = "a test", .combine = &rule)
C
    # Finite, but its norm, which qsgd sends, is not.
    sed 's/i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : 1e30f/3e38f/; s/"weights"/"large"/; s/.combine = &rule/&, .more = CODEC_MORE(.compression = CODEC_LOSSY)/' weights.c >large.c
    sed 's/^    codec_put_vector(c, out, c->params, c->n_params);/    if (c->run->node == 1) c->params[7] = __builtin_nanf("");\n&/' \
        "$BATS_TEST_DIRNAME/../../codecs/gossip.c" >neighbors.c
}

@test "a vector that is not finite ends the job in its round on every path, and names the node that has sent it" {
    faulty_codecs
    named() { # named SENTENCE CODEC OPTION...
        run "$SUBMIT" simulate -q --node_count 3 --model softmax --dataset digits:train=480,test=100 --batch_size 16 --epochs 2 \
            --codec "$2" "${@:3}" -o out
        echo "${*:2}: $output"
        [ "$status" -eq 1 ]
        jq -r '.reason + ": " + .message' out/run.json >message
        grep -F "NumericDivergence: $1" message
        rm -r out
    }
    local way
    while read -r way; do
        # shellcheck disable=SC2086
        named "round 1, step 5: node 1 contributed a vector that is not finite: layer0.dense.weight is nan" weights.c:every=5 $way
    done <<'EOF'
--path gather
--path allreduce --allreduce ring
--path allreduce --allreduce halving-doubling
--path allreduce --overlap 1
--servers 1
--servers 2 --compress-down none|huffman
--psgd asgd --servers 1
--psgd asgd --path gather
EOF
    named "round 1, step 1: node 1 contributed a vector that is not finite: layer0.dense.weight is nan" gradients.c --path gather
    named "round 1, step 1: node 1 contributed a vector that is not finite: layer0.dense.weight is nan" gradients.c --path allreduce
    named "round 1, step 5: node 1 contributed a vector that is not finite: value 1 is -inf" number.c:every=5 --path allreduce
    named "round 1, step 5: node 1 contributed a vector that is not finite: layer0.dense.weight is nan" large.c:every=5 --compress qsgd --path gather
    named "round 1: node 1 contributed a vector that is not finite: layer0.dense.weight is nan" large.c:every=5 --compress qsgd --servers 1
    grep -q 'get_vector' neighbors.c
    named "round 1: node 1 sent a vector that is not finite: layer0.dense.weight is nan" neighbors.c
}

@test "on agents, with shared memory and a server, the node that contributes a value that is not finite is why the job failed" {
    start_agents 3
    faulty_codecs
    local servers
    for servers in 0 1; do
        write_workers $((3 - servers)) "$servers"
        run "$SUBMIT" -q --codec weights.c:every=5 --node_count 2 --model softmax --dataset "$FEW" --epochs 1 -o "out$servers"
        [ "$status" -eq 1 ]
        "$SUBMIT" why "out$servers" >why.txt
        grep 'because node(1) at .* ended with NumericDivergence .*: round 1, step 5: node 1 contributed a vector that is not finite' why.txt
    done
}

# A model and table.csv, whose rows of PART have a loss of 1e38 and a gradient of -2e39: with --partition column:part one node's.
rows_that_overflow() { # rows_that_overflow PART OF...
    echo '{"version":1,"name":"lin","input":[1],"layers":[{"kind":"dense","units":1,"init":"zeros"}],"loss":"mse"}' >lin.json
    local part
    { echo x,t,part; for part in "${@:2}"; do for _ in 1 2 3 4 5 6 7 8; do [ "$part" = "$1" ] && echo 1e20,1e19,"$part" || echo 1,1,"$part"; done; done; } >table.csv
    OVERFLOWING=(--codec plain --dataset csv:target=t --data table.csv --partition column:part --model lin.json --batch_size 4 --max-steps 2)
}

@test "an infinite gradient of a finite loss is reported with the node that computed it, also where the sum replaces it" {
    start_three_machines
    blamed() { # blamed NODE OPTION...
        local said="node $1, epoch 1, step 1: the gradient of layer0.dense.weight is not finite"
        run "$SUBMIT" -q "${OVERFLOWING[@]}" "${@:2}" -o out
        [ "$status" -eq 1 ]
        "$SUBMIT" why out >why.txt
        cat why.txt
        grep -q "because node($1) at .*: $said; in consequence" why.txt
        [ "$(jq -r ".nodes[$1].message" out/run.json)" = "$said" ]
        jq -r '.nodes[].message' out/run.json >messages
        rm -r out
    }
    rows_that_overflow b a b c
    blamed 1 --node_count 3 --path tree # of machines with two workers and one
    rows_that_overflow b a b # which node has which part is drawn
    blamed 0 --node_count 2 # one machine: all in shared memory
    grep -qx 'node 1, epoch 1, step 1: after the exchange the gradient of layer0.dense.weight is not finite: a contribution of this round is not finite, that of node 0' messages
    rows_that_overflow a a b
    blamed 1 --node_count 2
    blamed 1 --node_count 2 --local-path off
}

@test "in a simulation, too, an infinite gradient of a finite loss is reported with the node that computed it" {
    rows_that_overflow b a b c
    local way said
    while IFS='|' read -r way said; do
        # shellcheck disable=SC2086
        run "$SUBMIT" simulate -q "${OVERFLOWING[@]}" --node_count 3 $way -o out
        [ "$status" -eq 1 ]
        # shellcheck disable=SC2053 # a pattern
        [[ "$(jq -r .message out/run.json)" == $said ]]
        rm -r out
    done <<'EOF'
--path allreduce|node 1, epoch 1, step 1: the gradient of layer0.dense.weight is not finite
--path tree|node 1, epoch 1, step 1: the gradient of layer0.dense.weight is not finite
--path allreduce --overlap 1|round 1, step 1: node 1 contributed a vector that is not finite: layer0.dense.weight is *inf
--path gather|node 1, epoch 1, step 1: the loss is *e+38, and the gradient of layer0.dense.weight is not finite
EOF
}

@test "a gradient that is not finite is reported as the node's own in a local step, without peers, and where it is the own one" {
    echo '{"version":1,"name":"lin","input":[1],"layers":[{"kind":"dense","units":1,"init":"zeros"}],"loss":"mse"}' >lin.json
    { echo x,t; for _ in $(seq 40); do echo 1e20,1e19; done; } >table.csv # a loss of 1e38, a gradient of -2e39
    told() { # told SENTENCE OPTION...
        run "$SUBMIT" simulate -q --dataset csv:target=t --data table.csv --model lin.json --batch_size 4 --max-steps 8 "${@:2}" -o out
        [ "$status" -eq 1 ]
        jq -r .message out/run.json >message
        cat message
        grep -x "node [01], epoch 1, step 1: $1" message
        rm -r out
    }
    told "the gradient of layer0.dense.weight is not finite" --codec localsgd:every=5 --node_count 2
    told "the gradient of layer0.dense.weight is not finite" --codec dummy --node_count 1
    told "the gradient of layer0.dense.weight is not finite" --codec plain --node_count 2 --path allreduce
    # Its signs are finite.
    told "the loss is [34]e+38, and the gradient of layer0.dense.weight is not finite" --codec signsgd --node_count 2 --path allreduce
}

@test "a contribution that is not finite is detected by all nodes before it changes a weight" {
    start_agents 2
    poisoning_codec
    run "$SUBMIT" --codec poison.c --node_count 2 --epochs 1 --model softmax --dataset "$FEW" -o stop
    [ "$status" -ne 0 ]
    message=$(jq -r '.nodes[] | select(.reason == "NumericDivergence") | .message' stop/run.json | head -1)
    [[ "$message" == *"epoch 1, step 5: after the exchange the gradient of layer0.dense.weight is not finite: a contribution of this round is not finite, or their sum is not" ]]
    run "$SUBMIT" --codec poison.c --node_count 2 --epochs 1 --model softmax --dataset digits:train=5120,test=500 --learn_rate 0.5 \
        --on-nonfinite skip -o skip
    [ "$status" -eq 0 ]
    for node in 0 1; do
        [[ "$output" == *"node $node: 1 gradients or updates that were not finite were left out in 40 steps"* ]]
    done
    [ "$(jq -r '.nodes[].model_sha256' skip/run.json | sort -u | wc -l)" -eq 1 ]
    [ "$(column skip/records/train.csv grad_norm | grep -c nan)" -eq 2 ]
    [[ "$(column skip/records/eval.csv accuracy | head -1)" == 0.[5-9]* ]]
}

@test "no step is skipped once the weights are not finite" {
    start_agents 1
    cat >worse.c <<'C'
#include <math.h>
#include "codec_events.h"

static int worse_step(struct codec *c)
{
    if (c->run->step == 7)
        c->params[3] = INFINITY;
    return CODEC_GO;
}

static const struct codec_events worse = {.on_step = worse_step};

CODEC_PLUGIN(.name = "worse", .source = "a test", .more = CODEC_MORE(.events = &worse))
C
    run "$SUBMIT" --codec worse.c --node_count 1 --epochs 1 --model softmax --dataset "$FEW" --on-nonfinite skip -o out
    [ "$status" -ne 0 ]
    [[ "$(jq -r '.nodes[0].message' out/run.json)" == "node 0, epoch 1, step 8: the loss is "* ]]
    grep -q 'hint: No step can be left out any more' out/logs/worker-0.log
}

@test "an invalid schedule is refused before anything is sent" {
    start_agents 1
    run "$SUBMIT" --codec plain --node_count 1 --schedule step:every=0 -o out
    [ "$status" -eq 2 ]
    [[ "$output" == *"--schedule: step: every \"0\" is not a number of epochs"* ]]
    [ "$(api 0 GET /v1/jobs | jq '.jobs | length')" -eq 0 ]
}
