#!/usr/bin/env bats
# Attacks by the code of a codec (tests/codecs/hostile.c, hostile/, SECURITY.md): each fails, and leaves nothing outside its node.
# shellcheck disable=SC2030,SC2031 # each test is a subshell
load lib
load others

setup_hostile() {
    case $(isolation_here) in
    files | user) ;;
    *) skip "this kernel, or this build, isolates codecs at level $(isolation_here)" ;;
    esac
    sleep "$TEST_LIMIT" 3>&- &
    OTHER=$! # another process of the same user
    HOLDERS+=("$OTHER")
}

# The agent's user is not root: if root runs the tests, it is nobody.
be_a_user() {
    [ "$(id -u)" -eq 0 ] || return 0
    ENTER=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
    "${ENTER[@]}" test -x "$BUILD/agent" 2>/dev/null || skip "another user cannot run the programs in $BUILD"
    mkdir "$T/agent0"
    chown 65534:65534 "$T/agent0"
    kill "$OTHER"
    "${ENTER[@]}" sleep "$TEST_LIMIT" 3>&- &
    OTHER=$!
    HOLDERS+=("$OTHER")
}

# The targets of the attacks.
prepare_agent() {
    start_agent 0 --job-memory 1 "$@"
    write_workers 1
    install -m 600 "$T/agent0/token" "$T/token" # job_submit takes none of another user
    local place=$T/agent0/jobs/j-other000/run
    "${ENTER[@]}" mkdir -p "$place"
    "${ENTER[@]}" sh -c 'umask 077 && echo "a secret" >"$1"' sh "$place/secret"
    place=$T/agent0/jobs/j-other000/trainer/program
    "${ENTER[@]}" mkdir -p "$place"
    "${ENTER[@]}" sh -c 'umask 077 && echo "a program" >"$1"' sh "$place/train"
}

# attempt N: a job whose codec tries the gentle acts, or deadly act N; ACTS has the results.
attempt() {
    run "$SUBMIT" --workers worker.json --token-file "$T/token" --node_count 1 --dataset "$FEW" --epochs 1 --model softmax \
        --codec "$BUILD/tests/codecs/hostile.so:act=$1,pid=$OTHER" -o "out-$1"
    ACTS=$(cat "$T/agent0/jobs/$(only_job 0)/run/acts.txt")
}

nothing_has_happened() {
    kill -0 "${AGENTS[0]}"
    kill -0 "$OTHER"
    [ -z "$(compgen -G '/etc/psgd-hostile')$(compgen -G '/tmp/psgd-hostile')$(compgen -G '/dev/shm/psgd-hostile')" ]
    [ -z "$(compgen -G "$T/agent0/jobs/*/hostile")$(compgen -G "$T/agent0/jobs/*/run/executed")" ]
    [ -z "$(compgen -G "$T/agent0/jobs/*/trainer/*/hostile")" ]
    [ -z "$(find "$T"/agent0/jobs/*/run ! -type f ! -type d)" ] # links, FIFOs
}

# Without a mount namespace a codec can test which files exist.
all_are_refused() {
    local acts=$ACTS
    [ "$(api 0 GET /v1/agent | jq .isolation.own_tree)" = true ] || acts=$(grep -vE '^(ask|go)_' <<<"$ACTS")
    [ "$(grep -c ' tries$' <<<"$acts")" -ge 100 ]
    [ "$(grep -c ' refused ' <<<"$acts")" -eq "$(grep -c ' tries$' <<<"$acts")" ]
}

all_gentle_acts_fail() {
    attempt 0
    echo "$ACTS"
    [ "$status" -eq 0 ] # the job itself goes on
    all_are_refused
    nothing_has_happened
}

each_deadly_act_ends_its_node() {
    local n=0 act
    for act in $(sed -n '/^const struct act hostile_deadly/,/^}/p' "$ROOT/tests/codecs/hostile/deadly.c" | grep -o 'ACT([a-z_]*)' | tr -d 'ACT()'); do
        n=$((n + 1))
        attempt "$n"
        echo "$act: $ACTS"
        [ "$status" -eq 1 ]
        [ "$ACTS" = "$act tries" ]
        grep -q 'killed by signal 31 .*a call that no codec may make' <<<"$output"
    done
    [ $n -ge 19 ]
    nothing_has_happened
}

@test "root's agent: no forbidden act succeeds, and its job continues" {
    [ "$(id -u)" -eq 0 ] || skip "this needs root"
    setup_hostile
    prepare_agent
    all_gentle_acts_fail
    [ "$(jq -r '.nodes[0].isolation' out-0/run.json)" = "$(isolation_here)" ]
}

@test "a user's agent: no forbidden act succeeds, and its job continues" {
    setup_hostile
    be_a_user
    prepare_agent
    all_gentle_acts_fail
    [ "$(jq -r '.nodes[0].isolation' out-0/run.json)" = files ]
}

