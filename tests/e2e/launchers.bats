#!/usr/bin/env bats
# Training programs of users' under launchers: they start psgd's processes of their nodes beside themselves.
load lib

setup_file() { export PYTHONPATH=$ROOT/python; }

# start_program RANK SIZE COMMAND...: as a launcher does that sets RANK and WORLD_SIZE; its log is log.RANK.
start_program() {
    RANK=$1 WORLD_SIZE=$2 "$TOOLS/limit" "$PROGRAM_LIMIT" "${@:3}" >"log.$1" 2>&1 3>&- &
    PROGRAMS[$1]=$!
    HOLDERS+=("$!")
}

# end_programs N: waits for them; returns the status of process 0.
end_programs() {
    local rank code=0
    for ((rank = $1 - 1; rank >= 0; rank--)); do
        code=0
        wait "${PROGRAMS[rank]}" || code=$?
    done
    return "$code"
}

# launch N COMMAND...
launch() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do start_program "$rank" "$@"; done
    end_programs "$1"
}

needs_numpy() {
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "numpy is not installed for /usr/bin/python3"
}

digests() { jq -r '[.nodes[].params_sha256 // empty] | join(" ")' "$1/run.json"; }

@test "programs that a launcher has started end with the weights and records of the same job on agents" {
    needs_numpy
    PATH=/usr/bin:$PATH start_agents 2
    local program=$ROOT/examples/trainers/numpy_mlp.py settings
    for settings in "--codec fedavg --local-steps 10 --max-steps 40" "--codec allreduce --max-steps 40"; do
        rm -rf job on-agents
        PSGD_JOB=job PSGD_OPTIONS=$settings launch 2 /usr/bin/python3 "$program" --units 16
        # shellcheck disable=SC2086
        "$SUBMIT" -q -n 2 $settings --trainer "$program" --trainer-python /usr/bin/python3 -o on-agents -- --units 16
        [ -n "$(digests job/results)" ]
        [ "$(digests job/results)" = "$(digests on-agents)" ]
        for of in job/results on-agents; do cut -d, -f2-11 "$of/records/train.csv" | sort >"$of.rows"; done
        diff job/results.rows on-agents.rows
        [ "$(jq -r '[.is_complete, .facts.trainer.main] | join(" ")' job/results/run.json)" = "true numpy_mlp.py" ]
    done
}
