/* fused -- FUSED before a function lets it fuse multiplications with additions, with AVX2 and FMA on
 * x86-64; for loops of matrix products. Call such a function only if cpu_fuses(). The Makefile sets
 * -ffp-contract=fast for the files that use it. */
#ifndef PSGD_FUSED_H
#define PSGD_FUSED_H

#ifdef __x86_64__
#define FUSED   __attribute__((target("avx2,fma")))
#define ONCE(v) __asm__("" : "+x"(v)) /* loaded once: gcc loads it for each use, and loads become the limit */
#else
#define FUSED
#define ONCE(v) (void)(v)
#endif
#endif
