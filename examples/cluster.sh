# cluster.sh -- what the examples' scripts share: agents of this machine on free ports, in a folder that goes with the script, which
# becomes the current one. BUILD is the build; with MNIST=DIR jobs train on MNIST, else on the built-in digits.
# shellcheck shell=bash disable=SC2034 # variables are used by the examples
set -eu
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$(cd -P "$(dirname "$0")" && pwd)
# In an installed tree the programs are where job_submit is.
if [ -z "${BUILD:-}" ] && [ ! -d "$root/build" ]; then BUILD=$(dirname "$(readlink -f "$(command -v job_submit)")"); fi
BUILD=$(cd "$root" && cd "${BUILD:-build}" && pwd)
functions=$root/submit/local_agents.sh
[ -e "$functions" ] || functions=$root/examples/local_agents.sh
# shellcheck source=submit/local_agents.sh
. "$functions"
if [ -n "${MNIST:-}" ]; then data=(--dataset mnist --data "$(cd "$MNIST" && pwd)"); else data=(--dataset digits); fi

stop() {
    local status=$?
    trap - EXIT
    trap '' INT TERM HUP PIPE
    end_all
    rm -rf "$work"
    exit $status
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE
work=$(mktemp -d "${TMPDIR:-/tmp}/psgd-example-XXXXXX")
export XDG_STATE_HOME=$work/state TMPDIR=$work
unset PSGD_WORKERS PSGD_TOKEN_FILE
cd "$work"

# cluster WORKERS SERVERS: starts the agents, and writes worker.json
cluster() {
    local n workers='' servers=''
    for ((n = 0; n < $1 + $2; n++)); do
        start_agent "agent$n.log" "$BUILD/agent" --port 0 --dir "$work/agent$n"
        if [ "$n" -lt "$1" ]; then workers+=",\"$address\""; else servers+=",\"$address\""; fi
    done
    echo "{\"Worker\": [${workers#,}]${servers:+, \"PS\": [${servers#,}]}}" >worker.json
}

# say COMMAND...: prints a command as a user types it, and runs it
say() {
    echo "\$ $*"
    "$BUILD/$1" "${@:2}"
}

# quietly COMMAND...: the same without the command's own output, which is its results
quietly() {
    echo "\$ $*"
    "$BUILD/$1" "${@:2}" >>printed
}

# column FILE NAME: values of a CSV file's column, without its head
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at[name] }' "$1"; }
