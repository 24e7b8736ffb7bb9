#!/usr/bin/env bats
# job_submit agents: those that this user has joined, at loopback addresses with --tls.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib

# start_joinable N [OPTION...]: agent number N of another user, on its port if it has one already; its invitation in
# the file invitationN.
start_joinable() {
    local n=$1
    shift
    : >"invitation$n" # not that of an agent before
    XDG_STATE_HOME=$T/state$n "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port "${PORTS[n]:-0}" --dir "$T/agent$n" "$@" \
        >"invitation$n" 2>>"$T/agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 grep -q '^job_submit join' "invitation$n"
    PORTS[n]=$(sed 's/[^:]*:\([0-9]*\)#.*/\1/; q' "invitation$n")
}

address_of() { echo "127.0.0.1:${PORTS[$1]}"; } # address_of N

# states_are STATE...: of all agents, in any order.
states_are() { [ "$(states)" = "$(printf '%s\n' "$@" | LC_ALL=C sort)" ]; }

states() { "$SUBMIT" agents --json | jq -r '.data.agents | map("\(.address) \(.state)") | sort[]'; }

@test "agents are added by a line on stdin, listed with their state, shown and removed" {
    run "$SUBMIT" agents
    [ "$status" -eq 0 ]
    [[ "$output" == *"No agent has been joined"* ]]
    local n
    for n in 0 1 2; do start_joinable $n; done
    "$SUBMIT" join - <invitation0
    "$SUBMIT" agents add - < <(sed "s/.* //; s/'//g" invitation1)
    "$SUBMIT" agents add "$(cat invitation2)"
    run "$SUBMIT" join - </dev/null
    [ "$status" -eq 2 ]
    # One is stopped, one set up anew.
    end_agent 1 || true
    end_agent 2 || true
    rm "$T"/agent2/tls.*
    start_joinable 2
    within 60 states_are "$(address_of 0) answers" "$(address_of 1) does not answer" "$(address_of 2) has another key"
    run "$SUBMIT" agents list
    [ "$status" -eq 0 ]
    [[ "$output" == *"$(address_of 0)"*answers* ]]
    run "$SUBMIT" agents show "$(address_of 0)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"pin     sha256//"*"="*"joined  20"*"state   answers"* ]]
    run "$SUBMIT" agents show "$(address_of 2)"
    [[ "$output" == *"state   has another key"*"has another key than the agent that is known at this address"* ]]
    # A token that is removed here is still valid at the agent, and the message states that.
    run "$SUBMIT" agents remove "$(address_of 0)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"accepts that token until it is revoked"* ]]
    run "$SUBMIT" agents remove "$(address_of 0)"
    [ "$status" -eq 6 ]
    [[ "$output" == *"no agent was joined at $(address_of 0)"* ]]
    [ "$("$SUBMIT" agents --json | jq '.data.agents | length')" -eq 2 ]
    run "$SUBMIT" agents shwo
    [ "$status" -eq 2 ]
    # No token is printed.
    "$SUBMIT" agents --json >printed 2>&1
    in_none "$(jq -r .token "$XDG_STATE_HOME"/psgd/joined/*.json | head -1)" printed
}

@test "an agent is drained before its machine is restarted: its job continues, the next is refused until it is resumed" {
    start_agents 1
    local at=127.0.0.1:${PORTS[0]}
    long_job --codec plain --node_count 1 --detach --no-queue -o long
    cp agent0/token copy
    "$SUBMIT" agents drain "$at" --token-file copy
    "$SUBMIT" agents resume "$at" --token-file copy
    run "$SUBMIT" agents drain "$at"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Agent $at takes no new jobs"*"1 run to their end, 0 wait"* ]]
    [ "$(status_page 0 | jq -r .agent.state)" = draining ]
    run "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --model softmax --epochs 1 -o next
    [ "$status" -eq 4 ]
    [[ "$output" == *"was drained and takes no new jobs"*"job_submit agents resume"* ]]
    [ "$(api 0 GET /v1/jobs | jq -r '.jobs[0].state')" = running ]
    "$SUBMIT" cancel "$(only_job 0)"
    end_agent 0
    start_agent 0
    [ "$(status_page 0 | jq -r .agent.state)" = drained ]
    run "$SUBMIT" agents resume "$at"
    [ "$status" -eq 0 ]
    "$SUBMIT" --codec plain --node_count 1 --dataset "$FEW" --model softmax --epochs 1 -o next
    run "$SUBMIT" agents drain
    [ "$status" -eq 2 ]
}

job() { "$SUBMIT" --codec plain --node_count 2 --dataset "$FEW" --epochs 1 --model softmax "$@"; } # job OPTION...

write_joined() { # write_joined N...: these agents as workers
    local n
    for n; do address_of "$n"; done | jq -Rn '{Worker: [inputs]}' >worker.json
}

@test "a joined agent is recognized by its key at another address, and nothing is sent to other agents" {
    local n
    for n in 0 1; do
        start_joinable $n
        "$SUBMIT" join - <invitation$n
    done
    write_joined 0 1
    job -o one
    # Another port; the former one is taken by an agent that was never joined.
    end_agent 0 || true
    local before=${PORTS[0]}
    PORTS[2]=$before
    start_joinable 2
    PORTS[0]=0
    start_joinable 0
    [ "${PORTS[0]}" -ne "$before" ]
    write_joined 0 1
    job -o two 2>log
    grep -q "node(0): agent a-.*, joined at 127.0.0.1:$before, is at $(address_of 0): it has the same key" log
    job -o three 2>log
    run grep 'same key' log
    [ "$status" -eq 1 ]
    write_joined 2 1
    run job -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"has another key than the agent that is known at this address"*"job_submit agents"*" finds them"* ]]
    # An agent that was never joined, at another address: its key is not in the list.
    start_joinable 3
    end_agent 3 || true
    "$TOOLS/limit" "$TEST_LIMIT" python3 "$BATS_TEST_DIRNAME/mitm.py" fake-tls "$T/saw" '' "$T"/agent3/tls.{crt,key} >port 3>&- &
    AGENTS+=($!)
    within 60 test -s port
    PORTS[3]=$(<port)
    write_joined 3 1
    run job -o no
    [ "$status" -eq 7 ]
    [[ "$output" != *"same key"* ]]
    run grep -aE 'Bearer|Authorization|X-Job-Key|POST|PUT' saw
    [ "$status" -eq 1 ]
}

@test "two agents that have exchanged their addresses are refused, until agents list has found them" {
    local n
    for n in 0 1 2; do
        start_joinable $n
        "$SUBMIT" join - <invitation$n
    done
    end_agent 0 || true
    end_agent 1 || true
    local first=${PORTS[0]}
    PORTS[0]=${PORTS[1]}
    PORTS[1]=$first
    start_joinable 0
    start_joinable 1
    write_joined 0 1
    run job -o no
    [ "$status" -eq 7 ]
    [[ "$output" == *"has another key than the agent that is known at this address"* ]]
    run "$SUBMIT" agents
    [ "$status" -eq 0 ]
    [ "$(grep -c 'where another agent was' <<<"$output")" -eq 2 ]
    [ "$(grep -c ' answers$' <<<"$output")" -eq 3 ]
    job -o one
}
