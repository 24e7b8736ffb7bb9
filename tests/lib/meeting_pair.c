#include "tests/lib/meeting_pair.h"
#include "tests/lib/sealed_memory.h"

#include "tests/unit/unit.h"

const int meeting_pair_nodes[2] = {4, 7};
const uint8_t meeting_pair_secret[MEETING_SECRET_BYTES] = {1, 2, 3};

void meeting_pair_open(struct meeting_pair *p, size_t bytes_0, size_t bytes_1)
{
    struct err e;

    needs_sealed_memory();
    for (int i = 0; i < 2; i++) {
        size_t bytes = i == 0 ? bytes_0 : bytes_1;

        assert_ok(meeting_open(
            &p->m[i], &(struct meeting_config){2, meeting_pair_nodes, i, bytes, bytes, bytes, NULL}, &e));
    }
    meeting_expect(p->m[0], 1, meeting_pair_secret);
}

void meeting_pair_meet(struct meeting_pair *p)
{
    int rc[2];
    struct err e[2];

    assert_int_equal(meeting_connect(p->m[1], 0, meeting_name(p->m[0]), meeting_pair_secret, &e[1]), 0);
    for (int k = 0; k < 100; k++)
        meeting_pair_hear(p, rc, e);
    assert_int_equal(rc[0], 1);
    assert_int_equal(rc[1], 1);
}

void meeting_pair_hear(struct meeting_pair *p, int rc[2], struct err e[2])
{
    for (int k = 0; k < 6; k++)
        rc[k % 2] = meeting_hear(p->m[k % 2], &e[k % 2]);
}

void meeting_pair_close(struct meeting_pair *p)
{
    meeting_close(p->m[0]);
    meeting_close(p->m[1]);
}
