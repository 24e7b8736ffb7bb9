/* page_bytes -- build/page.html, as the assembler includes it in page_bytes.c. For page.c only. */
#ifndef PSGD_PAGE_BYTES_H
#define PSGD_PAGE_BYTES_H

#include <stddef.h>

extern const char page_bytes[], page_bytes_end[];

static inline size_t page_size(void)
{
    return (size_t)(page_bytes_end - page_bytes);
}

#endif
