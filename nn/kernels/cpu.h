/* cpu -- what this processor can, for rules of who computes what. */
#ifndef PSGD_CPU_H
#define PSGD_CPU_H

#include <stdbool.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* AMD's family of Zen 3, which has no AVX-512, and of Zen 4. A compiler that is older than the family is
 * asked for AMD as such, and so takes a Zen 5 for a Zen 4: that costs speed and changes no result's
 * correctness. */
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

/* AMD's, until 2010. The compilers' builtin functions do not know it. */
static inline bool cpu_has_3dnow(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d;

    return __get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1u << 31;
#else
    return false;
#endif
}

/* With FMA, as every processor that has AVX2 so far. */
static inline bool cpu_has_avx2(void)
{
    return CPU_HAS("avx2") && CPU_HAS("fma");
}

/* Has it the fused operations that loops with FUSED (fused.h) are made of? Every arm64 has. */
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

/* AMD's Zen 4 takes sixteen lanes as two halves, one after the other: loops for AVX2 reach all that it
 * can. */
static inline bool cpu_halves_avx512(void)
{
    return cpu_has_avx512() && CPU_IS(ZEN4);
}

#endif
