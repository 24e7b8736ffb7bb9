#!/usr/bin/env bats
# What the start of an agent and a node of a job cost, in counts that do not depend on the machine's speed: processes, system
# calls, syncs. Each limit is a third above the count of this version. `make bench-scale` measures seconds and processor time.
load lib

setup_file() { strace -f -qq -o /dev/null true 2>/dev/null || skip "strace is not installed, or cannot follow a process here"; }

# most FILE N CALLS: the trace in FILE has at most N system calls with one of these names, a regular expression.
most() {
    local n
    n=$(grep -cE "^[0-9]+ +($3)\(" "$1" || true)
    [ "$n" -le "$2" ] || { echo "$1: $n calls of $3, more than $2" && return 1; }
}

# exactly FILE N CALLS: no more, and no fewer: the trace is not empty.
exactly() {
    local n
    n=$(grep -cE "^[0-9]+ +($3)\(" "$1" || true)
    [ "$n" -eq "$2" ] || { echo "$1: $n calls of $3, and not $2" && return 1; }
}

# Calls that make, open or remove something, or map memory: their number does not depend on when messages arrive.
MAKING='openat|openat2|mkdir|mkdirat|unlink|unlinkat|rename|renameat|renameat2|link|linkat|symlink|socket|socketpair|pipe2|mmap|mprotect'

@test "an agent that starts runs no other program, and syncs few files" {
    isolation_needs
    ENTER=(strace -D -f -qq -o start)
    ISOLATION_IN="${ENTER[*]}"
    start_agent 0
    end_agent 0
    exactly start 2 execve # the one that limits the test, the agent
    most start 1 'fork|vfork|clone|clone3'
    most start 11 'fsync|fdatasync'
    most start 275 "$MAKING"
}

# trace FILE PID: writes the system calls of the process, and of those that it starts, from now on.
trace() {
    strace -f -qq -o "$1" -p "$2" 3>&- &
    TRACER=$!
    within 60 grep -q "^TracerPid:[^0-9]*[1-9]" "/proc/$2/status"
}

@test "a node that has its packages is one program and two processes, and syncs few files" {
    [ "$(id -u)" -eq 0 ] || skip "only root can follow an agent that runs: its memory has keys"
    local job=(--workers worker.json --codec allreduce --node_count 2 --model softmax --dataset "$FEW" --epochs 1)
    start_agents 2
    "$SUBMIT" "${job[@]}" -o first
    trace node "${AGENTS[1]}"
    strace -f -qq -o submit "$BUILD/job_submit" "${job[@]}" -o again
    kill -INT "$TRACER"
    wait "$TRACER" || true
    exactly node 1 execve
    most node 3 'fork|vfork|clone|clone3' # two processes, and a thread of the monitor
    most node 20 'fsync|fdatasync'
    most node 144 'sendto|sendmsg'
    most node 3 connect
    most node 465 "$MAKING"
    exactly submit 1 execve
    local others=$(($(nproc) < 8 ? $(nproc) - 1 : 7)) # processors, of which each draws samples, and makes a shard
    most submit $((1 + 2 * others)) 'fork|vfork|clone|clone3' # threads
    most submit 11 'fsync|fdatasync'
    most submit 6 connect
    most submit 67 'sendto|sendmsg' # requests, and what their TLS needs
    most submit 655 "$MAKING"
}

# order_length FILE: of the order to start that an agent gives its runner.
order_length() { sed -nE 's/.* write\([0-9]+, "\{\\"attempt\\":1,\\"secret[^ ]*, ([0-9]+).*/\1/p' "$1" | head -1; }

# bats test_tags=check
@test "an order has a constant length for a worker that needs a server only, and for the server some 110 bytes a worker" {
    local n tracers
    [ "$(id -u)" -eq 0 ] || skip "only root can follow an agent that runs: its memory has keys"
    start_agents 8
    for n in 3 7; do
        write_workers $n 1
        tracers=()
        trace worker-$n "${AGENTS[0]}" && tracers+=("$TRACER")
        trace server-$n "${AGENTS[n]}" && tracers+=("$TRACER")
        "$SUBMIT" --workers worker.json --codec fedavg --node_count $n --model softmax --dataset "$FEW" --epochs 1 -o "job-$n"
        kill -INT "${tracers[@]}"
        wait "${tracers[@]}" || true
    done
    [ "$(order_length worker-3)" -eq "$(order_length worker-7)" ]
    [ "$(order_length worker-7)" -le 260 ]
    [ $(($(order_length server-7) - $(order_length server-3))) -le 480 ]
}

# shipped N: the bytes of the packages of N workers, each with its own.
shipped() {
    "$SUBMIT" pack -q -o "packed$1" --node_count "$1" --codec allreduce --model softmax --dataset digits:train=2400,test=1600 >/dev/null
    python3 - "packed$1" <<'PY'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
nodes = json.loads((folder / "job.json").read_text())["nodes"]
print(sum((folder / "packages" / sha).stat().st_size for n in nodes for p in n["packages"].values() for sha in p["files"].values()))
PY
}

@test "all workers together are sent the data once, and each of them little besides" {
    local data=$((4000 * (784 + 4))) two four
    two=$(shipped 2)
    four=$(shipped 4)
    [ "$two" -lt $((data * 13 / 10)) ]
    [ $(((four - two) / 2)) -lt 40000 ] # codec, model and settings of one worker more
}

@test "a worker of gossip on a ring has two links, however many workers there are" {
    start_agents 8
    for n in 4 8; do
        "$SUBMIT" --workers worker.json --codec gossip --node_count $n --model softmax --dataset "$FEW" --epochs 1 -o "job-$n"
        [ "$(grep -lx 'connected to 2 nodes' "job-$n"/logs/worker-*.log | wc -l)" -eq $n ]
    done
}
