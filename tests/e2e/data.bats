#!/usr/bin/env bats
# Data sets, transforms and partitions, from the command line to the trained model; and validate, which contacts no agent.
load lib

unreachable_workers() { # a valid worker.json, without agents
    echo '{"Worker":["127.0.0.1:1","127.0.0.1:2","127.0.0.1:3","127.0.0.1:4"]}' >worker.json
}

validate() { "$SUBMIT" validate -q "$@"; }
validate_few() { validate --dataset digits:train=2560,test=400 "$@"; }

# model IN UNITS LOSS: m.json, one dense layer.
model() {
    echo "{\"version\":1,\"name\":\"m\",\"input\":[$1],\"layers\":[{\"kind\":\"dense\",\"units\":$2}],\"loss\":\"$3\"}" >m.json
}

# shellcheck disable=SC2153 # lib.bash sets DATA
needs() { [ -e "$DATA/$1" ] || skip "$1 is not at $DATA (set PSGD_DATA)"; }

last_loss() { tail -1 "$1/records/eval.csv" | cut -d, -f6; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

@test "validate shows model, data and shards, and leaves nothing behind" {
    unreachable_workers
    run validate --node_count 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"Model mlp-tutorial: input (784), loss softmax_cross_entropy"*"118282 parameters"* ]]
    [[ "$output" == *"(784)               (128)                     100480"* ]]
    [[ "$output" == *"24000 training and 4000 test samples of [28, 28, 1] bytes, 10 classes; transform unit"* ]]
    [[ "$output" == *"global batch 128, 187 steps an epoch, 374 in all; 64 training samples are left out of each epoch, in turn"* ]]
    [[ "$output" == *"Test set: each worker evaluates on a part of it"* ]]
    [[ "$output" == *"samples              12000     12000"* ]]
    [ "$(ls --ignore=state)" = worker.json ] # the user's state folder has the secret of the job keys
}

@test "validate --json has the same information" {
    unreachable_workers
    validate --node_count 3 --partition labels:2 --json >v.json
    [ "$(jq -r '.ok, .data.data.steps_per_epoch == .data.settings.steps_per_epoch' v.json | sort -u)" = true ]
    [ "$(jq '.data.nodes | length' v.json)" -eq 3 ]
    [ "$(jq '.data.layers[0].n_params' v.json)" -eq 100480 ]
    [ "$(jq -c '[.data.nodes[].labels | map(select(. > 0)) | length]' v.json)" = '[2,2,2]' ]
    [ "$(jq '[.data.nodes[].labels[]] | add' v.json)" -eq "$(jq '[.data.nodes[].samples] | add' v.json)" ]
}

@test "validate shows the data set that a model does not fit, and of a full epoch no remainder" {
    seq 40 | awk 'BEGIN { print "0,1,2,3" } { print $1 / 40 ",0.5,-" $1 "," $1 % 2 }' >table.csv
    echo '{"version":1,"name":"s","input":[3],"layers":[{"kind":"dense","units":3}],"loss":"softmax_cross_entropy"}' >m.json
    local job=(--dataset csv --data table.csv --model m.json --batch_size 8)
    status=0
    validate "${job[@]}" >shown 2>refused || status=$?
    [ "$status" -eq 6 ]
    [ "$(cat shown)" = "Data set csv: 32 training and 8 test samples of [3] floats, 2 classes; transform unit" ]
    grep 'ends with 3 outputs, the data set has 2 classes' refused
    validate "${job[@]}" >both 2>&1 || true
    [[ "$(head -1 both)" == "Data set "* ]]
    sed -i 's/"units":3/"units":2/' m.json
    validate "${job[@]}" >shown
    grep -qx 'Partition iid: 1 block of 8, global batch 8, 4 steps an epoch, 8 in all' shown
    validate "${job[@]}" --batch_size 31 >shown
    grep -q '; 1 training sample is left out of each epoch, in turn$' shown
}

