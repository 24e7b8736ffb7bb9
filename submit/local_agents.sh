# local_agents.sh -- functions for scripts that start agents on this machine, on free ports, and end them with the script.
# shellcheck shell=sh
pids= # of the processes that end_all ends
ended= # the last child that end_all ended: its pid may belong to another process by now

is_running() { kill -0 "$1" 2>/dev/null; }

# Sends SIGTERM until the process has ended, SIGKILL after half a minute. One SIGTERM may be lost: until its exec, a child has
# the handlers of the script's shell.
end() {
    tries=0
    while is_running "$1" && [ $tries -lt 400 ]; do
        if [ $tries -lt 300 ]; then signal=TERM; else signal=KILL; fi
        kill -s $signal "$1" 2>/dev/null || true
        sleep 0.1
        tries=$((tries + 1))
    done
}

# Works in a trap: a child started just before a signal may not be in the list yet.
end_all() {
    [ "${!:-}" = "$ended" ] || pids="$pids ${!:-}"
    for pid in $pids; do end "$pid"; done
    pids=
    ended=${!:-}
}

# start_agent LOG COMMAND...: starts an agent by COMMAND on a free port (--port 0), which it logs in LOG. Sets $address to its
# address. Exits if the agent does not start.
start_agent() {
    log=$1
    shift
    : >"$log" # created now: the shell behind & may be late
    "$@" 2>>"$log" &
    pids="$pids $!"
    address=
    tries=0
    while [ -z "$address" ] && is_running $! && [ $tries -lt 600 ]; do
        sleep 0.05
        address=$(sed -n 's/.* listens on \([^,]*\),.*/\1/p' "$log")
        tries=$((tries + 1))
    done
    if [ -z "$address" ]; then
        echo "an agent did not start:" >&2
        cat "$log" >&2
        exit 1
    fi
}
