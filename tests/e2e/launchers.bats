#!/usr/bin/env bats
# Training programs of users' under launchers: they start psgd's processes of their nodes beside themselves.
load lib
load documents
load ranks

# Of the programs that a test starts, once they are set.
export PSGD_JOB PSGD_OPTIONS
export PYTHONPATH=$ROOT/python PSGD_JOB_SUBMIT=$BUILD/job_submit OMP_NUM_THREADS=1

@test "programs that a launcher has started end with the weights and records of the same job on agents" {
    local program=$ROOT/examples/trainers/numpy_mlp.py settings others=()
    with_python numpy
    start_agents 2
    is_long && others=("--codec allreduce --max-steps 40")
    for settings in "--codec fedavg --local-steps 10 --max-steps 40" "${others[@]}"; do
        rm -rf job on-agents
        PSGD_JOB=job PSGD_OPTIONS=$settings launch 2 python3 "$program" --units 16
        # shellcheck disable=SC2086
        "$SUBMIT" -q -n 2 $settings --trainer "$program" -o on-agents -- --units 16
        [ -n "$(digests job/results)" ]
        [ "$(digests job/results)" = "$(digests on-agents)" ]
        diff <(rows_of job/results) <(rows_of on-agents)
        [ "$(jq -r '[.is_complete, .facts.trainer.main] | join(" ")' job/results/run.json)" = "true numpy_mlp.py" ]
    done
}

@test "a program that fails or is killed ends the job at once, by name, and the same command goes on from the last checkpoint" {
    local program=$ROOT/examples/trainers/numpy_mlp.py
    with_python numpy
    PSGD_JOB=job
    gated fedavg 'c->run->node == 1'
    PSGD_OPTIONS="--codec gated.c --local-steps 5 --max-steps 120 --checkpoint-steps 20 --round-timeout $TEST_LIMIT"
    start_program 0 2 python3 "$program"
    start_program 1 2 python3 "$program"
    within 60 is_at_gate 1
    [ -e job/node-1/run/checkpoint.safetensors ]
    kill -KILL "$(jq .process job/node-1/node.json | xargs -I{} ps -o ppid= -p {} | tr -d ' ')"
    fails end_processes 2
    grep -q 'the job has failed: node(1) on [^,]*, TrainerFailed: numpy_mlp.py, process [0-9]*, has ended' log.0
    [ "$(jq -r '[.state, .cause_node, .reason] | join(" ")' job/results/run.json)" = "failed 1 TrainerFailed" ]
    open_gate
    launch 2 python3 "$program"
    grep -q 'attempt 2 goes on from step' log.0
    [ "$(jq -r '[.state, .attempt, .facts.attempts[0].reason] | join(" ")' job/results/run.json)" = "succeeded 2 TrainerFailed" ]
    PSGD_JOB=whole launch 2 python3 "$program"
    [ -n "$(digests whole/results)" ]
    [ "$(digests job/results)" = "$(digests whole/results)" ]
    # And not once more, nor with other options.
    exit_is 4 launch 2 python3 "$program"
    grep -q 'the job has succeeded already, in attempt 2' log.1
    PSGD_OPTIONS="--codec fedavg" exit_is 6 launch 2 python3 "$program"
    grep -q 'has a job with other options already: --' log.0
}

cat_program() {
    cat >program.py <<'END'
import os, sys, time
import psgd.trainer
open("pid." + os.environ.get("RANK", ""), "w").write(str(os.getpid()))
w = psgd.trainer.open({"W": (4,)}, batches=10, codec="fedavg", epochs=100000, local_steps=10)
while w.next():
    if sys.argv[1:] == ["fails"] and w.info.node == 1 and w.steps_done == 50:
        raise ValueError("bad row 7")
    if sys.argv[1:] == ["leaves"] and w.info.node == 1 and w.steps_done == 50:
        sys.exit()
    w.stepped(loss=1, samples=1, lr=0.1)
    time.sleep(0.001)
END
}

