#!/usr/bin/env bats
# bats file_tags=check
# The test harness: nothing hangs, no process is left, no test is skipped without a report.
# Takes about 2 minutes.
load lib
load namespaces

# Makes tree/, with the scripts of this folder and the harness.
make_tree() {
    mkdir -p tree/tests/e2e tree/build/tests/tool tree/build/tests/unit tree/build/tests/suite
    cp "$ROOT/tests/run" tree/tests/
    cp "$TOOLS"/* tree/build/tests/tool/
    write_tests
    mv ./*.bats tree/tests/e2e/
}

# bats would take each @test and its tags for those of this script; processes of a test are found by a sleep time that no other script uses.
write_tests() { sed -i "s/^@case /@test /; s/^# case_tags=/# bats test_tags=/; s/sleep 864/sleep $$864/g" ./*.bats; }

run_tree() { # for half a minute: output, lines and status
    make_tree
    run afresh BUILD=build TEST_TIMEOUT=30 env -C tree tests/run
    echo "$output"
}

@test "a script that hangs is ended with all its descendants, and the test named" {
    cat >still.bats <<'BATS'
@case "one that ends" { true; }
@case "one that stands still" {
    setsid sleep 86401 3>&- &
    setsid -f sh -c 'trap "" TERM; sleep 86402; sleep 86402' 3>&-
    sleep 86403
}
BATS
    cat >other.bats <<'BATS'
@case "another one" { true; }
@case "one that cannot be had here" { skip "for a reason"; }
BATS
    run_tree
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok - tests/e2e/still.bats was stopped after 30 s, in the test: one that stands still"* ]]
    [[ "$output" == *"skipped: ok 2 one that cannot be had here # skip for a reason"* ]]
    [[ "$output" == *"slowest: "*"tests/e2e/still.bats"* ]]
    [ "${lines[-1]}" = "2 passed, 1 failed, 1 skipped" ]
    [ -z "$(pgrep -f "sleep $$8640[123]")" ]
}

@test "without LONG=1 long tests are left out, and their number is printed" {
    cat >some.bats <<'BATS'
@case "a short one" { true; }
# case_tags=long
@case "a long one" { echo >../ran; }
BATS
    run_tree
    [ "$status" -eq 0 ]
    if [ "${lines[-1]}" = "1 passed, 0 failed, 0 skipped" ]; then
        [ "${lines[-2]}" = "left out: 1 long tests, which LONG=1 runs" ]
        [ ! -e ran ]
    fi
    run afresh PSGD_TEST_LONG=1 env -C tree BUILD=build tests/run
    echo "$output"
    [ "${lines[-1]}" = "2 passed, 0 failed, 0 skipped" ]
    [ -e ran ]
}

@test "each test belongs to make test or to make check, and a pattern runs those of both" {
    cat >some.bats <<'BATS'
@case "one of the product" { echo product >>../ran; }
# case_tags=check
@case "one of the source" { echo source >>../ran; }
# case_tags=long,check
@case "a long one" { echo long >>../ran; }
BATS
    printf '#!/usr/bin/env bats\n# bats file_tags=check\n@case "one of a document" { echo document >>../ran; }\n' >all.bats
    make_tree
    mkdir tree/tests/unit tree/build/tests/unit/room tree/tests/unit/room
    for p in product document; do
        printf '#!/bin/sh\necho "1..1"\necho "ok 1 %s"\necho "unit of a %s" >>../ran\n' $p $p >tree/build/tests/unit/room/test_$p
        chmod +x tree/build/tests/unit/room/test_$p
        echo '/* A test. */' >tree/tests/unit/room/test_$p.c
    done
    printf '/* A test.\n * file_tags=check\n */\n' >tree/tests/unit/room/test_document.c
    cp tree/build/tests/unit/room/test_product tree/build/tests/unit/room/test_renamed # it has no source any more
    run_tree() { # run_tree ARGUMENT...: what ran
        rm -f ran
        run afresh BUILD=build TEST_TIMEOUT=30 "${LONG_TESTS[@]}" env -C tree tests/run "$@"
        echo "$output"
        [ "$status" -eq 0 ]
        ran=$(sort ran | paste -sd ,)
    }
    run_tree
    [ "$ran" = "product,unit of a product" ] || bats_is_old
    run_tree --check
    [ "$ran" = "document,source,unit of a document" ] || bats_is_old
    [[ "$output" == *"left out: 1 long tests"* ]] || bats_is_old
    [ "${lines[-1]}" = "3 passed, 0 failed, 0 skipped" ] || bats_is_old
    run_tree some.bats test_document
    [ "$ran" = "product,source,unit of a document" ] || bats_is_old
    LONG_TESTS=(PSGD_TEST_LONG=1)
    run_tree --check
    [ "$ran" = "document,long,source,unit of a document" ] || bats_is_old
    run_tree
    [ "$ran" = "product,unit of a product" ] || bats_is_old
}

