#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # each test is a subshell
# Jobs under Slurm: on four virtual hosts, between which messages go by TCP.
load lib
load documents
load slurm
load ranks

# One and the same job: by srun without PMI and with it, between hosts and on one.
@test "psgd-run ends with the same weights however srun starts it, and encrypts what leaves a host" {
    needs_slurm
    local job=(--codec fedavg --dataset "$FEW" --epochs 1 --batch_size 16 --local-path off)
    on_login srun --mpi=none -N 4 -n 4 psgd-run -o none "${job[@]}"
    on_login srun --mpi=pmi2 -N 4 -n 4 psgd-run -o pmi2 "${job[@]}"
    [ -n "$(digests none/results)" ]
    [ "$(digests none/results)" = "$(digests pmi2/results)" ]
    [ "$(jq '.nodes | length' none/results/run.json)" -eq 4 ]
    [ "$(grep -l 'TLS 1.3' none/node-*/run/node.log | wc -l)" -eq 4 ]
    [ -s none/results/report.html ]
    # On one host nothing is encrypted.
    on_login srun -N 1 -n 4 psgd-run -o one "${job[@]}"
    [ "$(digests one/results)" = "$(digests none/results)" ]
    run grep -l 'TLS 1.3' one/node-*/run/node.log
    [ "$status" -eq 1 ]
}

@test "srun starts nodes that talk by MPI, between hosts and on one" {
    needs_slurm
    [ -e "$BUILD/transports/mpich.so" ] || skip "psgd was built without MPICH"
    local job=(--codec allreduce --model softmax --dataset "$FEW" --epochs 1 --batch_size 16)
    on_login srun --mpi=none -N 2 -n 4 psgd-run -o tcp "${job[@]}"
    on_login srun --mpi=pmi2 -N 2 -n 4 psgd-run -o pmi2 "${job[@]}" --transport mpi
    [ -n "$(digests pmi2/results)" ]
    [ "$(digests pmi2/results)" = "$(digests tcp/results)" ]
    SLURM_MPI_TYPE=pmi2 on_login job_submit --slurm "-N 2" -q -o queued "${job[@]}" --transport mpi
    [ "$(jq -r .settings.transport queued/results/run.json)" = mpi ]
    [ "$(jq -r .state queued/results/run.json)" = succeeded ]
    run on_login srun --mpi=none -n 2 psgd-run -o none "${job[@]}" --transport mpi
    [[ "$output" == *"the job has --transport mpi, and no launcher of MPI has started this process as number 0"* ]]
    [ ! -e none ]
    run on_login job_submit --slurm "-N 2" -o none "${job[@]}" --transport mpi
    [[ "$output" == *"no launcher of MPI has started this process"*"SLURM_MPI_TYPE=pmi2 or pmix does the same."*"have not started the job"*"SLURM_MPI_TYPE=pmi2 sbatch "*"/none/slurm.sh submits it again"* ]]
}

# On one host: all hosts of the cluster have the same /tmp, where the plug-in of PMIx makes a folder for each.
@test "srun starts nodes that talk by Open MPI, by PMIx" {
    needs_slurm
    [ -e "$BUILD/transports/openmpi.so" ] || skip "psgd was built without Open MPI"
    on_login srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
    local job=(--codec allreduce --model softmax --dataset "$FEW" --epochs 1 --batch_size 16)
    on_login srun --mpi=pmix -N 1 -n 2 psgd-run -o pmix "${job[@]}" --transport mpi
    [ "$(jq -r .state pmix/results/run.json)" = succeeded ]
}

@test "16 ranks run on 4 hosts, and two jobs at once, each in the folder of its job" {
    needs_slurm
    on_login srun -N 4 -n 16 psgd-run --codec allreduce --model softmax --dataset "$FEW" --epochs 1 --batch_size 8 >16.log 2>&1 &
    local first=$!
    on_login srun -N 2 -n 2 psgd-run --codec fedavg --model softmax --dataset "$FEW" --epochs 1 >2.log 2>&1
    wait "$first"
    [ "$(jq -s 'map(.nodes | length) | sort | join(" ")' psgd-*/results/run.json)" = '"2 16"' ]
    [ "$(jq -r .state psgd-*/results/run.json | sort -u)" = succeeded ]
}

