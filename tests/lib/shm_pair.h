/* shm_pair -- two nodes of a shm group in one thread of a test. Any failure here fails the test. */
#ifndef PSGD_TEST_SHM_PAIR_H
#define PSGD_TEST_SHM_PAIR_H

#include "runner/shm/shm_group.h"

struct shm_pair { /* nodes 4 and 7 */
    struct shm_group *a[2];
};

void shm_pair_open(struct shm_pair *p, size_t n_floats);
void shm_pair_open_as(struct shm_pair *p, const int nodes[2], size_t n_floats);
void shm_pair_close(struct shm_pair *p);

#endif
