/* Compiled twice, the second time by loops_avx2.c, which defines LOOPS. Simple loops, which the compiler
 * vectorizes; in steps of BLOCK values where there is an intermediate result, so that it stays in the
 * first-level cache. */
#include "codecs/compress/loops.h"

#include <stdbool.h>
#include <string.h>

#ifndef LOOPS
#define LOOPS loops_portable
#endif

enum { AT_ONCE = 4 /* edges */ };
enum { BLOCK = 256, GLANCE = 32 /* values that are skipped together where none matches */ };

/* The width of registers: gcc (12) keeps wider vectors on the stack. Sums have 4 or 8 lanes, whatever WIDE
 * is. A test compiles both forms. */
#if defined(__x86_64__) && !defined(FOUR_LANES)
enum { WIDE = 4 };
#else
enum { WIDE = 2 };
#endif
typedef float floats __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(WIDE * sizeof(int32_t))));
typedef double doubles __attribute__((vector_size(WIDE * sizeof(double))));
enum { WORDS = 2 * WIDE };
typedef uint32_t words __attribute__((vector_size(WORDS * sizeof(uint32_t))));

static inline size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline int32_t bits_of(float v)
{
    int32_t b;

    memcpy(&b, &v, sizeof b);
    return b;
}

static inline float float_of(int32_t b)
{
    float v;

    memcpy(&v, &b, sizeof v);
    return v;
}

/* Keys have the order of magnitudes, NaN last. */
static inline int32_t key_of(float v)
{
    return bits_of(v) & 0x7fffffff;
}

static float largest_magnitude(const float *v, size_t n)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t key = key_of(v[i]);

        most = key > most ? key : most;
    }
    return float_of(most);
}

/* The total of four sums. */
static inline double sum_of(const doubles s[4 / WIDE])
{
    return (s[0][0] + s[2 / WIDE][2 % WIDE]) + (s[0][1] + s[3 / WIDE][3 % WIDE]);
}

static double dot(const float *a, const float *b, size_t n)
{
    doubles s[8 / WIDE] = {0};
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (size_t q = 0; q < 8 / WIDE; q++) {
            floats x, y;

            memcpy(&x, a + i + q * WIDE, sizeof x);
            memcpy(&y, b + i + q * WIDE, sizeof y);
            s[q] += __builtin_convertvector(x, doubles) * __builtin_convertvector(y, doubles);
        }
    for (size_t q = 0; q < 4 / WIDE; q++)
        s[q] += s[q + 4 / WIDE];
    for (; i < n; i++)
        s[0][0] += (double)a[i] * (double)b[i];
    return sum_of(s);
}

static void sums_by_sign(const float *v, size_t n, double *positive, double *negative)
{
    doubles p[4 / WIDE] = {0}, m[4 / WIDE] = {0};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (size_t q = 0; q < 4 / WIDE; q++) {
            floats x, below;
            ints is_below;

            memcpy(&x, v + i + q * WIDE, sizeof x);
            is_below = x < 0;
            below = (floats)((ints)x & is_below);
            p[q] += __builtin_convertvector(x - below, doubles);
            m[q] += __builtin_convertvector(below, doubles);
        }
    for (; i < n; i++) {
        p[0][0] += v[i] < 0 ? 0 : (double)v[i];
        m[0][0] += v[i] < 0 ? (double)v[i] : 0;
    }
    *positive = sum_of(p);
    *negative = sum_of(m);
}

enum { INFINITE = 0x7f800000, FP16_LARGEST = 0x477fe000 /* 65504 */, BF16_LARGEST = 0x7f7f0000 };

static inline int32_t saturated(int32_t magnitude, int32_t most)
{
    return magnitude > most && magnitude < INFINITE ? most : magnitude;
}

/* Without a branch, which a compiler may otherwise generate (gcc 12 for arm64). */
static inline int32_t choose_int(bool first, int32_t a, int32_t b)
{
    int32_t mask = -(int32_t)first;

    return (a & mask) | (b & ~mask);
}

