/* cpu -- what this processor can, for rules of who computes what. Elsewhere than on x86-64: nothing of it. */
#ifndef PSGD_CPU_H
#define PSGD_CPU_H

#include <stdbool.h>

#ifdef __x86_64__
#define CPU_HAS(feature) __builtin_cpu_supports(feature)
#else
#define CPU_HAS(feature) false
#endif

/* With FMA, as every processor that has AVX2 so far. */
static inline bool cpu_has_avx2(void)
{
    return CPU_HAS("avx2") && CPU_HAS("fma");
}

static inline bool cpu_has_avx512(void)
{
    return CPU_HAS("avx512f");
}

#endif
