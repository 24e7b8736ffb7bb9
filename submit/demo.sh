#!/bin/sh
# The main job on this machine: two agents on free ports train a network on the built-in digits. Everything but the results
# lies in a temporary folder, and the agents end with this script, however it ends.
set -eu
BUILD=$(cd "${BUILD:-build}" && pwd)
folder=
pids=

is_running() { kill -0 "$1" 2>/dev/null; }

# SIGTERM until the process has ended, SIGKILL after half a minute. One SIGTERM may be lost: until its exec, a child has the
# handlers of this shell.
end() {
    tries=0
    while is_running "$1" && [ $tries -lt 400 ]; do
        if [ $tries -lt 300 ]; then signal=TERM; else signal=KILL; fi
        kill -s $signal "$1" 2>/dev/null || true
        sleep 0.1
        tries=$((tries + 1))
    done
}

stop() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP PIPE
    # The last child may have been started just before the signal, and not be in the list.
    for pid in $pids ${!:-}; do end "$pid"; done
    [ -z "$folder" ] || rm -rf "$folder"
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE

folder=$(mktemp -d "${TMPDIR:-/tmp}/psgd-demo-XXXXXX")
# A program that is told to end twice may leave its temporary files: there they go with the folder.
export XDG_STATE_HOME="$folder/state" TMPDIR="$folder"
unset PSGD_WORKERS PSGD_TOKEN_FILE

# Each agent takes a port that is free and says which.
list=
for n in 0 1; do
    log=$folder/agent$n.log
    : >"$log" # now, as the shell behind & may come late
    "$BUILD/agent" --port 0 --dir "$folder/agent$n" 2>>"$log" &
    pids="$pids $!"
    address=
    tries=0
    while [ -z "$address" ] && is_running $! && [ $tries -lt 600 ]; do
        sleep 0.05
        address=$(sed -n 's/.* listens on \([^,]*\),.*/\1/p' "$log")
        tries=$((tries + 1))
    done
    if [ -z "$address" ]; then
        echo "agent $n did not start:" >&2
        cat "$log" >&2
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
