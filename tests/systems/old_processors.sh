#!/bin/sh
# Runs programs on emulated older processors, with qemu-x86_64: without AVX2 (Nehalem, SandyBridge), and without SSE 4.1
# (qemu64, which OpenBLAS takes for an Opteron). One line of result each, then "N passed, N failed".
#   tests/systems/old_processors.sh [PROCESSOR...]
# Runs the test programs of BUILD with several forms of loops, a simulated job, and a job of one node with an emulated
# runner. Needs `make all tests`.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LIMIT_S=${LIMIT_S:-900} # of each program
PROGRAMS='matmul layer_conv2d layer_pool layer_norm layer_recurrent layer_dropout layer_embedding loss optimizer init metrics
    vector loader crc32c compress_loops compress_values compress_indices compress_chain tls layers compress'
qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64)
if [ "$(uname -m)" != x86_64 ]; then
    echo 'old processors: skipped, as the build is not for x86-64'
    exit 0
fi
if [ -z "$qemu" ]; then
    echo 'old processors: skipped, as there is no qemu-x86_64 (packages qemu-user-static, qemu-user)'
    exit 0
fi

T=$(mktemp -d "${TMPDIR:-/tmp}/psgd-processors-XXXXXX")
. submit/local_agents.sh
. tests/systems/tally.sh
trap 'end_all; rm -rf "$T"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE
# One thread: several emulated threads mostly wait for each other.
export XDG_STATE_HOME="$T/state" XDG_CACHE_HOME="$T/cache" CMOCKA_MESSAGE_OUTPUT=TAP OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset PSGD_WORKERS PSGD_TOKEN_FILE PSGD_CODEC_PATH

# $core selects the kernels in advance: a test program that restarts itself to choose others would leave the emulator.
emulate() {
    # shellcheck disable=SC2086 # none or one assignment
    env $core timeout "$LIMIT_S" "$qemu" -cpu "$processor" "$@"
}

path_of() { # path_of PROGRAM: each is in the folder of a room or in suite
    for path in "$BUILD/tests/unit"/*/"test_$1" "$BUILD/tests/suite/test_$1"; do
        if [ -x "$path" ]; then echo "$path"; fi
    done
}

# Lays out the programs as in a build, two of them emulated.
lay_out() {
    rm -rf "$T/build" "$T/agent" "$T/out" "$T/out-simulated"
    mkdir "$T/build"
    for folder in codecs models include; do ln -s "$BUILD/$folder" "$T/build/$folder"; done
    cp "$BUILD/agent" "$BUILD/job_submit" "$T/build/"
    for program in job_runner simulator; do
        printf '#!/bin/sh\nexec env %s "%s" -cpu %s "%s" "$@"\n' "$core" "$qemu" "$processor" "$BUILD/$program" >"$T/build/$program"
        chmod +x "$T/build/$program"
    done
}

# run.json has the kernels and loops that a node used: others would mean that it was not emulated.
job_of_one_node() {
    start_agent "$T/agent.log" "$T/build/agent" --port 0 --dir "$T/agent"
    echo "{\"Worker\": [\"$address\"]}" >"$T/worker.json"
    timeout "$LIMIT_S" "$T/build/job_submit" --workers "$T/worker.json" --node_count 1 --codec fedavg --model mlp-tutorial \
        --epochs 1 -o "$T/out"
    status=$?
    end_all
    [ $status -eq 0 ] && grep "$kernels kernels" "$T/out/run.json" | grep 'loops for any processor'
}

[ $# -gt 0 ] || set -- Nehalem SandyBridge qemu64
for processor in "$@"; do
    core=
    case $processor in
    qemu64) core=OPENBLAS_CORETYPE=Prescott kernels=Prescott ;;
    SandyBridge) kernels=Sandybridge ;;
    *) kernels=$processor ;;
    esac
    for program in $PROGRAMS; do
        check "$processor: test_$program" emulate "$(path_of "$program")"
    done
    lay_out
    check "$processor: simulated job of two nodes" timeout "$LIMIT_S" "$T/build/job_submit" simulate --node_count 2 --codec allreduce \
        --model mlp-tutorial --epochs 1 --step-time 0.001 -o "$T/out-simulated"
    check "$processor: job of one node" job_of_one_node
done
end_checks