bats_is_old() { ! bats --filter-tags a "$BATS_TEST_FILENAME" >/dev/null 2>&1; } # it has no tags: all tests run

@test "CI's command ends with one line of all numbers, and fails if either of its commands does" {
    mkdir -p tree/.ci bin
    cp "$ROOT/.ci/run" tree/.ci/
    printf '#!/bin/sh\necho installed\nexit ${SETUP:-0}\n' >tree/setup.sh
    cat >bin/make <<'MAKE'
#!/bin/sh
echo "some line of make $1"
case $1 in
test) echo "$TESTS" && exit "${TEST_STATUS:-0}" ;;
check) echo "$CHECKS" && exit "${CHECK_STATUS:-0}" ;;
esac
MAKE
    chmod +x tree/setup.sh bin/make
    ci() { # ci NAME=VALUE...
        run env PATH="$PWD/bin:$PATH" "$@" tree/.ci/run
        echo "$output"
        [ "$(grep -cE '^[0-9]+ passed' <<<"$output")" -eq 1 ]
    }
    ci TESTS='1200 passed, 0 failed, 3 skipped' CHECKS='90 passed, 0 failed, 2 skipped'
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "1290 passed, 0 failed, 5 skipped" ]
    [[ "$output" == *"make test: 1200 passed, 0 failed, 3 skipped"*"some line of make check"* ]]
    ci TESTS='1200 passed, 2 failed, 3 skipped' TEST_STATUS=2 CHECKS='90 passed, 0 failed, 2 skipped'
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "1290 passed, 2 failed, 5 skipped" ]
    ci TESTS='1200 passed, 0 failed, 3 skipped' CHECKS='no line' CHECK_STATUS=2
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "1200 passed, 1 failed, 3 skipped" ]
    ci SETUP=1
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "0 passed, 1 failed, 0 skipped" ]
}

@test "a limit of progress ends a command without output, and not one that takes long" {
    run "$TOOLS/reap" -g grows 5 bash -c 'for i in 1 2 3 4 5 6 7 8; do read -rt 1 <> <(:); echo $i >>grows; done'
    [ "$status" -eq 0 ]
    run "$TOOLS/reap" -g grows 3 sleep 86407
    echo "$output"
    [ "$status" -eq 124 ]
    [[ "$output" == *"sleep has not gone on within 3 s"* ]]
}

@test "the processor time of everything that a command has started is measured" {
    run "$TOOLS/reap" -t spent 60 sh -c '(i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done) & wait'
    [ "$status" -eq 0 ]
    awk '{ exit !(NF == 2 && $1 > 0.02 && $1 < 60) }' spent
}

