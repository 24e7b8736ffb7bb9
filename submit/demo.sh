#!/bin/sh
# The main job on this machine: two agents on free ports train a network on the built-in digits. Everything but the results
# lies in a temporary folder, and the agents end with this script, however it ends.
set -eu
BUILD=$(cd "${BUILD:-build}" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/psgd-demo-XXXXXX")
pids=

stop() {
    status=$?
    trap - EXIT
    for pid in $pids; do
        kill "$pid" 2>/dev/null || true
        # In a trap, wait may come back before the process has ended.
        while kill -0 "$pid" 2>/dev/null; do
            wait "$pid" 2>/dev/null || true
            sleep 0.05
        done
    done
    rm -rf "$folder"
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE

export XDG_STATE_HOME="$folder/state"
unset PSGD_WORKERS PSGD_TOKEN_FILE

# Each agent takes a port that is free and says which.
list=
for n in 0 1; do
    "$BUILD/agent" --port 0 --dir "$folder/agent$n" 2>"$folder/agent$n.log" &
    pids="$pids $!"
    address=
    for _ in $(seq 100); do
        address=$(sed -n 's/.* listens on \([^,]*\),.*/\1/p' "$folder/agent$n.log")
        [ -z "$address" ] || break
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    if [ -z "$address" ]; then
        echo "agent $n did not start:" >&2
        cat "$folder/agent$n.log" >&2
        exit 1
    fi
    list="$list${list:+, }\"$address\""
done
echo "{\"Worker\": [$list]}" >"$folder/worker.json"

"$BUILD/job_submit" --workers "$folder/worker.json" --codec fedavg --node_count 2 --dataset digits --model mlp-tutorial \
    --gradient-descent adam --epochs 5 --name demo "$@" &
pids="$! $pids"
wait $! # and not in the foreground: a shell that runs a program hears no signal until it ends
echo
echo "The agents are stopped. What to look at: logs/latest/README.txt, logs/latest/records/eval.csv"
