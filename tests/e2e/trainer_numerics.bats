#!/usr/bin/env bats
# Training programs in Python compute what psgd's own worker computes, and go on from their checkpoints to the bit.
load lib
bats_require_minimum_version 1.5.0

# Data, a model and its initial weights: JOB has the options of all jobs, OPTIONS those of psgd's own worker, ARGUMENTS those of the
# programs. An epoch has 32 steps.
prepare() {
    python3 - <<'PY'
import json
import numpy as np
rng = np.random.default_rng(3)
x = rng.normal(size=(1500, 20)).astype("f4")
y = (x[:, :5] + x[:, 5:10]).argmax(1).astype("i4")
np.savez("data.npz", x_train=x[:1300], y_train=y[:1300], x_test=x[1300:], y_test=y[1300:])
layers = [{"kind": "dense", "units": 16}, {"kind": "tanh"}, {"kind": "dense", "units": 5}]
json.dump({"version": 1, "name": "small", "input": [20], "layers": layers, "loss": "softmax_cross_entropy"}, open("small.json", "w"))
PY
    JOB=(--node_count 2 --max-steps 100 --partition dirichlet:1)
    OPTIONS=(--model small.json --dataset npz --data data.npz --batch_size 20 --gradient-descent momentum --learn_rate 0.05)
    ARGUMENTS=("$T/data.npz" 20 0.05)
    "$SUBMIT" simulate -q --codec plain --node_count 1 --max-steps 1 "${OPTIONS[@]}" -o start
    JOB+=(--init-from start/model/final.safetensors)
}

# agree_with_psgd PROGRAM: in 100 steps of an each-step rule and of a rule of rounds, each of four epochs in an order of its own. The
# largest difference is printed.
agree_with_psgd() {
    local rule
    prepare
    start_agents 2
    for rule in "allreduce --eval-every 30" "fedavg --local-steps 7" "fedprox:mu=0.1 --local-steps 7"; do
        # shellcheck disable=SC2086 # options
        {
            "$SUBMIT" -q --codec $rule "${JOB[@]}" "${OPTIONS[@]}" -o "${rule%%[: ]*}"
            "$SUBMIT" -q --codec $rule "${JOB[@]}" --trainer "$ROOT/tests/trainers/$1" -o "by-${rule%%[: ]*}" -- "${ARGUMENTS[@]}"
        }
        are_equal "${rule%%[: ]*}" "by-${rule%%[: ]*}" 0 1e-6
    done
}

# goes_on PROGRAM: after its second checkpoint the program of node 1 fails once. The job that is resumed, and the one that is tried again,
# have the records and the model of the one that was not interrupted.
goes_on() {
    local job
    prepare
    start_agents 2
    cp "$ROOT/tests/trainers/$1" program.py
    cat >>program.py <<'PY'
    if psgd.trainer.worker().steps_done == 70 and psgd.trainer.info().node == 1 and not __import__("os").path.exists(sys.argv[4]):
        open(sys.argv[4], "w").close()
        raise MemoryError("a fault of this test")
PY
    touch has-failed
    job=(--codec fedavg --local-steps 7 "${JOB[@]}" --trainer program.py --checkpoint-every 1)
    "$SUBMIT" -q "${job[@]}" -o whole -- "${ARGUMENTS[@]}" "$T/has-failed"
    run "$SUBMIT" "${job[@]}" -o again --retries 1 --retry-on trainer_failed -- "${ARGUMENTS[@]}" "$T/once"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'Attempt 2 of at most 2 goes on from the last checkpoints of all nodes'* ]]
    are_equal whole again
    rm once
    run -1 "$SUBMIT" -q "${job[@]}" -o half -- "${ARGUMENTS[@]}" "$T/once"
    [[ $output == *'program.py: line '*': MemoryError: a fault of this test'* ]]
    "$SUBMIT" -q --resume half -o rest
    [ "$(jq .facts.start.epoch rest/run.json)" = 2 ]
    are_equal whole rest 64
}

# bats test_tags=check
@test "a network in numpy agrees with psgd's own after 100 steps" {
    with_python numpy
    agree_with_psgd mlp_numpy.py
}

# bats test_tags=check
@test "a network in torch agrees with psgd's own after 100 steps" {
    with_python torch numpy
    agree_with_psgd mlp_torch.py
}

@test "a job of a program in numpy that fails once ends as if it had not, tried again and resumed" {
    with_python numpy
    goes_on mlp_numpy.py
}

# bats test_tags=check
@test "a job of a script of torch that fails once ends as if it had not, tried again and resumed" {
    with_python torch numpy
    goes_on mlp_torch.py
}