/* Giesen, "Float->half variants" (2012): adding 1/2 leaves a subnormal half in the low bits. */
static inline uint16_t fp16_of(float v)
{
    int32_t bits = bits_of(v), a = saturated(bits & 0x7fffffff, FP16_LARGEST);
    int32_t small = bits_of(float_of(a) + 0.5f) - bits_of(0.5f);
    int32_t normal = (a - (112 << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    int32_t none = 0x7c00 | (a > INFINITE ? 0x200 | ((a >> 13) & 0x3ff) : 0);
    int32_t h = choose_int(a < (113 << 23), small, choose_int(a < INFINITE, normal, none));

    return (uint16_t)(((uint32_t)bits >> 16 & 0x8000) | (uint32_t)h);
}

static inline float float_of_fp16(uint16_t h)
{
    int32_t a = (h & 0x7fff) << 13, exponent = a & (0x7c00 << 13);
    float small = float_of(a + (113 << 23)) - float_of(113 << 23);
    int32_t quiet = a > exponent ? 0x400000 : 0; /* as the processor does */
    int32_t bits = exponent == 0              ? bits_of(small)
                   : exponent == 0x7c00 << 13 ? (a + (224 << 23)) | quiet
                                              : a + (112 << 23);

    return float_of((int32_t)((uint32_t)bits | (uint32_t)(h & 0x8000) << 16));
}

#ifdef LOOPS_F16C
static void to_fp16(uint16_t *out, const float *v, size_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), most = _mm256_set1_epi32(FP16_LARGEST);
    const __m256i infinite = _mm256_set1_epi32(INFINITE);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(v + i));
        __m256i a = _mm256_and_si256(bits, magnitude);
        __m256i cut = _mm256_and_si256(_mm256_cmpgt_epi32(a, most), _mm256_cmpgt_epi32(infinite, a));

        a = _mm256_or_si256(_mm256_blendv_epi8(a, most, cut), _mm256_andnot_si256(magnitude, bits));
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_castsi256_ps(a), _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < n; i++)
        out[i] = fp16_of(v[i]);
}

static void from_fp16(float *out, const uint16_t *v, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(v + i))));
    for (; i < n; i++)
        out[i] = float_of_fp16(v[i]);
}
#else
static void to_fp16(uint16_t *out, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fp16_of(v[i]);
}

static void from_fp16(float *out, const uint16_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = float_of_fp16(v[i]);
}
#endif

static void to_bf16(uint16_t *out, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t bits = bits_of(v[i]), a = saturated(bits & 0x7fffffff, BF16_LARGEST);
        int32_t rounded = (int32_t)(((uint32_t)a + 0x7fff + ((uint32_t)a >> 16 & 1)) >> 16);
        int32_t b = a > INFINITE ? a >> 16 | 0x40 : a < INFINITE ? rounded : a >> 16;

        out[i] = (uint16_t)(((uint32_t)bits >> 16 & 0x8000) | (uint32_t)b);
    }
}

static void from_bf16(float *out, const uint16_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = float_of((int32_t)((uint32_t)v[i] << 16));
}

static void round_nearest(uint8_t *q, const float *v, size_t n, float factor, int zero)
{
    /* Added to a small number, leaves the nearest integer in the low bits. */
    const float magic = 0x1.8p23f;

    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)(bits_of(v[i] * factor + magic) + zero);
}

/* Draws at least n numbers, a multiple of RANDOM_LANES: here the WORDS lanes from `lane` on. */
static inline void draw_some(uint32_t *x, size_t n, struct random_lanes *r, size_t lane)
{
    words a, b, c, d;

    memcpy(&a, r->s[0] + lane, sizeof a);
    memcpy(&b, r->s[1] + lane, sizeof b);
    memcpy(&c, r->s[2] + lane, sizeof c);
    memcpy(&d, r->s[3] + lane, sizeof d);
    for (size_t i = 0; i < n; i += RANDOM_LANES) {
        words sum = a + d, t = b << 9;

        memcpy(x + i + lane, &sum, sizeof sum);
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= t;
        d = d << 11 | d >> 21;
    }
    memcpy(r->s[0] + lane, &a, sizeof a);
    memcpy(r->s[1] + lane, &b, sizeof b);
    memcpy(r->s[2] + lane, &c, sizeof c);
    memcpy(r->s[3] + lane, &d, sizeof d);
}

static inline void draw_lanes(uint32_t *x, size_t n, struct random_lanes *r)
{
    for (size_t lane = 0; lane < RANDOM_LANES; lane += WORDS)
        draw_some(x, n, r, lane);
}

