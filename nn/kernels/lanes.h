/* lanes -- vectors of a few floats, for loops that compilers do not vectorize by themselves. Memory need
 * not be aligned.
 *
 * There are eight lanes on x86-64 and four elsewhere: gcc (12) keeps a vector longer than the processor's
 * registers on the stack, and an accumulation in it waits for a store and a load in every iteration. Sums
 * across lanes use eight partial sums, SUMS / LANES vectors, on every machine, so that the bits are the
 * same. */
#ifndef PSGD_LANES_H
#define PSGD_LANES_H

#include <stdint.h>
#include <string.h>

#ifndef __x86_64__
#define FOUR_LANES /* also defined by a test that compares both forms */
#endif
#ifndef FOUR_LANES
enum { LANES = 8 };
#define LANES_COUNT 0, 1, 2, 3, 4, 5, 6, 7
#else
enum { LANES = 4 };
#define LANES_COUNT 0, 1, 2, 3
#endif
enum { SUMS = 8 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t int_lanes __attribute__((vector_size(LANES * sizeof(int32_t)))); /* a comparison's: 0 or -1 */

/* Functions that take or return vectors have another calling convention in each clone (compiler.h). Hence
 * macros, and inlined functions that take the vectors' addresses. */
#define INLINE              static inline __attribute__((always_inline))
#define LANES_READ(v, from) memcpy(&(v), (from), sizeof(v))
#define LANES_WRITE(to, v)  memcpy((to), &(v), sizeof(v))

/* Keeps v in a register: gcc would load it again for each use, and loads become the limit. */
#ifdef __x86_64__
#define ONCE(v) __asm__("" : "+v"(v))
#else
#define ONCE(v) (void)(v)
#endif

/* The arguments after a and b: for each lane of the result, the index of a lane in a followed by b. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (int_lanes){__VA_ARGS__})
#endif

/* The sum of the eight values of `lanes s[SUMS / LANES]`. */
#define LANES_SUM(s)                                                                                         \
    (((SUM_AT(s, 0) + SUM_AT(s, 4)) + (SUM_AT(s, 2) + SUM_AT(s, 6))) +                                       \
     ((SUM_AT(s, 1) + SUM_AT(s, 5)) + (SUM_AT(s, 3) + SUM_AT(s, 7))))
#define SUM_AT(s, i) (s)[(i) / LANES][(i) % LANES]

/* a where the mask is set, else b */
#define LANES_CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

#endif