@test "validate exits as the job would" {
    # Without a worker.json, for as many agents as the job needs.
    run "$SUBMIT" validate --dataset digits:train=2560,test=400 --node_count 3 --codec ps --psgd asgd
    [ "$status" -eq 0 ]
    [[ "$output" == *"There is no worker.json: checked for 3 workers and a parameter server."*"samples "* ]]
    run validate_few --workers other.json
    [ "$status" -eq 6 ]
    unreachable_workers
    run validate_few --node_count 5
    [ "$status" -eq 6 ]
    echo weights >w
    run validate_few --init-from w
    [ "$status" -eq 6 ]
    [[ "$output" == *"not a safetensors file"* ]]
    mkdir full && touch full/x
    run validate_few -o full
    [ "$status" -eq 6 ]
    [[ "$output" == *"is not empty"* ]]
    run validate_few --node_count two
    [ "$status" -eq 2 ]
    run validate_few --partition dirichlet
    [ "$status" -eq 6 ]
    [[ "$output" == *"dirichlet needs a number"* ]]
    run validate_few --non-iid --partition iid
    [ "$status" -eq 2 ]
    run validate_few --transform centred
    [ "$status" -eq 6 ]
    [[ "$output" == *'"centred" is none of unit, centre, standard'* ]]
    # Unsupported settings of a rule, reported as by the nodes.
    run validate_few --node_count 2 --codec dummy --on-node-loss continue
    [ "$status" -eq 6 ]
    [[ "$output" == *"codec dummy has no on_lost(): it cannot continue after a node is lost"* ]]
    run validate_few --node_count 2 --codec fedavg --on-node-loss continue
    [ "$status" -eq 0 ]
    "$SUBMIT" codecs new mine rounds
    local codec
    for codec in easgd fedpaq; do
        run validate_few --node_count 2 --codec $codec --psgd asgd
        [ "$status" -eq 6 ]
        [[ "$output" == *"codec $codec needs parameter servers in asgd"*' under "PS"'* ]]
        run validate_few --node_count 2 --codec $codec --psgd ssgd
        [ "$status" -eq 0 ]
    done
    run validate_few --node_count 2 --codec fedavg --psgd asgd
    [ "$status" -eq 0 ]
    run validate_few --node_count 2 --codec mine.c --redundancy 2
    [ "$status" -eq 6 ]
    [[ "$output" == *"codec mine exchanges one gradient per worker"* ]]
    run validate_few --node_count 2 --codec plain --redundancy 2
    [ "$status" -eq 0 ]
    run validate --dataset cifar10
    [ "$status" -eq 6 ]
    [[ "$output" == *"data_batch"* ]]
    run validate --dataset csv:tset=1
    [ "$status" -eq 6 ]
    [[ "$output" == *'did you mean "test"?'* ]]
    run validate_few --batch_size 100000
    [ "$status" -eq 6 ]
    [[ "$output" == *"fewer than one global batch"* ]]
}

@test "every partition divides the samples, and equally but by labels" {
    unreachable_workers
    for p in iid label_sorted true_non_iid:0.5 shards:2 dirichlet:0.5 labels:3; do
        validate_few --node_count 4 --partition "$p" --json >v.json
        jq -e '[.data.nodes[].samples | select(. > 500)] | length == 4' v.json
        [ "$p" = labels:3 ] || jq -e '[.data.nodes[].samples] | max - min <= 1 and add == 2560' v.json
        jq -e '[.data.nodes[].labels] | transpose | map(add) | max <= 256' v.json # all that there are of one
    done
    validate_few --node_count 4 --non-iid --json >a.json
    validate_few --node_count 4 --partition label_sorted --json >b.json
    [ "$(jq -c .data.nodes a.json)" = "$(jq -c .data.nodes b.json)" ]
}

@test "a CSV table with text labels trains a classifier" {
    start_agents 2
    model 2 2 softmax_cross_entropy
    awk 'BEGIN {
        print "x,\"y\",side"
        for (i = 0; i < 600; i++) {
            x = i * 7919 % 601
            y = i * 104729 % 599
            printf "%d,%d,%s\n", 1000 + x, y, (x > y ? "\"below,right\"" : "above")
        }
    }' >t.csv
    "$SUBMIT" --codec plain --node_count 2 --batch_size 16 --model m.json --dataset csv:label=side,test=0.25 --data t.csv \
        --transform standard --gradient-descent adam --learn_rate 0.05 --epochs 20 -o out
    awk -v a="$(tail -1 out/records/eval.csv | cut -d, -f7)" 'BEGIN { exit !(a > 0.95) }'
    [ "$(jq -c .facts.data.class_names out/run.json)" = '["above","below,right"]' ]
    run "$SUBMIT" validate --model m.json --dataset csv:label=side,test=0.25 --data t.csv
    [[ "$output" != *"is the training set"* ]]
    run "$SUBMIT" validate --model m.json --dataset csv:label=side,test_file=t.csv --data t.csv
    [[ "$output" == *"The test set of csv:label=side,test_file=t.csv is the training set"* ]]
}

