/* zeros -- allocates the engine's vectors, aligned to cache lines: loads and stores of 64 bytes that cross
 * a line take twice the time. Of large vectors the whole huge pages are asked for, which save the processor
 * the translation of each 4 KiB. */
#ifndef PSGD_ZEROS_H
#define PSGD_ZEROS_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ZEROS_ALIGN = 64, ZEROS_HUGE = 1 << 21 /* bytes of a huge page */ };

/* Returns n zeros, to be freed by free(), or NULL without memory. Within the limits on models the size fits
 * 63 bits. */
static inline float *zeros_new(size_t n)
{
    size_t bytes = (n * sizeof(float) + ZEROS_ALIGN - 1) / ZEROS_ALIGN * ZEROS_ALIGN;
    size_t huge = bytes / ZEROS_HUGE * ZEROS_HUGE;
    void *p;

    /* Not aligned_alloc(), whose size must be a multiple of the alignment. */
    if (posix_memalign(&p, huge ? ZEROS_HUGE : ZEROS_ALIGN, bytes ? bytes : ZEROS_ALIGN) != 0)
        return NULL;
    if (huge)
        madvise(p, huge, MADV_HUGEPAGE); /* a system without huge pages refuses it */
    memset(p, 0, bytes);
    return p;
}

#endif
