#include "page/page_bytes.h"

/* PSGD_PAGE: the file, from the Makefile. */
__asm__(".pushsection .rodata\n"
        ".global page_bytes, page_bytes_end\n"
        "page_bytes:\n"
        ".incbin \"" PSGD_PAGE "\"\n"
        "page_bytes_end:\n"
        ".byte 0\n"
        ".popsection\n");
