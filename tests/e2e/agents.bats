#!/usr/bin/env bats
# job_submit agents: those that this user has joined, at loopback addresses with --tls.
load lib

# start_joinable N [OPTION...]: agent number N of another user, on its port if it has one already; its invitation in
# the file invitationN.
start_joinable() {
    local n=$1
    shift
    XDG_STATE_HOME=$T/state$n "$TOOLS/limit" "$TEST_LIMIT" "$BUILD/agent" --tls --port "${PORTS[n]:-0}" --dir "$T/agent$n" "$@" \
        >"invitation$n" 2>>"$T/agent$n.log" 3>&- &
    AGENTS[n]=$!
    within 60 grep -q '^job_submit join' "invitation$n"
    PORTS[n]=$(sed 's/[^:]*:\([0-9]*\)#.*/\1/; q' "invitation$n")
}

address_of() { echo "127.0.0.1:${PORTS[$1]}"; } # address_of N

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
    run states
    [ "$output" = "$(printf '%s\n' "$(address_of 0) answers" "$(address_of 1) does not answer" "$(address_of 2) has another key" | sort)" ]
    run "$SUBMIT" agents list
    [ "$status" -eq 0 ]
    [[ "$output" == *"$(address_of 0)"*answers* ]]
    run "$SUBMIT" agents show "$(address_of 0)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"pin     sha256//"*"="*"joined  20"*"state   answers"* ]]
    run "$SUBMIT" agents show "$(address_of 2)"
    [[ "$output" == *"state   has another key"*"is not the agent that was known here"* ]]
    # What is forgotten here is still accepted there, and that is said.
    run "$SUBMIT" agents remove "$(address_of 0)"
    [ "$status" -eq 0 ]
    [[ "$output" == *"accepts that token until it is taken back"* ]]
    run "$SUBMIT" agents remove "$(address_of 0)"
    [ "$status" -eq 6 ]
    [[ "$output" == *"no agent was joined at $(address_of 0)"* ]]
    [ "$("$SUBMIT" agents --json | jq '.data.agents | length')" -eq 2 ]
    run "$SUBMIT" agents shwo
    [ "$status" -eq 2 ]
    # No token is printed.
    "$SUBMIT" agents --json >printed 2>&1
    run grep -F "$(jq -r .token "$XDG_STATE_HOME"/psgd/joined/*.json | head -1)" printed
    [ "$status" -eq 1 ]
}

@test "an agent is drained before its machine is restarted: its job goes on, the next is refused until it is resumed" {
    start_agents 1
    local at=127.0.0.1:${PORTS[0]}
    long_job --codec plain --node_count 1 --detach -o long
    cp agent0/token copy
    "$SUBMIT" agents drain "$at" --token-file copy
    "$SUBMIT" agents resume "$at" --token-file copy
    run "$SUBMIT" agents drain "$at"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Agent $at takes no new jobs"*"1 run to their end, 0 wait"* ]]
    [ "$(status_page 0 | jq -r .agent.state)" = draining ]
    run "$SUBMIT" --codec plain --node_count 1 --dataset digits --model softmax --epochs 1 -o next
    [ "$status" -eq 4 ]
    [[ "$output" == *"was drained and takes no new jobs"*"job_submit agents resume"* ]]
    [ "$(api 0 GET /v1/jobs | jq -r '.jobs[0].state')" = running ]
    "$SUBMIT" cancel "$(only_job 0)"
    end_agent 0
    start_agent 0
    [ "$(status_page 0 | jq -r .agent.state)" = drained ]
    run "$SUBMIT" agents resume "$at"
    [ "$status" -eq 0 ]
    "$SUBMIT" --codec plain --node_count 1 --dataset digits --model softmax --epochs 1 -o next
    run "$SUBMIT" agents drain
    [ "$status" -eq 2 ]
}