static inline float uniform_of(uint32_t x)
{
    return (float)(int32_t)(x >> 8) * 0x1p-24f;
}

static void round_random(uint8_t *q, const float *v, size_t n, float factor, int levels,
                         struct random_lanes *r)
{
    uint32_t x[BLOCK];

    for (; n > 0; q += least_of(n, BLOCK), v += least_of(n, BLOCK), n -= least_of(n, BLOCK)) {
        size_t k = least_of(n, BLOCK);

        draw_lanes(x, k, r);
        for (size_t i = 0; i < k; i++) {
            float y = v[i] * factor + uniform_of(x[i]);
            int below = (int)y;

            below -= y < (float)below;
            below = below < -levels ? -levels : below;
            below = below > levels ? levels : below;
            q[i] = (uint8_t)(below + levels);
        }
    }
}

static void unround(float *out, const uint8_t *q, size_t n, float unit, int zero)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(q[i] - zero) * unit;
}

/* at[i]: how many of the ascending edges[1], ... are at most a[i]. Comparing with each edge vectorizes, a
 * binary search does not. */
static inline void search(int32_t *at, const float *a, size_t n, const float *edges, int n_edges)
{
    memset(at, 0, n * sizeof *at);
    for (int j = 1; j <= n_edges; j += AT_ONCE)
        for (size_t i = 0; i < n; i++) {
            int32_t passed = 0;

            for (int k = 0; k < AT_ONCE; k++)
                passed += a[i] >= edges[j + k];
            at[i] += passed;
        }
}

static inline void magnitudes(float *a, const float *v, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        a[i] = float_of(key_of(v[i])) * factor;
}

/* Without a branch: signs are practically random. */
static inline int32_t with_sign(int32_t x, float v)
{
    int32_t sign = bits_of(v) >> 31;

    return (x ^ sign) - sign;
}

static void level_nearest(uint8_t *q, const float *v, size_t n, float factor, const struct level_set *s)
{
    float a[BLOCK];
    int32_t at[BLOCK];

    for (; n > 0; q += least_of(n, BLOCK), v += least_of(n, BLOCK), n -= least_of(n, BLOCK)) {
        size_t k = least_of(n, BLOCK);

        magnitudes(a, v, k, factor);
        search(at, a, k, s->middle, s->n_levels);
        for (size_t i = 0; i < k; i++)
            q[i] = (uint8_t)(s->n_levels + with_sign(at[i], v[i]));
    }
}

static void level_random(uint8_t *q, const float *v, size_t n, float factor, const struct level_set *s,
                         struct random_lanes *r)
{
    float a[BLOCK], below[BLOCK], gap[BLOCK];
    uint32_t x[BLOCK];
    int32_t at[BLOCK];

    for (; n > 0; q += least_of(n, BLOCK), v += least_of(n, BLOCK), n -= least_of(n, BLOCK)) {
        size_t k = least_of(n, BLOCK);

        draw_lanes(x, k, r);
        magnitudes(a, v, k, factor);
        search(at, a, k, s->level, s->n_levels);
        for (size_t i = 0; i < k; i++) {
            below[i] = s->level[at[i]];
            gap[i] = s->level[at[i] + 1] - below[i];
        }
        for (size_t i = 0; i < k; i++) {
            int32_t up = a[i] - below[i] > uniform_of(x[i]) * gap[i];

            q[i] = (uint8_t)(s->n_levels + with_sign(at[i] + up, v[i]));
        }
    }
}

static void level_sums(const float *v, size_t n, float factor, const struct level_set *s, double *vb,
                       double *bb)
{
    float a[BLOCK], b[BLOCK];
    int32_t at[BLOCK];

    *vb = *bb = 0;
    for (; n > 0; v += least_of(n, BLOCK), n -= least_of(n, BLOCK)) {
        size_t k = least_of(n, BLOCK);

        magnitudes(a, v, k, factor);
        search(at, a, k, s->middle, s->n_levels);
        for (size_t i = 0; i < k; i++)
            b[i] = s->level[at[i]];
        magnitudes(a, v, k, 1);
        *vb += dot(a, b, k);
        *bb += dot(b, b, k);
    }
}