@test "a column's groups stay together, on agents as in a simulation, and the column is no value" {
    start_agents 3
    model 2 2 softmax_cross_entropy
    awk 'BEGIN {
        print ",user,x,y,side"
        for (i = 0; i < 400; i++) {
            x = i * 7919 % 601; y = i * 104729 % 599
            printf "%d,u%d,%d,%d,%s\n", i, i * i % 17, x, y, (x > y ? "below" : "above")
        }
    }' >t.csv
    on=(--codec fedavg --local-steps 3 --node_count 3 --batch_size 8 --model m.json --dataset csv:drop=1 --data t.csv
        --partition column:user --transform standard --epochs 3)
    "$SUBMIT" -q "${on[@]}" -o real
    "$SUBMIT" simulate -q "${on[@]}" -o simulated
    [ "$(jq -r .nodes[0].params_sha256 real/run.json)" = "$(jq -r .nodes[0].params_sha256 simulated/run.json)" ]
    [ "$(jq -c '.facts.data | [.shape, (.block_groups | add)]' real/run.json)" = '[[2],9]' ]
    "$SUBMIT" predict real -o predictions.csv
    [ "$(wc -l <predictions.csv)" -eq 81 ]
    run "$SUBMIT" validate "${on[@]}"
    [[ "$output" == *"a block has 3 groups"* ]]
    run "$SUBMIT" validate "${on[@]}" --partition column:writer
    [ "$status" -eq 6 ]
    [[ "$output" == *'no column is called "writer" in line 1'* ]]
    run validate_few --partition column:user
    [ "$status" -eq 6 ]
    [[ "$output" == *"data set digits:train=2560,test=400 has no columns to group samples by"* ]]
}

@test "a linear model fits the linear simulator's data" {
    start_agents 2
    model 16 1 mse
    "$SUBMIT" --codec plain --node_count 2 --batch_size 16 --model m.json --dataset simlin:train=2000,test=200,in=16 \
        --transform standard --gradient-descent adam --learn_rate 0.05 --epochs 8 -o out
    less "$(last_loss out)" 0.001
}

# bats test_tags=long
@test "cropped and flipped samples are the same when a job is repeated, on any node" {
    start_agents 2
    # shellcheck disable=SC2054 # a list in one argument
    local job=(--codec plain --redundancy 2 --node_count 2 --model softmax --transform standard,crop=2,flip --epochs 1)
    "$SUBMIT" "${job[@]}" -o a
    "$SUBMIT" "${job[@]}" -o b
    "$SUBMIT" "${job[@]}" --seed 2 -o c
    cmp <(without_times a/records/eval.csv) <(without_times b/records/eval.csv)
    if cmp -s <(without_times a/records/eval.csv) <(without_times c/records/eval.csv); then false; fi
    [ "$(jq .models_agree a/run.json)" = true ]
}

@test "CIFAR-10's binary files are images of three channels" {
    needs cifar10-subset
    unreachable_workers
    model 3072 10 softmax_cross_entropy
    validate --node_count 2 --model m.json --dataset cifar10 --data "$DATA/cifar10-subset" --transform standard,crop=4,flip --json >v.json
    [ "$(jq -c '.data.data | [.n_train, .n_test, .shape, .type]' v.json)" = '[5000,1000,[32,32,3],"bytes"]' ]
}