@test "an exception of one program is the job's message, an end before the job's fails it, and SIGTERM ends all programs with their records" {
    cat_program
    PSGD_JOB=failed
    exit_is 1 launch 2 python3 program.py fails
    grep -q 'the job has failed: node(1) on [^,]*, TrainerFailed: program.py: line 7: ValueError: bad row 7' log.0
    [ "$(jq -r '[.state, .cause_node, .message] | join(" ")' failed/results/run.json)" = "failed 1 program.py: line 7: ValueError: bad row 7" ]
    PSGD_JOB=left
    exit_is 1 launch 2 python3 program.py leaves
    grep -q 'the job has failed: node(1) on [^,]*, TrainerFailed: program.py: the program has ended, and the job has not' log.0
    PSGD_JOB=stopped
    start_program 0 2 python3 program.py
    start_program 1 2 python3 program.py
    within 60 grep -q 'running: started' log.1
    within 60 eval '[ "$(stat -Lc %s stopped/node-0/run/train.csv)" -gt 500 ]'
    kill -TERM "$(<pid.0)" "$(<pid.1)"
    exit_is 143 end_processes 2
    [ "$(jq -r .state stopped/results/run.json)" = cancelled ]
    [ "$(wc -l <stopped/results/records/train.csv)" -gt 1 ]
}

@test "a job that process 0 refuses ends all programs at once, and a program without options or launcher says what it lacks" {
    cat_program
    needs_mpirun
    PSGD_OPTIONS="--codec nothing" run with_open_mpi limited mpirun -n 2 python3 program.py
    [ "$status" -ne 0 ]
    [[ "$output" == *'unknown codec "nothing"'* ]]
    [[ "$output" != *Traceback* ]]
    PSGD_OPTIONS="--codec fedavg" run limited python3 program.py 3>&-
    [ "$status" -eq 6 ]
    [[ "$output" == *"--rank is not given, and no launcher has set one of the variables"* ]]
    cat >alone.py <<'END'
import psgd.trainer
w = psgd.trainer.open({"W": (4,)}, batches=1)
END
    RANK=0 WORLD_SIZE=2 run limited python3 alone.py 3>&-
    [ "$status" -eq 0 ]
    [[ "$output" == *"psgd: alone: RANK is set, but no PSGD_OPTIONS"* ]]
    RANK=0 WORLD_SIZE=2 PSGD_OPTIONS="--codec fedavg" run limited python3 alone.py 3>&-
    [ "$status" -eq 2 ]
    [[ "$output" == *"a folder for the job is needed, -o DIR or PSGD_JOB=DIR"* ]]
    PSGD_JOB_SUBMIT=/nowhere RANK=0 WORLD_SIZE=2 PSGD_OPTIONS="--codec fedavg" run limited python3 alone.py 3>&-
    [ "$status" -eq 1 ]
    [[ "$output" == *"/nowhere: no such program; it runs this program's node: name it by PSGD_JOB_SUBMIT"* ]]
}

# By a rule that combines parameters, and by one that changes gradients, with a parameter server.
@test "programs in C that a launcher has started end with the weights and records of the same job on agents" {
    local program=$BUILD/examples/trainers/linear settings job n
    start_agents 3
    write_workers 2 1
    for settings in "2 --codec fedavg --local-steps 10" "3 --codec doublesqueeze --path servers"; do
        read -r n job <<<"$settings"
        rm -rf job on-agents
        PSGD_JOB=job PSGD_OPTIONS="--epochs 2 --servers $((n - 2)) $job" launch "$n" "$program" --units "1 6"
        # shellcheck disable=SC2086
        "$SUBMIT" -q -n 2 --epochs 2 $job --trainer "$program" -o on-agents -- --units "1 6"
        [ -n "$(digests job/results)" ]
        [ "$(digests job/results)" = "$(digests on-agents)" ]
        diff <(rows_of job/results) <(rows_of on-agents)
        jq '[.facts.trainer.sha256, .settings.arguments]' job/results/run.json >job.facts
        jq '[.facts.trainer.sha256, .settings.arguments]' on-agents/run.json | diff job.facts -
    done
    grep -q 'psgd: this process was a parameter server of the job' log.2
}

