#include "codecs/compress/halves.h"

enum { AT_ONCE = 1024 /* floats of two such parts stay in the first-level cache */ };

void halves_sum(uint16_t *out, const void *const *in, int n_in, size_t n, float scale,
                void (*widen)(float *, const uint16_t *, size_t),
                void (*narrow)(uint16_t *, const float *, size_t))
{
    float sum[AT_ONCE], v[AT_ONCE];

    for (size_t at = 0; at < n; at += AT_ONCE) {
        size_t len = n - at < AT_ONCE ? n - at : AT_ONCE;

        widen(sum, (const uint16_t *)in[0] + at, len);
        for (int k = 1; k < n_in; k++) {
            if (k > 1) {
                narrow(out + at, sum, len);
                widen(sum, out + at, len);
            }
            widen(v, (const uint16_t *)in[k] + at, len);
            for (size_t i = 0; i < len; i++)
                sum[i] += v[i];
        }
        for (size_t i = 0; i < len; i++)
            sum[i] *= scale;
        narrow(out + at, sum, len);
    }
}

void halves_encode(uint16_t *items, const float *v, size_t n, float factor,
                   void (*narrow)(uint16_t *, const float *, size_t))
{
    float part[AT_ONCE];

    if (factor == 1) {
        narrow(items, v, n);
        return;
    }
    for (size_t at = 0; at < n; at += AT_ONCE) {
        size_t len = n - at < AT_ONCE ? n - at : AT_ONCE;

        for (size_t i = 0; i < len; i++)
            part[i] = v[at + i] * factor;
        narrow(items + at, part, len);
    }
}

void halves_decode(float *out, const uint16_t *items, size_t n, float factor,
                   void (*widen)(float *, const uint16_t *, size_t))
{
    for (size_t at = 0; at < n; at += AT_ONCE) {
        size_t len = n - at < AT_ONCE ? n - at : AT_ONCE;

        widen(out + at, items + at, len);
        for (size_t i = 0; factor != 1 && i < len; i++)
            out[at + i] *= factor;
    }
}