@test "psgd-run refuses on every rank what it cannot run, in a sentence" {
    needs_slurm
    run on_login srun -n 2 psgd-run --codec nosuch
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *'unknown codec "nosuch"'* ]]
    [[ "$output" == *'process 0 has refused the job: unknown codec "nosuch"'* ]]
    run on_login srun -n 2 psgd-run --node_count 3
    [[ "$output" == *"the job has 3 nodes, a process for each, and by SLURM_PROCID there are 2 processes"* ]]
    run limited "$BUILD/psgd-run" --rank 0 --size 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"a folder for the job is needed, -o DIR"* ]]
    # The same folder is the same job, with the same options.
    limited "$BUILD/psgd-run" --rank 0 --size 1 --model softmax --dataset "$FEW" --epochs 1 -o job
    mkdir elsewhere
    (cd elsewhere && PSGD_WORKERS=list limited "$BUILD/psgd-run" --rank 0 --size 1 --model softmax --dataset "$FEW" --epochs 1 -o ../job >../again 2>&1) || true
    grep -q 'the job has succeeded already, in attempt 1' again
    run limited "$BUILD/psgd-run" --rank 0 --size 1 --model softmax --dataset "$FEW" --epochs 2 -o job
    [ "$status" -eq 6 ]
    [[ "$output" == *"/job has a job with other options already: --epochs is 2, and was 1"*"name another folder, -o DIR."* ]]
    [[ "$output" != *--resume* ]]
}

