#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # each test is a subshell
# Jobs whose processes an mpirun starts, and those whose nodes talk by its MPI.
load lib
load documents
load ranks

# mpis: the names of those that are installed and that psgd was built with.
mpis() {
    local mpi
    for mpi in mpich openmpi; do has_mpi $mpi && echo $mpi; done
    return 0
}

# needs_mpi: MPI is the first of them.
needs_mpi() {
    MPI=$(mpis | head -n 1)
    [ -n "$MPI" ] || skip "neither Open MPI nor MPICH is installed, or psgd was built without them"
}

# run_over MPI N [ARGUMENT...]: the job in the folder over, as N processes with these arguments, on the processors of PINNED.
PINNED=()
run_over() {
    by_mpi "$1" "$2" "${PINNED[@]}" "$BUILD/job_runner" --job over "${@:3}" >mpi.log 2>&1 || { cat mpi.log && return 1; }
    "$SUBMIT" collect -q over
}

# equal_over MPI N S OPTION...: a job of N workers and S servers ends over MPI with the weights of TCP.
equal_over() {
    local settings=(-n "$2" --servers "$3" --dataset "$FEW" --epochs 1 --seed 3 "${@:4}")
    rm -rf tcp over
    "$SUBMIT" pack -q -o over "${settings[@]}" --transport mpi >over.log 2>&1
    grep -q 'nothing confines the codec' over.log
    run_over "$1" $(($2 + $3))
    "$SUBMIT" pack -q -o tcp "${settings[@]}"
    ranks tcp $(($2 + $3))
    "$SUBMIT" collect -q tcp
    echo "$*: $(digests over/results)"
    [ -n "$(digests over/results)" ]
    [ "$(digests over/results)" = "$(digests tcp/results)" ]
}

# each_way MPI: by collectives, in shared memory and not, with a server and by messages.
each_way() {
    equal_over "$1" 2 0 --codec allreduce
    [ "$(jq -r '.nodes[0].isolation' over/results/run.json)" = none ]
    equal_over "$1" 2 0 --codec allreduce --local-path off
    equal_over "$1" 2 1 --codec ps
    equal_over "$1" 2 0 --codec fedavg:every=20 --path gather
    # A launcher may bind each node to one processor; as in a cluster's cpuset both have but one.
    [ "$(nproc)" -lt 2 ] || [ "$(grep -c 'nodes share' over/node-0/run/node.log)" -eq 0 ]
    PINNED=(taskset -c "$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')")
    equal_over "$1" 2 0 --codec allreduce --max-steps 20
    PINNED=()
    grep -q 'WARN: 2 nodes share the 1 processor that they may use on the machine of node 0: over mpi ' over/node-0/run/node.log
}

@test "over MPI a job ends with the weights of the same job over TCP, by collectives, with a server and by messages" {
    needs_mpi
    each_way "$MPI"
}

# refused_over_tcp OPTION...: a job that cannot be packed for MPI, for the reason in over.log, cannot for TCP, either.
refused_over_tcp() {
    if "$SUBMIT" pack -q -o tcp "$@" >tcp.log 2>&1; then
        echo "only MPI refuses $*: $(<over.log)"
        return 1
    fi
    diff over.log tcp.log
}

# tree_over MPI: a job on two machines, by the names of their processes. Within each the two workers share memory.
tree_over() {
    local job=(-n 4 --codec allreduce --model softmax --path tree --dataset "$FEW" --epochs 1 --seed 3) rank
    rm -rf tcp over
    "$SUBMIT" pack -q -o tcp "${job[@]}"
    for rank in 0 1 2 3; do start_rank tcp $rank --host 127.0.0.$((rank / 2 + 1)); done
    end_processes 4
    "$SUBMIT" collect -q tcp
    "$SUBMIT" pack -q -o over "${job[@]}" --transport mpi
    run_over "$1" 2 --host 127.0.0.1 : -n 2 "$BUILD/job_runner" --job over --host 127.0.0.2
    grep -q 'memory shared by the 2 workers on this machine, and connections between machines' over/node-3/run/node.log
    jq -e '[.nodes[1, 3].comm.peers[] | select(.sent_bytes > 0) | .peer] == [0, 2]' over/results/run.json
    [ "$(digests over/results)" = "$(digests tcp/results)" ]
}

@test "over MPI with --path tree the workers of a machine share memory, and one of them sends to other machines" {
    needs_mpi
    tree_over "$MPI"
}

