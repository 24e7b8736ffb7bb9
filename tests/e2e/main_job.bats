#!/usr/bin/env bats
# The main job: agents, one submission, results.
# Takes about 1 minute.
load lib

@test "two agents train, records, logs and model are fetched, and the output has the lines of Parallel-SGD" {
    start_agents 2
    run "$SUBMIT" --codec fedavg --node_count 2 --epochs 2 --seed 5 -o out
    [ "$status" -eq 0 ]
    # The lines of Parallel-SGD.
    for line in 'Reply requirements to node(0), type(settings).' 'Reply requirements to node(1), type(data).' \
        'is ready, 2 nodes total' 'Restoring data (train.csv) from 0.'; do
        [[ "$output" == *"$line"* ]]
    done
    [[ "$output" == *"{0,1} is ready."* || "$output" == *"{0, 1} is ready."* ]]
    for f in run.json README.txt report.html events.jsonl records/train.csv records/eval.csv records/comm.csv logs/worker-0.log \
        logs/worker-1.log logs/submit.log model/final.safetensors model/best.safetensors; do
        [ -s "out/$f" ]
    done
    [ "$(jq -r .state out/run.json)" = succeeded ]
    [ "$(tail -n +2 out/records/eval.csv | wc -l)" -eq 4 ]
    # 24,000 samples in rows of 2 x 64: 187 steps per epoch on each node, and a header
    [ "$(wc -l <out/records/train.csv)" -eq $((2 * 2 * 187 + 1)) ]
    # Every setting, and the SHA-256 of every file.
    jq -e '.settings | .seed == 5 and .codec == "fedavg"' out/run.json
    jq -r '.files[] | "\(.sha256)  out/\(.name)"' out/run.json >sums
    [ "$(wc -l <sums)" -ge 9 ]
    sha256sum -c --quiet sums
}

@test "a model loads in numpy as README.txt describes" {
    python=$(python_with numpy) || skip "python3-numpy is not installed"
    start_agents 2
    "$SUBMIT" --codec fedavg --node_count 2 --dataset "$FEW" --epochs 1 -o out
    sed -n '/^import/,$p' out/README.txt >load.py
    [ "$(wc -l <load.py)" -le 12 ]
    cd out
    run "$python" ../load.py
    [ "$status" -eq 0 ]
    [[ "$output" == *"layer0.dense.weight"* ]]
    [[ "$output" == *"(784, 128)"* ]]
}

@test "workers on one machine reduce in shared memory, to the same bits, unless that is disabled" {
    start_agents 3
    for path in auto off; do
        "$SUBMIT" --codec allreduce --node_count 2 --dataset "$FEW" --epochs 1 --local-path $path -o $path
        [ "$(jq .models_agree $path/run.json)" = true ]
    done
    grep -q 'use memory shared by all 2 workers' auto/logs/worker-0.log
    grep -qE '^[1-9][0-9]* collectives in shared memory: this worker copied' auto/logs/worker-0.log
    # The update reads the sums where they are, which takes pages of 4 KiB.
    [ "$(getconf PAGESIZE)" != 4096 ] || grep -q 'this worker copied 0 bytes' auto/logs/worker-0.log
    [ "$(grep -cE '(use|through) memory' off/logs/worker-0.log)" = 0 ]
    cmp <(tail -c 400000 auto/model/final.safetensors) <(tail -c 400000 off/model/final.safetensors)
    cmp <(cut -d, -f2-7 auto/records/eval.csv) <(cut -d, -f2-7 off/records/eval.csv)
    # No gradient was sent in frames over a connection, but all are counted.
    [ "$(awk -F, 'NR > 1 { raw += $7; wire += $8 } END { print (raw > 1e6 && wire == raw) }' auto/records/comm.csv)" = 1 ]
    "$SUBMIT" --codec allreduce --node_count 3 --dataset "$FEW" --epochs 1 -o three
    for path in auto off; do
        "$SUBMIT" --codec doublebuffer --node_count 2 --dataset "$FEW" --epochs 2 --local-path $path -o double-$path
        [ "$(jq .models_agree double-$path/run.json)" = true ]
    done
    cmp <(cut -d, -f2-7 double-auto/records/eval.csv) <(cut -d, -f2-7 double-off/records/eval.csv)
    [ "$(jq .models_agree three/run.json)" = true ]
}

# Messages and bytes between each two nodes: the round in which an event rule receives one depends on timing.
traffic() { # traffic FOLDER
    awk -F, 'NR > 1 { n[$3 " " $4 " " $5] += $6; raw[$3 " " $4 " " $5] += $7; wire[$3 " " $4 " " $5] += $8 }
        END { for (k in n) print k, n[k], raw[k], wire[k] }' "$1/records/comm.csv" | sort
}

