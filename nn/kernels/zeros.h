/* zeros -- where the engine's vectors lie: from a cache line on, as 64 bytes that cross into the next one are
 * loaded and stored in twice the time. */
#ifndef PSGD_ZEROS_H
#define PSGD_ZEROS_H

#include <stdlib.h>
#include <string.h>

enum { ZEROS_ALIGN = 64 };

/* n zeros, to free(); within a model's limits their bytes fit 63 bits. NULL: no memory. */
static inline float *zeros_new(size_t n)
{
    size_t bytes = (n * sizeof(float) + ZEROS_ALIGN - 1) / ZEROS_ALIGN * ZEROS_ALIGN;
    float *p = aligned_alloc(ZEROS_ALIGN, bytes ? bytes : ZEROS_ALIGN);

    if (p)
        memset(p, 0, bytes);
    return p;
}

#endif
