#!/usr/bin/env bats
# Model files: inspect, convert, start from weights, resume.
# Takes about 1 minute.
load lib

python_with_onnx() {
    /usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null && echo /usr/bin/python3
}

# refused WORDS ARGUMENTS...: job_submit refuses them with status 6 and these words.
refused() {
    local words=$1
    shift
    run "$SUBMIT" "$@"
    [ "$status" -eq 6 ]
    [[ "$output" == *"$words"* ]]
}

# The first (numpy) script of docs/models.md: writes start.safetensors.
script_of_docs() {
    # shellcheck disable=SC2016 # the backquotes of Markdown
    sed -n '/^```python$/,/^```$/p' "$ROOT/docs/models.md" | sed -n '2,/^```$/p' | grep -v '^```'
}

# doctor FILE PYTHON: changes header `h` and data `d` of a safetensors file.
doctor() {
    python3 - "$1" "$2" <<'PY'
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
h, d = json.loads(b[8:8 + n]), bytearray(b[8 + n:])
exec(sys.argv[2])
t = json.dumps(h).encode()
t += b" " * (-len(t) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(t)) + t + d)
PY
}

@test "a model and a trained file are inspected" {
    [ "$("$SUBMIT" model list -q)" = "$(cd "$BUILD/models" && printf '%s\n' *.json | sed 's/\.json$//' | LC_ALL=C sort)" ]
    [[ "$("$SUBMIT" model list)" == *mlp-tutorial\ *softmax_cross_entropy\ *118282* ]]
    [ "$("$SUBMIT" --json model list | jq '.data.models[] | select(.name == "softmax").n_params')" = 7850 ]
    run "$SUBMIT" model inspect mlp-tutorial
    [ "$status" -eq 0 ]
    [[ "$output" == *"118282 parameters"* ]]
    [ "$("$SUBMIT" model inspect mlp-tutorial --json | jq '.data.n_params, (.data.layers | length)' | tr '\n' ' ')" = "118282 5 " ]
    start_agents 1
    "$SUBMIT" --codec plain --epochs 1 --model softmax --dataset "$FEW" -o out
    run "$SUBMIT" model inspect out/model/final.safetensors
    [ "$status" -eq 0 ]
    [[ "$output" == *"layer0.dense.weight"*"(784, 10)"* ]]
    [[ "$output" == *'7850 values; exactly the parameters of model "softmax"'* ]]
    "$SUBMIT" model inspect out/model/final.safetensors --json >facts
    jq -e '.data | .is_of_arch == true and ([.tensors[].n_not_finite] | add) == 0 and .metadata.test_loss == null
        and (.tensors[0] | .rms > 0 and .min < .mean and .mean < .max)' facts
    [ "$("$SUBMIT" model inspect out/model/best.safetensors --json | jq -r '.data.metadata.test_loss | tonumber > 0')" = true ]
    # control characters of untrusted metadata do not reach the terminal
    doctor out/model/best.safetensors 'h["__metadata__"]["note"] = "\x9b2J\x1b[2J"'
    run "$SUBMIT" model inspect out/model/best.safetensors
    [ "$status" -eq 0 ]
    [[ "$output" == *"  note             ??2J?[2J"* ]]
    doctor out/model/best.safetensors 'h["__metadata__"]["arch"] = "{\"x\\u001b\": 1}"'
    run "$SUBMIT" model inspect out/model/best.safetensors
    [[ "$output" == *"not the parameters of a model: arch: /x?: unknown key"* ]]
    # and a file with another content than it declares
    doctor out/model/final.safetensors 'd[0:4] = b"\0\0\xc0\x7f"'
    run "$SUBMIT" model inspect out/model/final.safetensors
    [[ "$output" == *'value 0 is '*'nan, not a finite float'* ]]
    run "$SUBMIT" model inspect README.md
    [ "$status" -eq 6 ]
    run "$SUBMIT" model inspect
    [ "$status" -eq 2 ]
}

@test "the model of a training program is inspected and converted by its tensors, and computed by the program only" {
    echo '{"version":1,"name":"train.py","trainer":true,"tensors":[{"name":"head.weight","shape":[2,3]},{"name":"scale","shape":[]},
           {"name":"bn.running_mean","shape":[3],"statistic":true}]}' >program.json
    python3 - <<'PY'
