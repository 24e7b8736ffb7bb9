/* fused -- for loops of matrix products, made for processors with fused operations alone: FUSED in front of a
 * function lets it fuse multiplications with additions (the Makefile allows it to the files that do), on
 * x86-64 those of AVX2's time. Only where cpu_fuses(). */
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
