/* page -- the page that shows jobs: one HTML document with its styles, its scripts and its first data,
 * embedded in the program (page/assemble joins the parts). `job_submit browse` and the agent serve it;
 * job_submit writes it into result folders as report.html.
 *
 * Its Content Security Policy (CSP) allows this style and this script by their hashes, and no other code. */
#ifndef PSGD_PAGE_H
#define PSGD_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"

enum page_place {
    PAGE_SERVED, /* the page requests its data from its server, which must send page_policy() as a header */
    PAGE_FILE    /* a file that contains all of its data and its policy, and sends no request */
};

enum { PAGE_POLICY = 512 };

/* Writes the value of the header Content-Security-Policy. */
void page_policy(char out[PAGE_POLICY], enum page_place place);

/* Writes the page with a JSON document (valid UTF-8) as its data, whatever texts the document has. An error
 * of `out` is left there, for ferror(). */
void page_write(FILE *out, enum page_place place, const char *json, size_t len);

#endif
