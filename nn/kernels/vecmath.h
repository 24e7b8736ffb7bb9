/* vecmath -- exp, tanh and the logistic function in float, without calls and branches, so that loops over
 * them are vectorized; libm's are a call per value. exp is Cephes' (Moshier), in single precision. Only + -
 * * /: the same bits from every compiler. NaN stays NaN. Largest relative errors against libm in double:
 * exp 1.0e-7, tanh 4e-7, logistic 1.6e-7 (test_net.c). */
#ifndef PSGD_VECMATH_H
#define PSGD_VECMATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* `limit` if `is_beyond`, else x. By bits: gcc computes all that follows a conditional expression of a
 * constant twice, for the constant and for x. */
static inline float limited_f32(float x, bool is_beyond, float limit)
{
    uint32_t mask = 0 - (uint32_t)is_beyond;

    return f32_of_bits((bits_of_f32(x) & ~mask) | (bits_of_f32(limit) & mask));
}

static inline float absolute_f32(float x)
{
    return f32_of_bits(bits_of_f32(x) & 0x7fffffffu);
}

/* size >= 0 or NaN */
static inline float with_sign_of(float size, float x)
{
    return f32_of_bits(bits_of_f32(size) | (bits_of_f32(x) & 0x80000000u));
}

/* x is clamped to [-87, 88], so that the result is a normal number, neither 0 nor infinite. */
static inline float exp_f32(float x)
{
    /* Added to a small number, it leaves the nearest integer in the low bits. */
    const float magic = 0x1.8p23f;
    float shifted, n, r, p;

    x = limited_f32(x, x < -87, -87);
    x = limited_f32(x, x > 88, 88);
    shifted = x * 1.44269504088896341f + magic;
    n = shifted - magic;
    r = x - n * 0.693359375f; /* ln 2 in two parts; the first has so few bits that the product is exact */
    r = r - n * -2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1;
    return p * f32_of_bits((bits_of_f32(shifted) + 127) << 23); /* 2^n as the exponent field of a float */
}

/* tanh of x from 0 up to where it rounds to 1, and a little beyond: x P(x^2) / Q(x^2), both 1 at 0, the
 * minimax of its relative error up to 9.05. Half the time of 1 - 2 / (e^2x + 1) with a polynomial near 0, for
 * three times the error. */
static inline float tanh_f32_upward(float x)
{
    float z = x * x;
    float p = 1.333157990e-8f, q = 7.768750660e-7f;
    float y;

    p = p * z + 2.059802871e-5f;
    p = p * z + 3.495170589e-3f;
    p = p * z + 1.338076463e-1f;
    p = p * z + 1;
    q = q * z + 3.284770478e-4f;
    q = q * z + 2.587566955e-2f;
    q = q * z + 4.671408555e-1f;
    q = q * z + 1;
    y = x * p / q;
    return y > 1 ? 1 : y;
}

static inline float tanh_f32(float x)
{
    float a = absolute_f32(x);

    return with_sign_of(tanh_f32_upward(limited_f32(a, a > 9.05f, 9.05f)), x);
}

static inline float logistic_f32(float x)
{
    return 1 / (1 + exp_f32(-x));
}

#endif
