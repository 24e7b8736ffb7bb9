#include "codecs/compress/loops.h"

void random_lanes_init(struct random_lanes *r, struct rng *seed)
{
    for (int lane = 0; lane < RANDOM_LANES; lane++)
        for (int k = 0; k < 4; k += 2) {
            uint64_t x = rng_u64(seed);

            r->s[k][lane] = (uint32_t)x | (k == 0); /* not zero: an all-zero state never changes */
            r->s[k + 1][lane] = (uint32_t)(x >> 32);
        }
}