# A program that ends in step 50 of node 1, and makes empty steps before.
compile_leaves() {
    cat >leaves.c <<'C'
#include <stdio.h>
#include "psgd_trainer.h"
int main(void)
{
    const struct psgd_tensor layout[] = {{"w", 1, {4}, false}};
    struct psgd *p;
    int what = psgd_open(&p, layout, 1);

    while (what >= 0 && (what = psgd_next(p)) > PSGD_STOP) {
        if (psgd_plan(p)->node == 1 && psgd_plan(p)->step == 50)
            return 3;
        if (what == PSGD_GO)
            psgd_stepped_by(p, 1, 1, 0.1);
    }
    return what < 0 && fprintf(stderr, "%s\n", psgd_error()) > 0;
}
C
    cc -I"$ROOT/shared/trainer" leaves.c "$ROOT/shared/trainer/psgd_trainer.c" -o leaves
}

@test "a program in C that ends too early is named as the cause, and SIGTERM ends all programs with their records" {
    local program=$BUILD/examples/trainers/linear pids
    command -v cc >/dev/null || skip "no C compiler"
    compile_leaves
    PSGD_JOB=failed
    PSGD_OPTIONS="--codec fedavg --local-steps 10 --max-steps 1000"
    exit_is 1 launch 2 ./leaves
    [ "$(jq -r '[.state, .cause_node, .message] | join(" ")' failed/results/run.json)" = \
        "failed 1 leaves: the program has ended, and the job has not" ]
    PSGD_JOB=stopped
    PSGD_OPTIONS="--codec fedavg --local-steps 10 --epochs 100000 --record-every 100"
    start_program 0 2 "$program"
    start_program 1 2 "$program"
    within 60 eval '[ "$(stat -Lc %s stopped/node-0/run/train.csv)" -gt 500 ]'
    # Those that wait for their programs' time limits are the parents.
    pids=$(ps -o pid= --ppid "${PROCESSES[0]},${PROCESSES[1]}")
    # shellcheck disable=SC2086 # two numbers
    kill -TERM $pids
    end_processes 2 || true
    [ "$(jq -r .state stopped/results/run.json)" = cancelled ]
    [ "$(wc -l <stopped/results/records/train.csv)" -gt 1 ]
}

@test "a program in C says in a sentence what it lacks, which options are wrong, and which process has not come" {
    local program=$BUILD/examples/trainers/linear
    RANK=0 WORLD_SIZE=2 run limited "$program" 3>&-
    [ "$status" -eq 0 ]
    [[ "$output" == *"psgd: alone: RANK is set, but no PSGD_OPTIONS: each process trains by itself"* ]]
    PSGD_OPTIONS="--codec fedavg" run limited "$program" 3>&-
    [ "$status" -eq 1 ]
    [[ "$output" == *"--rank is not given, and no launcher has set one of the variables"* ]]
    [[ "$output" == *"job_submit, which this program has started for its node, has ended with exit status 6: it has said why" ]]
    PSGD_JOB_SUBMIT='' PATH=$TOOLS:/usr/bin:/bin PSGD_OPTIONS="--codec fedavg" run limited "$program" 3>&-
    [ "$output" = "job_submit, which runs this program's node, cannot be started (No such file or directory): \
have job_submit in PATH, or name it by PSGD_JOB_SUBMIT" ]
    PSGD_JOB=job
    PSGD_OPTIONS="--codec fedavg"
    start_program 0 2 "$program"
    within 60 grep -q 'waits until .* for process 1 (node 1)' log.0
    kill -TERM "$(jq .process job/node-0/node.json)"
    end_processes 1 || [ $? -eq 1 ]
    grep -qx 'job_submit, which this program has started for its node, has ended with exit status 8: it has said why' log.0
    needs_mpirun
    PSGD_JOB=wrong PSGD_OPTIONS="--codec nothing" run with_open_mpi limited mpirun -n 2 "$program" 3>&-
    [ "$status" -ne 0 ]
    [[ "$output" == *'unknown codec "nothing"'* ]]
}

