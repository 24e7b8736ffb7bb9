#!/usr/bin/env bats
# Machines with unusual settings: a job runs there, or reports why it cannot.
# shellcheck disable=SC2030,SC2031 # each test has variables of its own
load lib
load namespaces

two_node_job() { "$SUBMIT" -q --codec fedavg --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out; }

@test "an agent's folder may be on a file system mounted noexec" {
    make_disk 200m,noexec "$T/noexec"
    cp /bin/true noexec/ # beneath the mount, which hides it
    "${ON_DISK[@]}" cp /bin/true "$T/noexec/true"
    run "${ON_DISK[@]}" "$T/noexec/true"
    [ "$status" -eq 126 ]
    sed 's/"plain"/"mine"/' "$ROOT/codecs/plain.c" >mine.c
    T=$T/noexec ENTER=("${ON_DISK[@]}")
    start_agents 2
    local codec
    for codec in fedavg "$PWD/mine.c"; do
        "${ON_DISK[@]}" "$SUBMIT" -q --workers "$PWD/worker.json" --codec "$codec" --node_count 2 --dataset "$FEW" --epochs 1 --model softmax \
            -o "$PWD/out"
        [ "$(jq -r .state out/run.json)" = succeeded ]
        rm -r out
    done
}

# The state is then below the home in /etc/passwd, which a test leaves alone: it is hidden by a disk of the test's own. Other users
# are root there, and see all of root's home as that disk.
@test "a job runs without HOME and on one processor" {
    local home disk
    home=$(getent passwd 0 | cut -d: -f6)
    disk=$home
    [ "$(id -u)" != 0 ] || disk=$home/.local/state
    make_disk 10m "$disk"
    ENTER=("${ON_DISK[@]}")
    unset HOME XDG_STATE_HOME XDG_CACHE_HOME
    taskset -pc "$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')" $$ >/dev/null
    start_agents 2
    "${ON_DISK[@]}" "$SUBMIT" -q --workers "$PWD/worker.json" --codec fedavg --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o "$PWD/out"
    [ "$(jq -r .state out/run.json)" = succeeded ]
    "${ON_DISK[@]}" test -e "$home/.local/state/psgd/jobs/$(jq -r .id out/run.json).json"
    [ ! -e "$home/.local/state/psgd/jobs/$(jq -r .id out/run.json).json" ]
}

runs_without_inotify() { # runs_without_inotify WHAT LIMIT
    ENTER=(unshare -Ur sh -c "echo 0 >/proc/sys/user/max_inotify_$2 && exec \"\$@\"" sh)
    "${ENTER[@]}" true 2>/dev/null || skip "user namespaces are not to be had here"
    start_agents 2
    two_node_job
    [ "$(jq -r .state out/run.json)" = succeeded ]
    grep -q "no inotify $1 is free: .*: a user may have 0 inotify $2: sysctl user.max_inotify_$2 raises that; the runner's events are read once a second" agent0.log
}

@test "a job runs where no inotify instance is free" {
    runs_without_inotify instance instances
}

@test "a job runs where no inotify watch is free" {
    runs_without_inotify watch watches
}

@test "a program whose limit of open files is too low names the limit, and how to raise it" {
    local says='Too many open files: this process may have [0-9]+ open files: ulimit -n, or LimitNOFILE= of a systemd unit, raises that'
    # Limits count the descriptors that bats has open, too.
    few() { limited bash -c 'for fd in $(seq 3 40); do eval "exec $fd>&-"; done; ulimit -n "$0" && exec "$@"' "$@"; }
    run few 4 "$BUILD/job_submit" list
    echo "$output"
    [ "$status" -eq 6 ]
    grep -qE "^error: pipe: $says" <<<"$output"
    local n
    for n in 6 8 10; do
        run few $n "$BUILD/agent" --port 0 --dir "$T/few" 3>&-
        echo "$output"
        [ "$status" -ne 0 ]
        grep -qE "^agent: .*: $says" <<<"$output"
    done
}

@test "a job runs in a locale with a decimal comma, and its records have points" {
    printf 'LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n' >comma
    localedef -c -i comma -f ANSI_X3.4-1968 "$T/xx_XX" 2>/dev/null || true # it prints what is not defined
    unset LC_ALL
    export LOCPATH=$T
    export LC_NUMERIC=xx_XX
    export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # setlocale() of glibc 2.36 leaks LOCPATH
    [ "$(bash -c 'printf "%.1f" 1,5' 2>/dev/null)" = 1,5 ] || skip "localedef makes no locale here"
    start_agents 2
    two_node_job
    [ "$(jq -r .state out/run.json)" = succeeded ]
    head -2 out/records/eval.csv | tail -1 | grep -qE '^[0-9]+\.[0-9]+,'
}