@test "messages go through shared memory on one machine, with the same bytes and results, unless that is disabled" {
    start_agents 4
    write_workers 3 1
    local path codec few=(--dataset "$FEW" --batch_size 16 --epochs 1)
    for path in auto off; do
        "$SUBMIT" -q --codec plain --path gather --server_codec null --node_count 2 "${few[@]}" --local-path $path -o plain-$path
        "$SUBMIT" -q --codec gossip --server_codec null --node_count 3 "${few[@]}" --local-path $path -o gossip-$path
        "$SUBMIT" -q --codec fedavg --node_count 3 "${few[@]}" --local-steps 3 --local-path $path -o fedavg-$path
    done
    for codec in plain gossip fedavg; do
        grep -qx 'messages go through memory shared with all peers' $codec-auto/logs/worker-1.log
        [ "$(grep -c '^messages ' $codec-off/logs/worker-1.log)" = 0 ]
        cmp <(tail -c 400000 $codec-auto/model/final.safetensors) <(tail -c 400000 $codec-off/model/final.safetensors)
        cmp <(traffic $codec-auto) <(traffic $codec-off)
    done
    [ "$(jq .models_agree fedavg-auto/run.json)" = true ]
}

@test "allreduce on two agents arrives at plain's weights" {
    start_agents 2
    for codec in plain allreduce; do
        run "$SUBMIT" --codec $codec --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o $codec
        [ "$status" -eq 0 ]
    done
    cmp <(cut -d, -f2-7 plain/records/eval.csv) <(cut -d, -f2-7 allreduce/records/eval.csv)
    run "$SUBMIT" --codec allreduce --node_count 2 --redundancy 2 --epochs 1 -o refused
    [ "$status" -ne 0 ]
    [[ "$output" == *"redundant blocks"* ]]
}

@test "Parallel-SGD's spelling of every option is accepted" {
    start_agents 2
    run "$SUBMIT" --node_count 2 --batch_size 64 --redundancy 1 --codec plain --optimizer parallel_sgd --parallel_sgd ssgd \
        --learn_rate 0.05 --epochs 1 --block_assignment iid --server_codec null --workers worker.json --dataset "$FEW" \
        --model softmax --non-iid --gradient-descent sgd -o a
    [ "$status" -eq 0 ]
    run "$SUBMIT" --node-count=2 -b 64 -r 1 -C plain -O psgd --psgd ssgd --learn-rate 0.05 -E 1 --block-assignment dpa \
        --server-codec null --worker worker.json -D "$FEW" -m softmax --gradient_descent sgd -o b
    [ "$status" -eq 0 ]
}

@test "the same seed gives the same bits, another seed other ones" {
    start_agents 2
    for codec in plain fedavg; do
        "$SUBMIT" --codec $codec --node_count 2 --dataset "$FEW" --epochs 2 --seed 3 -o $codec.a
        "$SUBMIT" --codec $codec --node_count 2 --dataset "$FEW" --epochs 2 --seed 3 -o $codec.b
        for f in train eval comm; do
            cmp <(without_times $codec.a/records/$f.csv) <(without_times $codec.b/records/$f.csv)
        done
        python3 - $codec.a $codec.b <<'PY'
import json, struct, sys
def weights(path):
    b = open(path + "/model/final.safetensors", "rb").read()
    return b[8 + struct.unpack("<Q", b[:8])[0]:]
assert weights(sys.argv[1]) == weights(sys.argv[2])
PY
    done
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 2 --seed 4 -o other
    run cmp -s <(without_times plain.a/records/eval.csv) <(without_times other/records/eval.csv)
    [ "$status" -eq 1 ]
}

@test "synchronous nodes evaluate to the same numbers" {
    start_agents 4
    "$SUBMIT" --codec plain --node_count 4 --redundancy 2 --dataset "$FEW" --batch_size 16 --epochs 1 -o out
    [ "$(tail -n +2 out/records/eval.csv | cut -d, -f3-7 | sort -u | wc -l)" -eq 1 ]
}

# Adding two half gradients rounds differently from one whole one: after 100 steps of SGD no weight may differ by more than
# 2e-5, a few hundred units in the last place of weights around 0.1.
@test "plain on 2 nodes of 64 equals 1 node of 128, up to rounding" {
    start_agents 2
    local few=(--dataset "digits:train=6400,test=200" --epochs 2)
    "$SUBMIT" --codec plain --node_count 2 --batch_size 64 "${few[@]}" -o two
    "$SUBMIT" --codec plain --node_count 1 --batch_size 128 "${few[@]}" -o one
    python3 - <<'PY'
import array, struct
def weights(path):
    b = open(path + "/model/final.safetensors", "rb").read()
    return array.array("f", b[8 + struct.unpack("<Q", b[:8])[0]:])
a, b = weights("one"), weights("two")
worst = max(abs(x - y) for x, y in zip(a, b))
print("largest difference", worst)
assert len(a) == len(b) == 118282 and worst < 2e-5
PY
}

