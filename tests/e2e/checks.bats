#!/usr/bin/env bats
# `make static` and the fuzz targets, one check per test. A check whose tool is not installed is a skipped test, and
# counted as one.
# bats file_tags=check
# Takes about 2 minutes.
COMPILER=${CC:-cc} # before setup unsets it
load lib

# make as from a shell, with a job per processor, independent of the make that started the tests, and with its compiler, or all would
# be compiled once more; waiting tests run first.
check() {
    by_progress env -u MAKEFLAGS -u MAKELEVEL nice -n 5 make --no-print-directory -C "$ROOT" BUILD="$BUILD" CC="$COMPILER" "$@"
    pass_or_skip
}

pass_or_skip() {
    echo "$output"
    [ "$status" -eq 0 ] || return 1
    reason=$(sed -n 's/^skipped: //p' <<<"$output")
    [ -z "$reason" ] || skip "$reason"
}

@test "the compiler of this build printed no warnings" {
    run "$ROOT/tests/check-warnings" "$COMPILER" "$BUILD/obj" "$BUILD/codecs" "$BUILD/docs" "$BUILD/tests"
    pass_or_skip
}

plain_build_only() {
    case $BUILD in */asan | */tsan) skip "this is a sanitizer's build" ;; esac
}

@test "clang builds the programs and fuzz targets, sanitized and without warnings, and the programs run" {
    plain_build_only
    check "$(is_long && echo clang-check || echo clang-check-programs)"
    run limited "$BUILD/clang/job_submit" simulate --codec fedavg --node_count 2 --epochs 1 --model softmax -o out
    pass_or_skip
}

@test "every fuzz target runs its corpus and 1,000 mutations without a finding" {
    plain_build_only
    command -v clang >/dev/null || skip "clang is not installed"
    # The same inputs each time: chance is for long runs.
    by_progress env BUILD="$BUILD/clang" RUNS=1000 SEED=1 nice -n 5 "$ROOT/tests/fuzz/run"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok ' <<<"$output")" -eq "$(find "$ROOT/tests/fuzz" -name 'fuzz_*.c' | wc -l)" ]
}

