# local_agents.sh -- for scripts that start agents on this machine: on ports that are free, and ended with the script.
# shellcheck shell=sh
pids= # of what end_all ends
ended= # the last child that it has ended: its number may be another process's by now

is_running() { kill -0 "$1" 2>/dev/null; }

# SIGTERM until the process has ended, SIGKILL after half a minute. One SIGTERM may be lost: until its exec, a child has the
# handlers of the script's shell.
end() {
    tries=0
    while is_running "$1" && [ $tries -lt 400 ]; do
        if [ $tries -lt 300 ]; then signal=TERM; else signal=KILL; fi
        kill -s $signal "$1" 2>/dev/null || true
        sleep 0.1
        tries=$((tries + 1))
    done
}

# For a trap, too: the last child may have been started just before a signal, and not be in the list.
end_all() {
    [ "${!:-}" = "$ended" ] || pids="$pids ${!:-}"
    for pid in $pids; do end "$pid"; done
    pids=
    ended=${!:-}
}

# start_agent LOG COMMAND...: an agent by COMMAND with a free port (--port 0), which it names in LOG. $address is where it
# listens. Exits where it does not start.
start_agent() {
    log=$1
    shift
    : >"$log" # now, as the shell behind & may come late
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
