#!/usr/bin/env bats
# bats file_tags=check
# The pages of examples/: their commands run, and print what the page says.
# Takes about 1 minute.
load lib
load documents

# as_written PAGE: the commands of a page, as a user types them at the top of the source, without MNIST, whose data may be missing
as_written() {
    ln -sfn "$BUILD" build
    ln -sfn "$ROOT/examples" examples
    blocks sh "examples/$1/README.md" >session.sh
    grep -q "^examples/$1/run" session.sh
    limited env -u MNIST -u TEXTS bash -e session.sh 3>&-
}

@test "the ZeroMQ notebook's numbers come from agents, to every digit" {
    isolation_needs
    [ ${#UNISOLATED[@]} -eq 0 ] || skip "without isolation the example's agents run no codec of a user's"
    run as_written zeromq-easgd
    echo "$output"
    [ "$status" -eq 0 ]
    local row
    for row in 'w0 -0.383332 -0.918662 -1.390659 -1.803250 -2.163506' 'w1 0.041923 -0.743028 -1.146142 -1.829489 -2.676839' \
        'center -0.142574 -0.762018 -1.217762 -1.756509 -2.353806'; do
        grep -qxF -e "$row" <(tr -s ' ' <<<"$output")
        grep -qF -e "$(cut -d' ' -f2- <<<"$row" | sed 's/ / | /g')" "$ROOT/examples/zeromq-easgd/README.md"
    done
    [ "$(grep -c 'accuracy of the center 0\.[5-9]' <<<"$output")" -eq 2 ]
}

# bats test_tags=long
@test "Parallel-SGD's sessions print time, memory and accuracy, and leave its files" {
    run as_written parallel-sgd
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^[0-9.]+ s, [1-9][0-9]* samples/s, [1-9][0-9]* MB, accuracy 0\.[89][0-9]+$' <<<"$output")" -eq 3 ]
    [[ "$output" == *'T-N(2)-R(1)-ID(1)-CODEC(mmm).csv'*'Training log @ node-1_TIME.log'* ]]
}

# bats test_tags=long
@test "the TensorFlow chapter's tasks train, each started by its command" {
    PORT=$(python3 -c '
import random, socket
first = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
while True:
    port = random.randrange(max(first // 2, 1024), first - 4)
    held = [socket.socket() for _ in range(4)]
    try:
        for i, s in enumerate(held):
            s.bind(("127.0.0.1", port + i))
    except OSError:
        continue
    finally:
        for s in held:
            s.close()
    print(port)
    break')
    export PORT
    run as_written tensorflow-cluster
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^worker=[0-2], final accuracy = 0\.[3-9]' <<<"$output")" -eq 9 ]
    [ "$(grep -cE '^worker=[0-2],epoch=[12], loss = [0-9.]+$' <<<"$output")" -eq 18 ]
    # Of a synchronous job all workers have the same result.
    [ "$(awk '/^Synchronous/ {on = 1} /^Sync.*Opt/ {on = 0} on && /final/ {print $NF}' <<<"$output" | sort -u | wc -l)" -eq 1 ]
}

# bats test_tags=long
@test "platoon's rules train its LSTM" {
    run as_written platoon
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^accuracy (1|0\.9[0-9]*), [0-9.]+ s$' <<<"$output")" -eq 6 ]
}

# bats test_tags=long
@test "25 workers and a server train Ray's ConvNet, in both variants, and the running server gives its model" {
    run as_written lithops-parameter-server
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cP '^Iter \d+: \taccuracy is [0-9.]+$' <<<"$output")" -ge 18 ]
    [ "$(grep -cE '^Final accuracy is [0-9.]+\.$' <<<"$output")" -eq 3 ]
    [[ "$output" == *'--node_count 25 '*'weights.safetensors: node(-2) of j-'*' after round '*': cancelled'* ]]
}

@test "a language model learns generated text under five rules" {
    MODEL=gpt-xs STEPS=40 DATASET=grammar:train=100000,test=4000 run as_written language
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^j-.* succeeded' <<<"$output")" -eq 5 ]
    [[ "$output" == *'Entropy '*'the best model that there can be has the loss 1.'* ]]
}
