# lib.bash -- agents for a test, in a folder of the test's own, on ports the kernel chose; gone when it ends.
# shellcheck shell=bash disable=SC2034 # variables are used by the tests

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "$ROOT" && cd "${BUILD:-build}" && pwd)
SUBMIT=$BUILD/job_submit
DATA=${PSGD_DATA:-$ROOT/../shared/data}

setup() {
    T=$(mktemp -d "${TMPDIR:-/tmp}/psgd-e2e-XXXXXX")
    export XDG_STATE_HOME=$T/state XDG_CACHE_HOME=$T/cache
    export TSAN_OPTIONS="report_signal_unsafe=0 $TSAN_OPTIONS"
    unset PSGD_WORKERS PSGD_TOKEN_FILE PSGD_CODEC_PATH NO_COLOR CC
    AGENTS=()
    PORTS=()
    cd "$T" || return 1
}

teardown() {
    stop_agents
    # What a test started must be gone with its agents.
    local left
    left=$(pgrep -x job_runner | while read -r pid; do
        case $(readlink "/proc/$pid/cwd") in "$T"/*) echo "$pid" ;; esac
    done)
    if [ -n "$left" ]; then
        echo "runners are left: $left" >&2
        # shellcheck disable=SC2086
        kill -9 $left 2>/dev/null
    fi
    # And in a sanitizer's build no program may have had a finding; CRASHES=1 where a test means one to crash.
    local found
    found=$(grep -lE 'Sanitizer: |runtime error: ' "$T"/agent*.log "$T"/agent*/jobs/*/run/node.log 2>/dev/null)
    if [ -n "$found" ] && [ -z "${CRASHES:-}" ]; then
        # shellcheck disable=SC2086
        cat $found >&2
        left="$left findings"
    fi
    cd / && rm -rf "$T"
    [ -z "$left" ]
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_agent N [OPTION...]: agent number N, on its port if it has one already, else on one that it tells in its log.
start_agent() {
    local n=$1
    shift
    "$BUILD/agent" --port "${PORTS[n]:-0}" --dir "$T/agent$n" "$@" 2>>"$T/agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 answers_or_ended "$n" && curl -sf -o /dev/null "http://127.0.0.1:${PORTS[n]}/healthz" && return 0
    cat "$T/agent$n.log" >&2
    return 1
}

answers_or_ended() { # answers_or_ended N: nothing more is to be waited for
    [ -n "${PORTS[$1]:-}" ] || PORTS[$1]=$(sed -n 's/.* listens on [^ ]*:\([0-9]*\), .*/\1/p' "$T/agent$1.log")
    { [ -n "${PORTS[$1]}" ] && curl -sf -o /dev/null "http://127.0.0.1:${PORTS[$1]}/healthz"; } ||
        ! kill -0 "${AGENTS[$1]}" 2>/dev/null
}

# start_agents N: agents 0 .. N-1 and a worker.json that names them.
start_agents() {
    local n
    for n in $(seq 0 $(($1 - 1))); do start_agent "$n" || return 1; done
    write_workers "$1"
}

# write_workers N [SERVERS]: the first N agents as workers, the next SERVERS as parameter servers.
write_workers() {
    local n w='' p=''
    for n in $(seq 0 $(($1 - 1))); do w="$w,\"127.0.0.1:${PORTS[n]}\""; done
    for n in $(seq "$1" $(($1 + ${2:-0} - 1))); do p="$p,\"127.0.0.1:${PORTS[n]}\""; done
    if [ -n "$p" ]; then
        echo "{\"PS\":[${p#,}],\"Worker\":[${w#,}]}" >worker.json
    else
        echo "{\"Worker\":[${w#,}]}" >worker.json
    fi
}

stop_agents() {
    local pid
    for pid in "${AGENTS[@]}"; do [ -n "$pid" ] && kill "$pid" 2>/dev/null; done
    for pid in "${AGENTS[@]}"; do [ -n "$pid" ] && wait "$pid" 2>/dev/null; done
    AGENTS=()
}

kill_agent() { # kill_agent N: kill -9, and it is gone
    kill -9 "${AGENTS[$1]}"
    wait "${AGENTS[$1]}" 2>/dev/null || true
    AGENTS[$1]=
}

# api N METHOD PATH [curl options]: one call to agent N with its token.
api() {
    local n=$1 method=$2 path=$3
    shift 3
    curl -s -X "$method" -H "Authorization: Bearer $(<"$T/agent$n/token")" "$@" "http://127.0.0.1:${PORTS[n]}$path"
}

status_of() { # status_of N METHOD PATH [curl options]: the HTTP status alone
    local n=$1 method=$2 path=$3
    shift 3
    api "$n" "$method" "$path" -o /dev/null -w '%{http_code}' "$@"
}

# within SECONDS COMMAND...: until it succeeds. A minute where something only has to happen, for the machine may be busy;
# less where something else would happen later, and the test could not tell them apart.
within() {
    local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
    shift
    until "$@"; do
        [ "${EPOCHREALTIME/[.,]/}" -lt $end ] || return 1
        sleep 0.05
    done
}

only_job() { api "$1" GET /v1/jobs | jq -r '.jobs[0].id'; }
# What the newest job says of itself: asked many times a second, so that jq would take more than the job.
is_in_state() { [[ $(api "$1" GET '/v1/jobs?limit=1') == *'"state":"'"$2"'"'* ]]; }
is_at_step() { [[ $(api "$1" GET '/v1/jobs?limit=1') =~ '"step":'([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$2" ]; }

# A job that takes long enough to be disturbed.
long_job() {
    "$SUBMIT" --workers worker.json --node_count 2 --epochs 100000 --record-every 1000 "$@"
}

# A training set of 64 rows, one of which adds up to more than a float can hold, and a model that adds them; OVERFLOW has
# the options for two nodes to train on it.
prepare_overflow() {
    awk 'BEGIN { for (i = 0; i < 64; i++) print (i == 40 ? "3e38,3e38" : i % 7 "," i % 5) "," (i % 7 > 3) }' >train.csv
    head -20 train.csv >test.csv
    echo '{"version":1,"name":"m","input":[2],"layers":[{"kind":"dense","units":2,"init":"ones"}],
           "loss":"softmax_cross_entropy"}' >m.json
    OVERFLOW=(--node_count 2 --batch_size 8 --epochs 3 --model m.json --dataset csv:test_file=test.csv --data train.csv)
}

python_with_numpy() {
    local p
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import numpy' 2>/dev/null && echo "$p" && return 0
    done
    return 1
}

# A CSV without its columns of seconds, which differ from run to run.
without_times() {
    python3 - "$1" <<'PY'
import csv, sys
rows = list(csv.reader(open(sys.argv[1])))
keep = [i for i, name in enumerate(rows[0]) if not name.endswith("_s")]
for r in rows:
    print(",".join(r[i] for i in keep))
PY
}