@test "agents that listen on IPv6 train" {
    [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 || skip "this machine has no IPv6 on loopback"
    local n
    for n in 0 1; do
        : >"agent$n.log"
        "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --bind ::1 --port 0 --dir "$T/agent$n" 2>"agent$n.log" 3>&- &
        AGENTS[n]=$!
        within 60 grep -q ' listens on ' "agent$n.log"
        PORTS[n]=$(sed -n 's/.* listens on [^ ]*:\([0-9]*\), .*/\1/p' "agent$n.log")
    done
    echo "{\"Worker\":[\"[::1]:${PORTS[0]}\",\"[::1]:${PORTS[1]}\"]}" >worker.json
    two_node_job
    [ "$(jq -r .state out/run.json)" = succeeded ]
}

@test "under ulimit -v a model that is too large is refused with the available memory, and a smaller one trains" {
    nm "$BUILD/agent" 2>/dev/null | grep -q __asan_init && skip "AddressSanitizer maps terabytes"
    nm "$BUILD/agent" 2>/dev/null | grep -q __tsan_init && skip "ThreadSanitizer maps terabytes"
    ENTER=(bash -c 'ulimit -v 1000000 && exec "$@"' bash)
    start_agents 1
    echo '{"version":1,"name":"big","input":[28,28,1],"layers":[{"kind":"flatten"},{"kind":"dense","units":200000},{"kind":"relu"},
           {"kind":"dense","units":10}],"loss":"softmax_cross_entropy"}' >big.json
    sed 's/200000/100/' big.json >small.json
    run "$SUBMIT" --codec dummy --node_count 1 --dataset "$FEW" --epochs 1 --model big.json -o no
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *OutOfMemory*" GB"*" GB"* ]]
    "$SUBMIT" -q --codec dummy --node_count 1 --dataset "$FEW" --epochs 1 --model small.json -o out
    [ "$(jq -r .state out/run.json)" = succeeded ]
}

# group_of BYTES: prints the folder of a new control group with that limit, to which this user can move processes.
group_of() {
    local folder limit
    for limit in /sys/fs/cgroup/memory/psgd-$$/memory.limit_in_bytes /sys/fs/cgroup/psgd-$$/memory.max; do
        folder=${limit%/*}
        if [ ! -d "${folder%/*}" ] || ! mkdir "$folder" 2>/dev/null; then continue; fi
        if echo "$1" 2>/dev/null >"$limit" && sh -c "echo \$\$ >$folder/cgroup.procs" 2>/dev/null; then
            echo "$folder"
            return
        fi
        rmdir "$folder"
    done
}

# 50 million parameters take 400 MB with their gradients, and a message of them 200 MB: one is written, one read.
@test "a job whose exchanges need more memory than there is ends before its first step" {
    nm "$BUILD/agent" 2>/dev/null | grep -qE '__[at]san_init' && skip "sanitizers take several times the memory"
    local group
    group=$(group_of 1500000000)
    [ -n "$group" ] || skip "this user may not create a control group that limits memory"
    ENTER=(sh -c "echo \$\$ >$group/cgroup.procs && exec \"\$@\"" sh)
    start_agents 2
    echo '{"version":1,"name":"big","input":[28,28,1],"layers":[{"kind":"flatten"},{"kind":"dense","units":63000},{"kind":"relu"},
           {"kind":"dense","units":10}],"loss":"softmax_cross_entropy"}' >big.json
    run "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --batch_size 8 --local-path off --model big.json -o no
    echo "$output"
    "$SUBMIT" -q --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax -o out || true
    stop_agents
    for _ in {1..100}; do if rmdir "$group" 2>/dev/null; then break; else sleep 0.1; fi; done # until the kernel sees that it is empty
    [ "$status" -eq 1 ]
    [[ "$output" == *OutOfMemory*"exchanges take 0.401 GB in each of the job's 2 workers on this machine, and there are 0."*" GB"* ]]
    grep -q '^memory: 0.000.* GB, .* for the model and its optimizer, .* for exchanges$' out/logs/worker-0.log
}

@test "an agent with two slots runs two jobs at a time, and reports both" {
    start_agent 0 --slots 2
    write_workers 1
    gated fedavg
    local one=(--node_count 1 --dataset "$FEW" --local-steps 5 --model softmax)
    "$SUBMIT" "${one[@]}" --codec gated.c --round-timeout "$TEST_LIMIT" --epochs 5 -o long >long.log 2>&1 3>&- &
    local pid=$!
    HOLDERS+=("$pid")
    within 60 is_at_gate 0
    "$SUBMIT" -q "${one[@]}" --codec fedavg --epochs 1 --no-queue -o short
    [ "$(jq -r .state short/run.json)" = succeeded ]
    [ "$(api 0 GET /v1/agent | jq -r '.slots, .slots_free' | paste -sd' ')" = "2 1" ]
    [ "$(api 0 GET "/v1/jobs/$(jq -r .id long/run.json)" | jq -r '.state, .slot' | paste -sd' ')" = "running 0" ]
    kill -9 "$pid"
    "$SUBMIT" cancel "$(jq -r .id long/run.json)"
}
