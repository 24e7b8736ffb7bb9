/* vecmath -- exp, tanh and the logistic function in float, without calls and branches, so that a loop over
 * them becomes vector code where libm's would be a call per value. Methods and coefficients of Cephes
 * (Moshier), single precision. Only + - * /: the same bits from every compiler. A value that is not a number
 * stays one. Largest relative errors against libm in double: exp 1.0e-7, tanh 1.6e-7, logistic 1.6e-7
 * (test_net.c). */
#ifndef PSGD_VECMATH_H
#define PSGD_VECMATH_H

#include <stdint.h>
#include <string.h>

/* x is cut to [-87, 88]: so the result is a normal number, neither 0 nor infinite. */
static inline float exp_f32(float x)
{
    const float magic =
        0x1.8p23f; /* added to a small number, it leaves the nearest integer in the low bits */
    float shifted, n, r, p, scale;
    uint32_t bits;

    x = x < -87 ? -87 : x;
    x = x > 88 ? 88 : x;
    shifted = x * 1.44269504088896341f + magic;
    n = shifted - magic;
    r = x - n * 0.693359375f; /* ln 2 in two pieces; the first has so few bits that the product is exact */
    r = r - n * -2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23; /* 2^n as the exponent field of a float */
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* Near 0 a polynomial, as 1 - 2 / (e^2x + 1) would lose its digits there. */
static inline float tanh_f32(float x)
{
    float a = x < 0 ? -x : x;
    float far = 1 - 2 / (exp_f32(2 * a) + 1);
    float z = x * x;
    float p = -5.70498872745e-3f;

    p = p * z + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    p = p * z * x + x;
    far = x < 0 ? -far : far;
    return a > 0.625f ? far : p;
}

static inline float logistic_f32(float x)
{
    return 1 / (1 + exp_f32(-x));
}

#endif
