#!/usr/bin/env bats
# Real MNIST, if it is beside the checkout or in PSGD_DATA.
# Takes about 1 minute.
load lib

needs_mnist() {
    [ -f "$DATA/mnist/train-images-idx3-ubyte.gz" ] || skip "MNIST is not at $DATA/mnist (set PSGD_DATA)"
}

accuracy() { tail -1 "$1/records/eval.csv" | cut -d, -f7; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }
tutorial() {
    "$SUBMIT" --workers worker.json --node_count 2 --model mlp-tutorial --dataset mnist --data "$DATA/mnist" --batch_size 64 \
        --gradient-descent adam --learn_rate 0.001 --epochs 2 "$@"
}

# bats test_tags=check
@test "MNIST: plain reaches 0.955 in two epochs, the same on both nodes" {
    needs_mnist
    start_agents 2
    tutorial --codec plain -o out
    echo "# plain: $(accuracy out)" >&3
    at_least "$(accuracy out)" 0.955
    [ "$(tail -n +2 out/records/eval.csv | wc -l)" -eq 4 ]
    [ "$(tail -n +2 out/records/eval.csv | cut -d, -f3-7 | sort -u | wc -l)" -eq 2 ]
}

# bats test_tags=long
@test "MNIST: fedavg reaches 0.945 in two epochs, without and with a server" {
    needs_mnist
    start_agents 3
    write_workers 2
    tutorial --codec fedavg -o serverless
    write_workers 2 1
    tutorial --codec fedavg -o server
    echo "# fedavg: $(accuracy serverless) serverless, $(accuracy server) with a server" >&3
    at_least "$(accuracy serverless)" 0.945
    at_least "$(accuracy server)" 0.945
}

# bats test_tags=long
@test "MNIST: Parallel-SGD's default network, in a runner of less than 150 MB" {
    needs_mnist
    case $BUILD in */asan | */tsan) skip "sanitizers need memory of their own" ;; esac
    start_agents 2
    "$SUBMIT" --codec plain --node_count 2 --model mlp-default --dataset mnist --data "$DATA/mnist" --epochs 100000 --detach --no-queue -o out
    local peak
    peak=$(peak_at_step 500) # its second epoch
    "$SUBMIT" cancel -q "$(only_job 0)"
    echo "# peak of a runner: $peak kB" >&3
    [ "$peak" -gt 10000 ] && [ "$peak" -lt 150000 ]
}

# bats test_tags=long
@test "MNIST: LeNet by torch on two agents reaches what torch alone reaches with as many samples" {
    local job alone reached
    needs_mnist
    with_python torch
    start_agents 2
    limited python3 "$ROOT/examples/trainers/torch_lenet.py" --data "$DATA/mnist" 2>said 3>&-
    alone=$(sed -n 's/.*accuracy //p' said)
    echo "# torch alone: $alone" >&3
    at_least "$alone" 0.965
    # Batches that are as large together; or averages of two, which a larger rate suits. Another seed moves each result by 0.003.
    for job in "allreduce -- --batch 25" "fedavg --local-steps 50 -- --lr 0.04" "diloco:every=50 --"; do
        # shellcheck disable=SC2086 # options
        "$SUBMIT" -q --trainer "$ROOT/examples/trainers/torch_lenet.py" --node_count 2 --epochs 1 -o "${job%%[: ]*}" --codec $job --data "$DATA/mnist"
        reached=$(accuracy "${job%%[: ]*}")
        echo "# $job: $reached" >&3
        at_least "$reached" "$(awk -v a="$alone" 'BEGIN { print a - 0.015 }')"
    done
}
