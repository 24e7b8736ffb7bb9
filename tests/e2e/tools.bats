#!/usr/bin/env bats
# Short versions of the long runs, and the tools that check the source.
# Takes about 3 minutes.
load lib

# make as from a shell, with a job per processor, independent of the make that started the tests; waiting tests run first.
apart() { env -u MAKEFLAGS -u MAKELEVEL nice -n 5 make -s -C "$ROOT" "$@"; }

plain_build_only() {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
}

@test "every fuzz target runs its corpus and 3,000 mutations without a finding" {
    plain_build_only
    command -v clang >/dev/null || skip "clang is not installed"
    run apart fuzz FUZZ_RUNS=3000 FUZZ_SEED=1 # the same inputs each time: chance is for long runs
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok ' <<<"$output")" -eq "$(find "$ROOT/tests/fuzz" -name 'fuzz_*.c' | wc -l)" ]
}

@test "a complete job under valgrind: no error and no leak" {
    plain_build_only
    command -v valgrind >/dev/null || skip "valgrind is not installed"
    printf 'valgrind-3.19\n%s\n' "$(valgrind --version)" | sort -CV || skip "$(valgrind --version) knows no seals of memory files"
    run limited env BUILD="$BUILD" "$ROOT/tests/valgrind.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"are clean"* ]]
}

@test "make knows the outputs of a changed header, whatever the name of the build folder" {
    for name in "$BUILD" "$(realpath --relative-to="$ROOT" "$BUILD")"; do
        run env -u MAKEFLAGS make -n V=1 -C "$ROOT" BUILD="$name" -W submit/codecs/find.h
        echo "$name: $output"
        [[ "$output" == *"submit/codecs/codec_look.c"* ]]
    done
}

# In the middle of a test a false A in `A && B` does not fail the test.
@test "each assertion of a script is on a line of its own" {
    run awk 'was && !/^ *}/ { print was; bad = 1 } { was = "" }
             /^ *\[.*\] && \[/ { was = FILENAME ":" FNR ": " $0 } END { exit bad }' "$ROOT"/tests/e2e/*.bats
    echo "$output"
    [ "$status" -eq 0 ]
}