# Asynchronous rules depend on times: these must end well.
# bats test_tags=long
@test "over MPI every rule ends with the weights of TCP, with two and four workers, or is refused as over TCP" {
    needs_mpi
    local mpi rule n way servers options job
    for mpi in $(mpis); do
        for rule in "$BUILD"/codecs/*.so; do
            for n in 2 4; do
                for way in "0 --local-path off" 1 "1 --parallel_sgd asgd"; do
                    read -r servers options <<<"$way"
                    rm -rf over
                    # shellcheck disable=SC2206 # split into words
                    job=(-n $n --servers "$servers" --codec "$(basename "$rule" .so)" $options --dataset "$FEW" --epochs 1)
                    "$SUBMIT" pack -q -o over "${job[@]}" --transport mpi >over.log 2>&1 || {
                        refused_over_tcp "${job[@]}"
                        continue
                    }
                    case $options in
                    *asgd) run_over "$mpi" $((n + servers)) ;;
                    *) equal_over "$mpi" $n "$servers" "${job[@]:4}" ;;
                    esac
                    [ "$(nproc)" -ge $((n + servers)) ] || grep -q "$((n + servers)) nodes share the" over/node-0/run/node.log
                done
            done
        done
    done
}

# nearest DIR DIR: whether no weight of a job differs from that of the other by more than 1e-6.
nearest() {
    PYTHONPATH="$ROOT/python" python3 - "$1/results" "$2/results" <<'EOF'
import sys
from psgd import safetensors

def numbers(v):
    return [x for part in v for x in numbers(part)] if isinstance(v, list) else [v]

a, b = (safetensors.read(f"{folder}/model/final.safetensors")[0] for folder in sys.argv[1:])
most = max(abs(x - y) for name in a for x, y in zip(numbers(a[name].tolist()), numbers(b[name].tolist())))
print(f"largest difference: {most}")
assert most < 1e-6
EOF
}

# sums_by MPI: by --allreduce mpi workers end equal, with the weights of psgd's sums. The sum of two vectors has one order; four vectors are
# added by each MPI in its own. The rules: a gradient that is summed in buckets while it is computed, one that is summed at once, one that
# is summed late, and weights.
sums_by() {
    local n rule settings
    for rule in "2 allreduce --model mlp-relu" "4 allreduce" "4 doublebuffer" "2 fedavg:every=20"; do
        read -r n rule <<<"$rule"
        # shellcheck disable=SC2206 # split into words
        settings=(-n "$n" --dataset "$FEW" --epochs 1 --seed 3 --codec $rule)
        rm -rf tcp over
        "$SUBMIT" pack -q -o tcp "${settings[@]}"
        ranks tcp "$n"
        "$SUBMIT" collect -q tcp
        "$SUBMIT" pack -q -o over "${settings[@]}" --transport mpi --allreduce mpi
        run_over "$1" "$n"
        grep -q 'all-reduces are those of mpi, also within a machine' over/node-0/run/node.log
        [ "$(jq .models_agree over/results/run.json)" = true ]
        nearest over tcp
        [ "$n" -gt 2 ] || [ "$(digests over/results)" = "$(digests tcp/results)" ]
    done
}

# bats test_tags=check
@test "with --allreduce mpi workers end equal, with the weights of psgd's sums to 1e-6, and of two to the bit" {
    needs_mpi
    sums_by "$MPI"
}

# bats test_tags=check
@test "over a second MPI jobs end with those weights, too, and a mesh over each MPI fulfills its contract" {
    local second
    second=$(mpis | sed -n 2p)
    [ -n "$second" ] || skip "two MPIs are not installed, or psgd was built without one of them"
    each_way "$second"
    tree_over "$second"
    sums_by "$second"
    cd "$ROOT"
    PSGD_TEST_EACH_MPI=1 limited "$BUILD/tests/suite/test_mesh"
}

@test "a process that stops in an all-reduce of MPI is named after --round-timeout, and a launcher's SIGTERM ends one at once" {
    has_mpi openmpi || skip "Open MPI is not installed, or psgd was built without it"
    local mpirun
    mpirun=$("$ROOT/tests/lib/mpirun_of" openmpi)
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --epochs 100000 --record-every 100 --round-timeout 2 --transport mpi \
        --allreduce mpi
    with_open_mpi start_process 0 mpi.log "$mpirun" -n 2 "$BUILD/job_runner" --job job
    within 60 eval '"$SUBMIT" status job | grep -q "node(1): running, epoch"'
    kill -STOP "$(jq .pid job/node-1/node.json)"
    fails end_processes 1
    grep -q 'node 1 holds up the job: the sum of all workers in all-reduce .* has not arrived for 2 s' job/node-0/run/node.log
    with_open_mpi start_process 0 mpi.log "$mpirun" -n 2 "$BUILD/job_runner" --job job
    within 60 eval '"$SUBMIT" status job | grep -q "node(1): running, epoch"'
    kill_rank job TERM 0 1
    fails end_processes 1
    "$SUBMIT" collect -q job
    [ "$(jq -r .state job/results/run.json)" = cancelled ]
}

@test "a process of MPI that is killed ends the job at once, named, and the same command goes on" {
    has_mpi openmpi || skip "Open MPI is not installed, or psgd was built without it"
    gated fedavg 'c->run->node == 1'
    "$SUBMIT" pack -q -o job -n 2 --codec gated.c --model softmax --dataset "$FEW" --epochs 8 --checkpoint-every 2 --seed 3 --transport mpi \
        --round-timeout "$TEST_LIMIT"
    with_open_mpi start_process 0 mpi.log "$("$ROOT/tests/lib/mpirun_of" openmpi)" -n 2 "$BUILD/job_runner" --job job
    within 60 is_at_gate 1
    [ -e job/node-1/run/checkpoint.safetensors ]
    kill_rank job KILL 1
    fails end_processes 1
    grep -q 'the job has failed: node(1) on [^,]*, RunnerDied: its process on .* was killed' mpi.log
    open_gate
    by_mpi openmpi 2 "$BUILD/job_runner" --job job >mpi.log 2>&1
    grep -q 'attempt 2 goes on from step' mpi.log
    "$SUBMIT" collect -q job
    [ "$(jq -r '[.state, .attempt, .facts.attempts[0].reason] | join(" ")' job/results/run.json)" = "succeeded 2 RunnerDied" ]
}

# MPICH's mpirun kills the others at once.
@test "where an mpirun kills all processes with one, the results name that one or say that it is not known" {
    has_mpi mpich || skip "MPICH is not installed, or psgd was built without it"
    gated fedavg 'c->run->node == 1'
    "$SUBMIT" pack -q -o job -n 2 --codec gated.c --model softmax --dataset "$FEW" --epochs 8 --round-timeout "$TEST_LIMIT"
    start_process 0 mpi.log "$("$ROOT/tests/lib/mpirun_of" mpich)" -n 2 "$BUILD/job_runner" --job job
    within 60 is_at_gate 1
    kill_rank job KILL 1
    fails end_processes 1
    "$SUBMIT" collect -q job
    jq -e '.state == "failed" and .reason == "RunnerDied"' job/results/run.json
    jq -e '.cause_node == 1 or (.warnings | any(contains("which of them was the first is not known")))' job/results/run.json
}

@test "what MPI cannot do is refused, when a job is packed or started" {
    run "$SUBMIT" pack -o job -n 2 --codec fedavg --transport mpi --on-node-loss continue
    [ "$status" -eq 6 ]
    [[ "$output" == *"over mpi a job cannot continue without a lost node"* ]]
    run "$SUBMIT" pack -o job -n 2 --codec fedavg --transport mpi --data-tls on
    [ "$status" -eq 6 ]
    [[ "$output" == *"mpi does not encrypt"* ]]
    run "$SUBMIT" pack -o job -n 2 --codec fedavg --transport mpi --require-isolation process
    [ "$status" -eq 6 ]
    [[ "$output" == *"with --transport mpi nothing confines the codec"* ]]
    [ ! -e job ]
    "$SUBMIT" pack -q -o job -n 2 --codec fedavg --model softmax --transport mpi
    run limited "$BUILD/job_runner" --job job --rank 0
    [ "$status" -eq 6 ]
    [[ "$output" == *"no launcher of MPI has started this process as number 0"* ]]
    run "$SUBMIT" --codec fedavg --transport mpi
    [ "$status" -eq 2 ]
    [[ "$output" == *"--transport is for jobs without agents, and not for jobs on agents"* ]]
    run "$SUBMIT" --codec fedavg --servers 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"--servers is for jobs without agents"* ]]
}

@test "--allreduce mpi is refused where the transport is not MPI, or the job has no plain sum over all workers" {
    local options said
    while IFS='|' read -r options said; do
        # shellcheck disable=SC2086 # several words
        run "$SUBMIT" pack -o job -n 2 --allreduce mpi --codec $options
        [ "$status" -eq 6 ]
        [[ "$output" == *"$said"* ]] || { echo "$output"; false; }
        [ ! -e job ]
    done <<'EOF'
allreduce|--allreduce: mpi is the all-reduce of --transport mpi, and tcp has none
allreduce --transport mpi --on-node-loss continue|over mpi a job cannot continue without a lost node
allreduce --transport mpi --path tree|--path: tree sums inside each machine first
allreduce --transport mpi --path gather|--allreduce has no effect in this job
allreduce --transport mpi --compress fp16|--compress: with --allreduce mpi MPI sums floats
allreduce --transport mpi --aggregate median|path allreduce sums vectors on their way, and --aggregate compares them
allreduce --transport mpi --participate 0.5|path allreduce sums over all workers, and --participate draws some
plain --transport mpi --redundancy 2|path allreduce takes one gradient of each worker
ps --servers 1 --transport mpi|path allreduce is for workers only
gossip --transport mpi|--allreduce has no effect in this job: codec gossip sums no vectors over all workers
EOF
}

@test "psgd-run ends with the same weights under mpirun and by the variables of another launcher" {
    needs_mpirun
    local job=(--codec fedavg --model softmax --dataset "$FEW" --epochs 1)
    with_open_mpi limited mpirun -n 2 "$BUILD/psgd-run" -o mpi "${job[@]}" 3>&-
    launch 2 "$BUILD/psgd-run" -o other "${job[@]}"
    [ -n "$(digests mpi/results)" ]
    [ "$(digests mpi/results)" = "$(digests other/results)" ]
}

@test "docs/clusters.md: with mpirun" {
    needs_mpirun
    with_open_mpi follow mpirun
}

@test "docs/clusters.md: MPI as the transport" {
    needs_mpi
    with_open_mpi follow 'mpirun transport'
}