@test "docs/trainer.md: a program in C under mpirun" {
    command -v cc >/dev/null || skip "no C compiler"
    needs_mpirun
    ln -s "$ROOT/examples" "$ROOT/shared" .
    { blocks "sh c" docs/trainer.md | grep "^cc "; blocks "sh mpirun-c" docs/trainer.md; } >commands.sh
    grep -q 'mpirun -n 2 ./linear' commands.sh
    with_open_mpi limited bash -e commands.sh 3>&-
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' c-by-mpi/results/run.json)" = "succeeded 2" ]
}

# The program of the document's first block, because torch may be missing: below.
@test "docs/trainer.md: under torchrun" {
    with_python numpy
    make_torchrun
    blocks python docs/trainer.md >train.py
    blocks 'sh torchrun' docs/trainer.md >commands.sh
    grep -q '^torchrun --nproc_per_node 2 train.py$' commands.sh
    PSGD_JOB=job limited bash -e commands.sh 3>&-
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' job/results/run.json)" = "succeeded 2" ]
}

@test "docs/trainer.md: under mpirun" {
    needs_mpirun
    with_python numpy
    blocks python docs/trainer.md >linear.py
    blocks 'sh mpirun-train' docs/trainer.md >commands.sh
    grep -q 'mpirun -n 2 python3 linear.py' commands.sh
    with_open_mpi limited bash -e commands.sh 3>&-
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' trained-by-mpi/results/run.json)" = "succeeded 2" ]
    # Open MPI's name of the launch is that of the folder, in which four processes meet.
    PSGD_OPTIONS="--codec allreduce --epochs 1" with_open_mpi limited mpirun -n 4 python3 linear.py 3>&-
    [ "$(jq -r '[.state, (.nodes | length)] | join(" ")' psgd-*/results/run.json)" = "succeeded 4" ]
}

# same_by_launchers N OPTION...: train.py ends with the same weights as N processes of torchrun and of mpirun as on N agents.
same_by_launchers() {
    local n=$1
    rm -rf agents torchrun mpirun
    "$SUBMIT" -q -n "$n" "${@:2}" --trainer train.py -o agents
    PSGD_OPTIONS="${*:2}"
    # The redirection is of no use: without one torchrun 1.13 fails under Python 3.11.
    PSGD_JOB=torchrun limited python3 -m torch.distributed.run --nproc_per_node "$n" -r 1 -t 1 --log_dir torchrun-log train.py 3>&-
    near_weights agents torchrun/results
    command -v mpirun >/dev/null || return 0
    PSGD_JOB=mpirun with_open_mpi limited mpirun -n "$n" python3 train.py 3>&-
    near_weights agents mpirun/results
}

# bats test_tags=check
@test "the training script of torch in docs/trainer.md ends with the same weights under torchrun and mpirun as on agents" {
    with_python torch
    blocks 'python torch' docs/trainer.md >train.py
    start_agents 2
    same_by_launchers 2 --codec diloco:every=20 --epochs 1
}

# bats test_tags=long
@test "so it does with four processes, and by a rule that combines gradients" {
    with_python torch
    blocks 'python torch' docs/trainer.md >train.py
    start_agents 4
    same_by_launchers 4 --codec diloco:every=20 --epochs 1
    same_by_launchers 2 --codec allreduce --epochs 1
    same_by_launchers 4 --codec allreduce --epochs 1
}
