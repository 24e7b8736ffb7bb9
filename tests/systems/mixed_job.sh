#!/bin/sh
# Runs jobs on an x86-64 agent of BUILD and an arm64 agent, emulated in the fresh system ROOT with a built checkout: rules
# that promise equal weights end with equal bits, and jobs on each architecture alone end within 1e-6 of each other.
#   tests/systems/mixed_job.sh ROOT
# One line of result for each job, then "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
root=${1:-}
[ -x "$root/root/psgd/build/agent" ] || { echo "usage: tests/systems/mixed_job.sh ROOT, with a built checkout in ROOT/root/psgd" >&2; exit 2; }
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LIMIT_S=${LIMIT_S:-900} # of each job
T=$(mktemp -d "${TMPDIR:-/tmp}/psgd-mixed-XXXXXX")
. submit/local_agents.sh
. tests/systems/tally.sh
trap 'end_all; rm -rf "$T"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE
export XDG_STATE_HOME="$T/state" XDG_CACHE_HOME="$T/cache" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset PSGD_WORKERS PSGD_TOKEN_FILE PSGD_CODEC_PATH

job() { # job NAME WORKERS OPTION...
    name=$1
    workers=$2
    shift 2
    timeout "$LIMIT_S" "$BUILD/job_submit" --workers "$T/$workers.json" --dataset digits --model mlp-tutorial --epochs 1 --seed 7 \
        --local-path off -o "$T/$name" "$@"
}

# The codec is sent as source, and each agent compiles it.
end_equal() { # end_equal NAME RULE OPTION...
    name=$1
    rule=$2
    shift 2
    job "$name" both --node_count 2 --codec "codecs/$rule.c" "$@" || return 1
    grep -q '"models_agree": true' "$T/$name/run.json" || { grep models_agree "$T/$name/run.json"; return 1; }
}

agree() { # agree BOUND OPTION...
    bound=$1
    shift
    rm -rf "$T/on-x86-64" "$T/on-arm64"
    job on-x86-64 x86-64 --node_count 1 --codec codecs/fedavg.c "$@" || return 1
    job on-arm64 arm64 --node_count 1 --codec codecs/fedavg.c "$@" || return 1
    python3 - "$bound" "$T/on-x86-64/model/final.safetensors" "$T/on-arm64/model/final.safetensors" <<'COMPARE'
import array, struct, sys

def weights(path):
    data = open(path, "rb").read()
    header = 8 + struct.unpack("<Q", data[:8])[0]
    return array.array("f", data[header:])

a, b = (weights(path) for path in sys.argv[2:])
apart = max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, a))
print(f"{apart:.2g} of the largest of {len(a)} weights apart")
sys.exit(not (len(a) == len(b) > 1000 and apart <= float(sys.argv[1])))
COMPARE
}

start_agent "$T/x86-64.log" "$BUILD/agent" --port 0 --dir "$T/agent"
x86_64=$address
start_agent "$T/arm64.log" tests/systems/in_root "$root" root 'rm -rf /var/tmp/agent && exec build/agent --port 0 --dir /var/tmp/agent'
arm64=$address
cp "$root/var/tmp/agent/token" "$T/state/psgd/agents/${arm64##*:}.token" || exit 1
echo "{\"Worker\": [\"$x86_64\"]}" >"$T/x86-64.json"
echo "{\"Worker\": [\"$arm64\"]}" >"$T/arm64.json"
echo "{\"Worker\": [\"$x86_64\", \"$arm64\"]}" >"$T/both.json"

for rule in allreduce plain fedavg fedpaq doublesqueeze; do
    check "x86-64 and arm64 end with equal weights: $rule" end_equal $rule $rule --gradient-descent adam --schedule cosine
done
check 'x86-64 and arm64 end with equal weights: allreduce, encrypted' end_equal encrypted allreduce --data-tls on
check 'x86-64 and arm64 alone agree to 1e-6' agree 1e-6
end_checks
