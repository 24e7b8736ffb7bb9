/* compiler -- what depends on the compiler and its options: FAST for functions with loops over vectors, and
 * IS_SANITIZED. */
#ifndef PSGD_COMPILER_H
#define PSGD_COMPILER_H

/* IS_SANITIZED, 1 or 0, also in #if: a sanitizer is compiled in, which takes more memory and time and
 * replaces malloc(). gcc defines a macro, clang a feature. */
#if defined __has_feature
#define IS_THREAD_SANITIZED  __has_feature(thread_sanitizer)
#define IS_ADDRESS_SANITIZED __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define IS_THREAD_SANITIZED 1
#else
#define IS_THREAD_SANITIZED 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define IS_ADDRESS_SANITIZED 1
#else
#define IS_ADDRESS_SANITIZED 0
#endif
#endif
#define IS_SANITIZED (IS_ADDRESS_SANITIZED || IS_THREAD_SANITIZED)

/* FAST before a function makes the compiler generate three clones of it, for any x86-64, AVX2 and AVX-512;
 * the loader selects the best one for the processor. No clone fuses a multiplication with an addition
 * (-ffp-contract=off), and sums have a fixed number of lanes, so all clones give the same bits. There is only
 * one version on other processors, with sanitizers, which run before the loader has selected, and with clang,
 * where clones of static functions of the same name clash (up to 14 at least). */
#ifdef FAST /* a test compares the clones, each compiled by itself */
#elif defined(__x86_64__) && !defined(__clang__) && !IS_SANITIZED
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

#endif
