#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # each test is a subshell
# Jobs without agents: job_submit pack, job_runner --job DIR as the processes of a launcher, job_submit collect.
load lib
load documents
load namespaces
load ranks

# A rule between workers, and one with servers.
@test "a job folder ends with the weights and records of the same job on agents" {
    start_agents 4
    local rule servers
    for rule in "fedavg 0" "ps 2"; do
        read -r rule servers <<<"$rule"
        rm -rf job on-agents
        "$SUBMIT" pack -q -o job -n 2 --servers "$servers" --codec "$rule" --dataset "$FEW" --epochs 2 --seed 3 --trace "$rule.json"
        ranks job $((2 + servers))
        (cd job && "$SUBMIT" collect -q .)
        [ "$(jq '[.traceEvents[] | select(.name == "process_name")] | length' "$rule.json")" -eq $((2 + servers)) ]
        write_workers 2 "$servers"
        "$SUBMIT" -q -n 2 --codec "$rule" --dataset "$FEW" --epochs 2 --seed 3 -o on-agents
        [ -n "$(digests job/results)" ]
        [ "$(digests job/results)" = "$(digests on-agents)" ]
        diff <(rows_of job/results) <(rows_of on-agents)
        [ "$(jq -r .is_complete job/results/run.json)" = true ]
        [ -s job/results/report.html ]
    done
    run "$SUBMIT" pack -o none -n 2 --servers 1 --codec allreduce --dataset "$FEW"
    [ "$status" -eq 2 ]
    [[ "$output" == "error: --servers 1: codec allreduce cannot use them"* ]]
}

@test "a process that is killed ends the job at once, named, and the same command goes on from the last checkpoint" {
    gated fedavg 'c->run->node == 1'
    local settings=(-n 2 --codec gated.c --model softmax --dataset "$FEW" --epochs 8 --checkpoint-every 2 --seed 3 --record-every 10
        --round-timeout "$TEST_LIMIT")
    "$SUBMIT" pack -q -o job "${settings[@]}"
    start_rank job 0
    start_rank job 1
    within 60 is_at_gate 1
    [ -e job/node-1/run/checkpoint.safetensors ]
    kill_rank job KILL 1
    exit_is 1 end_processes 2
    grep -q 'the job has failed: node(1) on [^,]*, RunnerDied: its process on .* was killed' job.log.0
    "$SUBMIT" collect -q job
    [ "$(jq -r '[.state, .cause_node, .reason] | join(" ")' job/results/run.json)" = "failed 1 RunnerDied" ]
    "$SUBMIT" resume job >said
    grep -q 'is failed; it goes on from step [0-9]*, of the last checkpoints' said
    # The next attempt is killed as well, all of it.
    start_rank job 0
    start_rank job 1
    within 60 grep -q 'attempt 2 goes on from step' job.log.1
    within 60 is_at_gate 1
    kill_rank job KILL 0 1
    end_processes 2 || true
    grep -q "mpirun -n 2 $BUILD/job_runner --job $PWD/job" said
    local from
    from=$(grep -o 'goes on from step [0-9]*' said)
    grep -q "attempt 2 $from\$" job.log.1
    open_gate
    # On another number of workers it goes on in another folder.
    run limited "$BUILD/job_runner" --job job --rank 0 --size 3
    [[ "$output" == *"another number of workers needs a job folder of its own: job_submit resume $PWD/job."* ]]
    run "$SUBMIT" pack --resume job -n 3 -o other
    [[ "$output" == *"job is a job folder: job_submit collect job makes its results, and --resume job/results goes on from them."* ]]
    sed -n '/--slurm/d; s/ N -o DIR$/ 3 -o other/; s/^  job_submit/&/p' said | PATH=$BUILD:$PATH bash -e
    ranks other 3
    "$SUBMIT" collect -q other
    [ "$(jq -c '[.state, .facts.start.earlier.node_count]' other/results/run.json)" = '["succeeded",2]' ]
    ranks job 2
    grep -q 'attempt 3 goes on from step' job.log.0
    run "$SUBMIT" resume job
    [ "$status" -eq 6 ]
    [[ "$output" == *"has succeeded: nothing is left to do"*"pack --resume $PWD/job/results"* ]]
    grep -q 'the job has succeeded' job.log.0
    # Two commands make the results one after the other: both would move those of the earlier attempts aside.
    exec {held}>job/collect.lock
    flock "$held"
    "$SUBMIT" collect job >collect.log 2>&1 {held}>&- &
    within 60 grep -q 'Waiting for another command, which makes the results of' collect.log
    exec {held}>&-
    "$SUBMIT" collect -q job
    wait "$!"
    [ "$(jq -r '[.state, .attempt, .facts.attempts[0].reason] | join(" ")' job/results/run.json)" = "succeeded 3 RunnerDied" ]
    "$SUBMIT" status job >said
    [ "$(grep -cE "^ +[01]  worker .*  $(hostname)\$" said)" -eq 2 ]
    grep -qx 'Sent, received and time are those of attempt 3, without the earlier ones.' said
    [ -s job/results/attempts/1/run.json ]
    # As a job that was not interrupted, with a row for each tenth step of each worker.
    "$SUBMIT" pack -q -o whole "${settings[@]}"
    ranks whole 2
    "$SUBMIT" collect -q whole
    [ "$(digests job/results)" = "$(digests whole/results)" ]
    diff <(rows_of job/results) <(rows_of whole/results)
    # And not once more.
    exit_is 4 ranks job 2
    grep -q 'the job has succeeded already, in attempt 3' job.log.0
    grep -q 'the job has succeeded already, in attempt 3' job.log.1
    [ "$("$SUBMIT" status --json job | jq -r .data.state)" = succeeded ]
}

