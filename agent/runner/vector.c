#include "agent/runner/vector.h"

#include <stdint.h>
#include <string.h>

#include "nn/kernels/lanes.h"
#include "shared/fast.h"

enum {
    AT_ONCE = 4 * LANES, /* four sums side by side hide the time that one addition takes */
    LINE = 64,
};

/* Lanes are read through one variable: gcc 12 keeps an array of them that is filled as a whole on the
 * stack, and sums take six times as long. */
FAST void vector_sum(float *out, const float *const *in, int n_in, size_t n, float scale)
{
    size_t i = 0;

    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        lanes s[4], v;

        for (int j = 0; j < 4; j++) {
            LANES_READ(v, in[0] + i + j * LANES);
            s[j] = v;
        }
        for (int k = 1; k < n_in; k++)
            for (int j = 0; j < 4; j++) {
                LANES_READ(v, in[k] + i + j * LANES);
                s[j] += v;
            }
        for (int j = 0; j < 4; j++) {
            v = s[j] * scale;
            LANES_WRITE(out + i + j * LANES, v);
        }
    }
    for (; i < n; i++) {
        float s = in[0][i];

        for (int k = 1; k < n_in; k++)
            s += in[k][i];
        out[i] = s * scale;
    }
}

FAST void vector_scale(float *restrict sum, const float *restrict v, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = part * v[i];
}

FAST void vector_add(float *restrict sum, const float *restrict v, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += part * v[i];
}

FAST void vector_mix(float *restrict mean, const float *restrict v, float part, size_t n)
{
    float rest = 1 - part;

    for (size_t i = 0; i < n; i++)
        mean[i] = rest * mean[i] + part * v[i];
}

static FAST void copy_lanes(float *out, const float *in, size_t n)
{
    size_t i = 0;

    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        for (int j = 0; j < 4; j++) {
            lanes v;

            LANES_READ(v, in + i + j * LANES);
            LANES_WRITE(out + i + j * LANES, v);
        }
    }
    memcpy(out + i, in + i, (n - i) * sizeof *out);
}

/* glibc copies more than 2 KiB by REP MOVSB, which is the fastest if both vectors have the same offset in
 * their cache lines, and on AMD's Zen 3 ten times slower than plain loads and stores if they do not: 2.9
 * against 25 GB/s into memory from malloc, which is 16 bytes after the start of a line. */
void vector_copy(float *out, const float *in, size_t n)
{
    if (((uintptr_t)out - (uintptr_t)in) % LINE == 0)
        memcpy(out, in, n * sizeof *out);
    else
        copy_lanes(out, in, n);
}
