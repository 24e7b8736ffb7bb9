/* fast -- FAST in front of a function with a loop over vectors: the compiler makes it three times, for every
 * x86-64, for AVX2 and for AVX-512, and the loader takes the one that suits the processor. No clone fuses a
 * multiplication with an addition (-ffp-contract=off), and sums have a fixed number of lanes: all clones give
 * the same bits. Elsewhere, and where a sanitizer runs before the loader has chosen, there is one version. */
#ifndef PSGD_FAST_H
#define PSGD_FAST_H

#ifdef __has_feature
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED 0
#endif

#if defined(__x86_64__) && !IS_SANITIZED && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

#endif