# resumes OPTION...: a job of 40 steps from its checkpoint after 35 ends with the weights that it had.
resumes() {
    rm -rf first second
    "$SUBMIT" pack -q -o first -n 2 "$@" --max-steps 40 --checkpoint-steps 7
    ranks first "$(jq '.nodes | length' first/job.json)"
    "$SUBMIT" collect -q first
    "$SUBMIT" pack -q -o second --resume first/results
    ranks second "$(jq '.nodes | length' second/job.json)"
    "$SUBMIT" collect -q second
    [ -n "$(digests first/results)" ]
    [ "$(digests second/results)" = "$(digests first/results)" ]
    [ "$(jq .facts.start.step second/results/run.json)" -eq 35 ]
}

# Of a rule between workers with local steps, and one with servers.
@test "a job resumes from a checkpoint within an epoch, with the weights of one that was not interrupted" {
    resumes --codec fedavg --local-steps 2 --model softmax --dataset "$FEW"
    resumes --codec ps --servers 1 --model softmax --dataset "$FEW"
}

@test "a job of a training program resumes from a checkpoint within an epoch, with the same weights" {
    with_python numpy
    resumes --codec allreduce --trainer "$ROOT/examples/trainers/numpy_mlp.py"
}

# is_stopping DIR N: all of its N nodes know that they are to end.
is_stopping() { [ "$(jq -r .state "$1"/*/node.json | grep -cx stopping)" -eq "$2" ]; }

# loses_no_step RULE OPTION...: a job that gets SIGTERM in the midst of an epoch, while node 1 waits at its gate. The first checkpoint of
# its own is after its end.
loses_no_step() {
    gated "$1" 'c->run->node == 1'
    local job=(-n 2 --codec gated.c "${@:2}" --seed 3 --max-steps 200 --checkpoint-steps 1000000 --round-timeout "$TEST_LIMIT") n k
    "$SUBMIT" pack -q -o job "${job[@]}"
    n=$(jq '.nodes | length' job/job.json)
    for ((k = 0; k < n; k++)); do start_rank job "$k"; done
    within 60 is_at_gate 1
    kill "${PROCESSES[@]:0:n}"
    within 60 is_stopping job "$n"
    open_gate
    exit_is 8 end_processes "$n"
    grep -q 'asked to stop; .* checkpoint after step' job/node-0/run/node.log
    ranks job "$n"
    grep -q 'attempt 2 goes on from step' job.log.0
    "$SUBMIT" collect -q job
    "$SUBMIT" pack -q -o whole "${job[@]}"
    ranks whole "$n"
    "$SUBMIT" collect -q whole
    [ -n "$(digests job/results)" ]
    [ "$(digests job/results)" = "$(digests whole/results)" ]
    diff <(rows_of job/results) <(rows_of whole/results)
}

@test "SIGTERM in the midst of an epoch loses no step: the nodes write a checkpoint first, and the same command goes on from it" {
    loses_no_step fedavg --local-steps 4 --model softmax --dataset "$FEW" --epochs 100
}

