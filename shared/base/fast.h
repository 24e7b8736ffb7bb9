/* fast -- FAST before a function with a loop over vectors makes the compiler generate three clones, for any
 * x86-64, AVX2 and AVX-512; the loader selects the best one for the processor. No clone fuses a
 * multiplication with an addition (-ffp-contract=off), and sums have a fixed number of lanes: all clones
 * give the same bits. There is only one version on other processors, with sanitizers, which run before the
 * loader has selected, and with clang, where clones of static functions of the same name clash (up to 14 at
 * least). */
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