# The second process has another secret, and all else of the folder.
@test "a process with another secret gets no connection between hosts" {
    needs_slurm
    "$SUBMIT" pack -q -o job-0 -n 2 --codec allreduce --model softmax --dataset "$FEW" --epochs 1
    mkdir -m 700 job-1
    ln -s "$T"/job-0/* job-1
    rm job-1/secret
    (umask 077 && tr 0-9a-f 1-9a-f0 <job-0/secret >job-1/secret)
    # shellcheck disable=SC2016 # expanded by the other shell
    run on_login srun -N 2 -n 2 sh -c 'exec job_runner --job job-$SLURM_PROCID --timeout 60'
    echo "$output"
    [ "$status" -ne 0 ]
    [[ "$output" == *"failed NodeLost: node "*"TLS handshake"* ]]
    "$SUBMIT" collect -q job-0
    [ "$(jq -r .state job-0/results/run.json)" = failed ]
}

@test "job_submit --slurm submits a job, waits for it and collects its results" {
    needs_slurm
    on_login job_submit --slurm "-N 4 -t 5" --codec fedavg --model softmax --dataset "$FEW" --epochs 1 -o job >out 2>err
    grep -q "is Slurm's job [0-9]*\." err
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' job/results/run.json)" = "succeeded 4" ]
    [ -s job/results/report.html ]
    # The batch file is the job's next attempt.
    run on_login sbatch --wait job/slurm.sh
    [ "$status" -eq 4 ]
    grep -q 'the job has succeeded already, in attempt 1' job/slurm.log
    # A second command follows a job that another has submitted.
    on_login job_submit --slurm "-N 2 -t 5" --detach -q --codec fedavg --model softmax --dataset "$FEW" --epochs 1 -o later
    on_login job_submit wait -q later
    [ "$(jq -r .state later/results/run.json)" = succeeded ]
}

# squeue_shows N: of as many jobs.
squeue_shows() { [ "$(on_login squeue -h -t "${2:-all}" | wc -l)" -eq "$1" ]; }

# bats test_tags=long
@test "the batch file of a job that runs is refused, and cancel ends both of Slurm's jobs" {
    needs_slurm
    on_login job_submit --slurm "-N 1 -n 1" --detach -q --codec fedavg --model softmax --dataset "$FEW" --local-steps 10 --max-steps 900000000 -o job
    within 60 grep -q '"state":"running"' job/node-0/node.json
    local first
    first=$(jq -r .job job/slurm.json)
    on_login sbatch job/slurm.sh
    within 60 grep -q "Slurm's job $first runs this job already; this is job " job/slurm.log
    [ "$(jq -r .job job/slurm.json)" = "$first" ]
    on_login sbatch job/slurm.sh
    within 60 squeue_shows 2 R
    [ "$(on_login job_submit cancel job | grep -c ': cancelled')" -eq 1 ]
    within 60 squeue_shows 0 PD,R,CG
    run on_login job_submit wait job
    [ "$status" -eq 8 ]
    [ "$(jq -r .attempt job/results/run.json)" -eq 1 ]
}

# bats test_tags=long
@test "a host that fails and is back at once holds no asynchronous job: its batch file names who has not ended, and ends it" {
    needs_slurm
    on_login job_submit --slurm "-N 4 --begin=now+1hour" --detach -q --servers 1 --codec ps --parallel_sgd asgd --model softmax --dataset "$FEW" \
        --epochs 100000 --record-every 1000 -o job
    on_login job_submit cancel -q job
    sed -i 's/ --begin=now+1hour//; s/-ge 300/-ge 20/' job/slurm.sh # seconds
    on_login sbatch job/slurm.sh
    within 60 grep -qs '"state":"running"' job/node-2/node.json
    local host
    host=$(jq -r .host job/node-2/node.json)
    "$CLUSTER" fail "$BATS_FILE_TMPDIR/cluster" "$host" 3>&-
    "$CLUSTER" repair "$BATS_FILE_TMPDIR/cluster" "$host" 3>&-
    within 60 grep -q "No process has written its state for 20 s, so that srun is ended; without an end: node-2 on $host\.$" job/slurm.log
    within 60 squeue_shows 0 PD,R,CG
    run on_login job_submit wait job
    [ "$status" -eq 1 ]
    [[ "$output" == *"failed: node(2) on $host, "* ]]
}

@test "a job that waits in Slurm's queue is cancelled there, and what Slurm refuses is said in its words" {
    needs_slurm
    local job=(--codec fedavg --model softmax --dataset "$FEW" --epochs 1)
    on_login job_submit --slurm "-N 2 --begin=now+1hour" --detach -q "${job[@]}" -o job
    [ "$(on_login job_submit cancel job | grep -c ': cancelled')" -eq 1 ]
    within 60 squeue_shows 0 PD,R,CG # the job of an earlier test may still be completing
    run on_login job_submit wait job
    [ "$status" -eq 1 ]
    [[ "$output" == *"is over (CANCELLED"*"its processes have not started the job"*"sbatch "*"/job/slurm.sh submits it again"* ]]
    # So is the next attempt, which a user has submitted by the command that resume says.
    "$SUBMIT" resume job | grep -q "^  sbatch $T/job/slurm.sh$"
    run on_login job_submit --slurm "-N 2" "${job[@]}" -o job
    [ "$status" -eq 6 ]
    [[ "$output" == *"/job has a job already"*"job_submit resume $T/job says how it goes on"* ]]
    on_login sh -c 'cd job && sbatch --begin=now+1hour slurm.sh'
    [ -n "$(on_login squeue -h)" ]
    [ "$(on_login job_submit cancel job | grep -c ': cancelled')" -eq 1 ]
    within 60 squeue_shows 0 PD,R,CG
    # Ctrl-C while it waits.
    # shellcheck disable=SC2016 # expanded by the other shell
    on_login sh -c 'echo $$ >pid && exec "$@"' sh job_submit --slurm "-N 2 --begin=now+1hour" "${job[@]}" -o waiting 2>err &
    local waits=$!
    within 60 grep -q 'PENDING (BeginTime)' err
    kill -INT "$(cat pid)"
    wait "$waits" || true
    grep -q 'had not begun, and is cancelled' err
    run on_login job_submit --slurm "-N 2 --partition nosuch" "${job[@]}" -o refused
    [ "$status" -eq 4 ]
    [[ "$output" == *"Slurm refuses the job: "*"nvalid partition"* ]]
    [ ! -e refused ]
    run on_login job_submit --slurm "-N 2 --nosuch" "${job[@]}" -o refused
    [[ "$output" == *"Slurm refuses the job: sbatch: unrecognized option '--nosuch'"* ]]
    run on_login job_submit --slurm "-N 2" --node_count 3 "${job[@]}" -o refused
    [[ "$output" == *"--slurm asks for 2 processes, and the job has 3 nodes"* ]]
    run on_login job_submit --slurm "-N 2" --no-queue "${job[@]}" -o refused
    [ "$status" -eq 2 ]
    [[ "$output" == *"--no-queue is for jobs on agents, and not for --slurm: sbatch --immediate is for that"* ]]
}

@test "without Slurm's programs --slurm says so" {
    mkdir bin
    ln -s "$(command -v env)" bin
    PATH=$T/bin run "$BUILD/job_submit" --slurm "-N 2" --model softmax --dataset "$FEW" -o job
    [ "$status" -eq 6 ]
    [[ "$output" == *"Slurm's program sbatch is not in PATH on this machine"* ]]
    [ ! -e job ]
}

# bats test_tags=long
@test "a training script of torch ends with the same weights under srun as on agents" {
    local n settings
    needs_slurm
    with_python torch
    export PSGD_JOB_SUBMIT=$BUILD/job_submit OMP_NUM_THREADS=1
    blocks 'python torch' docs/trainer.md >train.py
    start_agents 4
    for settings in "--codec diloco:every=20 --epochs 1" "--codec allreduce --epochs 1"; do
        for n in 2 4; do
            rm -rf agents srun
            # shellcheck disable=SC2086 # split into words
            "$SUBMIT" -q -n "$n" $settings --trainer train.py -o agents
            PSGD_JOB=srun PSGD_OPTIONS=$settings on_login srun -N 2 -n "$n" python3 train.py
            near_weights agents srun/results
        done
    done
}

# tests/soak/slurm repeats this, and has more ways to end a job.
# bats test_tags=long
@test "a job that scancel or a preemption ends goes on from its checkpoint, to the weights of one that was not ended" {
    needs_slurm
    ENOUGH=20 BUILD=$BUILD by_progress "$ROOT/tests/soak/slurm" 1 scancel preempt
    [ "$status" -eq 0 ]
    [[ "$output" == *"scancel: 1 jobs went on"*"preempt: 1 jobs went on"* ]]
}

@test "docs/clusters.md: with Slurm" {
    needs_slurm
    follow srun "$CLUSTER" in "$BATS_FILE_TMPDIR/cluster"
    rm -rf job
    blocks "sh slurm" docs/clusters.md | sed 's/ --epochs 20 / --epochs 1 /' >commands.sh
    on_login bash -e commands.sh
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' job/results/run.json)" = "succeeded 4" ]
    blocks "sh batch" docs/clusters.md | sed 's/ --epochs 20 / --epochs 1 /' >batch.sh
    on_login sbatch --wait batch.sh
    [ "$(jq -r .state psgd-*/results/run.json)" = succeeded ]
}