@test "a script that leaves a process has failed, and the process is named and ended" {
    cat >leaves.bats <<'BATS'
@case "one that leaves a process" { setsid -f sleep 86404 3>&- >/dev/null 2>&1; }
BATS
    run_tree
    [ "$status" -eq 1 ]
    [[ "$output" == *"reap: process "*" is left: sleep $$86404"* ]]
    [[ "$output" == *"not ok - tests/e2e/leaves.bats ended with status 125"* ]]
    [ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
    [ -z "$(pgrep -f "sleep $$86404")" ]
}

@test "a script that leaves a temporary file has failed, and the file is named and removed" {
    cat >leaves.bats <<'BATS'
@case "one that leaves a file" { mkdir "$TMPDIR/left"; echo "$TMPDIR" >"$TMPDIR/left/a_file"; echo "$TMPDIR" >../folder; }
BATS
    run_tree
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok - tests/e2e/leaves.bats left files: ./left/a_file"* ]]
    [ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
    [ ! -e "$(cat folder)" ]
}

@test "an interrupted run leaves no process" {
    cat >long.bats <<'BATS'
@case "a long one" { echo >../begun; setsid sleep 86405; }
BATS
    make_tree
    local pid s=0
    afresh BUILD=build env -C tree tests/run >printed 2>&1 3>&- &
    pid=$!
    within 60 test -e begun
    kill -TERM "$(pgrep -P $pid)" # reap itself, and not the shell that started it
    wait $pid || s=$?
    [ $s -eq 143 ]
    [ -z "$(pgrep -f "sleep $$86405")" ]
}

@test "a test that hangs is ended before its script, and the next one runs" {
    cat >still.bats <<BATS
load "$ROOT/tests/e2e/lib.bash"
@case "one that stands still" { setsid sleep 86406; true; }
@case "one that asks an agent without end" {
    start_agents 1
    gated plain
    "\$SUBMIT" -q --codec gated.c --node_count 1 --round-timeout 1000 -o out
}
@case "the next one" { true; }
BATS
    write_tests
    run afresh TEST_TIMEOUT=45 bats --tap still.bats
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"not ok 1 one that stands still"*"this test has not ended within 30 s"* ]]
    [[ "$output" == *"not ok 2 one that asks an agent without end"*"ok 3 the next one"* ]]
    [ -z "$(pgrep -f "sleep $$86406")" ]
}

@test "a test function that hangs ends its program, and is named" {
    run env TEST_TIMEOUT=2 "$BUILD/tests/suite/test_mesh_late"
    echo "$output"
    [ "$status" -eq 142 ]
    [[ "$output" == *"not ok - a_node_that_computes_for_long_while_a_connection_breaks_is_not_lost has not ended within 1 s"* ]]
}

@test "words choose tests of a program and of a script, and the folder of a failed test can be kept" {
    printf '%s\n' "load $ROOT/tests/e2e/lib" '@test "one that fails" { echo a >left; false; }' '@test "another one" { false; }' >one.bats
    run afresh KEEP=1 bats --tap -f 'one that fails' one.bats
    echo "$output"
    [[ "$output" == 1..1* ]]
    [ "$(cat "$(sed -n 's/^# kept: //p' <<<"$output")/left")" = a ]
    cd "$ROOT"
    run env ONLY='torn end' tests/run test_journal
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = '1 passed, 0 failed, 0 skipped' ]
    run env ONLY='no test has this name' tests/run test_journal test_runner.bats
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = '0 passed, 0 failed, 0 skipped' ]
}

@test "without namespaces the tests that need them are skipped and reported" {
    cd "$ROOT"
    run without_namespaces tests/run network.bats
    echo "$output"
    local skipped left_out
    skipped=$(grep -c 'skipped: .*networks of one.s own are not to be had here' <<<"$output")
    left_out=$(sed -n 's/^left out: \([0-9]*\) long tests.*/\1/p' <<<"$output")
    [ "$((skipped + ${left_out:-0}))" -eq "$(grep -c '^@test' tests/e2e/network.bats)" ]
    [[ "${lines[-1]}" == "0 passed, 0 failed, "* ]]
    run without_namespaces bats --tap -f 'without space for a package|a full disk|temporary files' tests/e2e/faults.bats tests/e2e/wrong_input.bats
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok .*# skip a disk of one.s own is not to be had here' <<<"$output")" -eq 3 ]
    run without_namespaces env CMOCKA_MESSAGE_OUTPUT=TAP "$BUILD/tests/unit/runner/test_report"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"# SKIP"* ]]
}