static size_t signs(uint8_t *q, const float *v, size_t n)
{
    size_t n_negative = 0;

    for (; n > 0; q += least_of(n, BLOCK), v += least_of(n, BLOCK), n -= least_of(n, BLOCK)) {
        size_t k = least_of(n, BLOCK);
        int32_t negative = 0;

        for (size_t i = 0; i < k; i++) {
            negative += v[i] < 0;
            q[i] = v[i] < 0;
        }
        n_negative += (size_t)negative;
    }
    return n_negative;
}

static void unsign(float *out, const uint8_t *q, size_t n, float positive, float negative)
{
    for (size_t i = 0; i < n; i++)
        out[i] = q[i] ? negative : positive;
}

/* Equal exponents are often adjacent, and a counter that was just written cannot be read for some cycles:
 * four of each counter. */
static inline void count_all(uint32_t *counts, const float *v, size_t n, int shift)
{
    uint32_t of[4][1 << 11] = {0};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            of[k][key_of(v[i + (size_t)k]) >> shift]++;
    for (; i < n; i++)
        of[0][key_of(v[i]) >> shift]++;
    for (size_t b = 0; b < 1 << 11; b++)
        counts[b] = of[0][b] + of[1][b] + of[2][b] + of[3][b];
}

static void count_keys(uint32_t *counts, const float *v, size_t n, uint32_t prefix, int shift, int bits)
{
    int32_t mask = (1 << bits) - 1, wanted = (int32_t)prefix;

    if (shift + bits == 31) {
        count_all(counts, v, n, shift);
        return;
    }
    memset(counts, 0, sizeof *counts << bits);
    for (size_t first = 0; first < n; first += GLANCE) {
        size_t k = least_of(n - first, GLANCE), n_hits = 0;
        int32_t any = 0, hits[GLANCE + 1];

        if (k == GLANCE) {
            for (size_t i = 0; i < GLANCE; i++)
                any |= key_of(v[first + i]) >> (shift + bits) == wanted;
            if (!any)
                continue;
        }
        for (size_t i = first; i < first + k; i++) { /* no branch: half of them may match */
            hits[n_hits] = key_of(v[i]);
            n_hits += hits[n_hits] >> (shift + bits) == wanted;
        }
        for (size_t i = 0; i < n_hits; i++)
            counts[hits[i] >> shift & mask]++;
    }
}

static size_t pick(uint32_t *at, const float *v, size_t n, uint32_t least, size_t n_ties)
{
    int32_t low = (int32_t)least;
    size_t n_picked = 0;

    for (size_t first = 0; first < n; first += GLANCE) {
        size_t k = least_of(n - first, GLANCE);
        int32_t any = 0;

        if (k == GLANCE) {
            for (size_t i = 0; i < GLANCE; i++)
                any |= key_of(v[first + i]) >= low;
            if (!any)
                continue;
        }
        for (size_t i = first; i < first + k; i++) {
            size_t is_tie = key_of(v[i]) == low && n_ties > 0;

            at[n_picked] = (uint32_t)i;
            n_picked += key_of(v[i]) > low || is_tie;
            n_ties -= is_tie;
        }
    }
    return n_picked;
}

static void feed(float *r, const float *v, size_t n, float decay)
{
    for (size_t i = 0; i < n; i++)
        r[i] = v[i] + decay * r[i];
}

static void keep_difference(float *r, const float *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float rest = r[i] - c[i];

        r[i] = key_of(rest) < INFINITE ? rest : 0;
    }
}

static void scale(float *v, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        v[i] *= factor;
}

enum { PACK = 2560 /* symbols in a group; a multiple of 5 and of 8 */ };

/* A byte holds `per` symbols that are m apart in the group, so that neighboring symbols use neighboring
 * lanes. */
static inline size_t pack_bits(uint8_t *restrict out, const uint8_t *restrict q, size_t n, int width,
                               int shift)
{
    size_t per = 8 / (size_t)width, m = (n + per - 1) / per;

    for (size_t j = 0; j < m; j++) {
        unsigned b = 0;

        for (size_t k = 0; k < per; k++)
            b |= ((unsigned)q[k * m + j] >> shift & ((1u << width) - 1)) << (k * (size_t)width);
        out[j] = (uint8_t)b;
    }
    return m;
}

