# ranks.bash -- the processes of a job in a folder, as a launcher starts them, and launchers of MPI.
# shellcheck shell=bash

# start_process RANK LOG COMMAND...: process RANK, with the time limit of a program.
start_process() {
    "$TOOLS/limit" "$PROGRAM_LIMIT" "${@:3}" >"$2" 2>&1 3>&- &
    PROCESSES[$1]=$!
    HOLDERS+=("$!")
}

# end_processes N: waits for processes 0 to N-1; returns the status of process 0.
end_processes() {
    local rank code=0
    for ((rank = $1 - 1; rank >= 0; rank--)); do
        code=0
        wait "${PROCESSES[rank]}" || code=$?
    done
    return "$code"
}

# start_rank DIR RANK [OPTION...]: a process of the job in DIR, with the log DIR.log.RANK.
start_rank() { start_process "$2" "$1.log.$2" "$BUILD/job_runner" --job "$1" --rank "$2" "${@:3}"; }

# ranks DIR N [OPTION...]: N processes of the job in DIR; returns the status of process 0.
ranks() {
    local rank
    for ((rank = 0; rank < $2; rank++)); do start_rank "$1" "$rank" "${@:3}"; done
    end_processes "$2"
}

# start_program RANK SIZE COMMAND...: as a launcher does that sets RANK and WORLD_SIZE; its log is log.RANK.
start_program() { RANK=$1 WORLD_SIZE=$2 start_process "$1" "log.$1" "${@:3}"; }

# launch N COMMAND...: N such processes; returns the status of process 0.
launch() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do start_program "$rank" "$@"; done
    end_processes "$1"
}

# make_torchrun: a torchrun in bin that starts processes with its variables, as that of PyTorch does. From here on it is in PATH.
make_torchrun() {
    mkdir -p bin
    cat >bin/torchrun <<'EOF'
#!/bin/bash
python=python3
[ "$1" != --no_python ] || { shift && python=; }
[ "$1" = --nproc_per_node ] || exit 2
n=$2
shift 2
export WORLD_SIZE=$n TORCHELASTIC_RUN_ID=none
for ((i = 1; i < n; i++)); do RANK=$i LOCAL_RANK=$i $python "$@" & done
RANK=0 LOCAL_RANK=0 $python "$@" && wait
EOF
    chmod +x bin/torchrun
    export PATH=$T/bin:$PATH
}

# kill_rank DIR SIGNAL RANK...: the processes themselves, which run under a limit.
kill_rank() {
    local rank pids=()
    for rank in "${@:3}"; do pids+=("$(jq .process "$1/node-$rank/node.json")"); done
    kill "-$2" "${pids[@]}"
}

# digests RESULTS: of the weights of all nodes.
digests() { jq -r '[.nodes[].params_sha256 // empty] | join(" ")' "$1/run.json"; }

# near_weights RESULTS RESULTS: of programs in torch, which on agents may compute with another number of threads.
near_weights() {
    same_weights "$1/model/final.safetensors" "$2/model/final.safetensors" 1e-6
    [ "$(jq '.nodes | length' "$1/run.json")" -eq "$(jq '.nodes | length' "$2/run.json")" ]
}

# rows_of RESULTS: the rows of train.csv without times, sorted.
rows_of() { cut -d, -f2-11 "$1/records/train.csv" | sort; }

# with_open_mpi COMMAND...: with the variables without which Open MPI's mpirun refuses to start processes as root, and more of them
# than there are processors.
with_open_mpi() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "$@"
}

# needs_mpirun: of any MPI, in PATH.
needs_mpirun() { command -v mpirun >/dev/null || skip "mpirun is not installed"; }

# has_mpi MPI: whether openmpi or mpich is installed, and psgd was built with it.
has_mpi() { [ -e "$BUILD/transports/$1.so" ] && "$ROOT/tests/lib/mpirun_of" "$1" >/dev/null; }

# by_mpi MPI N COMMAND...: N processes of openmpi or mpich.
by_mpi() { with_open_mpi limited "$("$ROOT/tests/lib/mpirun_of" "$1")" -n "$2" "${@:3}" 3>&-; }
