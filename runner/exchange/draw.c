#include "runner/exchange/draw.h"

#include <stdlib.h>

#include "shared/base/rng.h"

static const uint64_t draws = 0xd5a3; /* the stream of the job's seed */

struct draw *draw_new(int n, int m, uint64_t seed)
{
    struct draw *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->seed = seed;
    d->n = n;
    d->m = m;
    d->order = malloc((size_t)n * sizeof *d->order);
    for (int k = 0; k < DRAW_ROUNDS; k++)
        d->rounds[k].takes_part = malloc((size_t)n * sizeof(bool));
    if (d->order && d->rounds[0].takes_part && d->rounds[1].takes_part)
        return d;
    draw_free(d);
    return NULL;
}

void draw_free(struct draw *d)
{
    if (!d)
        return;
    for (int k = 0; k < DRAW_ROUNDS; k++)
        free(d->rounds[k].takes_part);
    free(d->order);
    free(d);
}

bool draw_has(struct draw *d, uint64_t round, int worker)
{
    size_t k = round % DRAW_ROUNDS;
    struct rng r;

    if (!d->rounds[k].is_known || d->rounds[k].round != round) {
        d->rounds[k].round = round;
        d->rounds[k].is_known = true;
        rng_init(&r, d->seed, draws, round);
        for (int i = 0; i < d->n; i++) {
            d->order[i] = (uint32_t)i;
            d->rounds[k].takes_part[i] = false;
        }
        rng_shuffle(&r, d->order, (size_t)d->n);
        for (int i = 0; i < d->m; i++)
            d->rounds[k].takes_part[d->order[i]] = true;
    }
    return d->rounds[k].takes_part[worker];
}