# bats test_tags=long
@test "nor does SIGTERM of a job with servers" {
    loses_no_step ps --servers 2 --model softmax --dataset "$FEW" --epochs 100
}

# bats test_tags=long
@test "nor does SIGTERM of a job of a training program" {
    with_python numpy
    loses_no_step allreduce --trainer "$ROOT/examples/trainers/numpy_mlp.py"
}

# bats test_tags=long
@test "a round that takes longer than a node waits after SIGTERM is warned of" {
    gated fedavg 'c->run->node == 0'
    "$SUBMIT" pack -q -o job -n 1 --codec gated.c --local-steps 30 --model softmax --dataset "$FEW" --max-steps 90 --checkpoint-steps 30
    start_rank job 0
    within 60 is_at_gate 0
    sleep 21 # NODE_SAVE_S, and some
    open_gate
    end_processes 1
    [ "$(grep -c 'WARN: node 0: a round takes more than 20 s, .* --local-steps N makes rounds shorter' job/node-0/run/node.log)" -eq 1 ]
}

# Between workers, and asynchronous with a server.
@test "a checkpoint is written on demand, by job_submit and by SIGUSR1, and the job goes on" {
    local rule n written
    for rule in "allreduce --servers 0" "ps --parallel_sgd asgd --servers 1"; do
        rm -rf job
        paced "${rule%% *}"
        # shellcheck disable=SC2086 # split into words
        "$SUBMIT" pack -q -o job -n 2 --codec gated.c ${rule#* } --model softmax --dataset "$FEW" --epochs 1000000 --checkpoint-steps 1000000000
        n=$(jq '.nodes | length' job/job.json)
        run "$SUBMIT" checkpoint job
        [ "$status" -eq 6 ]
        [[ "$output" == *"is pending: only a running one writes a checkpoint"* ]]
        for ((k = 0; k < n; k++)); do start_rank job "$k"; done
        within 60 eval '"$SUBMIT" status job | grep -q "node(1): running, epoch"'
        [ ! -e job/node-0/run/checkpoint.safetensors ]
        "$SUBMIT" checkpoint job | grep -q "each of the $n nodes has written a checkpoint"
        "$SUBMIT" status job | grep -q ': running'
        written=$(stat -Lc %i-%y job/node-0/run/checkpoint.safetensors)
        kill_rank job USR1 1
        within 60 eval '[ "$(stat -Lc %i-%y job/node-0/run/checkpoint.safetensors)" != "$written" ]'
        "$SUBMIT" cancel -q job
        end_processes "$n" || true
        start_rank job 0
        for ((k = 1; k < n; k++)); do start_rank job "$k"; done
        within 60 grep -q 'attempt 2 goes on from step' job.log.0
        "$SUBMIT" cancel -q job
        end_processes "$n" || true
    done
    "$SUBMIT" pack -q -o none -n 2 --codec allreduce --model softmax --epochs 1
    run "$SUBMIT" checkpoint none
    [ "$status" -eq 6 ]
    [[ "$output" == *"was packed without checkpoints"*"--checkpoint-steps N"* ]]
}

@test "status, logs, wait and cancel work on a job folder, and a launcher's SIGTERM keeps the records" {
    paced allreduce
    "$SUBMIT" pack -q -o job -n 2 --codec gated.c --model softmax --dataset "$FEW" --epochs 1000000
    "$SUBMIT" status job | grep -q ': pending'
    run "$SUBMIT" wait job --timeout 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"No process of this job has been started. next: mpirun -n 2 job_runner --job "*"No process of job"*"job_submit wait /"* ]]
    run "$SUBMIT" cancel job
    [ "$status" -ne 0 ]
    [[ "$output" == *"no process of the job runs, so there is nothing to cancel"* ]]
    start_rank job 0
    start_rank job 1
    within 60 eval '"$SUBMIT" status job | grep -q "node(1): running, epoch"'
    "$SUBMIT" logs job --node 1 | grep -q '^worker-1 | .*ready: codec gated'
    "$SUBMIT" wait -q job >waited 2>&1 3>&- &
    local waits=$!
    HOLDERS+=("$waits")
    "$SUBMIT" cancel job --reason 'enough seen' | grep -q ': cancelled'
    exit_is 8 end_processes 2
    exit_is 8 wait "$waits"
    [ "$(jq -r .state job/results/run.json)" = cancelled ]
    [ "$(wc -l <job/results/records/train.csv)" -gt 1 ]
    # The same command is the next attempt; a signal ends it, as a launcher sends it to all processes.
    start_rank job 0
    start_rank job 1
    within 60 eval '"$SUBMIT" status job | grep -q "node(1): running, epoch"'
    kill_rank job TERM 0 1
    exit_is 8 end_processes 2
    grep -q 'UserCancelled: Terminated, by the launcher or a user' job.log.0
    "$SUBMIT" collect -q job
    [ "$(wc -l <job/results/records/train.csv)" -gt 1 ]
}