import json, struct
arch = json.dumps(json.load(open("program.json")))
head, at = {"__metadata__": {"arch": arch}}, 0
for name, shape, n in (("head.weight", [2, 3], 6), ("scale", [], 1), ("bn.running_mean", [3], 3)):
    head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * n]}
    at += 4 * n
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("program.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<10f", *range(10)))
PY
    run "$SUBMIT" model inspect program.json
    [ "$status" -eq 0 ]
    [[ "$output" == *"Model train.py, of a training program"* ]]
    [[ "$output" == *"head.weight "*"(2, 3) "*" 6"*"scale "*"() "*" 1"*"bn.running_mean"*"(3) "*" 3  statistic"* ]]
    [[ "$output" == *"10 parameters, 7 of them trained, the rest running statistics"* ]]
    "$SUBMIT" --json model inspect program.json >facts
    jq -e '.data | .trainer and .n_params == 10 and .n_trained == 7 and .tensors[1].shape == [] and .tensors[2].is_state' facts
    run "$SUBMIT" model inspect program.safetensors
    [ "$status" -eq 0 ]
    [[ "$output" == *'10 values; exactly the parameters of model "train.py", its arch'* ]]
    "$SUBMIT" model convert program.safetensors --to npz -o m.npz
    python3 -m zipfile -l m.npz | grep -F bn.running_mean.npy
    refused 'model "train.py" is computed by a training program' model convert program.safetensors --to onnx -o m.onnx
    refused 'its model is computed by train.py, a training program, and not by psgd' predict program.safetensors --dataset "$FEW"
    refused 'it lists the tensors of train.py, a training program that computes them' validate --codec plain --model program.json
    doctor program.safetensors 'h["scale"]["shape"] = [1]'
    run "$SUBMIT" model inspect program.safetensors
    [[ "$output" == *"tensor \"scale\" has the shape (1), the model's has ()"* ]]
}

@test "with ps_sum two workers take twice the step of ps, and running statistics are their mean" {
    start_agents 3
    write_workers 2 1
    echo '{"version":1,"name":"bn","input":[784],"layers":[{"kind":"dense","units":16},{"kind":"batch_norm"},{"kind":"relu"},
           {"kind":"dense","units":10}],"loss":"softmax_cross_entropy"}' >bn.json
    "$SUBMIT" -q --codec ps_sum --learn_rate 0.05 --node_count 2 --epochs 1 --model bn.json --dataset "$FEW" -o sum
    "$SUBMIT" -q --codec ps --learn_rate 0.1 --node_count 2 --epochs 1 --model bn.json --dataset "$FEW" -o mean
    grep -qa running_var sum/model/final.safetensors
    same_weights sum/model/final.safetensors mean/model/final.safetensors # halves are exact
}

