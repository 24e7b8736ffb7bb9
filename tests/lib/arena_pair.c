#include "tests/lib/arena_pair.h"

#include "tests/lib/meeting_pair.h"
#include "tests/unit/unit.h"

void arena_pair_open(struct arena_pair *p, size_t n_floats)
{
    struct meeting_pair met;
    struct err e;

    meeting_pair_open(&met, arena_bytes(n_floats), arena_bytes(n_floats));
    meeting_pair_meet(&met);
    for (int i = 0; i < 2; i++)
        assert_ok(arena_open(&p->a[i], met.m[i], n_floats, &e));
}

void arena_pair_close(struct arena_pair *p)
{
    arena_close(p->a[0]);
    arena_close(p->a[1]);
}