# in_text WORDS: the command that begins so in a line of docs/clusters.md.
in_text() { grep -o "\`$1[^\`]*\`" "$ROOT/docs/clusters.md" | tr -d '`'; }

@test "docs/clusters.md: with Slurm, from a folder that pack has written, and on another number of workers" {
    needs_slurm
    local command
    "$SUBMIT" pack -q -o DIR -n 2 --codec fedavg --model softmax --dataset "$FEW" --max-steps 25 --checkpoint-steps 10
    command=$(in_text 'srun -n 2 job_runner --job DIR')
    on_login sh -ec "$command"
    mkdir job
    "$SUBMIT" collect -q DIR -o job/results
    command=$(in_text 'srun -n 3 psgd-run --resume job/results')
    on_login sh -ec "$command"
    [ "$(jq -r '[.state, (.nodes | length), .facts.start.step] | join(" ")' job2/results/run.json)" = "succeeded 3 12" ]
}

@test "docs/trainer.md: under srun, on two hosts with the weights of processes on one" {
    needs_slurm
    with_python numpy
    export PYTHONPATH=$ROOT/python PSGD_JOB_SUBMIT=$BUILD/job_submit OMP_NUM_THREADS=1
    blocks python docs/trainer.md >linear.py
    blocks 'sh srun-train' docs/trainer.md | sed 's/srun -n 2/srun -N 2 -n 2/' >commands.sh
    grep -q 'srun -N 2 -n 2 python3 linear.py' commands.sh
    on_login bash -e commands.sh
    PSGD_JOB=here PSGD_OPTIONS="--codec allreduce --epochs 2" launch 2 python3 linear.py
    [ -n "$(digests here/results)" ]
    [ "$(digests psgd-*/results)" = "$(digests here/results)" ]
}
