#!/usr/bin/env bats
# The engine of a node: kernels, threads, and their entries in run.json.
load lib

# A library preloaded before OpenBLAS that identifies the processor as an old one, as 0.3.21 does with unknown processors
# unless it is given a core type; it records its answer.
poor_openblas() {
    cat >poor.c <<'C'
#include <stdio.h>
#include <stdlib.h>
const char *openblas_get_corename(void);
const char *openblas_get_corename(void)
{
    const char *core = getenv("OPENBLAS_CORETYPE") ? getenv("OPENBLAS_CORETYPE") : "Prescott";
    FILE *f = fopen(getenv("ANSWERS"), "a");

    fprintf(f, "%s\n", core);
    fclose(f);
    return core;
}
C
    cc -shared -fPIC -o poor.so poor.c
}

@test "a poor choice of kernels is corrected before anything is computed" {
    grep -q ' avx2 ' /proc/cpuinfo || skip 'this processor has no AVX2, so no kernels are too old for it'
    case $(readelf -Ws "$BUILD/job_runner") in *__asan_init* | *__tsan_init*) skip 'a sanitizer must be loaded first' ;; esac
    poor_openblas
    # Started by hand: it checks its kernels, has them chosen again, checks again, and ends because it receives no orders.
    run env -u OPENBLAS_CORETYPE ANSWERS="$T/answers" LD_PRELOAD="$T/poor.so" "$TOOLS/limit" "$PROGRAM_LIMIT" "$BUILD/job_runner" 3</dev/null 4</dev/null
    [ "$(sed -n 1p answers)" = Prescott ]
    grep -qE '^(Haswell|SkylakeX)$' answers
    [ "$(grep -c Prescott answers)" = 1 ]
}

@test "run.json has the kernels, libraries and threads of every node" {
    start_agents 2
    write_workers 2
    "$SUBMIT" -q --node_count 2 --epochs 1 --codec plain -o out
    [ "$(jq '[.nodes[] | select(.engine | test("kernels.*1 thread$"))] | length' out/run.json)" = 2 ]
}

@test "kernels set by the user are kept" {
    grep -q ' avx2 ' /proc/cpuinfo || skip 'this processor has no AVX2'
    export OPENBLAS_CORETYPE=Prescott
    start_agents 1
    write_workers 1
    run "$SUBMIT" --node_count 1 --epochs 1 --codec dummy -o out
    [ "$status" = 0 ]
    jq -e '.nodes[0].engine | test("Prescott kernels")' out/run.json
    [[ $output == *"a poor choice for this processor"* ]]
}

# bats test_tags=long
@test "a node uses the given number of threads, but no more than it has processors" {
    start_agents 1
    write_workers 1
    run "$SUBMIT" --node_count 1 --epochs 1 --codec dummy --threads 1000 -o out
    [ "$status" -eq 0 ]
    [[ "$output" == *"instead of 1000: its machine has no more processors"* ]]
    jq -e --arg n "$(env -u OMP_NUM_THREADS nproc)" '.nodes[0].engine | test(", " + $n + " threads?$")' out/run.json
}

@test "nodes on one machine divide its processors" {
    local most=$(($(getconf _NPROCESSORS_ONLN) / 2)) own
    own=$(env -u OMP_NUM_THREADS nproc)
    most=$((most < own ? most : own))
    start_agents 2
    run "$SUBMIT" --node_count 2 --epochs 1 --codec dummy --threads 1000 -o out
    [ "$status" -eq 0 ]
    [[ "$output" == *"instead of 1000: 2 workers of this job share the processors of its machine"* ]]
    [ "$(jq --arg n $((most > 1 ? most : 1)) '[.nodes[].engine | test(", " + $n + " threads?$")] | all' out/run.json)" = true ]
}

# With fma, too: no clone may fuse two operations, though all processors with AVX2 could. Four lanes are those of
# other processors than x86-64.
# bats test_tags=long
@test "every clone of a loop and each number of lanes give the same bits" {
    local needs=(nn/{layers/{conv_direct,layer_{activation,layer_norm,pool}},loss,optimizer,init}
        nn/kernels/{narrow,transpose,parallel,orthogonal,matmul,blas,onednn}
        runner/base/vector codecs/compress/loops
        shared/{base/{err,number,rng,json,private,file,process,utf8,choice},job/{layer_spec,optimizer_kind}}) name libraries=(-lopenblas)
    clone() { # clone NAME OPTIONS
        env -u MAKEFLAGS -u SANITIZE -u CC CFLAGS="-O2 -DFAST= $2" make -s -C "$ROOT" BUILD="$T/$1" "${needs[@]/#/$T/$1/obj/}"
    }
    needs=("${needs[@]/%/.o}")
    ! "$BUILD/job_runner" --about | grep -q oneDNN || libraries+=(-ldnnl)
    [ "$(uname -m)" = x86_64 ] || skip 'on this processor loops have one form'
    clone plain ''
    ! grep -q ' avx2 ' /proc/cpuinfo || clone avx2 '-mavx2 -mfma'
    if is_long; then
        clone four -DFOUR_LANES
        ! grep -q ' avx512f ' /proc/cpuinfo || clone avx512f -mavx512f
    fi
    for name in plain four avx2 avx512f; do
        [ -d "$name" ] || continue
        cc -std=c11 -I"$ROOT" -o "$name/clones" "$ROOT/tests/e2e/clones.c" "${needs[@]/#/$name/obj/}" "${libraries[@]}" \
            -ljansson -lm -pthread
        "$name/clones" >"$name/bytes"
        cmp plain/bytes "$name/bytes"
    done
    [ "$(wc -c <plain/bytes)" -gt 10000 ]
}