# bats test_tags=long
@test "fedavg has the same result with one parameter server, with three, and without" {
    start_agents 5
    write_workers 2
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 -o none
    write_workers 2 1
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 -o one
    write_workers 2 3
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 -o three
    for d in one three; do
        cmp <(cut -d, -f2-7 none/records/eval.csv) <(cut -d, -f2-7 $d/records/eval.csv)
        [ -s $d/logs/ps-0.log ]
    done
    grep -q ',-2,' one/records/comm.csv
    grep -q ',-4,' three/records/comm.csv
    "$SUBMIT" --codec fedavg --node_count 2 --epochs 1 --server_codec null -o null
    run grep -q ',-2,' null/records/comm.csv
    [ "$status" -eq 1 ]
}

# bats test_tags=long
@test "asynchronous jobs succeed" {
    start_agents 3
    "$SUBMIT" --codec plain --psgd asgd --node_count 3 --epochs 1 -o a
    write_workers 2 1
    "$SUBMIT" --codec fedavg --psgd asgd --local-steps 10 --node_count 2 --epochs 1 -o b
    "$SUBMIT" --codec dummy --node_count 2 --epochs 1 -o c
}

# bats test_tags=long
@test "many nodes on one machine" {
    start_agents 16
    for n in 4 8 16; do
        "$SUBMIT" --codec fedavg --node_count $n --batch_size 32 --epochs 1 --model softmax -o out$n
        [ "$(tail -n +2 out$n/records/eval.csv | wc -l)" -eq $n ]
    done
}

@test "agents run one job after another, and reuse their blobs" {
    start_agents 2
    for i in 1 2 3; do "$SUBMIT" -v --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out$i 2>log$i; done
    [ "$(find agent0/blobs -type f | wc -l)" -eq 8 ]
    [ "$(api 0 GET /v1/jobs | jq '.jobs | length')" -eq 3 ]
}

@test "a second submitter waits in the queue, or is refused with the holder of the agent" {
    start_agents 2
    gated plain
    long_job --codec gated.c --round-timeout "$TEST_LIMIT" --name holder --detach --no-queue -o out1 # it waits at its gate, and is canceled there
    run "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --no-queue -o out2
    [ "$status" -eq 4 ]
    [[ "$output" == *"$(only_job 0)"* ]]
    local holder
    holder=$(only_job 0)
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out3 2>queued 3>&- &
    within 60 grep -q "has $holder of .*; waiting in its queue, position 1 of 1, behind $holder, " queued
    "$SUBMIT" cancel "$(api 0 GET '/v1/jobs?state=running' | jq -r '.jobs[0].id')"
    wait $!
    [ "$(jq -r .state out3/run.json)" = succeeded ]
}

@test "simultaneous submitters all succeed" {
    start_agents 3
    local name pids=()
    for name in a b c; do
        "$SUBMIT" --codec fedavg --node_count 3 --dataset "$FEW" --epochs 1 --model softmax -o $name 2>/dev/null 3>&- &
        pids+=($!)
    done
    wait "${pids[@]}"
    for name in a b c; do [ "$(jq -r .state $name/run.json)" = succeeded ]; done
}

@test "a detached job is waited for and fetched later" {
    start_agents 2
    "$SUBMIT" --codec fedavg --node_count 2 --dataset "$FEW" --epochs 3 --detach --no-queue --json -o out >said
    id=$(only_job 0)
    [ "$(jq -r '.data.id, .data.folder' said)" = "$(printf '%s\n' "$id" "$T/out")" ]
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 0 ]
    run "$SUBMIT" status "$id"
    [[ "$output" == *succeeded* ]]
    run "$SUBMIT" list
    [[ "$output" == *"$id"* ]]
    [[ "$("$SUBMIT" logs "$id")" == *"ready: codec fedavg"* ]]
    [ -s out/model/final.safetensors ] || "$SUBMIT" fetch "$id" -o out
    [ -s out/model/final.safetensors ]
}

numbers() { grep -oE '"[a-z_]*": ?-?[0-9][0-9.e+-]*' "$1" | tr -d ' '; }

