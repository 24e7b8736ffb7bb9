#!/usr/bin/env bats
# What job_submit and its batch file do for what Slurm says, or where it says nothing: its programs are stand-ins here, that answer with
# the lines of a file, and note how they were called.
load lib

# make_slurm: sbatch, squeue, scancel, scontrol and srun. squeue fails without the file answers/squeue; srun ends as answers/srun says.
make_slurm() {
    local tool
    mkdir bin answers
    for tool in squeue scancel scontrol; do
        printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\ncat "%s/answers/%s"\n' $tool "$T" "$T" $tool >bin/$tool
    done
    printf '#!/bin/sh\necho 7\n' >bin/sbatch
    printf '#!/bin/sh\n. "%s/answers/srun"\n' "$T" >bin/srun
    chmod 755 bin/*
    touch answers/scancel answers/scontrol
    PATH=$T/bin:$PATH
}

# submit OPTION...: a job of one node in the folder job, of which Slurm has started nothing.
submit() {
    "$SUBMIT" --slurm "-N 1" --detach -q -o job --codec allreduce --model softmax --dataset "$FEW" "$@" >/dev/null
}

start_node() {
    "$TOOLS/limit" "$PROGRAM_LIMIT" "$BUILD/job_runner" --job job --rank 0 >job.log 2>&1 3>&- &
    NODE=$!
    HOLDERS+=("$NODE")
}

runs() { "$SUBMIT" status job | grep -q 'node(0): running, epoch'; }

@test "the batch file requeues a job after a failure, and not after an end that another attempt does not change" {
    make_slurm
    submit --epochs 1 --retries 2
    local status case end n again
    # The end of srun, how often the job was requeued, and whether it is to be again.
    for case in "0 0 no" "1 0 yes" "1 1 yes" "1 2 no" "2 0 no" "4 0 no" "5 0 yes" "6 0 no" "8 0 no" "137 0 yes" "253 1 yes"; do
        read -r end n again <<<"$case"
        echo "exit $end" >answers/srun
        rm -f calls
        status=0
        SLURM_JOB_ID=8 SLURM_RESTART_COUNT=$n job/slurm.sh >said 2>&1 || status=$?
        [ "$(cat job/slurm.json)" = '{"job":"8"}' ]
        if [ "$again" = yes ]; then
            grep -qx 'scontrol requeue 8' calls
        else
            [ "$status" -eq "$end" ]
            [ "$(grep -c requeue calls)" -eq 0 ]
        fi
    done
    [ -z "$(ls job/slurm.json.* 2>/dev/null)" ]
    # One that Slurm ends, as at its time limit, is requeued only after a preemption.
    echo 'kill -TERM $PPID; exit 143' >answers/srun
    rm calls
    status=0
    SLURM_JOB_ID=8 job/slurm.sh || status=$?
    [ "$status" -eq 143 ]
    [ "$(grep -c requeue calls)" -eq 0 ]
    echo '   PreemptTime=2026-01-01T00:00:00' >answers/scontrol
    SLURM_JOB_ID=8 job/slurm.sh
    grep -qx 'scontrol requeue 8' calls
}

@test "where Slurm cannot be asked, a job's nodes say how it has ended, and its folder cancels it" {
    make_slurm
    submit --epochs 100000 --record-every 100
    rm bin/squeue
    PATH=$T/bin run limited "$SUBMIT" cancel job
    [ "$status" -eq 6 ]
    [[ "$output" == *"no process of the job runs, so there is nothing to cancel"*"Slurm's queue is not known: Slurm's program squeue is not in PATH"* ]]
    start_node
    within 60 runs
    PATH=$T/bin run limited "$SUBMIT" cancel job
    [[ "$output" == *": cancelled"* ]]
    wait "$NODE" || true
    PATH=$T/bin run limited "$SUBMIT" wait job
    [ "$status" -eq 8 ]
    [ "$(jq -r .state job/results/run.json)" = cancelled ]
}

@test "a job that has run is not cancelled when its user does not wait for it any longer" {
    make_slurm
    submit --epochs 100000 --record-every 100 --checkpoint-steps 1000000
    echo 'PENDING Priority' >answers/squeue
    start_node
    within 60 runs
    kill -TERM "$(jq .process job/node-0/node.json)"
    wait "$NODE" || true
    # It was preempted, say, and waits to be run again.
    run limited "$SUBMIT" wait --timeout 1 job
    [ "$status" -eq 5 ]
    [[ "$output" == *"continues without this program"* ]]
    [ "$(grep -c scancel calls)" -eq 0 ]
    "$SUBMIT" status job | grep -qx "Slurm's job 7: PENDING (Priority)"
    run limited "$SUBMIT" resume job
    [ "$status" -eq 6 ]
    [[ "$output" == *"is Slurm's job 7, which is not over: PENDING"* ]]
    : >answers/squeue
    # It goes on from its checkpoint, also if an attempt has ended before it has written any.
    ln -sfn nothing job/node-0/run
    "$SUBMIT" resume job | grep -q 'is cancelled; it goes on from step [0-9]*, of the last checkpoints'
}

@test "a job that Slurm is about to run is cancelled in Slurm, and one that is over has nothing to cancel" {
    make_slurm
    submit --epochs 1
    echo 'RUNNING None' >answers/squeue
    "$SUBMIT" cancel job | grep -q ': cancelled'
    grep -qx 'scancel 7' calls
    rm calls
    echo 'FAILED NonZeroExitCode' >answers/squeue
    run limited "$SUBMIT" cancel job
    [ "$status" -eq 6 ]
    [[ "$output" == *"no process of the job runs, so there is nothing to cancel"* ]]
    [ "$(grep -c scancel calls)" -eq 0 ]
}

@test "of a job that Slurm will not start that is said again and again, and of a cancelled one that it is over" {
    make_slurm
    submit --epochs 100000 --record-every 100
    echo 'PENDING PartitionConfig' >answers/squeue
    "$SUBMIT" status job | grep -qx "Slurm's job 7: PENDING (PartitionConfig); it will not start unless its options, or the cluster, change"
    : >said
    "$SUBMIT" wait job >said 2>&1 3>&- &
    local waits=$!
    HOLDERS+=("$waits")
    said_twice() { [ "$(grep -c "PENDING (PartitionConfig), after .*: it will not start unless .* job_submit cancel $T/job takes it out" said)" -ge 2 ]; }
    within 60 said_twice
    kill -INT "$waits"
    wait "$waits" || true
    echo 'PENDING Resources' >answers/squeue
    "$SUBMIT" status job | grep -qx "Slurm's job 7: PENDING (Resources)"
    # The status of its processes is a failure to Slurm.
    echo 'RUNNING None' >answers/squeue
    start_node
    within 60 runs
    "$SUBMIT" cancel -q job
    exit_is 8 wait "$NODE"
    echo 'FAILED NonZeroExitCode' >answers/squeue
    run limited "$SUBMIT" wait job
    [ "$status" -eq 8 ]
    [[ "$output" == *"Slurm's job 7: over, as the job was cancelled, after "* ]]
    [[ "$output" != *NonZeroExitCode* ]]
}

@test "the batch file does not begin while another of Slurm's jobs runs its job, and cancel ends that one, too" {
    make_slurm
    submit --epochs 1
    printf '#!/bin/sh\n' >bin/sleep
    chmod 755 bin/sleep
    echo 'touch begun' >answers/srun
    echo RUNNING >answers/squeue
    status=0
    SLURM_JOB_ID=8 job/slurm.sh >said || status=$?
    [ "$status" -eq 4 ]
    [ "$(cat job/slurm.json)" = '{"job":"7"}' ]
    [ ! -e begun ]
    grep -q "Slurm's job 7 runs this job already; this is job 8" said
    printf '%s\n' "6|COMPLETED|/|$T/job/slurm.sh" "7|RUNNING|$T|job/slurm.sh" "8|RUNNING|$T|job/slurm.sh" "9|PENDING|/|$T/job/slurm.sh" \
        "10|RUNNING|/|$T/other" >answers/list
    printf '#!/bin/sh\ncase $* in *%%Z*) cat "%s/answers/list" ;; *) echo "RUNNING None" ;; esac\n' "$T" >bin/squeue
    rm calls
    "$SUBMIT" cancel job | grep -q ': cancelled'
    [ "$(sort calls | tr '\n' ' ')" = "scancel 7 scancel 8 scancel 9 " ]
}

@test "the batch file ends srun when no process of the job writes its state any more, and names who has not ended" {
    make_slurm
    submit --epochs 1 --on-node-loss continue
    mkdir job/node-0 job/node-1
    echo '{"host":"v0","state":"succeeded","written_s":1}' >job/node-0/node.json
    echo '{"host":"v1","state":"running","written_s":1}' >job/node-1/node.json
    # Time passes at once. No process is ended before one has written its state, or as long as one does.
    printf '#!/bin/sh\necho >>"%s/slept"\n' "$T" >bin/sleep
    chmod 755 bin/sleep
    cat >answers/srun <<'EOF'
exec >/dev/null 2>&1
passes() { until [ "$(wc -l <slept)" -gt "$1" ]; do /bin/sleep 0.01; done; }
passes 40
for i in 2 3 4; do
    echo "{\"host\":\"v1\",\"state\":\"running\",\"written_s\":$i}" >job/node-1/new
    mv job/node-1/new job/node-1/node.json
    passes $(($(wc -l <slept) + 10))
done
touch lived
exec /bin/sleep 1000
EOF
    : >slept
    status=0
    SLURM_JOB_ID=7 limited job/slurm.sh >said 2>&1 || status=$?
    cat said
    [ -e lived ]
    [ "$status" -eq 137 ]
    grep -qx 'No process has written its state for 300 s, so that srun is ended; without an end: node-1 on v1.' said
}
