/* zeros -- allocates the engine's vectors, aligned to cache lines: loads and stores of 64 bytes that cross
 * a line take twice the time. */
#ifndef PSGD_ZEROS_H
#define PSGD_ZEROS_H

#include <stdlib.h>
#include <string.h>

enum { ZEROS_ALIGN = 64 };

/* Returns n zeros, to be freed by free(), or NULL without memory. Within the limits on models the size fits
 * 63 bits. */
static inline float *zeros_new(size_t n)
{
    size_t bytes = (n * sizeof(float) + ZEROS_ALIGN - 1) / ZEROS_ALIGN * ZEROS_ALIGN;
    float *p = aligned_alloc(ZEROS_ALIGN, bytes ? bytes : ZEROS_ALIGN);

    if (p)
        memset(p, 0, bytes);
    return p;
}

#endif
