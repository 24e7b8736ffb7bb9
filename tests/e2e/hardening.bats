#!/usr/bin/env bats
# bats file_tags=check
# Built programs and codecs: the options by which a memory error ends a process before an attacker controls it.
load lib

# Options of the probe, which depend on the compiler.
options() { cat "$BUILD/hardening"; }

has_option() { [[ " $(options) " == *" $1 "* ]]; }

plain_build_only() {
    case $BUILD in */asan | */tsan) skip 'a sanitizer checks the plain functions' ;; esac
}

programs() { printf '%s\n' "$BUILD"/{agent,job_submit,job_runner,predictor,simulator,codec_check}; }

codecs() { printf '%s\n' "$BUILD"/codecs/*.so; }

# is_relocated_for_good FILE: all symbols are bound at the start, and the tables they are in are read-only then.
is_relocated_for_good() {
    local segments dynamic
    segments=$(readelf -lW "$1")
    dynamic=$(readelf -dW "$1")
    echo "$1"
    [[ "$segments" == *GNU_RELRO* ]] || return 1
    [[ "$dynamic" =~ BIND_NOW|'Flags: NOW' ]]
}

# No segment is both written and executed; the stack is one.
has_no_executable_data() {
    ! readelf -lW "$1" | grep -E ' RWE |GNU_STACK.* R?W?E '
}

@test "programs and codecs are bound at the start, and have no memory that is written and executed" {
    local n=0 file
    while read -r file; do
        is_relocated_for_good "$file"
        has_no_executable_data "$file"
        n=$((n + 1))
    done < <(programs && codecs)
    [ "$n" -gt 20 ]
}

@test "programs are loaded at a random address" {
    has_option -pie
    local file
    while read -r file; do
        run readelf -dhW "$file"
        [[ "$output" =~ Type:\ +DYN ]]
        [[ "$output" =~ FLAGS_1.*PIE ]]
    done < <(programs)
}

@test "functions with arrays check the stack before they return, and calls of the C library their buffers" {
    plain_build_only
    local file
    has_option -fstack-protector-strong
    has_option -U_FORTIFY_SOURCE
    while read -r file; do
        run readelf -sW "$file"
        echo "$file"
        [[ "$output" == *__stack_chk_fail* ]]
        [[ "$output" == *_chk@* ]]
    done < <(programs)
    # A codec may have neither an array nor such a call. One that has both:
    cat >array.c <<'C'
#include <stdio.h>
#include "codec_events.h"

static int open_array(struct codec *c)
{
    char text[64];

    snprintf(text, sizeof text + (size_t)c->run->node, "worker %d", c->run->node);
    return text[0] == 'w' ? CODEC_GO : -1;
}

static int encode(struct codec *c, struct wire_out *out)
{
    (void)c, (void)out;
    return CODEC_GO;
}

static int merge(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return CODEC_GO;
}

static const struct codec_round array = {.encode = encode, .merge = merge};

CODEC_PLUGIN(.name = "array", .source = "a test", .open = open_array, .more = CODEC_MORE(.round = &array))
C
    # Objects that job_submit and job_runner compile have these, too.
    read -ra flags < <(strings "$BUILD/job_runner" | grep -m 1 -e '-shared.*-fstack-protector')
    cc "${flags[@]}" -Werror -I"$BUILD/include" -o array.so array.c
    run readelf -sW array.so
    [[ "$output" == *__stack_chk_fail* ]]
    [[ "$output" == *__snprintf_chk@* ]]
    is_relocated_for_good array.so
}

@test "on x86-64 a call or jump of a pointer must reach the beginning of a function" {
    [ "$(uname -m)" = x86_64 ] || skip "this is no x86-64"
    has_option -fcf-protection || skip "the compiler has no -fcf-protection"
    run bash -c "find '$BUILD/obj' -name '*.o' | xargs readelf -nW | grep -c 'x86 feature:.*IBT.*SHSTK'"
    [ "$output" -eq "$(find "$BUILD/obj" -name '*.o' | wc -l)" ]
    local file
    while read -r file; do
        [ "$(objdump -d "$file" | grep -c -m 1 endbr64)" -eq 1 ]
    done < <(codecs)
}

@test "options on make's command line override those of the Makefile, which add no warning" {
    run env -u MAKEFLAGS -u MAKELEVEL make -n V=1 -C "$ROOT" BUILD="$T/build" CFLAGS='-O0 -fno-stack-protector' \
        LDFLAGS=-Wl,-z,lazy "$T/build/agent" "$T/build/codecs/plain.so"
    [ "$status" -eq 0 ]
    [[ "$output" != *_FORTIFY_SOURCE* ]] # it needs an optimizing compiler
    [[ "$output" =~ -fstack-protector-strong.*-fno-stack-protector ]]
    [[ "$output" =~ -z,now.*-z,lazy ]]
    run env -u MAKEFLAGS -u MAKELEVEL make -n V=1 -C "$ROOT" BUILD="$T/build" HARDENING= "$T/build/agent"
    [[ "$output" != *-fstack-protector-strong* ]]
}
