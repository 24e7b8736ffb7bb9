#!/usr/bin/env bats
# python/psgd: the package for Python, by its tests in tests/python.
load lib

# python_with [MODULE...]: a python3 that has them; python3 itself may have been installed by the user, beside the system's.
python_with() {
    local p
    for p in python3 /usr/bin/python3; do
        "$p" -c "$(printf 'import %s\n' sys "$@")" 2>/dev/null && echo "$p" && return 0
    done
    return 1
}

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

@test "the same with numpy" {
    tests_of numpy safetensors
}

@test "the same with pandas" {
    tests_of pandas records
}

@test "jobs are submitted, followed, cancelled and simulated from Python" {
    start_agents 2
    tests_of "" jobs
}

@test "models go to torch and back with the same outputs" {
    python_with torch >/dev/null || skip "no python3 has torch"
    start_agents 2
    tests_of torch torch
}
