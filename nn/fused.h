/* fused -- for loops of matrix products, made for AVX2 alone: FUSED in front of a function lets it fuse
 * multiplications with additions (the Makefile allows it to the files that do), has_fused() says whether the
 * processor can run it. */
#ifndef PSGD_FUSED_H
#define PSGD_FUSED_H

#include <stdbool.h>

#ifdef __x86_64__
#define FUSED   __attribute__((target("avx2,fma")))
#define ONCE(v) __asm__("" : "+x"(v)) /* loaded once: gcc loads it for each use, and loads become the limit */

static inline bool has_fused(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define FUSED
#define ONCE(v) (void)(v)

static inline bool has_fused(void)
{
    return false;
}
#endif
#endif
