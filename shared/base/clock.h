/* clock -- deadlines use clock_now (monotonic); the wall clock is for display only. */
#ifndef PSGD_CLOCK_H
#define PSGD_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

enum { CLOCK_TEXT = 48 /* bytes, enough for any number; a time of this century takes 25 */ };

double clock_now(void);                                 /* seconds, monotonic, from an arbitrary start */
double clock_wall(void);                                /* seconds since 1970 */
const char *clock_text(char out[CLOCK_TEXT], double t); /* 2026-11-21T10:28:00.123Z of a clock_wall time */
bool clock_parse(double *out, const char *text);        /* the reverse; false: it has another form */

#endif
