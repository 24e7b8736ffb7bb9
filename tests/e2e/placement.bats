#!/usr/bin/env bats
# --placement: which parameter server holds which parameters.
load lib

# Times do not depend on the bytes of a message, so the messages of an asynchronous job, too, arrive in the same order.
simulate() {
    "$SUBMIT" simulate -q --node_count 3 --servers 3 --epochs 1 --batch_size 32 --dataset digits:train=1152,test=100 --link any,0s \
        --overhead any,0s --codec-rate 1e9 --step-time 0.01 --eval-time 0.1 --speed 0.5-2 "$@"
}

@test "rules that treat each parameter by itself end with the same weights, bit for bit, by ranges and by tensors" {
    local job jobs=('fedadam:every=3 --model lenet-bn' doublesqueeze 'downpour --psgd asgd')
    ! is_long || jobs+=('ps --model lenet-bn' 'ps --gradient-descent adam' fedavg:every=7 easgd:every=5 scaffold:every=4 'ps --psgd asgd')
    for job in "${jobs[@]}"; do
        echo "$job"
        for placement in range round_robin; do
            # shellcheck disable=SC2086
            simulate --codec $job --placement $placement -o $placement
        done
        same_weights range/model/final.safetensors round_robin/model/final.safetensors
        [ "$(jq -c '[.nodes[].params_sha256]' range/run.json)" = "$(jq -c '[.nodes[].params_sha256]' round_robin/run.json)" ]
        rm -r range round_robin
    done
}

# 1-bit messages have two means, which are those of a server's range.
@test "a compressor with one scale for a range has other results with other ranges" {
    for placement in range round_robin; do
        simulate --codec binary --model softmax --servers 2 --placement $placement -o $placement
    done
    run same_weights range/model/final.safetensors round_robin/model/final.safetensors
    [ "$status" -eq 1 ]
    [[ "$output" == *'differs by'* ]]
}

# mlp-tutorial: 784 x 128 + 128 x 128 + 128 x 10 weights at the first server, 128 + 128 + 10 biases at the second, whose messages,
# and so the memory that it shares, are 400 times shorter.
@test "on agents, comm.csv has the bytes of each server's tensors, memory is shared, and a checkpoint resumes with the same placement only" {
    start_agents 4
    write_workers 2 2
    local job=(-q --codec ps --node_count 2 --gradient-descent adam --dataset "$FEW")
    "$SUBMIT" "${job[@]}" --epochs 2 --checkpoint-every 1 -o range
    run "$SUBMIT" "${job[@]}" --epochs 2 --placement round_robin -o whole
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" != *'another SHA-256'* ]] # the nodes' digests are of the tensors in the model's order, too
    same_weights range/model/final.safetensors whole/model/final.safetensors
    grep -Lx 'messages go through memory shared with all peers' {range,whole}/logs/{worker,ps}-*.log >not-shared
    printf '%s\n' {range,whole}/logs/* | tee logs
    [ "$(grep -vc submit.log logs)" = 8 ]
    cat not-shared
    [ ! -s not-shared ]
    [ "$(jq -r .settings.placement whole/run.json)" = round_robin ]
    [ "$(awk -F, '$2 == 1 && $3 == 0 && $5 == "sent" { print $4, $7 }' whole/records/comm.csv | sort -r)" = "$(printf -- '-3 %d\n-2 %d' $((4 * 266)) $((4 * 118016)))" ]
    [ "$(awk -F, '$2 == 1 && $3 == 0 && $5 == "sent" { print $7 }' range/records/comm.csv | sort -u)" = $((2 * 118282)) ]
    "$SUBMIT" "${job[@]}" --epochs 1 --placement round_robin --checkpoint-every 1 -o half
    "$SUBMIT" -q --resume half --epochs 2 -o rest
    same_weights whole/model/final.safetensors rest/model/final.safetensors
    run "$SUBMIT" --resume range --epochs 3 --placement round_robin -o none
    [ "$status" -eq 2 ]
    [[ "$output" == *placement* ]]
}

@test "more servers than whole tensors are refused before anything is shipped" {
    echo '{"PS": ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"], "Worker": ["127.0.0.1:4"]}' >worker.json
    run "$SUBMIT" --codec ps --model softmax --placement round_robin
    [ "$status" -eq 6 ]
    [[ "$output" == *'whole tensors, and model "softmax" has 2 for 3 servers'*'--placement range'* ]]
    run "$SUBMIT" --codec plain --placement round_robin
    [ "$status" -eq 6 ]
    [[ "$output" == *'--placement round_robin: the job has no parameter servers'* ]]
    run "$SUBMIT" simulate --codec ps --servers 2 --gradients 100 --steps 3 --placement round_robin
    [ "$status" -eq 6 ]
    [[ "$output" == *'places the tensors of a model, and --gradients 100 stands in for one'* ]]
    run "$SUBMIT" --codec ps --placement tensor
    [ "$status" -eq 2 ]
}
