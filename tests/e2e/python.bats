#!/usr/bin/env bats
# python/psgd: the package for Python, by its tests in tests/python.
load lib
load documents

# Runs tests/python/test_NAME.py, each NAME given, with a python3 that has these modules.
tests_of() { # tests_of "MODULE..." NAME...
    local python
    # shellcheck disable=SC2086 # a list
    python=$(python_with $1) || skip "no python3 has ${1// /, }"
    shift
    export PYTHONPATH=$ROOT/python:$ROOT/tests/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 PSGD_JOB_SUBMIT=$SUBMIT TMPDIR=$T
    export BUILD WORKERS=$T/worker.json OMP_NUM_THREADS=1
    # shellcheck disable=SC2068
    limited "$python" -m unittest ${@/#/test_} 3>&-
}

@test "the package finds job_submit, and reads records and tensors" {
    tests_of "" records safetensors program
}

# bats test_tags=check
@test "the same with numpy" {
    tests_of numpy safetensors program
}

# bats test_tags=check
@test "the same with pandas" {
    tests_of pandas records program
}

@test "jobs are submitted, followed, cancelled and simulated from Python" {
    start_agents 2
    tests_of "" jobs
}

# setup.sh does not install torch, which is large: apt-get install python3-torch
# bats test_tags=check
@test "models go to torch and back with the same outputs" {
    python_with torch >/dev/null || skip "no python3 has torch"
    start_agents 2
    tests_of torch torch
}

# bats test_tags=check
@test "a training program of Python alone takes its turns" {
    tests_of "" trainer trainer_client trainer_launch
}

# bats test_tags=check
@test "a training program has tensors of numpy" {
    tests_of numpy trainer_numpy
}

# bats test_tags=check
@test "a training program has trees of jax, or of a module with its calls" {
    tests_of numpy trainer_jax
}

# bats test_tags=check
@test "a training script of torch in three lines" {
    tests_of torch trainer_torch trainer_loader
}

# session DOC LANGUAGE...: a Python program of the blocks of a document in these languages, in order.
session() { awk -v langs=" ${*:2} " '/^```/ {on = !on && index(langs, " " substr($0, 4) " "); next} on' "$ROOT/$1" >session.py; }

# bats test_tags=check
@test "the session in docs/python.md runs as written, without pandas, numpy and torch" {
    start_agents 2
    session docs/python.md python
    grep -q 'psgd.submit(codec="fedavg"' session.py
    build_with_few_digits
    PSGD_JOB_SUBMIT=$PWD/build/job_submit PYTHONPATH=$ROOT/python run limited python3 -S session.py 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *" succeeded 0."* ]]
    [[ "$output" == *"{'local_steps': '20'} 0."* ]]
    [[ "$output" == *"unknown option --epoch"*"Did you mean --epochs?"* ]]
    [[ "$output" == *"'layer0.dense.weight': (784, 128)"* ]]
}

# bats test_tags=check
@test "the module runs from the source tree as docs/python.md says" {
    session docs/python.md sh
    grep -q 'python3 -m psgd' session.py
    (cd "$ROOT" && PSGD_JOB_SUBMIT=$SUBMIT limited sh -e "$T/session.py") >said
    [[ "$(<said)" == "psgd "*"job_submit "*" at $SUBMIT" ]]
}

@test "the session with torch in docs/python.md runs as written" {
    local python
    python=$(python_with torch) || skip "no python3 has torch"
    start_agents 2
    session docs/python.md python 'python torch'
    grep -q 'psgd.to_safetensors(net' session.py
    PSGD_JOB_SUBMIT=$SUBMIT PYTHONPATH=$ROOT/python${PYTHONPATH:+:$PYTHONPATH} limited "$python" session.py 3>&-
    [ "$(jq -r .state more/run.json)" = succeeded ]
}

# bats test_tags=check
@test "the notebook's cells run, and DiLoCo needs fewer bytes than all-reduce" {
    ln -s "$ROOT/python" "$ROOT/tests" "$ROOT/examples" .
    blocks sh examples/notebook/README.md >session.sh
    grep -q compare.ipynb session.sh
    PSGD_JOB_SUBMIT=$SUBMIT run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    awk 'NF == 5 && $1 == "all-reduce" { a = $5 } NF == 5 && $1 == "DiLoCo" { d = $5 } END { exit !(d > 0 && d < a / 4) }' <<<"$output"
}

