/* page -- the page that shows jobs: one HTML document with its styles, its scripts and the data that it
 * begins with, embedded in the program (page/, joined by page/assemble). It is served by
 * `job_submit browse` and by the agent, and written into result folders as report.html.
 *
 * Its policy (CSP) allows the style and the script by their hashes, and nothing else that runs. */
#ifndef PSGD_PAGE_H
#define PSGD_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"

enum page_place {
    PAGE_SERVED, /* it asks its server for what it shows; page_policy() is to be sent as a header */
    PAGE_FILE    /* it has the documents that it shows, asks nobody, and has its policy within */
};

enum { PAGE_POLICY = 512 };

/* The value of the header Content-Security-Policy. */
void page_policy(char out[PAGE_POLICY], enum page_place place);

/* Writes the page with a JSON document as its data (valid UTF-8), in whose texts nothing can end the element
 * that has it. An error of `out` is left there, for ferror(). */
void page_write(FILE *out, enum page_place place, const char *json, size_t len);

#endif
