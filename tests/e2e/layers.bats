#!/usr/bin/env bats
# A list of codecs, or of compressors, for the layers of a model. mlp-tutorial: layer0 has 784 x 128 + 128 parameters, layer2
# 128 x 128 + 128, layer4 128 x 10 + 10.
load lib

# bats test_tags=long
@test "a list of Parallel-SGD gives each layer its codec, the last layer's first, with and without servers" {
    start_agents 3
    write_workers 2 1
    local servers
    for servers in null plain,low,quantization; do
        "$SUBMIT" -q --codec plain,low,quantization --server_codec "$servers" --node_count 2 --epochs 1 --csv-style classic -o "$servers"
        jq -e '.models_agree and .facts.options.codec == "plain,low,quantization" and
            .facts.codecs == {layer0: "quantization", layer2: "low", layer4: "plain"} and
            .settings.compress == "layer4=none;layer2=fp16;layer0=qsgd:bits=4,ef=true"' "$servers/run.json"
        # A message has 4 bytes for each value of layer4, 2 of layer2, and of layer0 4 bits, a norm and a factor.
        awk -F, -v full=$((4 * 118282)) -v least=$((1290 * 4 + 16512 * 2 + 100480 / 2)) '
            $2 > 0 && $3 == 0 && $5 == "sent" && !($7 == full && $8 > least && $8 < 1.1 * least) { bad++ } END { exit bad > 0 || NR < 2 }' \
            "$servers/records/comm.csv"
        [ -s 'T-N(2)-R(1)-ID(0)-CODEC(qlp).csv' ]
    done
    jq -e '.settings.path == "servers" and .settings.compress_down == "layer4=none;layer2=fp16;layer0=qsgd:bits=4,ef=true"' plain,low,quantization/run.json
    jq -e '.settings.path == "gather" and .settings.compress_down == ""' null/run.json
}

# bats test_tags=long
@test "a list of one codec is that codec, to the bit; and --compress takes a list by name" {
    local args=(simulate -q --node_count 2 --epochs 1 --link 'any,0s' --step-time 0.01 --eval-time 0.1)
    "$SUBMIT" "${args[@]}" --codec plain -o alone
    "$SUBMIT" "${args[@]}" --codec plain,plain,plain -o list
    same_weights alone/model/final.safetensors list/model/final.safetensors
    "$SUBMIT" "${args[@]}" --codec plain --path gather --compress fp16 -o half
    "$SUBMIT" "${args[@]}" --codec plain --compress 'layer2.dense.bias=fp16;layer2=fp16;*=fp16' -o halves
    same_weights half/model/final.safetensors halves/model/final.safetensors
    "$SUBMIT" "${args[@]}" --codec '{"layer2": "tern", "*": "plain"}' -o object
    "$SUBMIT" "${args[@]}" --codec plain,tern,plain -o commas
    same_weights object/model/final.safetensors commas/model/final.safetensors
    run same_weights alone/model/final.safetensors commas/model/final.safetensors
    [ "$status" -eq 1 ]
}

# bats test_tags=long
@test "a job with a list resumes to the same bits, with its residuals, and not with another list" {
    start_agents 3
    write_workers 2 1
    local args=(-q --node_count 2 --codec '{"layer0": "binary", "*": "topk:ratio=0.05,ef=true"}' --model softmax)
    "$SUBMIT" "${args[@]}" --epochs 2 -o whole
    "$SUBMIT" "${args[@]}" --epochs 1 --checkpoint-every 1 -o half
    "$SUBMIT" -q --resume half --epochs 2 -o rest
    same_weights whole/model/final.safetensors rest/model/final.safetensors
    run "$SUBMIT" --resume half --epochs 2 --codec '{"layer0": "low", "*": "topk:ratio=0.05,ef=true"}' -o none
    [ "$status" -eq 6 ]
    [[ "$output" == *compress* ]]
}

@test "a list that the model, or the rule, does not fit is refused before anything is shipped" {
    echo '{"Worker": ["127.0.0.1:1", "127.0.0.1:2"]}' >worker.json
    no() { # no STATUS TEXT OPTION...
        run "$SUBMIT" --node_count 2 "${@:3}"
        echo "$output"
        [ "$status" -eq "$1" ] && [[ "$output" == *"$2"* ]]
    }
    no 6 '2 entries, and model "mlp-tutorial" has 3 layers with parameters' --codec plain,tern
    no 6 'layer2: plain and fedavg are two rules, but the layers of a job share one' --codec plain,fedavg,plain
    no 6 'layer2: unknown codec "sqg"; did you mean "sgq"?' --codec plain,sqg,plain
    no 6 'has no layer or tensor "layer9" with parameters' --codec '{"layer9": "sgq", "*": "plain"}'
    no 6 'the list has no entry for layer2.dense.weight, and none for *' --codec '{"layer0": "sgq"}'
    no 6 'the list has no entry for layer2.dense.weight, and none for *' --codec plain --compress 'layer0=fp16;layer4=fp16'
    no 6 'has no layer or tensor "layer1" with parameters' --codec plain --compress 'layer1=fp16;*=none'
    no 6 'codec fedavg accepts lossless compression only' --codec fedavg,tern,fedavg
    no 2 'leave --compress and --compress-down out' --codec plain,tern,plain --compress fp16
    no 2 'a list for layers is for the whole job' --codec plain --server_codec plain,tern,plain
    run "$SUBMIT" simulate --codec plain,tern,plain --gradients 100 --steps 3
    [ "$status" -eq 6 ]
    [[ "$output" == *'a list is for the layers of a model, and --gradients has none'* ]]
}
