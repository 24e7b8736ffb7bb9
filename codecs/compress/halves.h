/* halves -- numbers of 16 bits: scaled by a power of two on their way, and added. */
#ifndef PSGD_COMPRESS_HALVES_H
#define PSGD_COMPRESS_HALVES_H

#include <stddef.h>
#include <stdint.h>

/* As compressor.sum, for numbers that `widen` makes floats, and `narrow` rounds. */
void halves_sum(uint16_t *out, const void *const *in, int n_in, size_t n, float scale,
                void (*widen)(float *, const uint16_t *, size_t),
                void (*narrow)(uint16_t *, const float *, size_t));

/* items[i] = v[i] factor, as `narrow` rounds it; out[i] = items[i] factor. */
void halves_encode(uint16_t *items, const float *v, size_t n, float factor,
                   void (*narrow)(uint16_t *, const float *, size_t));
void halves_decode(float *out, const uint16_t *items, size_t n, float factor,
                   void (*widen)(float *, const uint16_t *, size_t));

#endif
