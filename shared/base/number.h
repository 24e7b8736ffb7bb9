/* number -- numbers that are the same on every processor: decimal text, and functions of correctly rounded
 * IEEE 754 operations. Nodes of one job must draw the same weights and use the same learning rate, and libm's
 * results may differ in the last bit: glibc's do between x86-64 with and without fused multiply-add. */
#ifndef PSGD_NUMBER_H
#define PSGD_NUMBER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT_MAX = 32 }; /* bytes, with the NUL: -1.2345678901234567e-308 */

/* Writes the shortest text of 15 to 17 digits, as %g has them, that reads back to the same double. Returns
 * `text`. */
const char *number_text(char text[NUMBER_TEXT_MAX], double v);

/* cos(2 pi v) for 0 <= v < 1, as the sine of an angle within a quarter turn, for a short series. */
static inline double number_cos_of_turns(double v)
{
    static const double steps[] = {1.0 / (20 * 21), 1.0 / (18 * 19), 1.0 / (16 * 17), 1.0 / (14 * 15),
                                   1.0 / (12 * 13), 1.0 / (10 * 11), 1.0 / (8 * 9),   1.0 / (6 * 7),
                                   1.0 / (4 * 5),   1.0 / (2 * 3)};
    double x = 6.283185307179586 * (fabs(v - 0.5) - 0.25);
    double sum = 1;

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        sum = 1 - x * x * steps[i] * sum;
    return x * sum;
}

/* x^n */
static inline double number_power(double x, uint64_t n)
{
    double product = 1;

    for (; n > 0; n /= 2, x *= x)
        product *= n % 2 ? x : 1;
    return product;
}

#endif
