/* cpu -- features of this processor, for the rules that choose an implementation; loops for one feature. */
#ifndef PSGD_CPU_H
#define PSGD_CPU_H

#include <stdbool.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* AMD's family of Zen 3, which has no AVX-512, and of Zen 4. Compilers older than the family only test for
 * AMD, and so take a Zen 5 for a Zen 4: that costs speed, results stay correct. */
#if defined __clang__ ? __clang_major__ >= 12 : __GNUC__ >= 11
#define ZEN4 "amdfam19h"
#else
#define ZEN4 "amd"
#endif

#ifdef __x86_64__
#define CPU_IS_X86       true
#define CPU_HAS(feature) __builtin_cpu_supports(feature)
#define CPU_IS(family)   __builtin_cpu_is(family)
#else
#define CPU_IS_X86       false
#define CPU_HAS(feature) false
#define CPU_IS(family)   false
#endif

/* Of AMD processors until 2010. The compilers' builtin functions cannot test for it. */
static inline bool cpu_has_3dnow(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d;

    return __get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1u << 31;
#else
    return false;
#endif
}

/* Also tests for FMA, which every processor with AVX2 has so far. */
static inline bool cpu_has_avx2(void)
{
    return CPU_HAS("avx2") && CPU_HAS("fma");
}

/* FUSED before a function lets it fuse multiplications with additions, with AVX2 and FMA on x86-64; for loops
 * of matrix products. Such a function may be called only if cpu_fuses(). The Makefile sets -ffp-contract=fast
 * for the files that use it. */
#ifdef __x86_64__
#define FUSED __attribute__((target("avx2,fma")))
#else
#define FUSED
#endif

/* Whether it has the fused operations that FUSED functions need; every arm64 has. */
static inline bool cpu_fuses(void)
{
#ifdef __aarch64__
    return true;
#else
    return cpu_has_avx2();
#endif
}

static inline bool cpu_has_avx512(void)
{
    return CPU_HAS("avx512f");
}

/* AMD's Zen 4 computes sixteen lanes as two halves, one after the other: AVX2 loops reach its full speed. */
static inline bool cpu_halves_avx512(void)
{
    return cpu_has_avx512() && CPU_IS(ZEN4);
}

#endif
