#!/usr/bin/env bats
# --compress: fewer bytes, equal models, and refusals.
load lib

ratio() { # ratio JOB: raw to sent bytes of node 0
    jq '.nodes[0].comm.compression_ratio' "$1/run.json"
}

@test "one percent of the gradient, with error feedback, reaches the accuracy of the whole gradient" {
    start_agents 2
    "$SUBMIT" --codec plain --node_count 2 --epochs 2 --compress 'topk:ratio=0.01,ef=true|huffman' -o few
    "$SUBMIT" --codec plain --node_count 2 --epochs 2 -o all
    [ "$(jq .models_agree few/run.json)" = true ]
    [ "$(jq -r .settings.compress few/run.json)" = 'topk:ratio=0.01,ef=true|huffman' ]
    [ "$(jq -n "$(ratio few) > 80 and $(ratio all) < 1.01")" = true ]
    accuracy() { tail -1 "$1/records/eval.csv" | cut -d, -f7; }
    [ "$(jq -n "$(accuracy few) > $(accuracy all) - 0.02")" = true ]
    grep -qE '^coded [0-9]+ symbols with [0-9.]+ bits each; their entropy is [0-9.]+ bits$' few/logs/worker-0.log
    # The rule encoded the same; the bytes on the wire differ.
    [ "$(awk -F, 'NR > 1 { raw += $7; wire += $8 } END { print (raw > 80 * wire) }' few/records/comm.csv)" = 1 ]
}

# bats test_tags=long
@test "quantized differences of weights nearly reach the accuracy of whole weights" {
    start_agents 3
    write_workers 2 1
    args=(-q --node_count 2 --epochs 2 --local-steps 20)
    "$SUBMIT" "${args[@]}" --codec fedavg -o weights
    "$SUBMIT" "${args[@]}" --codec fedpaq --compress int8 -o bytes
    "$SUBMIT" "${args[@]}" --codec fedpaq --compress 'topk:ratio=0.05,ef=true|int8' -o few
    "$SUBMIT" "${args[@]}" --codec fedpaq --server_codec null --compress int8 -o alone
    accuracy() { tail -1 "$1/records/eval.csv" | cut -d, -f7; }
    for j in bytes few alone; do
        [ "$(jq .models_agree $j/run.json)" = true ]
        echo "$j: $(accuracy $j), weights $(accuracy weights), $(ratio $j)"
        [ "$(jq -n "$(accuracy $j) > $(accuracy weights) - 0.02")" = true ]
    done
    # 19 rounds of a frame header, the number of samples, a scale for each 256 values and a byte for each of them.
    jq -e '.nodes[0].comm.sent_bytes == 19 * (64 + 4 + 463 * 4 + 118282)' bytes/run.json
    [ "$(jq -n "$(ratio alone) > 3.8 and $(ratio few) > 30")" = true ]
}

# bats test_tags=long
@test "a server's replies are compressed, too, and with error feedback both ways it trains as well" {
    start_agents 3
    write_workers 2 1
    args=(-q --codec doublesqueeze --node_count 2 --epochs 2)
    "$SUBMIT" "${args[@]}" -o all
    "$SUBMIT" "${args[@]}" --compress 'topk:ratio=0.01,ef=true|huffman' \
        --compress-down 'tern:alpha=fit,ef=true|huffman' -o few
    [ "$(jq .models_agree few/run.json)" = true ]
    jq -e '.nodes[] | select(.node == 0) | .comm | .sent_bytes == .recv_bytes and .sent_bytes == 374 * (64 + 4 * 118282)' all/run.json
    # Both directions of a worker, and of the server, which sends its reply to both workers.
    jq -e --slurpfile all all/run.json '[.nodes[].comm] as $few | [$all[0].nodes[].comm] as $all |
        $all[0].sent_bytes > 80 * $few[0].sent_bytes and $all[0].recv_bytes > 20 * $few[0].recv_bytes and
        $few[2].sent_bytes == $few[0].recv_bytes + $few[1].recv_bytes and
        $few[2].recv_bytes == $few[0].sent_bytes + $few[1].sent_bytes and
        $few[0].compression_ratio > 80 and $few[2].compression_ratio > 20' few/run.json
    accuracy() { tail -1 "$1/records/eval.csv" | cut -d, -f7; }
    [ "$(jq -n "$(accuracy few) > $(accuracy all) - 0.02")" = true ]
    run "$SUBMIT" "${args[@]}" --psgd asgd -o x
    [ "$status" -eq 6 ]
    [[ "$output" == *'codec doublesqueeze needs the message of every worker in an exchange; it does not support asgd'* ]]
}