# Each with the variables of another launcher.
@test "a process finds its number in its launcher's variables, and is refused without a clear one" {
    "$SUBMIT" pack -q -o job -n 2 --servers 1 --codec ps --model softmax --dataset "$FEW" --epochs 1
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=1 SLURM_PROCID=0 start_process 1 1.log "$BUILD/job_runner" --job job
    SLURM_PROCID=2 SLURM_NTASKS=3 start_process 2 2.log "$BUILD/job_runner" --job job
    RANK=0 WORLD_SIZE=3 start_process 0 0.log "$BUILD/job_runner" --job job
    end_processes 3
    grep -q 'ps-0 .*: all its workers have finished' 2.log

    run limited "$BUILD/job_runner" --job job
    [ "$status" -eq 6 ]
    [[ "$output" == *"--rank is not given, and no launcher has set one of the variables OMPI_COMM_WORLD_RANK,"* ]]
    RANK=0 PMI_RANK=1 run limited "$BUILD/job_runner" --job job
    [ "$status" -eq 6 ]
    [[ "$output" == *"PMI_RANK is 1, and RANK is 0"* ]]
    RANK=0 WORLD_SIZE=2 run limited "$BUILD/job_runner" --job job
    [ "$status" -eq 6 ]
    [[ "$output" == *"the job has 3 nodes, a process for each, and by RANK there are 2 processes"*"mpirun -n 3"* ]]
    run limited "$BUILD/job_runner" --job . --rank 0
    [ "$status" -eq 6 ]
    [[ "$output" == *"is no job folder"*"job_submit pack"* ]]
    run "$SUBMIT" collect "$PWD"
    [[ "$output" == *"is no job folder"*"job_submit pack"* ]]
}

@test "a process that waits in vain says for whom, and two processes cannot run one node" {
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    run limited "$BUILD/job_runner" --job job --rank 0 --timeout 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"process 1 (node 1) did not come within 1 s"* ]]
    run limited "$BUILD/job_runner" --job job --rank 1 --timeout 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"process 0 (node 0) did not come within 1 s"* ]]
    start_rank job 1
    within 60 grep -q "process ${PROCESSES[1]} on" job/node-1/lock
    run limited "$BUILD/job_runner" --job job --rank 1
    [ "$status" -eq 4 ]
    [[ "$output" == *"another process runs node-1 of this job: process "*" on "* ]]
    start_rank job 0
    end_processes 2
    # A node that fails before the start is named to the others.
    "$SUBMIT" pack -q -o bad -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    chmod 600 bad/packages/*
    for file in bad/packages/*; do echo >>"$file"; done
    fails ranks bad 2 --timeout 20
    grep -q 'is damaged: its SHA-256 is not its name' bad.log.1
}

# Of a launch that torchrun calls $1, process $2 of 2, with the log $1.log.$2.
start_named() {
    TORCHELASTIC_RUN_ID=$1 RANK=$2 WORLD_SIZE=2 start_process "$2" "$1.log.$2" "$BUILD/job_runner" --job job
    STARTED=${PROCESSES[$2]}
}

@test "of two launches in one folder the second is refused by the name of the first, and takes no node from it" {
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    local first other
    # A process of the second launch comes before process 0 of the first, and leaves its node to the first.
    start_named b 1
    other=$STARTED
    within 60 grep -q ', of launch b' job/node-1/lock
    start_named a 0
    first=$STARTED
    start_named a 1
    exit_is 4 wait "$other"
    grep -q 'launch a.0 runs this job already, with process 0 on .*; this is launch b.0' b.log.1
    wait "$first"
    # The second launch comes while process 0 of the first waits.
    rm -rf job
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    start_named a 0
    first=$STARTED
    within 60 grep -q 'of launch a' job/node-0/lock
    within 60 test -e job/meet/offer.json
    start_named b 1
    other=$STARTED
    start_named b 0
    exit_is 4 wait "$STARTED"
    grep -q 'another process runs node-0 of this job: process .* on .*, of launch a.0' b.log.0
    exit_is 4 wait "$other"
    grep -q 'launch a.0 runs this job already' b.log.1
    start_named a 1
    wait "$first"
    # A launch after it is refused because the job has succeeded: the offer that it finds is of no process.
    start_named c 1
    start_named c 0
    exit_is 4 wait "$STARTED"
    grep -q 'the job has succeeded already' c.log.0
}

@test "a process that is killed while others are waited for is named, or replaced by another one" {
    "$SUBMIT" pack -q -o job -n 3 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    local again old
    for again in no yes; do
        rm -f job/meet/*
        start_rank job 1
        start_rank job 0
        within 60 test -e job/meet/hello-1.json
        kill -KILL "$(sed -n 's/process \([0-9]*\) on .*/\1/p' job/node-1/lock)"
        wait "${PROCESSES[1]}" || true
        if [ "$again" = yes ]; then
            old=$(jq .nonce job/meet/hello-1.json)
            start_rank job 1
            within 60 eval '[ "$(jq .nonce job/meet/hello-1.json)" != "$old" ]'
        fi
        start_rank job 2
        if [ "$again" = no ]; then
            exit_is 1 end_processes 3
            grep -q 'process 1 (node 1) on .* was killed before the start' job.log.0
            grep -q 'process 1 (node 1) on .* was killed before the start' job.log.2
        else
            end_processes 3
        fi
    done
}

