#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # each test is a subshell
# Jobs whose processes an mpirun starts, and those whose nodes talk by its MPI.
load lib
load documents
load ranks

# equal_over MPI N S OPTION...: whether a job of N workers and S servers ends over MPI with the weights of TCP. One that cannot be packed
# must be refused over TCP, too, by the same sentence.
equal_over() {
    local mpi=$1 ranks=$(($2 + $3)) settings=(-n "$2" --servers "$3" --dataset "$FEW" --epochs 1 --seed 3 "${@:4}") code=0
    rm -rf tcp over
    "$SUBMIT" pack -q -o over "${settings[@]}" --transport mpi >over.log 2>&1 || code=$?
    if [ $code != 0 ]; then
        "$SUBMIT" pack -q -o tcp "${settings[@]}" >tcp.log 2>&1 && return 1
        echo "$* is refused: $(<over.log)"
        diff over.log tcp.log
        return
    fi
    grep -q 'nothing confines the codec' over.log
    "$SUBMIT" pack -q -o tcp "${settings[@]}"
    ranks tcp "$ranks"
    by_mpi "$mpi" "$ranks" "$BUILD/job_runner" --job over >"$mpi.log" 2>&1 || { cat "$mpi.log"; return 1; }
    "$SUBMIT" collect -q tcp
    "$SUBMIT" collect -q over
    echo "$*: $(digests over/results)"
    [ -n "$(digests over/results)" ]
    [ "$(digests over/results)" = "$(digests tcp/results)" ]
}

@test "over MPI a job ends with the weights of the same job over TCP, by collectives, with a server and by messages" {
    local mpi has=0
    for mpi in openmpi mpich; do
        has_mpi $mpi || continue
        has=1
        equal_over $mpi 2 0 --codec allreduce
        [ "$(jq -r '.nodes[0].isolation' over/results/run.json)" = none ]
        equal_over $mpi 2 0 --codec allreduce --local-path off
        equal_over $mpi 2 1 --codec ps
        equal_over $mpi 2 0 --codec fedavg:every=20 --path gather
    done
    [ $has = 1 ] || skip "neither Open MPI nor MPICH is installed, or psgd was built without them"
}

# Two machines, by the names of their processes. Within each the two workers share memory.
@test "over MPI with --path tree the workers of a machine share memory, and one of them sends to other machines" {
    local mpi has=0 job=(-n 4 --codec allreduce --model softmax --path tree --dataset "$FEW" --epochs 1 --seed 3) run rank
    "$SUBMIT" pack -q -o tcp "${job[@]}"
    for rank in 0 1 2 3; do start_rank tcp $rank --host 127.0.0.$((rank / 2 + 1)); done
    end_processes 4
    "$SUBMIT" collect -q tcp
    for mpi in openmpi mpich; do
        has_mpi $mpi || continue
        has=1
        rm -rf over
        "$SUBMIT" pack -q -o over "${job[@]}" --transport mpi
        run=("$BUILD/job_runner" --job over --host)
        by_mpi $mpi 2 "${run[@]}" 127.0.0.1 : -n 2 "${run[@]}" 127.0.0.2 >$mpi.log 2>&1 || { cat $mpi.log; false; }
        "$SUBMIT" collect -q over
        grep -q 'memory shared by the 2 workers on this machine, and connections between machines' over/node-3/run/node.log
        jq -e '[.nodes[1, 3].comm.peers[] | select(.sent_bytes > 0) | .peer] == [0, 2]' over/results/run.json
        [ "$(digests over/results)" = "$(digests tcp/results)" ]
    done
    [ $has = 1 ] || skip "neither Open MPI nor MPICH is installed, or psgd was built without them"
}

# Asynchronous rules depend on times: these must end well.
@test "over MPI every rule ends with the weights of TCP, with two and four workers, or is refused as over TCP" {
    is_long || skip "LONG=1 runs each rule over MPI"
    local mpi rule n has=0
    for mpi in openmpi mpich; do
        has_mpi $mpi || continue
        has=1
        for rule in "$BUILD"/codecs/*.so; do
            rule=$(basename "$rule" .so)
            for n in 2 4; do
                equal_over $mpi $n 0 --codec "$rule" --local-path off
                equal_over $mpi $n 1 --codec "$rule"
                rm -rf over
                "$SUBMIT" pack -q -o over -n $n --servers 1 --codec "$rule" --parallel_sgd asgd --dataset "$FEW" --epochs 1 --transport mpi || continue
                by_mpi $mpi $((n + 1)) "$BUILD/job_runner" --job over >$mpi.log 2>&1 || { cat $mpi.log; false; }
                "$SUBMIT" collect -q over
            done
        done
        if [ "$(nproc)" -lt 4 ]; then grep -q '4 workers share the' over/node-0/run/node.log; fi
    done
    [ $has = 1 ] || skip "neither Open MPI nor MPICH is installed, or psgd was built without them"
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
    local code=0
    end_processes 1 || code=$?
    [ "$code" -ne 0 ]
    grep -q 'the job has failed: node(1), RunnerDied: its process on .* was killed' mpi.log
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
    local code=0
    end_processes 1 || code=$?
    [ "$code" -ne 0 ]
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

@test "docs/clusters.md: with mpirun" {
    needs_mpirun
    with_open_mpi follow mpirun
}

@test "docs/clusters.md: MPI as the transport" {
    has_mpi openmpi || has_mpi mpich || skip "neither Open MPI nor MPICH is installed, or psgd was built without them"
    with_open_mpi follow 'mpirun transport'
}