@test "compiler warnings are stored, end no build, and fail the check only with a compiler that psgd was tested with" {
    mkdir bin
    cat >bin/new_cc <<'NEW'
#!/bin/sh
case " $* " in
*' -E '*) cat >/dev/null && echo '99 4' ;;
*) cc "$@" && echo 'shared/base/err.c:1: warning: a new one' >&2 ;;
esac
NEW
    sed 's/99 4/__clang_major__ 12/' bin/new_cc >bin/tried_cc
    chmod +x bin/*_cc
    for cc in new_cc tried_cc; do
        run env -u MAKEFLAGS -u MAKELEVEL make -C "$ROOT" BUILD="$T/$cc" CC="$T/bin/$cc" "$T/$cc/obj/shared/base/err.o"
        [ "$status" -eq 0 ]
        [[ "$output" == *'warning: a new one'* ]]
        run "$ROOT/tests/check-warnings" "$T/bin/$cc" "$T/$cc/obj"
        echo "$output"
        [[ "$output" == *'warning: a new one'* ]]
        if [ $cc = tried_cc ]; then [ "$status" -eq 1 ]; else [ "$status" -eq 0 ]; fi
    done
    [[ "$output" != *skipped* ]]
    run "$ROOT/tests/check-warnings" "$T/bin/new_cc" "$T/new_cc/obj"
    [[ "$output" == *'skipped: psgd was not tested with clang-99'* ]]
    # After a compilation without a warning, it is removed.
    touch -d '1 minute ago' "$T/tried_cc/obj/shared/base/err.o"
    env -u MAKEFLAGS -u MAKELEVEL make -s -C "$ROOT" BUILD="$T/tried_cc" -W shared/base/err.c "$T/tried_cc/obj/shared/base/err.o"
    "$ROOT/tests/check-warnings" "$T/bin/tried_cc" "$T/tried_cc/obj"
    # So is one about a file that no longer exists.
    echo 'shared/gone.c:1: warning: a new one' >"$T/tried_cc/obj/shared/gone.o.warnings"
    "$ROOT/tests/check-warnings" "$T/bin/tried_cc" "$T/tried_cc/obj"
}

@test "the source is formatted" {
    check format-check
}

@test "other versions of clang-format are not used" {
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

@test "no file includes what docs/architecture.md forbids" {
    check check-layers
}

@test "an include or a library that is not allowed, a circle of modules, and one in the table are reported" {
    cp -r --parents "$ROOT"/{agent,codecs,conform,nn,page,runner,shared,sim,submit,tests/check-layers,docs/architecture.md} .
    cd ".$ROOT"
    mkdir -p examples/{parallel-sgd,zeromq-easgd,executors,trainers} tests/executors
    BUILD=none limited tests/check-layers
    echo '#include "runner/exchange/exchange.h"' >>runner/mesh/mesh.h
    echo '#include "submit/verbs/verbs.h"' >>runner/node.h
    echo '#include "shared/base/json.h"' >>codecs/compress/loops.h
    mkdir sim/new
    echo '#include "shared/base/err.h"' >sim/new/new.h
    echo '#include <jansson.h>' >>nn/layers/layer.h
    echo '#include <cblas.h>' >>codecs/fedavg.c
    echo '#include "codec.h"' | tee examples/executors/new.c examples/trainers/new.c >>shared/trainer/psgd_trainer.c
    libraries=(microhttpd.h curl/curl.h gnutls/gnutls.h cblas.h seccomp.h zlib.h dnnl.h dlfcn.h)
    printf '#include <%s>\n' "${libraries[@]}" >>shared/base/err.h
    echo '/* PSGD_ONEDNN */' >>sim/sim.h
    echo '#include "runner/exchange/exchange_private.h"' >>conform/check_runs.c
    echo 'int train_model(struct net *n, struct err *e);' >>nn/net.h
    printf 'int train_model(struct net *n, struct err *e)\n{\n    return 0;\n}\n' >>runner/train.c
    mkdir bin none
    touch none/{agent,job_submit,codec_check,simulator,predictor,job_runner}
    printf '#!/bin/sh\nprintf "(NEEDED) lib%%s.so\\n" openblas curl microhttpd\n' >bin/readelf
    chmod +x bin/readelf
    BUILD=none PATH=$PWD/bin:$PATH run limited tests/check-layers
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *'runner/mesh/mesh.h:'*'runner/exchange/exchange.h"    <- docs/architecture.md: runner/mesh/ may not include this'* ]]
    [[ "$output" == *'runner/node.h:'*'runner/ may not include this'* ]]
    [[ "$output" == *'codecs/compress/loops.h:'*'codecs/compress/ may not include this'* ]]
    [[ "$output" == *'include circle: '*'runner/exchange/exchange -> '* ]]
    [[ "$output" != *sim/new* ]]
    [[ "$output" == *'nn/layers/layer.h:'*'the engine reads no JSON'* ]]
    [[ "$output" == *'codecs/fedavg.c:'*'a codec includes only codec.h'* ]]
    [[ "$output" == *'examples/executors/new.c:1:'*'an executor includes only executor.h'* ]]
    [[ "$output" == *'examples/trainers/new.c:1:'*'a training program includes only psgd_trainer.h'* ]]
    [[ "$output" == *'shared/trainer/psgd_trainer.c:'*'users compile these files'* ]]
    for library in "${libraries[@]}"; do
        [[ "$output" == *"shared/base/err.h:"*"#include <$library>    <- "*' is used only in '* ]]
    done
    [[ "$output" == *'sim/sim.h:'*'may use PSGD_ONEDNN'* ]]
    [[ "$output" == *'conform/check_runs.c: runner/exchange/exchange_private.h    <- only files of its folder'* ]]
    [[ "$output" == *'nn/net.h:'*': train_model() is defined in runner/train.c'* ]]
    [ "$(grep -c 'in the folder of its header' <<<"$output")" = 1 ]
    [ "$(grep -c '^none/.* links ' <<<"$output")" = 7 ]
    sed -i 's/^| `runner\/base\/` | /&`runner\/exchange\/`, /; /^| `page\/` /d' docs/architecture.md
    run limited tests/check-layers
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *'docs/architecture.md: runner/base/ may include, over other rows of the table, itself'* ]]
    [[ "$output" == *'page/page.h:'*'has no row for this folder'* ]]
    sed -i '/^| folder | may include/d' docs/architecture.md
    run limited tests/check-layers
    [ "$status" -eq 1 ]
    [[ "$output" == *'has no table'* ]]
}

@test "names are unique, and none is a private word" {
    check check-names
}