@test "nodes whose names have an IPv6 address only reach each other" {
    [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 || skip "this machine has no IPv6 on loopback"
    make_names '::1 node-a node-b'
    local rank names=(node-a node-b)
    "$SUBMIT" pack -q -o job -n 2 --codec fedavg --model softmax --dataset "$FEW" --epochs 1
    for rank in 1 0; do
        start_process "$rank" "job.log.$rank" "${NAMED[@]}" "$BUILD/job_runner" --job job --rank "$rank" --host "${names[rank]}"
    done
    end_processes 2
}

@test "only the user who has packed a job can run it, and text that is no text is refused" {
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    chmod 644 job/secret
    run limited "$BUILD/job_runner" --job job --rank 0
    [ "$status" -eq 6 ]
    [[ "$output" == *"job/secret can be read by others"* ]]
    [ ! -e job/node-0 ]
    chmod 600 job/secret
    run limited "$BUILD/job_runner" --job job --rank 0 --host $'\xff'
    [ "$status" -eq 2 ]
    [[ "$output" == *"--host: the text is no name and no address"* ]]
}

@test "a training program runs from a job folder as on agents" {
    with_python numpy
    start_agents 2
    local program=("--trainer" "$ROOT/examples/trainers/numpy_mlp.py")
    "$SUBMIT" pack -q -o job -n 2 --codec fedavg --max-steps 40 "${program[@]}"
    ranks job 2
    "$SUBMIT" collect -q job
    "$SUBMIT" -q -n 2 --codec fedavg --max-steps 40 "${program[@]}" -o on-agents
    [ -n "$(digests job/results)" ]
    [ "$(digests job/results)" = "$(digests on-agents)" ]
}

@test "docs/clusters.md: on one machine" { follow laptop; }

# The other machine is this one.
@test "docs/clusters.md: on two machines" {
    mkdir bin
    printf '#!/bin/sh\nshift\nexec "$@"\n' >bin/ssh
    chmod +x bin/ssh
    blocks 'sh ssh' docs/clusters.md | sed "s|/shared|$T|g; s|fedavg|& --epochs 1|" >commands.sh
    grep -q "^ssh b job_runner --job $T/job --rank 1 & " commands.sh
    PATH=$T/bin:$BUILD:$PATH limited bash -e commands.sh
    "$SUBMIT" collect -q job
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' job/results/run.json)" = "succeeded 2" ]
}

@test "docs/clusters.md: with torchrun" {
    make_torchrun
    "$SUBMIT" pack -q -o job -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    blocks 'sh torchrun' docs/clusters.md >commands.sh
    grep -q '^torchrun --no_python .*job_runner --job job$' commands.sh
    PATH=$PATH:$BUILD limited bash -e commands.sh
    "$SUBMIT" collect -q job
    [ "$(jq -r .state job/results/run.json)" = succeeded ]
}

@test "pack --kubernetes writes an Indexed Job and a headless Service that the schema of Kubernetes accepts" {
    python3 -c 'import jsonschema' 2>/dev/null || skip "python3-jsonschema is not installed"
    local options=(-q -n 2 --servers 1 --codec ps --model softmax --dataset "$FEW" --epochs 1 --kubernetes registry.example/psgd:1)
    "$SUBMIT" pack -o job --volume jobs "${options[@]}"
    "$SUBMIT" pack -o all --volume jobs.of/u/all --namespace ml --memory 4 --threads 2 "${options[@]}"
    "$SUBMIT" pack -o hosts --volume /shared/hosts "${options[@]}"
    python3 - "$ROOT/tests/lib/kubernetes.schema.json" {job,all,hosts}/kubernetes.json <<'EOF'
import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
for path in sys.argv[2:]:
    jsonschema.Draft7Validator(schema).validate(json.load(open(path)))
EOF
    local indexed='.items[1].spec' pod='.items[1].spec.template.spec'
    [ "$(jq -c "$indexed | [.completionMode, .completions, .parallelism]" job/kubernetes.json)" = '["Indexed",3,3]' ]
    [ "$(jq -r "$pod.containers[0].volumeMounts[0].subPath" job/kubernetes.json)" = job ]
    [ "$(jq -r "$pod.containers[0].volumeMounts[0].subPath" all/kubernetes.json)" = u/all ]
    [ "$(jq -r "$pod.volumes[0].persistentVolumeClaim.claimName" all/kubernetes.json)" = jobs.of ]
    [ "$(jq -c "$pod.containers[0].resources.requests" all/kubernetes.json)" = '{"cpu":"2","memory":"4Gi"}' ]
    [ "$(jq -r "$pod.volumes[0].hostPath.path" hosts/kubernetes.json)" = /shared/hosts ]
    # The Service selects the pods, and gives them the names by which they are found.
    [ "$(jq '.items[0].spec.selector as $s | .items[1].spec.template.metadata.labels | contains($s)' job/kubernetes.json)" = true ]
    [ "$(jq "$pod.subdomain == .items[0].metadata.name" job/kubernetes.json)" = true ]
    local id
    id=$(jq -r .record.id job/job.json)
    [ "$(jq -r "$pod.containers[0].args[3]" job/kubernetes.json)" = "psgd-$id-\$(JOB_COMPLETION_INDEX).psgd-$id" ]
    # What is wrong is refused before the job is packed.
    local wrong
    for wrong in "--kubernetes image" "--volume jobs" "--kubernetes image --volume Jobs" "--kubernetes image --volume jobs/../x" \
        "--kubernetes image --volume jobs --namespace a.b" "--kubernetes image --volume jobs --transport mpi"; do
        # shellcheck disable=SC2086 # several words
        run "$SUBMIT" pack -o wrong -n 2 --codec allreduce $wrong
        [ "$status" -eq 2 ]
        [ ! -e wrong ]
    done
    run "$SUBMIT" pack -o wrong --kubernetes --volume jobs
    [[ "$output" == *"--kubernetes needs a value, IMAGE, before --volume"* ]]
    run "$BUILD/psgd-run" --rank 0 --size 1 -o wrong --timeout 4
    [[ "$output" == *"--timeout is for other verbs"*"job_runner --job DIR --timeout"* ]]
    run "$BUILD/psgd-run" --rank 0 --size 1 -o wrong --memory 4
    [ "$status" -eq 2 ]
    [[ "$output" == *"--memory is an option of a job on Kubernetes"* ]]
}

# A kubectl that runs the pods' command here: without the names of the Service, and with the folder in the place of the volume.
@test "docs/clusters.md: with Kubernetes" {
    mkdir bin
    cat >bin/kubectl <<'EOF'
#!/bin/bash
set -eu
[ "$1 $2" = "apply -f" ]
folder=$(dirname "$3")
mapfile -t args < <(jq -r '.items[1].spec.template.spec.containers[0].args[]' "$3")
[ "${args[0]} ${args[1]} ${args[2]}" = "--job /job --host" ]
for ((i = 0; i < $(jq '.items[1].spec.completions' "$3"); i++)); do
    JOB_COMPLETION_INDEX=$i job_runner --job "$folder" --host 127.0.0.1 >"$folder.log.$i" 2>&1 &
done
EOF
    chmod 755 bin/kubectl
    PATH=$PWD/bin:$PATH follow kubernetes
}
