#include "tests/lib/shm_pair.h"

#include "tests/lib/rendezvous_pair.h"
#include "tests/unit/unit.h"

void shm_pair_open(struct shm_pair *p, size_t n_floats)
{
    shm_pair_open_as(p, rendezvous_pair_nodes, n_floats);
}

void shm_pair_open_as(struct shm_pair *p, const int nodes[2], size_t n_floats)
{
    struct rendezvous_pair joined;
    struct err e;

    rendezvous_pair_open_as(&joined, nodes, shm_group_bytes(n_floats, 2), shm_group_bytes(n_floats, 2));
    rendezvous_pair_join(&joined);
    for (int i = 0; i < 2; i++)
        assert_ok(shm_group_open(&p->a[i], joined.m[i], n_floats, &e));
}

void shm_pair_close(struct shm_pair *p)
{
    shm_group_close(p->a[0]);
    shm_group_close(p->a[1]);
}