@test "film reviews are token sequences of two classes" {
    needs rt-polarity
    unreachable_workers
    echo '{"version":1,"name":"m","input":[30],"layers":[{"kind":"embedding","vocab":5000,"units":8},{"kind":"mean_over_time"},
           {"kind":"dense","units":2}],"loss":"softmax_cross_entropy"}' >m.json
    validate --node_count 2 --model m.json --dataset text:length=30,vocab=5000 --data "$DATA/rt-polarity" --json >v.json
    [ "$(jq -c '.data.data | [.n_train + .n_test, .n_test, .type, .vocab, .class_names]' v.json)" = \
        '[10662,1066,"tokens",5000,["rt-polarity.neg","rt-polarity.pos"]]' ]
    run validate --model m.json --dataset text:length=30,vocab=5001 --data "$DATA/rt-polarity"
    [ "$status" -eq 6 ]
    [[ "$output" == *"knows 5000 tokens, the data set has 5001"* ]]
}

@test "MNIST: a runner needs at most 40 MB beside its shard and the test set" {
    needs mnist
    case $BUILD in */asan | */tsan) skip "sanitizers need memory of their own" ;; esac
    start_agents 1
    "$SUBMIT" --codec plain --node_count 1 --dataset mnist --data "$DATA/mnist" --epochs 100000 --detach --no-queue -o out
    local peak data
    peak=$(peak_at_step 2000) # its third epoch
    data=$(stat -L -c %s agent0/jobs/*/packages/t*.safetensors | awk '{ n += $1 } END { print int(n / 1024) }')
    "$SUBMIT" cancel -q "$(only_job 0)"
    echo "# peak $peak kB, data $data kB" >&3
    [ "$data" -gt 50000 ]
    [ "$peak" -gt 10000 ]
    [ $((peak - data)) -lt 40960 ]
}

# bomb FILE: appends a gibibyte of zeros, packed: members of a gzip file may follow each other.
bomb() {
    local n
    head -c 67108864 /dev/zero | gzip -1 >member
    for n in {1..16}; do cat member; done >>"$1"
}

# bats test_tags=long
@test "a small file that unpacks to a gibibyte is refused before it fills the memory" {
    case $BUILD in */asan | */tsan) skip "sanitizers need memory of their own" ;; esac
    unreachable_workers
    mkdir idx
    bomb bomb.csv.gz
    printf '\0\0\10\3\77\377\377\0\0\0\0\1\0\0\0\1' | gzip >idx/train-images-idx3-ubyte.gz
    bomb idx/train-images-idx3-ubyte.gz
    python3 - <<'PY'
import zipfile
with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z, z.open("x.npy", "w") as f:
    for _ in range(1000):
        f.write(bytes(1 << 20))
PY
    local data
    for data in "csv:test_file=bomb.csv.gz bomb.csv.gz" "idx idx" "npz bomb.npz"; do
        # shellcheck disable=SC2086
        set -- $data
        run bash -c "ulimit -v 400000; exec '$SUBMIT' validate --model softmax --dataset $1 --data $2"
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"unpacks to more than 200 times its size"* ]]
    done
}

# The damage is 200 kB behind the length in the header: a reader that continues would report the damage.
@test "a packed file that holds more than its header promises is refused before the rest is unpacked" {
    unreachable_workers
    mkdir idx npy
    python3 - <<'PY'
import gzip, random, struct, zipfile

rest = random.Random(1).randbytes(300000)
array = lambda shape, kind: b"\x93NUMPY\x01\0\x76\0" + f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"

def damage(packed, at):
    return packed[:at] + bytes(1000) + packed[at + 1000 :]

for name, head in (("idx/train-images-idx3-ubyte", struct.pack(">4I", 0x803, 2, 8, 8)), ("npy/x_train.npy", array((2, 4), "|u1"))):
    with open(name + ".gz", "wb") as f:
        f.write(damage(gzip.compress(head + rest), 200000))
with zipfile.ZipFile("more.npz", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("x_train.npy", array((2, 4), "|u1") + rest)
with open("more.npz", "rb") as f:
    whole = f.read()
with open("more.npz", "wb") as f:
    f.write(damage(whole, 200000))
PY
    local data
    for data in "idx idx 144" "npy npy 136" "npz more.npz 136"; do
        # shellcheck disable=SC2086
        set -- $data
        run "$SUBMIT" validate --model softmax --dataset "$1" --data "$2"
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$3 bytes expected by its header, "* ]]
    done
}
