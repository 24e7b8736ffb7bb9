# lib.bash -- agents for a test, in a folder that is removed when it ends, on ports that the kernel chooses.
# shellcheck shell=bash disable=SC2034 # variables are used by the tests

ROOT=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
BUILD=$(cd "$ROOT" && cd "${BUILD:-build}" && pwd)
DATA=${PSGD_DATA:-$ROOT/../shared/data}
TOOLS=$BUILD/tests/tool
# --dataset of tests that do not depend on its size: 10 steps of 64 per epoch for each of two nodes, in a third of the time of the
# whole digits.
FEW=digits:train=1280,test=200

# Limits of time: a test has two thirds of the seconds that tests/run allows a script without a finished test, each program in it
# one third.
TEST_TIMEOUT=${TEST_TIMEOUT:-1800}
TEST_LIMIT=$((TEST_TIMEOUT * 2 / 3))
PROGRAM_LIMIT=$((TEST_TIMEOUT / 3))

setup() {
    HOME_OF_TEST=${TMPDIR:-/tmp}/psgd-e2e-$BASHPID-$RANDOM
    T=$HOME_OF_TEST/test
    mkdir -m 711 "$HOME_OF_TEST" "$T" || return 1 # the users of jobs (gated) look up names in it
    limit_test 2>&1 3>&- &
    WATCHER=$!
    disown "$WATCHER" # so that the shell does not print its end
    # job_submit with its limit: the process is job_submit, and signals and status are its own. SILENT is a pipe that nobody writes:
    # to read it is to sleep without a process. Made once for a script.
    SUBMIT=${BATS_RUN_TMPDIR:-$HOME_OF_TEST}/job_submit
    SILENT=${SUBMIT%/*}/silent
    if [ ! -e "$SUBMIT" ]; then
        mkfifo "$SILENT"
        printf '#!/bin/sh\nexec "%s/limit" %d "%s/job_submit" "$@"\n' "$TOOLS" "$PROGRAM_LIMIT" "$BUILD" >"$SUBMIT"
        chmod +x "$SUBMIT"
    fi
    export XDG_STATE_HOME=$T/state XDG_CACHE_HOME=$T/cache
    export TSAN_OPTIONS="report_signal_unsafe=0 $TSAN_OPTIONS"
    unset PSGD_WORKERS PSGD_TOKEN_FILE PSGD_CODEC_PATH NO_COLOR CC
    AGENTS=()
    PORTS=()
    TOKENS=()
    HOLDERS=()
    ENTER=()
    ISOLATION=
    cd "$T" || return 1
}

teardown() {
    local started=$((${#AGENTS[@]} + ${#HOLDERS[@]}))
    stop_agents
    [ ${#HOLDERS[@]} -eq 0 ] || kill -9 "${HOLDERS[@]}" 2>/dev/null
    # Processes that a test started must have ended with its agents.
    local left=
    [ "$started" -eq 0 ] || left=$(pgrep -x 'job_.*' | while read -r pid; do
        case $(readlink "/proc/$pid/cwd") in "$T"/*) echo "$pid" ;; esac
    done)
    if [ -n "$left" ]; then
        echo "runners are left: $left" >&2
        # shellcheck disable=SC2086
        kill -9 $left 2>/dev/null
    fi
    # In a sanitizer's build no program may have had a finding; CRASHES=1 if a test makes one crash on purpose.
    local found
    found=$(grep -lE 'Sanitizer: |runtime error: ' "$T"/agent*.log "$T"/agent*/jobs/*/run/node.log 2>/dev/null)
    if [ -n "$found" ] && [ -z "${CRASHES:-}" ]; then
        # shellcheck disable=SC2086
        cat $found >&2
        left="$left findings"
    fi
    end_queue
    kill -9 "$WATCHER" 2>/dev/null
    cd / || return 1
    if [ -n "${KEEP:-}" ] && [ -z "${BATS_TEST_COMPLETED:-}" ]; then
        echo "kept: $T"
    else
        rm -rf "$HOME_OF_TEST"
    fi
    [ -z "${TEST_TIMES:-}" ] || note_times >>"$TEST_TIMES"
    [ -z "$left" ]
}

# The processes of the queue, which outlive the commands that start them. Each has a file of the queue as its standard error.
end_queue() {
    local pid
    for pid in $(pgrep -f '^job_submit queue (watch|run)'); do
        case $(readlink "/proc/$pid/fd/2") in "$HOME_OF_TEST"/*) kill -9 "$pid" ;; esac
    done
    return 0
}

# For the report of tests/run: "USER SYSTEM SCRIPT: TEST", in hundredths of seconds of processor time of this test and of what it has
# waited for.
note_times() {
    local f
    read -r f <"/proc/$BASHPID/stat"
    # shellcheck disable=SC2206 # the fields behind the name, which may have spaces
    f=(${f##*) })
    echo "$((f[11] + f[13])) $((f[12] + f[14])) ${BATS_TEST_FILENAME##*/}: $BATS_TEST_DESCRIPTION"
}