# bats test_tags=long
@test "servers send what workers lack: ps and fedavg with two servers train as well, in ssgd and asgd" {
    start_agents 4
    write_workers 2 2
    accuracy() { tail -1 "$1/records/eval.csv" | cut -d, -f7; }
    local codec mode down='topk:ratio=0.02|int8|huffman'
    for codec in ps fedavg:every=5; do
        "$SUBMIT" -q --codec $codec --node_count 2 --epochs 3 -o all-$codec
        for mode in ssgd asgd; do
            "$SUBMIT" -q --codec $codec --node_count 2 --epochs 3 --parallel_sgd $mode --compress-down "$down" -o few-$mode-$codec
            echo "$codec $mode: $(accuracy few-$mode-$codec), all $(accuracy all-$codec)"
            # Whole vectors up, a fiftieth of one down; frames of 64 bytes.
            jq -e '.nodes[] | select(.node == 0) | .comm | .sent_bytes > 30 * .recv_bytes' few-$mode-$codec/run.json
        done
        [ "$(jq .models_agree few-ssgd-$codec/run.json)" = true ]
        [ "$(jq -n "$(accuracy few-ssgd-$codec) > $(accuracy all-$codec) - 0.02")" = true ]
    done
    # In asgd how far a job gets depends on the order of messages.
    [ "$(jq -n "$(accuracy few-asgd-ps) > 0.7 and $(accuracy few-asgd-fedavg:every=5) > 0.6")" = true ]
    run "$SUBMIT" -q --codec scaffold --node_count 2 --compress-down fp16 -o x
    [ "$status" -eq 6 ]
    [[ "$output" == *'--compress-down fp16: codec scaffold accepts only lossless compression of what servers send'* ]]
    run "$SUBMIT" -q --codec ps --node_count 2 --compress-down 'topk:ef=true,decay=0.9' -o x
    [ "$status" -eq 6 ]
    [[ "$output" == *"servers send the differences of their parameters"*"Leave decay out."* ]]
    [ ! -e x ]
}

# bats test_tags=long
@test "a resumed job continues with its workers' copies of the servers' parameters" {
    start_agents 3
    local mode args
    for mode in 'ssgd 2' 'asgd 1'; do
        write_workers "${mode#* }" 1
        args=(-q --codec ps --parallel_sgd "${mode% *}" --node_count "${mode#* }" --model softmax --compress-down 'topk:ratio=0.05')
        rm -rf whole half rest
        "$SUBMIT" "${args[@]}" --epochs 2 -o whole
        "$SUBMIT" "${args[@]}" --epochs 1 --checkpoint-every 1 -o half
        grep -qa 'codec/0/copy/0' half/checkpoints/ps-0.safetensors
        "$SUBMIT" -q --resume half --epochs 2 -o rest
        cmp <(tail -1 whole/records/eval.csv | cut -d, -f4-7) <(tail -1 rest/records/eval.csv | cut -d, -f4-7)
        cmp <(tail -c 30000 whole/model/final.safetensors) <(tail -c 30000 rest/model/final.safetensors)
    done
}

