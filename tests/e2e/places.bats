#!/usr/bin/env bats
# Machines that are set up otherwise than most: a job runs there, or says why it cannot.
load lib

two_node_job() { "$SUBMIT" -q --codec fedavg --node_count 2 --epochs 1 --model softmax -o out; }

# in_mounts COMMAND...: in a mount namespace of its own, as root or as a user who may have one.
in_mounts() {
    if [ "$(id -u)" -eq 0 ]; then unshare -m "$@"; else unshare -Urm "$@"; fi
}

@test "an agent's folder may lie on a file system mounted noexec" {
    in_mounts true 2>/dev/null || skip "mounts need root or user namespaces"
    cp "$ROOT/codecs/plain.c" mine.c
    sed -i 's/"plain"/"mine"/' mine.c
    cat >inside <<'INSIDE'
set -e
mkdir noexec
mount -t tmpfs -o noexec,size=200m none noexec
cp /bin/true noexec/true
! noexec/true 2>/dev/null
. "$1/tests/e2e/lib.bash"
T=$PWD/noexec AGENTS=() PORTS=()
start_agents 2
for codec in fedavg mine.c; do
    "$SUBMIT" -q --codec "$codec" --node_count 2 --epochs 1 --model softmax -o "out-$codec"
done
"$SUBMIT" codecs test mine.c >/dev/null
stop_agents
INSIDE
    in_mounts timeout 120 bash inside "$ROOT" 3>&-
    [ "$(jq -r .state out-mine.c/run.json)" = succeeded ]
}

@test "without HOME, on one processor, and in a locale with a decimal comma a job runs" {
    unset HOME XDG_STATE_HOME XDG_CACHE_HOME
    local language
    language=$(locale -a 2>/dev/null | grep -iE '^(de|fr|es|it|ru)_' | head -1)
    export LC_ALL=${language:-C}
    taskset -pc "$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')" $$ >/dev/null
    start_agents 2
    two_node_job
    [ "$(jq -r .state out/run.json)" = succeeded ]
    head -2 out/records/eval.csv | tail -1 | grep -qE '^[0-9]+\.[0-9]+,'
}

@test "agents that listen on IPv6 train" {
    [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 || skip "this machine has no IPv6 on loopback"
    local n
    for n in 0 1; do
        "$BUILD/agent" --bind ::1 --port 0 --dir "$T/agent$n" 2>"agent$n.log" 3>&- &
        AGENTS[n]=$!
    done
    for n in 0 1; do
        within 60 grep -q ' listens on ' "agent$n.log"
        PORTS[n]=$(sed -n 's/.* listens on [^ ]*:\([0-9]*\), .*/\1/p' "agent$n.log")
    done
    echo "{\"Worker\":[\"[::1]:${PORTS[0]}\",\"[::1]:${PORTS[1]}\"]}" >worker.json
    two_node_job
    [ "$(jq -r .state out/run.json)" = succeeded ]
}

@test "under ulimit -v a model that is too large is refused with what there is, and a smaller one trains" {
    nm "$BUILD/agent" 2>/dev/null | grep -q __asan_init && skip "AddressSanitizer maps terabytes"
    nm "$BUILD/agent" 2>/dev/null | grep -q __tsan_init && skip "ThreadSanitizer maps terabytes"
    (ulimit -v 1000000 && exec "$BUILD/agent" --port 0 --dir "$T/agent0" 2>agent0.log 3>&-) &
    AGENTS[0]=$!
    within 60 grep -q ' listens on ' agent0.log
    PORTS[0]=$(sed -n 's/.* listens on [^ ]*:\([0-9]*\), .*/\1/p' agent0.log)
    write_workers 1
    echo '{"version":1,"name":"big","input":[28,28,1],"layers":[{"kind":"flatten"},{"kind":"dense","units":200000},{"kind":"relu"},
           {"kind":"dense","units":10}],"loss":"softmax_cross_entropy"}' >big.json
    sed 's/200000/100/' big.json >small.json
    run "$SUBMIT" --codec dummy --node_count 1 --epochs 1 --model big.json -o no
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *OutOfMemory*" GB"*" GB"* ]]
    "$SUBMIT" -q --codec dummy --node_count 1 --epochs 1 --model small.json -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
}
