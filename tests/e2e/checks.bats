#!/usr/bin/env bats
# `make check`, one check a test: what is said of the source without running it. What a check needs and is not installed
# is a test skipped, and counted as one.
# Takes about 2 minutes.
COMPILER=${CC:-cc} # before setup unsets it
load lib

# make as from a shell, with a job per processor, whichever make has started the tests; and what tests wait for comes first.
# A whole build on a busy machine may take longer than other programs of a test: it has the test's own limit.
check() {
    run "$TOOLS/reap" $((TEST_LIMIT - 10)) env -u MAKEFLAGS -u MAKELEVEL nice -n 5 make -s -C "$ROOT" BUILD="$BUILD" "$@"
    judge
}

judge() {
    echo "$output"
    [ "$status" -eq 0 ] || return 1
    reason=$(sed -n 's/^skipped: //p' <<<"$output")
    [ -z "$reason" ] || skip "$reason"
}

@test "the compiler of this build has warned of nothing" {
    run "$ROOT/tests/check-warnings" "$COMPILER" "$BUILD/obj" "$BUILD/codecs" "$BUILD/tests"
    judge
}

@test "clang builds the programs, they run, and it has warned of nothing" {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
    check clang-check
    limited "$BUILD/clang/job_submit" simulate --codec fedavg --node_count 2 --epochs 1 --model softmax -o out
}

@test "what the compiler says is kept, ends no build, and ends the check only of a compiler that psgd was tried with" {
    mkdir bin
    cat >bin/new_cc <<'NEW'
#!/bin/sh
case " $* " in
*' -E '*) cat >/dev/null && echo '99 4' ;;
*) cc "$@" && echo 'shared/err.c:1: warning: a new one' >&2 ;;
esac
NEW
    sed 's/99 4/__clang_major__ 12/' bin/new_cc >bin/tried_cc
    chmod +x bin/*_cc
    for cc in new_cc tried_cc; do
        run env -u MAKEFLAGS -u MAKELEVEL make -C "$ROOT" BUILD="$T/$cc" CC="$T/bin/$cc" "$T/$cc/obj/shared/err.o"
        [ "$status" -eq 0 ]
        [[ "$output" == *'warning: a new one'* ]]
        run "$ROOT/tests/check-warnings" "$T/bin/$cc" "$T/$cc/obj"
        echo "$output"
        [[ "$output" == *'warning: a new one'* ]]
        if [ $cc = tried_cc ]; then [ "$status" -eq 1 ]; else [ "$status" -eq 0 ]; fi
    done
    [[ "$output" != *skipped* ]]
    run "$ROOT/tests/check-warnings" "$T/bin/new_cc" "$T/new_cc/obj"
    [[ "$output" == *'skipped: psgd was not tried with clang-99'* ]]
    # Compiled again without a warning, it is forgotten.
    touch -d '1 minute ago' "$T/tried_cc/obj/shared/err.o"
    env -u MAKEFLAGS -u MAKELEVEL make -s -C "$ROOT" BUILD="$T/tried_cc" -W shared/err.c "$T/tried_cc/obj/shared/err.o"
    "$ROOT/tests/check-warnings" "$T/bin/tried_cc" "$T/tried_cc/obj"
    # So is one about a file that is gone.
    echo 'shared/gone.c:1: warning: a new one' >"$T/tried_cc/obj/shared/gone.o.says"
    "$ROOT/tests/check-warnings" "$T/bin/tried_cc" "$T/tried_cc/obj"
}

@test "the source is formatted" {
    check format-check
}

@test "another version of clang-format has no say" {
    mkdir bin
    printf '#!/bin/sh\necho "clang-format version 19.1.7"\n' >bin/clang-format
    chmod +x bin/clang-format
    for p in sh echo find awk grep make nproc env; do ln -s "$(type -P $p)" bin/; done
    run env -u MAKEFLAGS -u MAKELEVEL PATH="$T/bin" make -s -C "$ROOT" BUILD="$BUILD" ONEDNN= format-check
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *'skipped: clang-format 14 is not installed'* ]]
    run env -u MAKEFLAGS -u MAKELEVEL PATH="$T/bin" make -s -C "$ROOT" BUILD="$BUILD" ONEDNN= format
    [ "$status" -ne 0 ]
    [[ "$output" == *'formatted by clang-format 14'* ]]
}

@test "nobody includes what docs/architecture.md forbids" {
    check check-layers
}

@test "every script is clean" {
    check check-scripts
}

# In the middle of a test a false A in `A && B` ends nothing.
@test "each assertion of a script stands on a line of its own" {
    run awk 'was && !/^ *}/ { print was; bad = 1 } { was = "" }
             /^ *\[.*\] && \[/ { was = FILENAME ":" FNR ": " $0 } END { exit bad }' "$ROOT"/tests/e2e/*.bats
    echo "$output"
    [ "$status" -eq 0 ]
}
