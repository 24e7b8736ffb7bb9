#include "tests/lib/arena_pair.h"

#include "tests/unit/unit.h"

const int arena_pair_nodes[2] = {4, 7};
const uint8_t arena_pair_secret[ARENA_SECRET_BYTES] = {1, 2, 3};

void arena_pair_open(struct arena_pair *p, size_t n_floats_0, size_t n_floats_1)
{
    struct err e;

    assert_ok(arena_open(&p->a[0], &(struct arena_config){2, arena_pair_nodes, 0, n_floats_0}, &e));
    assert_ok(arena_open(&p->a[1], &(struct arena_config){2, arena_pair_nodes, 1, n_floats_1}, &e));
    arena_expect(p->a[0], 1, arena_pair_secret);
}

void arena_pair_meet(struct arena_pair *p)
{
    int rc[2];
    struct err e[2];

    assert_int_equal(arena_connect(p->a[1], 0, arena_name(p->a[0]), arena_pair_secret, &e[1]), 0);
    for (int k = 0; k < 100; k++)
        arena_pair_poll(p, rc, e);
    assert_int_equal(rc[0], 1);
    assert_int_equal(rc[1], 1);
}

void arena_pair_poll(struct arena_pair *p, int rc[2], struct err e[2])
{
    for (int k = 0; k < 6; k++)
        rc[k % 2] = arena_poll(p->a[k % 2], &e[k % 2]);
}

void arena_pair_close(struct arena_pair *p)
{
    arena_close(p->a[0]);
    arena_close(p->a[1]);
}
