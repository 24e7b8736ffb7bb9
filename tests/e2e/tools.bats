#!/usr/bin/env bats
# bats file_tags=check
# Tools for the developers of psgd.
load lib

plain_build_only() {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
}

# bats test_tags=long
@test "a complete job under valgrind: no error and no leak" {
    plain_build_only
    command -v valgrind >/dev/null || skip "valgrind is not installed"
    printf 'valgrind-3.19\n%s\n' "$(valgrind --version)" | sort -CV || skip "$(valgrind --version) knows no seals of memory files"
    run limited env BUILD="$BUILD" "$ROOT/tests/valgrind.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"are clean"* ]]
}

@test "make rebuilds the outputs of a changed header, whatever the name of the build folder" {
    for name in "$BUILD" "$(realpath --relative-to="$ROOT" "$BUILD")"; do
        run env -u MAKEFLAGS make -n V=1 -C "$ROOT" BUILD="$name" -W submit/codecs/codec_find.h
        echo "$name: $output"
        [[ "$output" == *"submit/codecs/codec_look.c"* ]]
    done
}