@test "an executor can do no more than a codec" {
    setup_hostile
    be_a_user
    prepare_agent
    local run=(run --workers worker.json --token-file "$T/token" --exec "$BUILD/tests/codecs/hostile.so")
    "$SUBMIT" "${run[@]}" -o gentle -- 0 "$OTHER"
    ACTS=$(cat "$T/agent0/jobs/$(only_job 0)/run/acts.txt")
    echo "$ACTS"
    all_are_refused
    nothing_has_happened
    run "$SUBMIT" "${run[@]}" -o deadly -- 1 "$OTHER"
    [ "$status" -eq 1 ]
    grep -q 'killed by signal 31 .*a call that no codec may make' <<<"$output"
    nothing_has_happened
}

@test "a codec reaches neither the files nor the process of its job's training program, and cannot change their memory" {
    setup_hostile
    be_a_user
    prepare_agent
    cp "$BUILD/examples/trainers/linear" train
    run "$SUBMIT" --workers worker.json --token-file "$T/token" --node_count 1 --trainer train --epochs 1 \
        --codec "$BUILD/tests/codecs/hostile.so:act=0,pid=$OTHER" -o out
    ACTS=$(cat "$T/agent0/jobs/$(only_job 0)/run/acts.txt")
    echo "$output" "$ACTS"
    [ "$status" -eq 0 ]
    all_are_refused
    [ "$(grep -E '^(seal|shrink)_memory refused' <<<"$ACTS")" = $'seal_memory refused Operation not permitted\nshrink_memory refused Operation not permitted' ]
    nothing_has_happened
}

@test "a codec that fills the memory of a training program changes numbers, and one that uses its socket ends its node" {
    setup_hostile
    start_agents 1
    local job=(--workers worker.json --node_count 1 --trainer "$BUILD/examples/trainers/linear" --epochs 1)
    "$SUBMIT" "${job[@]}" --codec "$BUILD/tests/codecs/scribble.so" -q -o fills
    cat fills/logs/worker-0.log
    [ "$(jq -r '.nodes[0].state' fills/run.json)" = succeeded ]
    grep -q '^w 0.186 0.186 0.186 0.186, b 0.186$' fills/logs/worker-0.log
    run "$SUBMIT" "${job[@]}" --codec "$BUILD/tests/codecs/scribble.so:act=1" -o sends
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"psgd has sent a record of another version"* ]]
    within 60 no_runner
    serves_the_next_job_alone
}
serves_the_next_job_alone() { "$SUBMIT" -q --codec plain --node_count 1 --dataset "$FEW" --epochs 1 --model softmax -o next; }

@test "root's agent: each act that no codec has a reason for ends its node" {
    [ "$(id -u)" -eq 0 ] || skip "this needs root"
    setup_hostile
    prepare_agent
    each_deadly_act_ends_its_node
}

# bats test_tags=long
@test "a user's agent: each act that no codec has a reason for ends its node" {
    setup_hostile
    be_a_user
    prepare_agent
    each_deadly_act_ends_its_node
}

# Node 0's agent reports a data port at which another program listens; node 1 connects to it.
@test "a forged table of nodes gives a codec no connection to another program, which gets one fixed HELLO" {
    setup_hostile
    start_agent 0
    TOKENS=([1]="$T/agent0/token")
    start_agent 1 --token-file agent0/token
    cp agent0/token token
    write_workers 2
    local job=(--token-file token --node_count 2 --dataset "$FEW" --epochs 1 --model softmax --codec "$BUILD/tests/codecs/find_connections.so") port
    run "$SUBMIT" "${job[@]}" -o honest
    cat "agent1/jobs/$(only_job 1)/run/reached.txt" # the thread finds the connection that it may have

    other fake
    port=$OTHER
    mkdir evil
    cp agent0/tls.crt agent0/tls.key evil
    SAW=$T/relayed DATA_PORT=$port other relay-tls "127.0.0.1:${PORTS[0]}"
    echo "{\"Worker\":[\"127.0.0.1:$OTHER\",\"127.0.0.1:${PORTS[1]}\"]}" >worker.json
    run "$SUBMIT" "${job[@]}" -o forged
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "node 0 at 127.0.0.1:$port: it sent bytes that are not a frame of psgd: does another program use this port?" <<<"$output"
    [ ! -e "agent1/jobs/$(only_job 1)/run/reached.txt" ]
    # A HELLO of 80 bytes for each of its attempts, which are two.
    python3 - saw <<'PY'
import sys
saw = open(sys.argv[1], "rb").read()
hellos = [saw[i:i + 80] for i in range(0, len(saw), 80)]
assert len(saw) == 160, saw
for h in hellos:
    assert h[:8] == b"PSGD\x09\x00\x01\x00" and h[20:28] == b"\x01\x00\x00\x00\x00\x00\x00\x00", h
    assert h[28:60] == b"\x00\x00\x10" + 29 * b"\x00", h  # its length; no ack
PY
}