# bats test_tags=check
@test "the training program in numpy in docs/trainer.md runs alone, and on two agents" {
    with_python numpy
    start_agents 2
    ln -s "$BUILD" build
    ln -s "$ROOT/python" .
    blocks python docs/trainer.md >linear.py
    blocks sh docs/trainer.md >session.sh
    grep -q -- '--trainer linear.py' session.sh
    run limited bash -e session.sh 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"the last loss: "* ]]
    jq -e '.state == "succeeded" and .models_agree' each-step/run.json
    jq -e '.state == "succeeded"' averaged/run.json
}

# bats test_tags=check
@test "the training script of torch in docs/trainer.md runs alone, and on two agents" {
    with_python torch
    start_agents 2
    ln -s "$BUILD" build
    blocks 'python torch' docs/trainer.md >train.py
    blocks 'python torch load' docs/trainer.md >load.py
    blocks 'sh torch' docs/trainer.md >session.sh
    grep -q -- '--trainer train.py' session.sh
    limited bash -e session.sh 3>&-
    jq -e '.state == "succeeded" and .models_agree and ([.nodes[].steps] == [60, 60])' trained/run.json
    grep "each worker reads its part of the DataLoader's 2000 rows, in batches of 50" trained/logs/worker-1.log
    # The workers have computed different batches.
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $at["step"] == 1 { print $at["loss"] }' trained/records/train.csv | sort -u >losses
    [ "$(wc -l <losses)" = 2 ]
    limited python3 load.py
}

# setup.sh does not install jax: pip install jax
# bats test_tags=check
@test "the training program in jax in docs/trainer.md runs on two agents" {
    with_python jax
    start_agents 2
    blocks 'python jax' docs/trainer.md >train.py
    for rule in allreduce fedavg:every=10; do
        submit --trainer train.py --codec $rule --node_count 2 --epochs 2 -o ${rule%:*}
        jq -e '.state == "succeeded" and .models_agree' ${rule%:*}/run.json
        grep -q 'the last loss: ' ${rule%:*}/logs/worker-1.log
    done
}

example() { # example NAME [ARGUMENT...]
    limited python3 "$ROOT/examples/trainers/$1.py" "${@:2}" 3>&-
}

@test "the training programs of examples/ run alone" {
    with_python numpy
    example platoon_style >said
    [[ "$(<said)" == "loss 0.0"* ]]
    [ "$(example numpy_easgd)" = "$(printf '%s\n' -0.383332 -1.027003 -1.569490 -2.059885 -2.441174)" ]
    example numpy_linear 2>said
    grep -qE 'alone, after 80 steps: loss 0\.0[0-9]*$' said
    example numpy_mlp --units 64 2>said
    grep -qE 'accuracy (1|0\.9[0-9]*)$' said
}

# bats test_tags=check
@test "the notebook on EASGD in numpy prints its digits on two agents" {
    local job node
    with_python numpy
    start_agents 2
    job=$(sed -n 's/^ *job_submit \(--trainer .*numpy_easgd.py\)/\1/p' "$ROOT/examples/trainers/numpy_easgd.py")
    cd "$ROOT"
    # shellcheck disable=SC2086 # words
    "$SUBMIT" -q $job --workers "$T/worker.json" -o "$T/easgd"
    for node in '-0.383332 -0.918662 -1.390659 -1.803250 -2.163506' '0.041923 -0.743028 -1.146142 -1.829489 -2.676839'; do
        grep -lqxF -e "$node" <(for log in "$T"/easgd/logs/worker-*.log; do grep -oE -e '-?[0-9]\.[0-9]{6}$' "$log" | xargs; done)
    done
}

# bats test_tags=check
@test "the training programs of torch in examples/ run alone" {
    with_python torch
    example torch_lenet 2>said
    grep -qE 'accuracy (1|0\.[89][0-9]*)$' said
    example torch_transformer 2>said
    grep -qE 'loss [0-2]\.[0-9]*$' said
}