static inline size_t unpack_bits(uint8_t *restrict q, const uint8_t *restrict in, size_t n, int width,
                                 int shift)
{
    size_t per = 8 / (size_t)width, m = (n + per - 1) / per;

    for (size_t k = 0; k < per; k++)
        for (size_t j = 0; j < m; j++)
            q[k * m + j] |= (uint8_t)((in[j] >> (k * (size_t)width) & ((1 << width) - 1)) << shift);
    return m;
}

static inline size_t pack_threes(uint8_t *restrict out, const uint8_t *restrict q, size_t n)
{
    size_t m = (n + 4) / 5;

    for (size_t j = 0; j < m; j++)
        out[j] = (uint8_t)(q[j] +
                           3 * (q[m + j] + 3 * (q[2 * m + j] + 3 * (q[3 * m + j] + 3 * q[4 * m + j]))));
    return m;
}

static inline size_t unpack_threes(uint8_t *restrict q, const uint8_t *restrict in, size_t n)
{
    size_t m = (n + 4) / 5;

    for (size_t j = 0; j < m; j++) {
        unsigned rest = in[j];

        for (size_t k = 0; k < 4; k++) {
            unsigned third = rest * 171 >> 9; /* rest / 3, for a byte */

            q[k * m + j] = (uint8_t)(rest - 3 * third);
            rest = third;
        }
        q[4 * m + j] = (uint8_t)rest;
    }
    return m;
}

static inline size_t pack_group(uint8_t *restrict out, const uint8_t *restrict q, size_t n, int alphabet)
{
    int bits = symbol_bits(alphabet), shift = 0;
    size_t len = 0;

    if (alphabet == 3)
        return pack_threes(out, q, n);
    if (bits & 4)
        len += pack_bits(out, q, n, 4, 0), shift = 4;
    if (bits & 2)
        len += pack_bits(out + len, q, n, 2, shift), shift += 2;
    if (bits & 1)
        len += pack_bits(out + len, q, n, 1, shift);
    return len;
}

static inline size_t unpack_group(uint8_t *restrict q, const uint8_t *restrict in, size_t n, int alphabet)
{
    int bits = symbol_bits(alphabet), shift = 0;
    size_t len = 0;

    if (alphabet == 3)
        return unpack_threes(q, in, n);
    memset(q, 0, n);
    if (bits & 4)
        len += unpack_bits(q, in, n, 4, 0), shift = 4;
    if (bits & 2)
        len += unpack_bits(q, in + len, n, 2, shift), shift += 2;
    if (bits & 1)
        len += unpack_bits(q, in + len, n, 1, shift);
    return len;
}

static void pack(uint8_t *out, const uint8_t *q, size_t n, int alphabet)
{
    uint8_t last[PACK + 8] = {0};

    if (symbol_bits(alphabet) == 8) {
        memcpy(out, q, n);
        return;
    }
    for (; n >= PACK; q += PACK, n -= PACK)
        out += pack_group(out, q, PACK, alphabet);
    memcpy(last, q, n);
    pack_group(out, last, n, alphabet);
}

static void unpack(uint8_t *q, const uint8_t *in, size_t n, int alphabet)
{
    uint8_t last[PACK + 8] = {0};

    if (symbol_bits(alphabet) == 8) {
        memcpy(q, in, n);
        return;
    }
    for (; n >= PACK; q += PACK, n -= PACK)
        in += unpack_group(q, in, PACK, alphabet);
    unpack_group(last, in, n, alphabet);
    memcpy(q, last, n);
}

static uint8_t largest_symbol(const uint8_t *q, size_t n)
{
    uint8_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = q[i] > most ? q[i] : most;
    return most;
}

const struct loops LOOPS = {
    .largest = largest_magnitude,
    .dot = dot,
    .sums_by_sign = sums_by_sign,
    .to_fp16 = to_fp16,
    .from_fp16 = from_fp16,
    .to_bf16 = to_bf16,
    .from_bf16 = from_bf16,
    .round_nearest = round_nearest,
    .round_random = round_random,
    .unround = unround,
    .level_nearest = level_nearest,
    .level_random = level_random,
    .level_sums = level_sums,
    .signs = signs,
    .unsign = unsign,
    .count_keys = count_keys,
    .pick = pick,
    .feed = feed,
    .keep = keep_difference,
    .scale = scale,
    .pack = pack,
    .unpack = unpack,
    .largest_symbol = largest_symbol,
};