@test "a codec's source cannot read this machine's files by its compiler" {
    setup_hostile
    prepare_agent
    end_agent 0
    # Another file for job_submit's compiler than for the agent's, which compiles it as only the source is on its list.
    { cat "$ROOT/codecs/plain.c" && printf '#ifndef HERE\n#include "%s"\n#endif\n' "$T/agent0/tls.key"; } >spy.c
    sha256sum spy.c >agent0/codecs.allow
    chmod 600 agent0/codecs.allow
    start_agent 0 --codecs allowlist
    run env CC='cc -DHERE' "$SUBMIT" --workers worker.json --node_count 1 --dataset "$FEW" --epochs 1 --codec spy.c -o out
    [ "$status" -ne 0 ]
    local log
    log=$(cat "agent0/jobs/$(only_job 0)/run/node.log")
    echo "$log"
    grep -q 'tls.key: Permission denied' <<<"$log"
    [[ $log != *"PRIVATE KEY"* ]]
}

@test "where /proc hides an agent's own processes, a job fails with that reason" {
    [ "$(id -u)" -eq 0 ] || skip "this needs root"
    setup_hostile
    be_a_user
    # shellcheck disable=SC2016 # expanded by the other shell
    ENTER=(unshare -m --propagation private sh -c 'mount -t proc -o hidepid=2 proc /proc && exec "$@"' sh "${ENTER[@]}")
    "${ENTER[@]}" true 2>/dev/null || skip "another /proc may not be mounted here"
    prepare_agent
    run "$SUBMIT" --workers worker.json --token-file "$T/token" --node_count 1 --dataset "$FEW" --epochs 1 --codec fedavg -o out
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"job_runner cannot be started: /proc hides the agent's own processes (mounted with hidepid, or ProtectProc of a service)"* ]]
    # The packages' service is none of these.
    ! grep '^ProtectProc' "$ROOT/packaging/psgd-agent.service.in" || false
}

@test "without Landlock an agent refuses codecs that are not built in, unless it is allowed in words, and then for files only" {
    setup_hostile
    cc -std=c11 -D_GNU_SOURCE -I"$ROOT" -o old_kernel "$ROOT/tests/e2e/old_kernel.c" "$ROOT/tests/lib/old_kernel.c"
    run ./old_kernel true
    [ "$status" -ne 125 ] || skip "$output"
    ENTER=("$T/old_kernel")
    local none=(--workers worker.json --node_count 1 --dataset "$FEW" --epochs 1)
    isolation_needs() { UNISOLATED=(); }
    prepare_agent
    grep -q 'isolation of codecs: process; this kernel has no Landlock' agent0.log
    "$SUBMIT" "${none[@]}" --codec fedavg -o builtin
    [ "$(jq -r '.nodes[0].isolation' builtin/run.json)" = process ]
    run "$SUBMIT" "${none[@]}" --codec "$BUILD/tests/codecs/hostile.so" -o out
    [ "$status" -ne 0 ]
    [[ $output == *"codec hostile needs isolation files, and this machine has process: this kernel has no Landlock"* ]]
    [[ $output == *"--require-isolation process allows it"* ]]
    [ -z "$(compgen -G "$T/agent0/jobs/*/run/acts.txt")" ]
    end_agent 0
    prepare_agent --require-isolation process
    attempt 0
    [ "$(jq -r '.nodes[0].isolation' out-0/run.json)" = process ]
    grep SUCCEEDED <<<"$ACTS"
    [ "$(grep -c ' tries$' <<<"$ACTS")" -ge 100 ]
    # Files as its user, and nothing else.
    ! grep SUCCEEDED <<<"$ACTS" | grep -vE '^((write|read|list|ask|go)_|rename_out )' || false
}

@test "a submitter and an agent refuse less isolation than they require, before any of the codec has run" {
    setup_hostile
    be_a_user
    prepare_agent
    run "$SUBMIT" --workers worker.json --token-file "$T/token" --node_count 1 --dataset "$FEW" --codec fedavg \
        --require-isolation user -o out
    echo "$output"
    [ "$status" -eq 4 ]
    [[ $output == *"needs isolation user, and this machine has files: only an agent that root runs"* ]]
    [ "$(api 0 GET /v1/agent | jq -r '.isolation.level + " " + .isolation.required')" = "files files" ]
    [ "$(status_page 0 | jq -r .agent.isolation)" = files ]
    end_agent 0
    run "${ENTER[@]}" "$BUILD/agent" --port 0 --dir "$T/agent0" --require-isolation user
    [ "$status" -eq 7 ]
    [[ $output == *"less than --require-isolation user: only an agent that root runs"* ]]
}