@test "the fetched results of a job whose agents are gone are shown, kept, and sufficient" {
    start_agents 2
    "$SUBMIT" -q --codec fedavg --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out
    id=$(jq -r .id out/run.json)
    cp -r out before
    stop_agents
    local gone verb
    for gone in all one; do
        [ $gone = all ] || start_agent 0 # agent 0 has half of the results
        for verb in wait fetch; do
            run "$SUBMIT" $verb "$id"
            [ "$status" -eq 0 ]
            [[ "$output" == *"All results of $id are in $PWD/out already"* ]]
            [[ "$output" == *"): succeeded"*"model/final.safetensors"* ]]
            # Digit by digit: jq before 1.7 would round both the same way.
            "$SUBMIT" $verb "$id" --json 2>/dev/null >printed.json
            diff <(numbers out/run.json) <(numbers printed.json)
            [ "$(jq -c .data printed.json)" = "$(jq -c . out/run.json)" ]
            diff -r before out
        done
    done
    kill_agent 0
    # Another folder has nothing yet, and one with a missing file is incomplete.
    run "$SUBMIT" fetch "$id" -o elsewhere
    [ "$status" -eq 3 ]
    [ ! -e elsewhere ]
    # Each unreachable agent is reported once.
    run "$SUBMIT" logs "$id"
    [ "$status" -eq 3 ]
    [ "$(grep -c 'does not answer' <<<"$output")" -eq 2 ]
    [ "$(grep -c "error: node(0): .*:${PORTS[0]} does not answer" <<<"$output")" -eq 1 ]
    rm out/records/eval.csv
    for verb in wait fetch; do
        run "$SUBMIT" $verb "$id"
        [ "$status" -eq 3 ]
        [[ "$output" == *"does not answer"* ]]
    done
}

@test "a disk too full for the results: the file is named, and how to fetch to another folder" {
    start_agents 2
    id=$("$SUBMIT" -q --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax --detach --no-queue -o out)
    rm -f out/run.json # as if the disk had been full from the start
    # Space for one node's results, not for both: a longer file cannot be written.
    run bash -c "trap '' XFSZ; ulimit -f 20; '$SUBMIT' wait -q $id"
    [ "$status" -eq 9 ]
    [[ "$output" == *"error: $PWD/out/"*": File too large"* ]]
    [[ "$output" == *"job_submit fetch $id -o FOLDER"*"code: INCOMPLETE"* ]]
    rm -f out/run.json
    # The folder belongs to this job with or without a run.json; another job's does not.
    "$SUBMIT" fetch -q "$id"
    [ "$(jq -r .id out/run.json)" = "$id" ]
    "$SUBMIT" -q --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o other
    rm other/run.json
    run "$SUBMIT" fetch -q "$id" -o other
    [ "$status" -eq 6 ]
    [[ "$output" == *"holds no results of $id"* ]]
}

@test "Ctrl-C detaches and prints how to reattach; cancel ends the job" {
    start_agents 2
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1000000 --record-every 1000 -o out 2>log 3>&- &
    local pid=$! s=0
    within 60 is_at_step 0 10
    kill -INT $pid
    wait $pid || s=$?
    [ $s -eq 130 ]
    id=$(only_job 0)
    grep -q "job_submit wait $id" log
    is_in_state 0 running
    "$SUBMIT" cancel "$id"
    # One node may have noticed the other's end before the order to stop arrived; the job is canceled all the same.
    [[ "$("$SUBMIT" status "$id")" == *cancelled* ]]
    run "$SUBMIT" wait "$id"
    [ "$status" -eq 8 ]
}

@test "--json prints one object and nothing else on stdout; the default folder is logs/ID-NAME, and logs/latest points there" {
    start_agents 2
    "$SUBMIT" --json --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out >result.json 2>/dev/null
    [ "$(jq .ok result.json)" = true ]
    [ "$(jq -s length result.json)" -eq 1 ]
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax --name first
    [ -s logs/latest/run.json ]
    [[ "$(readlink -f logs/latest)" == *-first ]]
}

@test "the old format of worker.json is accepted" {
    start_agents 3
    echo "[[\"PS\",\"127.0.0.1:${PORTS[2]}\"],[\"Worker\",\"127.0.0.1:${PORTS[0]}\"],[\"Worker\",\"127.0.0.1:${PORTS[1]}\"]]" >worker.json
    "$SUBMIT" --codec fedavg --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out
    grep -q ',-2,' out/records/comm.csv
}

@test "a user's own codec in C is compiled, shipped and run" {
    start_agents 2
    sed 's/"plain"/"mine"/' "$ROOT/codecs/plain.c" >mine.c
    "$SUBMIT" --codec mine.c --node_count 2 --dataset "$FEW" --epochs 1 -o mine
    "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 -o plain
    cmp <(without_times mine/records/eval.csv) <(without_times plain/records/eval.csv)
}