@test "a resumed job continues with the residuals of error feedback" {
    start_agents 2
    args=(--codec plain --node_count 2 --model softmax --dataset "$FEW" --compress 'onebit:ef=true')
    "$SUBMIT" "${args[@]}" --epochs 2 -o whole
    "$SUBMIT" "${args[@]}" --epochs 1 --checkpoint-every 1 -o half
    "$SUBMIT" --resume half --epochs 2 -o rest
    cmp <(tail -1 whole/records/eval.csv | cut -d, -f4-7) <(tail -1 rest/records/eval.csv | cut -d, -f4-7)
    cmp <(tail -c 30000 whole/model/final.safetensors) <(tail -c 30000 rest/model/final.safetensors)
}

@test "unknown chains, and those that a codec does not accept, are refused before anything is sent" {
    start_agents 2
    run "$SUBMIT" --codec plain --node_count 2 --compress tpok -o x
    [ "$status" -ne 0 ]
    [[ "$output" == *'no compressor is called "tpok"; did you mean "topk"?'* ]]
    run "$SUBMIT" --codec plain --node_count 2 --compress qsgd:bits=9 -o x
    [ "$status" -ne 0 ]
    [[ "$output" == *'bits: 9 is not between 2 and 8; it takes bits (2 to 8, default 4:'* ]]
    run "$SUBMIT" --codec gossip --node_count 2 --compress fp16 -o x
    [ "$status" -ne 0 ]
    [[ "$output" == *'codec gossip accepts lossless compression only'* ]]
    run "$SUBMIT" --codec plain --node_count 2 --compress-down fp16 -o x
    [ "$status" -ne 0 ]
    [[ "$output" == *'--compress-down fp16: codec plain has no server side'* ]]
    run "$SUBMIT" --codec fedavg --node_count 2 --compress-down 'none|huffman' -o x
    [ "$status" -ne 0 ]
    [[ "$output" == *'--compress-down none|huffman: the job has no parameter servers'* ]]
    [ ! -e x ]
}

@test "four gradients of 40,000, and of 1e-8, have the same mean in 16 bits on every path as without compression" {
    local way chain gradient right
    echo '{"version":1,"name":"lin","input":[1],"layers":[{"kind":"dense","units":1,"init":"zeros"}],"loss":"mse"}' >lin.json
    for gradient in 40000 0.00000001; do
        { echo x,t; jq -nr "range(72) | \"1,\(-$gradient / 2)\""; } >table.csv
        right=$(jq -n "-$gradient")
        while read -r way; do
            for chain in fp16 bf16:ef=true; do
                # shellcheck disable=SC2086
                "$SUBMIT" simulate -q --node_count 4 --dataset csv:target=t --data table.csv --model lin.json --batch_size 14 \
                    --max-steps 1 --lr 1 --compress "$chain" $way -o out >out.txt
                bias=$("$SUBMIT" model inspect out/model/final.safetensors | awk '$1 == "layer0.dense.bias" { print $5 }')
                echo "$way $chain: $bias"
                jq -en "($bias - $right | fabs) <= 0.004 * -($right)"
                rm -r out
            done
        done <<'EOF'
--codec plain --path gather
--codec plain --path allreduce --allreduce ring
--codec plain --path allreduce --allreduce halving-doubling
--codec fedpaq:every=1 --servers 1
--codec fedpaq:every=1 --path allreduce --allreduce ring
--codec doublesqueeze --servers 2 --compress-down fp16
EOF
    done
}

@test "a chain that no message would use is refused when the job is checked or run" {
    start_agents 3
    write_workers 2 1
    refused() { # refused OPTION VERB...: with a message that names a codec that accepts it
        run "$SUBMIT" "${@:2}" --node_count 2 "$1" 'none|huffman'
        echo "$output"
        [ "$status" -eq 6 ]
        [[ "$output" == *"$1 none|huffman: codec "*" sends no vectors that a chain could compress"* ]]
        [[ "$output" == *"plain, ps, fedpaq and doublesqueeze do"* ]]
    }
    refused --compress --codec dummy -o x
    refused --compress-down --codec dummy -o x
    refused --compress validate --codec dummy
    refused --compress simulate -q --codec dummy -o x
    [ ! -e x ]
}