# In the background of a test: ends all its descendants on a timeout, so that it fails; if it still hangs a minute later, ends
# it, too.
limit_test() {
    read -rt "$TEST_LIMIT" <> <(:) || true
    echo "this test has not ended within $TEST_LIMIT s"
    end_descendants $$
    read -rt 60 <> <(:) || true
    rm -rf "$HOME_OF_TEST"
    kill -9 $$
}

end_descendants() { # end_descendants PID: all except this process
    local pid
    for pid in $(pgrep -P "$1"); do
        [ "$pid" != "$BASHPID" ] || continue
        end_descendants "$pid"
        kill -9 "$pid" 2>/dev/null
    done
}

# `LONG=1 make test`: tests that try many cases try all of them, instead of a part.
is_long() { [ -n "${PSGD_TEST_LONG:-}" ]; }

# A port that is not assigned at random: below those that the kernel hands out.
free_port() {
    python3 -c '
import random, socket
first = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
while True:
    port = random.randrange(max(first // 2, 1024), first)
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break'
}

curl() { command curl --max-time "$PROGRAM_LIMIT" "$@"; }

# limited COMMAND...: it and its descendants have the time limit of a program, and none of them is left.
limited() { "$TOOLS/reap" "$PROGRAM_LIMIT" "$@"; }

# exit_is STATUS COMMAND...: the command, as `wait PID` or one of these functions, ends with this status.
exit_is() {
    local code=0
    "${@:2}" || code=$?
    [ "$code" -eq "$1" ] || { echo "status $code, and not $1, of ${*:2}" && return 1; }
}
# fails COMMAND...: it ends with another status than 0.
fails() { if "$@"; then echo "status 0 of $*" && return 1; fi; }

# by_progress COMMAND...: status and output as run's, for a command of many parts, as a build is, that prints a line for each: the time
# limit of a program is from line to line, and the test has none. Its lines are in the output of the test's script, too.
by_progress() {
    kill -9 "$WATCHER" 2>/dev/null
    : >"$T/progress"
    "$TOOLS/reap" -g "$T/progress" "$PROGRAM_LIMIT" "$@" 2>&1 3>&- | sed -u 's/^/# /' | tee "$T/progress" >&3
    status=${PIPESTATUS[0]} output=$(sed 's/^# //' "$T/progress")
}

# afresh NAME=VALUE... COMMAND...: as started by a user, without the environment of the tests.
afresh() {
    env -i PATH="$(tr : '\n' <<<"$PATH" | grep -v bats-core | paste -sd :)" HOME="$HOME" TMPDIR="$T" BUILD="$BUILD" \
        TEST_TIMEOUT="$TEST_TIMEOUT" "$@"
}

# start_agent N [OPTION...]: agent number N, on its port if it has one already, else on one that it logs, and at HOSTS[N] if that
# is set. It is started by the command ENTER, if set, which enters namespaces.
start_agent() {
    local n=$1
    shift
    : >>"$T/agent$n.log" # now, because the shell behind & may be late
    isolation_needs "$@"
    "${ENTER[@]}" "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind "${HOSTS[n]:-127.0.0.1}" --port "${PORTS[n]:-0}" --dir "$T/agent$n" \
        "${UNISOLATED[@]}" "$@" \
        2>>"$T/agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 listens_or_ended "$n" && answers "$n" && return 0
    cat "$T/agent$n.log" >&2
    return 1
}

# answers N: the agent says that it is well; by this shell, because a curl for each agent costs as much as starting the agent.
answers() {
    local line='' connection
    { exec {connection}<>"/dev/tcp/${HOSTS[$1]:-127.0.0.1}/${PORTS[$1]}"; } 2>/dev/null || return 1
    printf 'GET /healthz HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n' "${HOSTS[$1]:-127.0.0.1}" "${PORTS[$1]}" >&"$connection"
    read -rt "$PROGRAM_LIMIT" -u "$connection" line
    exec {connection}>&-
    [[ $line == 'HTTP/1.1 200'* ]]
}

# What this kernel, or a build with sanitizers, allows a runner: none, process, files or user.
isolation_here() {
    [[ $(OPENBLAS_NUM_THREADS=1 "${ENTER[@]}" "$BUILD/job_runner" --isolation) =~ \"level\":\ *\"([a-z]+)\" ]] && echo "${BASH_REMATCH[1]}"
}

# isolation_needs OPTION...: UNISOLATED has the option by which agents here run the tests' own codecs.
isolation_needs() {
    UNISOLATED=()
    [[ " $* " != *" --require-isolation "* ]] || return 0
    local known=${BATS_RUN_TMPDIR:-$HOME_OF_TEST}/isolation # of the script's tests outside namespaces
    if [ ${#ENTER[@]} -eq 0 ] && [ -s "$known" ]; then
        read -r ISOLATION <"$known"
        ISOLATION_IN=
    elif [ -z "$ISOLATION" ] || [ "$ISOLATION_IN" != "${ENTER[*]}" ]; then
        ISOLATION=$(isolation_here) || true
        ISOLATION_IN="${ENTER[*]}"
        [ ${#ENTER[@]} -gt 0 ] || echo "$ISOLATION" >"$known"
    fi
    case $ISOLATION in
    files | user) ;;
    *) UNISOLATED=(--require-isolation none) ;;
    esac
}

# listens N: the agent's port is open; without starting a program, because this is asked often.
listens() {
    [ -n "${PORTS[$1]:-}" ] || { [[ $(<"$T/agent$1.log") =~ ' listens on '[^\ ]*:([0-9]+)[,\ ] ]] && PORTS[$1]=${BASH_REMATCH[1]}; }
    [ -n "${PORTS[$1]:-}" ] && { : <>"/dev/tcp/${HOSTS[$1]:-127.0.0.1}/${PORTS[$1]}"; } 2>/dev/null
}

listens_or_ended() { listens "$1" || has_ended "${AGENTS[$1]}"; } # listens_or_ended N: the wait is over

# start_agents N: agents 0 .. N-1 and a worker.json that names them.
start_agents() {
    local n
    for ((n = 0; n < $1; n++)); do start_agent "$n" || return 1; done
    write_workers "$1"
}

# Five agents, which stand for two machines of two workers and one of one: each has an address of its own.
start_three_machines() {
    HOSTS=(127.0.0.1 127.0.0.1 127.0.0.2 127.0.0.2 127.0.0.3)
    start_agents 5
}

# write_workers N [SERVERS]: the first N agents as workers, the next SERVERS as parameter servers.
write_workers() {
    local n w='' p=''
    for ((n = 0; n < $1; n++)); do w="$w,\"${HOSTS[n]:-127.0.0.1}:${PORTS[n]}\""; done
    for ((n = $1; n < $1 + ${2:-0}; n++)); do p="$p,\"${HOSTS[n]:-127.0.0.1}:${PORTS[n]}\""; done
    if [ -n "$p" ]; then
        echo "{\"PS\":[${p#,}],\"Worker\":[${w#,}]}" >worker.json
    else
        echo "{\"Worker\":[${w#,}]}" >worker.json
    fi
}

has_ended() { has_ended_by 0 "$1"; }

# end_process PID: SIGTERM until it has ended, SIGKILL after a minute; returns its status. One SIGTERM may be lost: until its
# exec, a child has the handlers of this shell.
end_process() {
    within 60 has_ended_by TERM "$1" || kill -9 "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# has_ended_by SIGNAL PID: sends one more. A child that has ended takes signals until this shell has waited for it, which the
# shell may not do by itself as long as it starts no other process.
has_ended_by() {
    local stat
    kill -s "$1" "$2" 2>/dev/null || return 0
    { read -r stat <"/proc/$2/stat"; } 2>/dev/null || return 0
    [[ "${stat##*) }" == Z* ]]
}

stop_agents() {
    local pid
    for pid in "${AGENTS[@]}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null; done
    for pid in "${AGENTS[@]}"; do [ -z "$pid" ] || end_process "$pid" || true; done
    AGENTS=()
}

end_agent() { # end_agent N: stops it and waits; returns its status
    local pid=${AGENTS[$1]}
    AGENTS[$1]=
    end_process "$pid"
}

kill_agent() { # kill_agent N: kill -9, and waits
    kill -9 "${AGENTS[$1]}"
    wait "${AGENTS[$1]}" 2>/dev/null || true
    AGENTS[$1]=
}

make_token() { # make_token FILE
    head -c 32 /dev/urandom | base64 | tr '+/' '-_' | head -c 43 >"$1"
    chmod 600 "$1"
}

# api N METHOD PATH [curl options]: one call to agent N with its token.
api() {
    local n=$1 method=$2 path=$3 token
    shift 3
    read -r token <"${TOKENS[n]:-$T/agent$n/token}" || true # no line break
    curl -s -X "$method" -H "Authorization: Bearer $token" "$@" "http://${HOSTS[n]:-127.0.0.1}:${PORTS[n]}$path"
}

status_of() { # status_of N METHOD PATH [curl options]: the HTTP status only
    local n=$1 method=$2 path=$3
    shift 3
    api "$n" "$method" "$path" -o /dev/null -w '%{http_code}' "$@"
}

# in_none STRING PATH...: no file there has the string. Of a running job, files come and go while they are read.
in_none() {
    ls -d -- "${@:2}" >/dev/null && ! grep -rqaF -e "$1" -- "${@:2}" 2>/dev/null
}

# within SECONDS COMMAND...: repeats it until it succeeds, for ten times these seconds, because the machine may be busy. Never less
# than a minute: durations are measured by the programs' records, not by this.
within() {
    local up end silent
    read -r up _ </proc/uptime # a clock that nobody sets
    end=$((10#${up/./} + $1 * 1000))
    shift
    "$@" && return 0
    exec {silent}<>"$SILENT"
    until "$@"; do
        read -r up _ </proc/uptime
        [ "$((10#${up/./}))" -lt $end ] || break
        read -rt 0.05 -u "$silent" || true
    done
    exec {silent}>&-
    [ "$((10#${up/./}))" -lt $end ]
}

status_page() { curl -s "http://${HOSTS[$1]:-127.0.0.1}:${PORTS[$1]}/v1/status"; } # status_page N
is_idle() { [[ $(status_page "$1") =~ '"running": [],'[[:space:]]*'"queued": [],' ]]; }

only_job() { api "$1" GET /v1/jobs | jq -r '.jobs[0].id'; }
# State of the newest job: queried many times a second, so that jq would take more time than the job.
is_in_state() { [[ $(api "$1" GET '/v1/jobs?limit=1') == *'"state":"'"$2"'"'* ]]; }
is_at_step() { [[ $(api "$1" GET '/v1/jobs?limit=1') =~ '"step":'([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$2" ]; }

# peak_at_step STEP: the peak memory of node 0's runner in kB at that step.
peak_at_step() {
    within "$PROGRAM_LIMIT" is_at_step 0 "$1" && awk '/VmHWM/ { print $2 }' "/proc/$(api 0 GET /v1/jobs | jq '.jobs[0].pid')/status"
}


# A job that is long enough to be disturbed.
long_job() {
    "$SUBMIT" --workers worker.json --node_count 2 --dataset digits:train=6400,test=200 --epochs 1000000 --record-every 1000 "$@"
}

# build_with_few_digits: a folder build, as the commands of documents have it, whose job_submit trains on a part of the digits where
# a command names no data. It shows that a command works as written, not how well its rule learns. Long tests train on all digits.
build_with_few_digits() {
    mkdir build
    ln -s "$BUILD"/* build
    ! is_long || return 0
    rm build/job_submit
    cat >build/job_submit <<EOF
#!/bin/sh
case " \$* " in
*' --dataset'* | *' --gradients '* | *' --exec '*) ;;
' -'* | ' submit '* | ' simulate '* | ' validate '* | ' sweep '*) set -- "\$@" --dataset digits:train=2560,test=400 ;;
esac
exec "$SUBMIT" "\$@"
EOF
    chmod +x build/job_submit
}

# gated CODEC [CONDITION]: gated.c, which is CODEC, a rule that combines without callbacks, with a gate before each contribution:
# from step 60 on, nodes (if CONDITION holds) wait there until open_gate. So events happen at the right time on fast and slow
# machines. (After the combination a node would wait with its own contribution half sent, for which another one waits.)
gated() {
    local codec=$ROOT/codecs/$1.c what=params
    mkdir -p "$T/gate"
    if grep -q CODEC_EACH_STEP "$codec"; then what=grads; fi
    {
        printf '#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n'
        sed '/^static const struct codec_combine/,$d; s/"codec.h"/"codec_events.h"/' "$codec"
        cat <<EOF
static float contribute(struct codec *c, float *const *v)
{
    static const char open[] = "gate-open"; /* in the run folder, as codecs see no other one */
    char at_gate[64];

    if (c->run->step >= 60 && (${2:-1}) && access(open, F_OK) < 0) {
        snprintf(at_gate, sizeof at_gate, "at-gate-%d", c->run->node);
        close(creat(at_gate, 0600));
        while (access(open, F_OK) < 0)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    memcpy(v[0], c->$what, c->n_params * sizeof *v[0]);
    return 1;
}

EOF
        sed -n '/^static const struct codec_combine/,$p' "$codec" | sed -e "s/\"$1\"/\"gated\"/" -e 's/\(= {\.when = CODEC_EACH_[A-Z]*\)}/\1, .contribute = contribute}/'
    } >gated.c
    grep -q 'contribute = contribute' gated.c
}

no_runner() { # of this test's agents
    local pid
    for pid in $(pgrep -x job_runner); do
        case $(readlink "/proc/$pid/cwd") in "$T"/*) return 1 ;; esac
    done
}

# A small job on two agents, after a fault: it must succeed.
serves_the_next_job() {
    "$SUBMIT" -q --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o next
}

# paced CODEC: gated.c without a gate but with a pause, so that a job that is to run for as long as the test takes little of the
# processors.
paced() { gated "$1" '(usleep(50000), 0)'; }

# open_gate: for the nodes that are there, and for later ones until the test removes gate/open.
open_gate() {
    touch "$T/gate/open"
    tell_nodes gate-open
    [ -z "${GATEKEEPER:-}" ] || return 0
    (while sleep 0.2; do [ ! -e "$T/gate/open" ] || tell_nodes gate-open; done) >/dev/null 2>&1 3>&- &
    GATEKEEPER=$!
    HOLDERS+=("$GATEKEEPER")
}
# tell_nodes NAME: makes the file NAME in the run folder of every node, of agents and of job folders.
tell_nodes() {
    local run
    for run in "$T"/agent*/jobs/*/run "$T"/*/*/run; do [ ! -d "$run" ] || touch "$run/$1"; done
}
# is_at_gate N: node N waits there.
is_at_gate() { compgen -G "$T/agent*/jobs/*/run/at-gate-$1" >/dev/null || compgen -G "$T/*/*/run/at-gate-$1" >/dev/null; }

# A training set of 64 rows, one of which sums to more than a float can hold, and a model that sums them; OVERFLOW has
# the options for two nodes to train on it.
prepare_overflow() {
    awk 'BEGIN { for (i = 0; i < 64; i++) print (i == 40 ? "3e38,3e38" : i % 7 "," i % 5) "," (i % 7 > 3) }' >train.csv
    head -20 train.csv >test.csv
    echo '{"version":1,"name":"m","input":[2],"layers":[{"kind":"dense","units":2,"init":"ones"}],
           "loss":"softmax_cross_entropy"}' >m.json
    OVERFLOW=(--node_count 2 --batch_size 8 --epochs 3 --model m.json --dataset csv:test_file=test.csv --data train.csv)
}

# python_with [MODULE...]: a python3 that has them; python3 itself may have been installed by the user, beside the system's.
python_with() {
    local p
    for p in python3 /usr/bin/python3; do
        "$p" -c "$(printf 'import %s\n' sys "$@")" 2>/dev/null && echo "$p" && return 0
    done
    return 1
}

# with_python MODULE...: from here on python3, also that of agents, has them.
with_python() {
    local python
    python=$(python_with "$@") || skip "no python3 has $*"
    mkdir bin
    ln -s "$(command -v "$python")" bin/python3
    export PATH=$T/bin:$PATH PYTHONPATH=$ROOT/python
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

# same_weights FILE FILE [MOST]: the tensors of two files are equal, bit for bit, or up to MOST.
same_weights() {
    python3 - "$1" "$2" "${3:-0}" <<'PY'
import array, json, struct, sys
def read(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    return {k: (t["shape"], b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in json.loads(b[8:8 + n]).items() if k != "__metadata__"}
a, b, most = read(sys.argv[1]), read(sys.argv[2]), float(sys.argv[3])
assert a and a.keys() == b.keys()
for k in a:
    assert a[k][0] == b[k][0], f"{k}: other shapes"
    worst = max(abs(x - y) for x, y in zip(array.array("f", a[k][1]), array.array("f", b[k][1])))
    assert a[k][1] == b[k][1] or 0 < worst <= most, f"{k}: differs by {worst}"
PY
}

# are_equal OUT OUT [STEP [MOST]]: losses and accuracies of all workers and evaluations after that step, metrics, and models of two runs
# are equal to the bit, or differ by at most MOST, and then the largest difference is printed. Messages of a program's job have the
# number of its samples besides, and its checkpoints the optimizer's state in another form.
are_equal() {
    python3 - "$@" <<'PY'
import array, csv, json, pathlib, sys

first, second = map(pathlib.Path, sys.argv[1:3])
since = int(sys.argv[3]) if len(sys.argv) > 3 else 0
most = float(sys.argv[4]) if len(sys.argv) > 4 else 0
worst = 0

def rows(out, name, columns):
    with open(out / "records" / name) as f:
        rows = (tuple(row[c] for c in columns) for row in csv.DictReader(f) if int(row["step"]) > since)
        return sorted(rows, key=lambda row: (*map(int, row[:2]), row[2:]))

def tensors(path):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    places = {name: t["data_offsets"] for name, t in json.loads(data[8:end]).items() if name != "__metadata__"}
    return {name: data[end + a:end + b] for name, (a, b) in places.items()}

def compare(what, a, b):
    global worst
    assert len(a) == len(b), what
    for x, y in zip(a, b):
        if x != y:
            worst = max(worst, abs(float(x) - float(y)))
            assert worst <= most, f"{what}: {x} and {y}"

for name, *columns in (("train.csv", "node", "step", "samples", "lr", "loss", "accuracy"), ("eval.csv", "node", "step", "loss", "accuracy"),
                       ("metrics.csv", "node", "step", "metric", "value")):
    a, b = (rows(out, name, columns) if (out / "records" / name).exists() else [] for out in (first, second))
    assert a or name == "metrics.csv", f"{name} has no rows"
    if name == "metrics.csv" and not (a and b):
        continue # only programs log them
    assert len(a) == len(b), f"{name} has {len(a)} and {len(b)} rows"
    for x, y in zip(a, b):
        compare(f"{name}, {x[:2]}", x, y)
a, b = (tensors(out / "model/final.safetensors") for out in (first, second))
assert a.keys() == b.keys()
for name in a:
    if a[name] != b[name]:
        compare(name, array.array("f", a[name]), array.array("f", b[name]))
if most:
    print(f"{second.name}: the largest difference from {first.name} is {worst:.2g}")
PY
}
