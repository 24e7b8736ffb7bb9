/* spread -- work that all processors of this machine share, as drawing a data set: between a command and the
 * first step of its job one processor alone would take most of the time. */
#ifndef PSGD_SUBMIT_SPREAD_H
#define PSGD_SUBMIT_SPREAD_H

#include <stddef.h>

enum { SPREAD_MAX = 8 };

/* Calls work(arg, k, n) for each k below n, at the same time where threads can be made, and returns after
 * the last call. n: the processors that this process may use, at most `most` and SPREAD_MAX, at least 1. */
void spread(size_t most, void (*work)(void *arg, size_t k, size_t n), void *arg);

#endif
