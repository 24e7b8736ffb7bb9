/* allowance -- how much of what an agent sends is printed. Agents are not trusted, and one that sends a line
 * after the other must not fill the terminal and logs/submit.log. An agent's bytes come from a bucket: some
 * at once, then a steady rate. What does not fit is counted, and the next line that fits says how many there
 * were. */
#ifndef PSGD_SUBMIT_ALLOWANCE_H
#define PSGD_SUBMIT_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ALLOWANCE_BYTES = 64 << 10, ALLOWANCE_BYTES_PER_S = 1 << 10 };

struct allowance { /* zeros: full */
    double at;     /* clock_now of the last call; 0: none */
    double bytes;  /* left then */
    uint64_t n_hidden;
};

/* May a line of `len` bytes be printed at `now`? If so, *n_hidden is how many were left out before it. */
bool allowance_take(struct allowance *a, size_t len, double now, uint64_t *n_hidden);

#endif