@test "a trained model converts to npz, with the same bits" {
    python=$(python_with numpy) || skip "python3-numpy is not installed"
    start_agents 1
    "$SUBMIT" --codec plain --epochs 1 --dataset "$FEW" -o out
    run "$SUBMIT" model convert out/model/final.safetensors --to npz -o m.npz
    [ "$status" -eq 0 ]
    "$python" - <<'PY'
import json, struct
import numpy as np
raw = open("out/model/final.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = {k: t for k, t in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
z = np.load("m.npz", allow_pickle=False)
assert set(z.files) == set(head) and len(head) == 6
for k, t in head.items():
    assert list(z[k].shape) == t["shape"]
    assert z[k].tobytes() == raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
PY
    run "$SUBMIT" model convert out/model/final.safetensors --to npy -o x
    [ "$status" -eq 2 ]
    run "$SUBMIT" model convert out/model/final.safetensors --to npz
    [ "$status" -eq 2 ]
}

@test "a trained model converts to ONNX, and classifies the test set as psgd did" {
    python=$(python_with_onnx) || skip "python3-onnx is not installed"
    start_agents 1
    "$SUBMIT" --codec plain --epochs 1 --gradient-descent adam --dataset digits:train=3200,test=1000 -o out
    "$SUBMIT" model convert out/model/final.safetensors --to onnx -o m.onnx
    accuracy=$(tail -1 out/records/eval.csv | cut -d, -f7)
    test_set=$(ls agent0/jobs/*/packages/test.safetensors)
    PYTHONPATH=$ROOT/tests/reference "$python" - "$test_set" "$accuracy" <<'PY'
import json, sys
import numpy as np, onnx
import onnx_eval
m = onnx.load("m.onnx")
onnx.checker.check_model(m, full_check=True)
t = onnx_eval.read_tensors(sys.argv[1])
z = onnx_eval.evaluate(m.graph, t["x"].astype(np.float32) / np.float32(255))
right = np.mean(z.argmax(1) == t["y"])
print(right, sys.argv[2])
assert abs(right - float(sys.argv[2])) < 2e-3 and right > 0.5
record = json.loads({p.key: p.value for p in m.metadata_props}["preprocessing"])
assert record == json.load(open("out/run.json"))["facts"]["preprocessing"] and record["shape"] == [28, 28, 1]
PY
    doctor out/model/final.safetensors 'del h["__metadata__"]["arch"]'
    run "$SUBMIT" model convert out/model/final.safetensors --to onnx -o m.onnx
    [ "$status" -eq 6 ]
    [[ "$output" == *'its metadata has no "arch"'* ]]
}

# With a learning rate that changes only values that were 0, a job ends with its initial weights.
@test "a model that cannot be fetched from one worker is fetched from another" {
    start_agents 2
    "$SUBMIT" -q --codec plain --node_count 2 --model softmax --epochs 1 --dataset "$FEW" -o out
    echo none >"$(find agent0 -name final.safetensors)"
    run "$SUBMIT" fetch "$(only_job 0)" -o again
    [ "$status" -eq 0 ]
    [[ "$output" == *"node(0): final.safetensors is missing: "* ]]
    cmp out/model/final.safetensors again/model/final.safetensors
}

@test "all nodes, servers too, start from weights that numpy wrote as the docs describe" {
    python=$(python_with numpy) || skip "python3-numpy is not installed"
    script_of_docs >write.py
    "$python" write.py
    [ -s start.safetensors ]
    start_agents 3
    write_workers 2
    "$SUBMIT" --codec dummy --node_count 2 --epochs 1 --learn_rate 1e-30 --init-from start.safetensors --dataset "$FEW" -o out
    same_weights start.safetensors out/model/final.safetensors 1e-25
    [ "$(jq -r '"\(.facts.start.from) \(.settings.starts_from) \(.facts.start.sha256)"' out/run.json)" = \
        "weights weights $(sha256sum start.safetensors | cut -d' ' -f1)" ]
    # psgd's own file works as well
    "$SUBMIT" --codec dummy --node_count 1 --epochs 1 --learn_rate 1e-30 --init-from out/model/final.safetensors --dataset "$FEW" -o again
    same_weights out/model/final.safetensors again/model/final.safetensors 1e-25
    write_workers 2 1
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 --learn_rate 1e-30 --init-from start.safetensors --dataset "$FEW" -o served
    [ -s served/logs/ps-0.log ]
    # two equal contributions of half the weight each: (1 - 1/2) w + 1/2 w is w, up to rounding
    same_weights start.safetensors served/model/final.safetensors 1e-7
}

@test "weights that do not match the model are refused with the tensor's name" {
    start_agents 1
    "$SUBMIT" --codec dummy --epochs 1 --model softmax --dataset "$FEW" -o out
    refuse() { # refuse PYTHON WORDS
        cp out/model/final.safetensors w.safetensors
        doctor w.safetensors "$1"
        run "$SUBMIT" --codec dummy --epochs 1 --model softmax --init-from w.safetensors --dataset "$FEW" -o no
        [ "$status" -eq 6 ]
        [[ "$output" == *"$2"* ]]
        [ ! -e no ]
    }
    refuse 'h["layer0.dense.weight"]["shape"] = [10, 784]' 'tensor "layer0.dense.weight" has the shape (10, 784), the model'"'"'s has (784, 10)'
    refuse 'h["layer0.dense.W"] = h.pop("layer0.dense.weight")' 'tensor "layer0.dense.weight" of shape (784, 10) is missing'
    refuse 'h["layer1.dense.bias"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}' \
        'tensor "layer1.dense.bias" of shape (0) does not belong to model "softmax"'
    refuse 'h["layer0.dense.bias"]["dtype"] = "I32"' 'tensor "layer0.dense.bias" is I32, expected F32'
    refuse 'd[4:8] = b"\0\0\x80\x7f"' 'value 1 is inf, not a finite float'
    refuse 'd[4:8] = b"\0\0\xc0\xff"' 'value 1 is nan, not a finite float'
    head -c 1000 out/model/final.safetensors >w.safetensors
    run "$SUBMIT" --codec dummy --epochs 1 --model softmax --init-from w.safetensors --dataset "$FEW" -o no
    [ "$status" -eq 6 ]
    run "$SUBMIT" --codec dummy --epochs 1 --model mlp-tutorial --init-from out/model/final.safetensors --dataset "$FEW" -o no
    [ "$status" -eq 6 ]
    [[ "$output" == *'layer0.dense.weight'*'(784, 128)'* ]]
}

# Like a folder in which files were moved: no check sums are known.
forget_sums() {
    jq 'del(.files)' "$1/run.json" >without_sums
    cp without_sums "$1/run.json"
}

@test "two epochs, resumed for two more, equal four at once, bit for bit" {
    start_agents 2
    local job=(--codec plain --node_count 2 --gradient-descent adam --dataset "$FEW")
    "$SUBMIT" "${job[@]}" --epochs 4 -o one
    "$SUBMIT" "${job[@]}" --epochs 2 --checkpoint-every 1 -o half
    [ -s half/checkpoints/node-0.safetensors ]
    [ -s half/checkpoints/node-1.safetensors ]
    "$SUBMIT" --resume half --epochs 4 -o rest
    same_weights one/model/final.safetensors rest/model/final.safetensors
    cmp <(grep ',[34],' one/records/eval.csv | cut -d, -f2-7) <(grep ',[34],' rest/records/eval.csv | cut -d, -f2-7)
    cmp <(grep ',worker,[34],' one/records/train.csv | cut -d, -f2-12,18-20) <(tail -n +2 rest/records/train.csv | cut -d, -f2-12,18-20)
    [ "$(jq -r '"\(.facts.start.job) \(.facts.start.epoch)"' rest/run.json)" = "$(jq -r .id half/run.json) 2" ]
    # as if node 0 had been interrupted between two renames
    forget_sums half
    mv half/checkpoints/node-0.safetensors half/checkpoints/node-0-previous.safetensors
    "$SUBMIT" --resume half --epochs 3 -o torn
    # and resumed from there once more
    "$SUBMIT" --resume torn --epochs 4 -o last
    same_weights one/model/final.safetensors last/model/final.safetensors
}

# 187 steps an epoch in rounds of 50: a job of 2 epochs closes with a round that one of 4 does not have.
# bats test_tags=long
@test "local steps, with and without servers, resume in the middle of a round" {
    start_agents 4
    for servers in 0 2; do
        write_workers 2 $servers
        # the default, worker.json, lists no server
        mv worker.json list.json && write_workers 2
        "$SUBMIT" --codec fedavg --node_count 2 --local-steps 50 --epochs 4 --model softmax --workers list.json -o one$servers
        "$SUBMIT" --codec fedavg --node_count 2 --local-steps 50 --epochs 2 --checkpoint-every 2 --model softmax --workers list.json -o half$servers
        mkdir -p elsewhere
        (cd elsewhere && "$SUBMIT" --resume ../half$servers --epochs 4 -o ../rest$servers)
        same_weights one$servers/model/final.safetensors rest$servers/model/final.safetensors
        [ "$(jq .models_agree one$servers/run.json)" = true ]
    done
    [ -s half2/checkpoints/ps-1.safetensors ]
    run "$SUBMIT" --resume half2 --epochs 5 --workers worker.json -o none
    [ "$status" -eq 6 ]
    [[ "$output" == *'the earlier job had 2 parameter servers, this one has 0'*'as many under "PS": --workers FILE.'* ]]
}

# bats test_tags=long
@test "asynchronous jobs with servers: the result is the servers' weights, and a checkpoint of all nodes is one state" {
    start_agents 4
    write_workers 2 2
    local codec
    for codec in ps easgd:every=10; do
        "$SUBMIT" -q --codec "$codec" --psgd asgd --node_count 2 --epochs 2 --checkpoint-every 1 --model softmax -o "one-$codec"
        [ "$(jq .models_agree "one-$codec/run.json")" = true ]
        [ "$(cut -d, -f3,6- "one-$codec/records/eval.csv" | grep -c '^2,')" -eq 2 ]
        [ "$(cut -d, -f3,6,7 "one-$codec/records/eval.csv" | grep '^2,' | uniq | wc -l)" -eq 1 ]
        "$SUBMIT" -q --resume "one-$codec" --epochs 3 -o "rest-$codec"
        [ "$(jq .facts.start.epoch "rest-$codec/run.json")" -eq 2 ]
        # It goes on from there: a third epoch from the first weights would not reach the loss of two.
        [ "$(jq -n "$(tail -1 "rest-$codec/records/eval.csv" | cut -d, -f6) < $(tail -1 "one-$codec/records/eval.csv" | cut -d, -f6)")" = true ]
        [ "$(cut -d, -f3 "rest-$codec/records/eval.csv" | tail -n +2 | sort -u)" = 3 ]
    done
    # A server's progress counts contributions: of two workers in three epochs of 187 steps.
    [ "$(api 2 GET "/v1/jobs/$(jq -r .id rest-ps/run.json)" | jq -c '.progress | [.step, .steps]')" = '[1122,1122]' ]
}

# epoch_of FOLDER NODE: of its last checkpoint.
epoch_of() { "$SUBMIT" model inspect "$1/checkpoints/node-$2.safetensors" --json | jq -r .data.metadata.epoch; }

@test "an interrupted job resumes from the last step that all nodes have saved" {
    start_agents 2
    # 20 samples more than full batches: which ones an epoch leaves out is a matter of the epoch alone.
    local job=(--codec plain --node_count 2 --gradient-descent adam --record-every 1000 --model softmax
        --dataset "digits:train=1300,test=200")
    "$SUBMIT" "${job[@]}" --epochs 100000 --checkpoint-every 1 --detach --no-queue -o broken
    within 60 is_at_step 0 50
    run "$SUBMIT" cancel "$(only_job 0)"
    run "$SUBMIT" wait "$(only_job 0)"
    [ "$status" -eq 8 ]
    # As if the node whose checkpoint is the later one had been slower.
    local late=1
    [ "$(epoch_of broken 0)" -le "$(epoch_of broken 1)" ] || late=0
    forget_sums broken
    mv broken/checkpoints/node-$late-previous.safetensors broken/checkpoints/node-$late.safetensors
    run "$SUBMIT" --resume broken -o rest --epochs 1
    [ "$status" -eq 6 ]
    epoch=$(epoch_of broken $late)
    "$SUBMIT" --resume broken --epochs $((epoch + 2)) -o rest
    [ "$(jq .facts.start.epoch rest/run.json)" -eq "$epoch" ]
    "$SUBMIT" "${job[@]}" --epochs $((epoch + 2)) -o one
    same_weights one/model/final.safetensors rest/model/final.safetensors
}

@test "a damaged checkpoint is ignored, and other data are refused" {
    start_agents 2
    "$SUBMIT" -q --codec plain --node_count 2 --model softmax --epochs 2 --checkpoint-every 2 --dataset "$FEW" -o half
    run "$SUBMIT" --resume half --dataset digits:seed=2,train=1280,test=200 --epochs 3 -o other
    [ "$status" -ne 0 ]
    # a file that claims to be the same data, with other samples in it
    jq '.facts.data.test_sha256 = "00"' half/run.json >run && cp run half/run.json
    run "$SUBMIT" --resume half --epochs 3 -o other
    [ "$status" -eq 6 ]
    [[ "$output" == *"the data set differs from the earlier job's"* ]]
    jq 'del(.facts.data)' half/run.json >run && cp run half/run.json
    printf 'X' | dd of=half/checkpoints/node-1.safetensors bs=1 seek=5000 conv=notrunc status=none
    run "$SUBMIT" --resume half --epochs 3 -o rest
    [ "$status" -eq 6 ]
    [[ "$output" == *"node(1): no checkpoint of step 20 of "*"half/checkpoints/node-1.safetensors is damaged"* ]]
    # the message without INFO lines; the first node's checkpoint is damaged too
    run "$SUBMIT" -q --resume half --epochs 3 -o rest
    [[ "$output" == *"node(1): no checkpoint of step 20 of "*"node-1.safetensors is damaged"*"code: CONFLICT"* ]]
    printf 'X' | dd of=half/checkpoints/node-0.safetensors bs=1 seek=5000 conv=notrunc status=none
    run "$SUBMIT" -q --resume half --epochs 3 -o rest
    [ "$status" -eq 6 ]
    [[ "$output" == *"node-0.safetensors is damaged"*"job_submit fetch $(jq -r .id half/run.json) gets it again"* ]]
}

# ships_state_of RESULTS PACKED: the packages of all workers have the model of the last checkpoints, which agree, and the optimizer's mean.
ships_state_of() {
    python3 - "$1" "$2" <<'PY'
import array, glob, json, struct, sys
def read(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    return {k: b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]] for k, t in json.loads(b[8:8 + n]).items() if k != "__metadata__"}
before = [read(path) for path in glob.glob(sys.argv[1] + "/checkpoints/node-[0-9].safetensors")]
nodes = json.load(open(sys.argv[2] + "/job.json"))["nodes"]
after = [read(sys.argv[2] + "/packages/" + n["packages"]["weights"]["files"]["weights.safetensors"]) for n in nodes]
assert len({a["codec/0/cursor"] for a in after}) == len(after)
for f in after:
    assert [k for k in f if k.startswith("opt/adam.")] and f.keys() == before[0].keys()
    for k in f:
        if k.startswith("model/"):
            assert all(f[k] == b[k] for b in before), k
        if k.startswith("opt/"):
            rows = zip(array.array("f", f[k]), *(array.array("f", b[k]) for b in before))
            assert all(abs(mean - sum(of) / len(of)) <= 1e-6 * max(map(abs, of)) for mean, *of in rows), k
PY
}

@test "a job goes on with more or fewer workers where all have one state, and is refused where not" {
    start_agents 3
    local rule n job=(-q --gradient-descent adam --epochs 2 --model softmax --dataset "$FEW")
    for rule in fedavg:every=2 allreduce; do
        for n in 2 3; do
            rm -rf half rest packed
            "$SUBMIT" "${job[@]}" --codec $rule --node_count $n --checkpoint-every 1 -o half
            "$SUBMIT" pack -q --resume half --node_count $((5 - n)) --epochs 4 -o packed
            ships_state_of half packed
            "$SUBMIT" -q --resume half --node_count $((5 - n)) --epochs 4 -o rest
            [ "$(jq -c '[.models_agree, .facts.start.epoch, .facts.start.earlier.node_count, (.nodes | length)]' rest/run.json)" = "[true,2,$n,$((5 - n))]" ]
            [ "$(cut -d, -f3 rest/records/eval.csv | tail -n +2 | sort -u | tr '\n' ' ')" = "3 4 " ]
            [ "$(jq -n "$(tail -1 rest/records/eval.csv | cut -d, -f6) < $(tail -1 half/records/eval.csv | cut -d, -f6)")" = true ]
        done
    done
    # The checkpoint of a worker that was lost is not needed.
    forget_sums half
    rm half/checkpoints/node-0*.safetensors
    "$SUBMIT" -q --resume half --node_count 2 --epochs 3 -o rest2
    [ "$(jq .facts.start.step rest2/run.json)" -eq 20 ]
    # 14 of 20 steps are 8.4 of 12, in rounds of 2.
    "$SUBMIT" "${job[@]}" --codec fedavg:every=2 --node_count 2 --checkpoint-steps 7 -o within
    "$SUBMIT" -q --resume within --node_count 3 -o rest3
    [ "$(jq -c '[.facts.start.step, .facts.start.epoch, .facts.start.earlier.step]' rest3/run.json)" = '[8,1,14]' ]
    no() { # no WORDS OPTIONS...
        "$SUBMIT" "${job[@]}" --node_count 2 "${@:2}" -o "$BATS_TEST_TMPDIR/earlier"
        run "$SUBMIT" -q --resume "$BATS_TEST_TMPDIR/earlier" --node_count 3 --epochs 4 -o no
        [ "$status" -eq 6 ]
        [[ "$output" == *"$1"*"no other number"* || "$output" == *"no other number"*"$1"* ]]
        [ ! -e no ]
        rm -r "$BATS_TEST_TMPDIR/earlier"
    }
    no 'a round of local steps is open' --codec fedavg:every=2 --checkpoint-steps 15
    no 'by a state of its own' --codec scaffold --checkpoint-every 1
    no 'weights of its own' --codec easgd:every=2 --checkpoint-every 1
    no 'messages of its own' --codec gossip --checkpoint-every 1
    no '/residual/' --codec allreduce --compress topk:ratio=0.1,ef=true --checkpoint-every 1
}

@test "a job that cannot be resumed is refused before an agent is contacted" {
    start_agents 3
    "$SUBMIT" --codec plain --node_count 2 --epochs 2 --checkpoint-every 2 --model softmax --dataset "$FEW" -o half
    no() { # no STATUS WORDS OPTIONS...
        local expected=$1 words=$2
        shift 2
        run "$SUBMIT" "$@" -o no
        [ "$status" -eq "$expected" ]
        [[ "$output" == *"$words"* ]]
        [ ! -e no ]
    }
    no 2 '--seed cannot be changed by --resume' --resume half --epochs 4 --seed 2
    no 2 'a job starts from one of them' --resume half --init-from half/model/final.safetensors
    no 6 'epoch 2 is reached already' --resume half
    no 6 'it is of another model than' --resume half --epochs 4 --model mlp-relu
    no 6 'codec was "plain" in the earlier job, and is "fedavg" now' --resume half --epochs 4 --codec fedavg
    no 6 'nowhere/run.json' --resume nowhere --epochs 4
    no 6 'an exchange may be under way between steps' --codec "$BUILD/tests/codecs/ping.so" --node_count 2 --checkpoint-every 1
    no 6 'asgd' --codec plain --psgd asgd --node_count 2 --checkpoint-every 1
    no 6 'another build of codec plain' --resume half --epochs 4 --codec "$ROOT/codecs/plain.c"
    no 6 'checkpoints are 10 steps apart, and the nodes synchronize only every 11 steps' \
        --codec fedavg --node_count 2 --local-steps 11 --epochs 4 --checkpoint-every 1 --dataset "$FEW"
    no 6 'checkpoints are 5 steps apart, and the nodes synchronize only every 10 steps' \
        --codec fedavg --node_count 2 --epochs 4 --checkpoint-steps 5 --dataset "$FEW"
    no 6 'leave one of --checkpoint-every and --checkpoint-steps out' --checkpoint-every 1 --checkpoint-steps 5
    cp -r half cut
    forget_sums cut
    truncate -s -4 cut/checkpoints/node-1.safetensors
    no 6 'bytes of data' --resume cut --epochs 4
    cp half/checkpoints/node-0.safetensors cut/checkpoints/node-1.safetensors
    no 6 "it belongs to node 0, not to node 1" --resume cut --epochs 4
    cp half/checkpoints/node-1.safetensors cut/checkpoints/node-1.safetensors
    doctor cut/checkpoints/node-1.safetensors 'h["__metadata__"]["version"] = "1"'
    no 6 'it has version "1", this psgd reads 2' --resume cut --epochs 4
    rm cut/checkpoints/node-1.safetensors
    no 6 'node(1): no checkpoint of step 20' --resume cut --epochs 4
    # settings that the command line cannot change may have been changed in the folder
    sed 's/"seed": "1"/"seed": "2"/' half/run.json >cut/run.json
    cp half/checkpoints/* cut/checkpoints/
    no 6 'seed was 1 in the earlier job, and is 2 now' --resume cut --epochs 4
}
