#include "runner/base/vector.h"

#include <stdint.h>
#include <string.h>

#include "nn/kernels/lanes.h"
#include "shared/base/compiler.h"

enum {
    AT_ONCE = 4 * LANES, /* four independent sums hide the latency of an addition */
    LINE = 64,
};

static bool is_zero(const lanes *sum, float rest)
{
    for (int k = 0; k < LANES; k++)
        rest += (*sum)[k];
    return rest == 0;
}

/* Each lane is read through one variable, because gcc 12 would keep an array of lanes on the stack, and sums
 * would take six times as long. */
FAST bool vector_sum(float *out, const float *const *in, int n_in, size_t n, float scale)
{
    lanes bad[2] = {{0}}, all;
    float rest = 0;
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
            bad[j % 2] += v * 0;
            LANES_WRITE(out + i + j * LANES, v);
        }
    }
    for (; i < n; i++) {
        float s = in[0][i];

        for (int k = 1; k < n_in; k++)
            s += in[k][i];
        out[i] = s * scale;
        rest += out[i] * 0;
    }
    all = bad[0] + bad[1];
    return is_zero(&all, rest);
}

/* out[i] = `now`, an expression of `is`, the value of out[i], and `of`, the value of v[i]. Returns whether
 * all of v is finite, by the sums of v * 0, which is 0 for a finite value and NaN otherwise: a pass of its
 * own would take two thirds more time. */
#define EACH(out, v, n, now)                                                                                 \
    do {                                                                                                     \
        lanes bad[4] = {{0}}, all;                                                                           \
        float rest = 0;                                                                                      \
        size_t i = 0;                                                                                        \
                                                                                                             \
        for (; i + AT_ONCE <= n; i += AT_ONCE)                                                               \
            for (int j = 0; j < 4; j++) {                                                                    \
                lanes of, is;                                                                                \
                                                                                                             \
                LANES_READ(of, v + i + j * LANES);                                                           \
                LANES_READ(is, (out) + i + j * LANES);                                                       \
                bad[j] += of * 0;                                                                            \
                (void)is;                                                                                    \
                is = now;                                                                                    \
                LANES_WRITE((out) + i + j * LANES, is);                                                      \
            }                                                                                                \
        for (; i < n; i++) {                                                                                 \
            float of = v[i], is = out[i];                                                                    \
                                                                                                             \
            rest += of * 0;                                                                                  \
            (void)is;                                                                                        \
            out[i] = now;                                                                                    \
        }                                                                                                    \
        all = (bad[0] + bad[1]) + (bad[2] + bad[3]);                                                         \
        return is_zero(&all, rest);                                                                          \
    } while (0)

FAST bool vector_scale(float *restrict sum, const float *restrict v, float part, size_t n)
{
    EACH(sum, v, n, part * of);
}

FAST bool vector_add(float *restrict sum, const float *restrict v, float part, size_t n)
{
    EACH(sum, v, n, is + part * of);
}

FAST bool vector_mix(float *restrict mean, const float *restrict v, float part, size_t n)
{
    const float rest_part = 1 - part;

    EACH(mean, v, n, rest_part * is + part * of);
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
