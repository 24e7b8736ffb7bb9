/* lanes -- eight floats, worked on together: for loops that a compiler would not turn into vectors by itself.
 * The same bits, however wide the processor's vectors are; memory need not be aligned. */
#ifndef PSGD_LANES_H
#define PSGD_LANES_H

#include <stdint.h>
#include <string.h>

enum { LANES = 8 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t int_lanes __attribute__((vector_size(LANES * sizeof(int32_t)))); /* a comparison's: 0 or -1 */

/* A function that takes or returns vectors has another calling convention in each clone (fast.h): macros, and
 * functions that are inlined and take their addresses. */
#define INLINE              static inline __attribute__((always_inline))
#define LANES_READ(v, from) memcpy(&(v), (from), sizeof(v))
#define LANES_WRITE(to, v)  memcpy((to), &(v), sizeof(v))

/* Lane by lane, which of those of a and b, counted through, to take. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (int_lanes){__VA_ARGS__})
#endif

#define LANES_SUM(v) ((((v)[0] + (v)[4]) + ((v)[2] + (v)[6])) + (((v)[1] + (v)[5]) + ((v)[3] + (v)[7])))
/* a where the mask is set, else b */
#define LANES_CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

#endif
