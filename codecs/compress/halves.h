/* halves -- sums of numbers of 16 bits. */
#ifndef PSGD_COMPRESS_HALVES_H
#define PSGD_COMPRESS_HALVES_H

#include <stddef.h>
#include <stdint.h>

/* As compressor.sum, for numbers that `widen` makes floats, and `narrow` rounds. */
void halves_sum(uint16_t *out, const void *const *in, int n_in, size_t n, float scale,
                void (*widen)(float *, const uint16_t *, size_t),
                void (*narrow)(uint16_t *, const float *, size_t));

#endif