@test "a tag, a base name and a static word that are taken are reported, a unit test of no module, and a refused word" {
    mkdir -p agent/api nn submit shared sim tests/unit/{agent,nn}
    touch tests/unit/agent/test_one.c tests/unit/nn/test_other.c
    for f in agent/api/one nn/two submit/three shared/four; do
        printf 'static int find(int i)\n{\n    return i;\n}\nstatic int find_%s(void)\n{\n    return find(1);\n}\n' "${f##*/}" >$f.c
    done
    printf 'struct thing {\n    int a;\n};\n' >nn/other.h
    run "$ROOT/tests/check-names" .
    [ "$status" -eq 1 ]
    [ "$output" = 'a static function of one word in more than three files: find: agent/api/one.c nn/two.c shared/four.c submit/three.c' ]
    rm shared/four.c
    "$ROOT/tests/check-names" .
    printf 'struct thing {\n    int a;\n};\nstruct thing *give(void);\n' >sim/one.c
    touch tests/unit/nn/test_one.c
    echo 'Patience and a notebook are no metaphors, n_strangers is one.' >README.md
    mkdir page docs
    echo '/* a wish */' >page/new.js
    echo 'The doors.' >docs/new.md
    echo 'struct victim;' >tests/unit/nn/test_other.c
    run "$ROOT/tests/check-names" .
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *'a tag that is defined more than once: thing: nn/other.h sim/one.c'* ]]
    [[ "$output" == *'a base name of more than one file: one.c: agent/api/one.c sim/one.c'* ]]
    [[ "$output" == *'a unit test that is named after no module of its folder: tests/unit/nn/test_one.c'* ]]
    [ "$(grep 'has a plain word' <<<"$output" | sort)" = './README.md:1: "stranger" has a plain word: unauthenticated client
docs/new.md:1: "door" has a plain word: access, admission, entry
page/new.js:1: "wish" has a plain word: request
tests/unit/nn/test_other.c:1: "victim" has a plain word: the node, the process' ]
}

@test "docs/reference is what the programs print" {
    check check-reference
}

@test "a page of docs/reference that differs from the programs is reported with what to do" {
    cp -r "$ROOT/docs/reference" pages
    LC_ALL=C.UTF-8 COLUMNS=40 PSGD_CODEC_PATH=/ PSGD_WORKERS=w limited "$ROOT/docs/tool/generate" --check pages
    sed -i 's/^| `--port` /| `--ports` /' pages/agent.md
    run limited "$ROOT/docs/tool/generate" --check pages
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *'run "make reference"'* ]]
    grep -q -e --ports pages/agent.md # it was only compared
}

@test "every script passes shellcheck, and each assertion of a test is on a line of its own" {
    check check-scripts
}

@test "a script of any folder that shellcheck refuses, and two assertions on one line, are reported" {
    mkdir -p submit/new tests/e2e
    printf '#!/usr/bin/env bats\n@test "one" {\n    [ "$status" = 1 ]\n    true\n}\n' >tests/e2e/one.bats
    printf '#!/usr/bin/env python3\nprint($nothing)\n' >submit/new/program
    chmod +x submit/new/program
    "$ROOT/tests/check-scripts" .
    sed -i 's/= 1 ]/& \&\& [ "$status" = 2 ]/' tests/e2e/one.bats
    run "$ROOT/tests/check-scripts" .
    [ "$status" -eq 1 ]
    [[ "$output" == *'tests/e2e/one.bats:3: two tests in one line:'* ]]
    sed -i 's/ && .*//; s/true/cd $nothing/' tests/e2e/one.bats
    printf '#!/bin/sh\nfor i in $(ls); do echo $i; done\n' >submit/new/executable
    cp submit/new/executable submit/new/sourced.sh
    sed 's|/bin/sh|/usr/bin/env bash|' submit/new/executable >submit/new/by_env
    chmod +x submit/new/executable submit/new/by_env
    run "$ROOT/tests/check-scripts" .
    echo "$output"
    [[ "$output" != 'skipped: '* ]] || skip "${output#skipped: }"
    [ "$status" -eq 1 ]
    [[ "$output" == *'In submit/new/executable line 2:'* ]]
    [[ "$output" == *'In submit/new/by_env line 2:'* ]]
    [[ "$output" == *'In submit/new/sourced.sh line 2:'* ]]
    [[ "$output" == *'In tests/e2e/one.bats line 4:'* ]]
    [[ "$output" != *'new/program'* ]]
}
