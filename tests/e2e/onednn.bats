#!/usr/bin/env bats
# bats file_tags=check
# Which oneDNN a build uses, and which files are rebuilt when that changes.
load lib

FUNCTIONS_2='dnnl_memory_desc_init_by_tag'
FUNCTIONS_3='dnnl_memory_desc_create_with_tag'

# headers VERSION: a dnnl.h in $T/include.
headers() {
    mkdir -p "$T/include"
    IFS=. read -r major minor patch <<<"$1"
    printf '#define DNNL_VERSION_%s %s\n' MAJOR "$major" MINOR "$minor" PATCH "$patch" >"$T/include/dnnl.h"
}

# library FUNCTION...: a libdnnl.so in $T/lib.
library() {
    mkdir -p "$T/lib"
    printf 'int %s(void) { return 0; }\n' dnnl_sgemm "$@" | cc -shared -fPIC -x c - -o "$T/lib/libdnnl.so"
}

# A compiler that does not find this machine's oneDNN.
compiler() {
    cat >"$T/compiler" <<'END'
#!/bin/bash
here=$(dirname "$0")
[ -e "$here/lib/libdnnl.so" ] || set -- "${@/#-ldnnl/-ldnnl-of-no-machine}"
exec cc -nostdinc "$@"
END
    chmod +x "$T/compiler"
}

# probe: prints the result of nn/kernels/onednn_probe.sh with that compiler.
probe() {
    CC=$T/compiler CFLAGS="-O2 -I$T/include" LDFLAGS=-L$T/lib "$ROOT/nn/kernels/onednn_probe.sh"
}

@test "oneDNN 2 and 3 are found if headers and library exist" {
    compiler
    library "$FUNCTIONS_2"
    for version in 2.0.0 2.6.3 2.11.10; do
        headers "$version"
        [ "$(probe)" = "$version" ]
    done
    library "$FUNCTIONS_3"
    for version in 3.0.0 3.7.2; do
        headers "$version"
        [ "$(probe)" = "$version" ]
    done
}

@test "without headers there is no oneDNN, and no message" {
    compiler
    library "$FUNCTIONS_2"
    [ "$(probe)" = none ]
}

@test "a missing library, or one of another version, is not used, with a message" {
    compiler
    headers 3.7.2
    [ "$(probe)" = "none: dnnl.h is of oneDNN 3.7.2, but linking with its library (-ldnnl) fails" ]
    library "$FUNCTIONS_2"
    [ "$(probe)" = "none: dnnl.h is of oneDNN 3.7.2, but linking with its library (-ldnnl) fails" ]
    headers 2.6.3
    [ "$(probe)" = 2.6.3 ]
}

@test "versions unknown to psgd are not used, with a message" {
    compiler
    library "$FUNCTIONS_2" "$FUNCTIONS_3"
    for version in 0.21.2 1.96.6 4.0.0 20.1.0 30.1.0; do
        headers "$version"
        [ "$(probe)" = "none: psgd supports oneDNN 2 and 3, but dnnl.h is of version $version" ]
    done
    echo '/* no version */' >"$T/include/dnnl.h"
    [ "$(probe)" = "none: dnnl.h does not define the version of oneDNN" ]
}

@test "the runner of this build links the oneDNN that make chose, or none" {
    local needed
    needed=$(readelf -d "$BUILD/job_runner" | sed -n 's/.*NEEDED.*\[libdnnl\.so\.\([0-9]*\).*/\1/p')
    echo "chosen: $(cat "$BUILD/onednn"), linked: ${needed:-none}"
    [[ $(cat "$BUILD/onednn") == "${needed:-none}"* ]]
}

# build ARGUMENT...: builds two programs into $T/b with a separate make; $T/log lists what was compiled and linked. The
# compiler and the archiver only touch their outputs: the test counts their calls.
build() {
    cat >"$T/cc" <<'END'
#!/bin/bash
for ((i = 1; i <= $#; i++)); do [ "${!i}" != -o ] || out=$((i + 1)); done
touch "${!out}"
echo "$*" >>"$(dirname "$0")/log"
END
    cat >"$T/ar" <<'END'
#!/bin/sh
touch "$2"
END
    chmod +x "$T/cc" "$T/ar"
    : >"$T/log"
    env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS make -j2 -C "$ROOT" CC="$T/cc" AR="$T/ar" HARDENING= BUILD="$T/b" "$@" \
        "$T/b/job_runner" "$T/b/agent"
}

compiled() { sed -n 's/.* -c -o [^ ]* \([^ ]*\)$/\1/p' "$T/log" | sort | tr '\n' ' '; }
linked() { grep -oE -- "-o $T/b/(job_runner|agent) " "$T/log" | sed "s|-o $T/b/||" | tr -d '\n'; }

# bats test_tags=long
@test "another choice of oneDNN recompiles and links what depends on it, and nothing else" {
    build ONEDNN=
    [ -n "$(compiled)" ]
    [ "$(grep -cE 'PSGD_ONEDNN|-ldnnl' "$T/log")" -eq 0 ]
    grep -q none "$T/b/onednn"
    build ONEDNN=
    [ ! -s "$T/log" ]
    for choice in 2.6.3 3.7.2; do
        build ONEDNN=$choice
        echo "$choice: $(compiled)"
        [ "$(compiled)" = "nn/kernels/onednn.c nn/layers/conv_onednn.c " ]
        [ "$(grep -c -- '-c -o .*' "$T/log")" -eq "$(grep -c -- -DPSGD_ONEDNN "$T/log")" ]
        [ "$(linked)" = "job_runner " ]
        grep -q -- "-o $T/b/job_runner .*-ldnnl" "$T/log"
        build ONEDNN=$choice
        [ ! -s "$T/log" ]
    done
    build ONEDNN=
    [ "$(compiled)" = "nn/kernels/onednn.c nn/layers/conv_onednn.c " ]
    [ "$(grep -cE 'PSGD_ONEDNN|-ldnnl' "$T/log")" -eq 0 ]
}

# chosen: make's message when it chooses a oneDNN with the compiler of the tests above, and its stored choice.
chosen() {
    env -u MAKEFLAGS -u MAKELEVEL CFLAGS="-I$T/include" LDFLAGS="-L$T/lib" make -s -C "$ROOT" CC="$T/compiler" BUILD="$T/b" \
        "$T/b/onednn"
    cat "$T/b/onednn"
}

@test "make uses what the probe finds, and reports why existing headers are not used" {
    local missing="none: dnnl.h is of oneDNN 3.9.1, but linking with its library (-ldnnl) fails"
    local unknown="none: psgd supports oneDNN 2 and 3, but dnnl.h is of version 4.1.0"
    compiler
    [ "$(chosen)" = "$(printf '  ONEDNN %s\n' none; echo none)" ]
    [ "$(chosen)" = none ] # printed once
    headers 3.9.1
    [ "$(chosen)" = "$(printf '  ONEDNN %s\n' "$missing"; echo "$missing")" ]
    library "$FUNCTIONS_3"
    [ "$(chosen)" = "$(printf '  ONEDNN %s\n' 3.9.1; echo 3.9.1)" ]
    headers 4.1.0
    [ "$(chosen)" = "$(printf '  ONEDNN %s\n' "$unknown"; echo "$unknown")" ]
}
