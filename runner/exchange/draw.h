/* draw -- which workers take part in a round (--participate): m of n, drawn for each round without
 * replacement. A function of the job's seed and the round, so that all nodes know it. McMahan
 * et al., AISTATS 2017, Algorithm 1: S_t, a random set of m clients. */
#ifndef PSGD_DRAW_H
#define PSGD_DRAW_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAW_ROUNDS = 2 }; /* a node may be one round ahead of another */

struct draw {
    uint64_t seed;
    int n, m;
    struct {
        uint64_t round;
        bool is_known;
        bool *takes_part; /* (n) */
    } rounds[DRAW_ROUNDS];
    uint32_t *order; /* (n): room to draw */
};

struct draw *draw_new(int n, int m, uint64_t seed); /* NULL: no memory */
void draw_free(struct draw *d);
bool draw_has(struct draw *d, uint64_t round, int worker);

#endif
