#!/bin/sh
# Demo on one machine: two agents on free ports train a network on the built-in digits. Everything except the results is in
# a temporary folder, and the agents end with this script, however it ends.
set -eu
BUILD=$(cd "${BUILD:-build}" && pwd)
folder=
# shellcheck source=submit/local_agents.sh
. "$(dirname "$0")/local_agents.sh"

stop() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP PIPE
    end_all
    [ -z "$folder" ] || rm -rf "$folder"
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE

folder=$(mktemp -d "${TMPDIR:-/tmp}/psgd-demo-XXXXXX")
# A second SIGTERM makes job_submit leave its temporary files behind: TMPDIR removes them with the folder.
export XDG_STATE_HOME="$folder/state" TMPDIR="$folder"
unset PSGD_WORKERS PSGD_TOKEN_FILE

list=
for n in 0 1; do
    start_agent "$folder/agent$n.log" "$BUILD/agent" --port 0 --dir "$folder/agent$n"
    list="$list${list:+, }\"$address\""
done
echo "{\"Worker\": [$list]}" >"$folder/worker.json"

"$BUILD/job_submit" --workers "$folder/worker.json" --codec fedavg --node_count 2 --dataset digits --model mlp-tutorial \
    --gradient-descent adam --epochs 5 --name demo "$@" &
pids="$! $pids"
wait $! # not in the foreground: a shell handles no signal while a foreground program runs
echo
echo "The agents are stopped. The results:"
printf '    %-32s %s\n' logs/latest/report.html "the run as a page, in any browser" \
    "${BUILD#"$PWD"/}/job_submit browse" "this run and later ones, in this machine's browser" \
    logs/latest/README.txt "the files of the results, and commands for them"
