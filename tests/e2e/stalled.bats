#!/usr/bin/env bats
# What one worker that takes nothing costs the others.
# Runs alone.
load lib

# exchanging FROM TO: of node 0's steps between these times of its own, "STEP SPENT": how many us a step takes, and what
# exchanging takes of it, beside taking words in. The tenth part that is quickest shows it best on a busy machine.
exchanging() {
    python3 - agent0/jobs/*/run/train.csv "$1" "$2" <<'PY'
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["apply_s"] and float(sys.argv[2]) < float(r["time_s"]) < float(sys.argv[3])]
times = [float(r["time_s"]) for r in rows]
steps = sorted(b - a for a, b in zip(times, times[1:]))
spent = sorted(sum(float(r[k]) for k in ("encode_s", "send_s", "wait_s")) for r in rows)
print("%.1f %.1f" % (1e6 * steps[len(steps) // 10], 1e6 * spent[len(spent) // 10]))
PY
}

last_time() { tail -n 2 agent0/jobs/*/run/train.csv | head -n 1 | cut -d, -f1; }

later() { python3 -c "print($1 + $2)"; }

is_lost() { grep -q 'node 1 is lost: it has taken nothing for 9.5 s' agent0/jobs/*/run/node.log; }

@test "asgd: a worker that takes nothing costs the others no more than one that is gone" {
    start_agents 3
    "$SUBMIT" --codec plain --psgd asgd --node_count 3 --epochs 100000 --record-every 1 --on-node-loss continue --min-nodes 2 \
        -o out 2>log 3>&- &
    local pid=$! hung stopped lost before beside without
    within 60 is_at_step 0 500
    sleep 4
    hung=$(api 1 GET /v1/jobs | jq '.jobs[0].pid')
    kill -STOP "$hung"
    stopped=$(last_time)
    within 20 is_lost
    lost=$(last_time)
    sleep 4
    before=$(exchanging 0 "$stopped")
    beside=$(exchanging "$(later "$stopped" 1)" "$(later "$lost" -1)")
    without=$(exchanging "$(later "$lost" 1)" 1e9)
    echo "# us of a step, and of it to exchange, with three workers: $before; beside one that hangs: $beside; without it: $without" >&3
    # 5 % of a step: less would show the machine's other work rather than the worker that hangs.
    # shellcheck disable=SC2086
    python3 -c 'import sys; _, a, step, b = map(float, sys.argv[1:]); sys.exit(not a < b + 0.05 * step)' $beside $without
    "$SUBMIT" cancel -q "$(only_job 0)" # returns when all have ended: the agent has killed the one that hangs
    wait $pid || true
    [ "$(jq -r .state out/run.json)" = cancelled ]
}
