/* fast -- FAST in front of a function with a loop over vectors: the compiler makes it three times, for every
 * x86-64, for AVX2 and for AVX-512, and the loader takes the one that suits the processor. No clone fuses a
 * multiplication with an addition (-ffp-contract=off), and sums have a fixed number of lanes: all clones give
 * the same bits. There is one version elsewhere, where a sanitizer runs before the loader has chosen, and
 * from clang, whose clones of static functions of equal names clash (up to 14 at least). */
#ifndef PSGD_FAST_H
#define PSGD_FAST_H

#ifdef FAST /* a test compares the clones, each compiled by itself */
#elif defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                        \
    !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

#endif
