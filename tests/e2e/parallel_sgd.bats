#!/usr/bin/env bats
# The session of Parallel-SGD's text, as its users type it, and the files that they find afterwards.
load lib

@test "the session of Parallel-SGD: its command, its lines, its files, and their retrieval in another folder" {
    start_agents 2
    mkdir codec
    sed 's/"plain"/"tutorial_codec"/' "$ROOT/codecs/plain.c" >codec/tutorial_codec.c
    run "$SUBMIT" --codec tutorial_codec.myComCtrl --node_count 2 --epochs 1 --csv-style classic
    [ "$status" -eq 0 ]
    for line in '--node_count <node count 2>' '--redundancy <r 1>' \
        '--codec <communication codec and protocol tutorial_codec.myComCtrl>' \
        '--parallel_sgd <parallel stochastic gradient descent synchronization type ssgd>' \
        '--server_codec <parameter server codec null>' "Add worker (Rule: Worker, Id: 1, Address: 127.0.0.1:${PORTS[1]})." \
        'Try connecting to the cluster.' 'Connection with cluster established.' 'is ready, 2 nodes total' \
        'Restoring data (T-N(2)-R(1)-ID(0)-CODEC(mmm).csv) from 0.' 'Restoring data (./tmp_log/Training log @ node-1_'; do
        echo "$line"
        [[ "$output" == *"INFO User Submit@"*" : "*"$line"* ]]
    done
    [ "$(head -1 'T-N(2)-R(1)-ID(0)-CODEC(mmm).csv')" = "Time,Epoch,Batch,Total Batch,loss,accuracy" ]
    [ "$(wc -l <'T-N(2)-R(1)-ID(1)-CODEC(mmm).csv')" -eq 188 ]
    cmp E-*'ID(0)'* E-*'ID(1)'* # synchronous: all workers' tests are equal
    grep -q 'Epochs:1, Batches:5, in:187, Total:5, Loss:' tmp_log/Training*node-0*
    grep -q 'Node(1) is ready' tmp_log/User*
    [ -z "$(find logs -name 'T-*')" ]
    mkdir later
    cd later || return 1
    "$SUBMIT" --retrieve_data -q --csv-style classic
    cmp T-*'ID(1)'* ../T-*'ID(1)'*
    # Fetched results need no agents.
    stop_agents
    "$SUBMIT" fetch -q --csv-style classic-0.9
    cmp Node-0-Retrieve/MODEL-* ../logs/latest/model/final.safetensors
    cmp <(tail -n +2 Node-1-Retrieve/EV-*) <(tail -n +2 E-*'ID(1)'*)
}

@test "a job that is waited for leaves Parallel-SGD's files, or is refused where they cannot be written" {
    start_agents 1
    id=$("$SUBMIT" -q --codec dummy --node_count 1 --epochs 1 --model softmax --detach --no-queue)
    "$SUBMIT" wait -q --csv-style classic "$id"
    [ -s 'E-N(1)-R(1)-ID(0)-CODEC(d).csv' ]
    run "$SUBMIT" fetch --csv-style classical
    [ "$status" -eq 2 ]
    [[ "$output" == *classic-0.9* ]]
}
