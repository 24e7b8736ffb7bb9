#!/usr/bin/env bats
# Jobs under Slurm: on four virtual hosts, between which messages go by TCP.
load lib
load documents
load slurm

digests() { jq -r '[.nodes[].params_sha256 // empty] | unique | join(" ")' "$1/run.json"; }

# One and the same job: by srun without PMI and with it, by mpirun, and of a job folder on this machine.
@test "psgd-run ends with the same weights under each launcher, and encrypts what leaves a host" {
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
    [ -z "$(grep -l 'TLS 1.3' one/node-*/run/node.log)" ]
    command -v mpirun >/dev/null || return 0
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        limited mpirun -n 4 "$BUILD/psgd-run" -o mpi "${job[@]}" 3>&-
    [ "$(digests mpi/results)" = "$(digests none/results)" ]
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
    run limited "$BUILD/psgd-run" --rank 0 --size 1 --model softmax --dataset "$FEW" --epochs 2 -o job
    [ "$status" -eq 6 ]
    [[ "$output" == *"/job has a job with other options already: --epochs is 2, and was 1"* ]]
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

@test "docs/clusters.md: with Slurm" {
    needs_slurm
    follow srun "$CLUSTER" in "$BATS_FILE_TMPDIR/cluster"
}
