#include "tests/lib/rendezvous_pair.h"
#include "tests/lib/sealed_memory.h"

#include "tests/unit/unit.h"

const int rendezvous_pair_nodes[2] = {4, 7};
const uint8_t rendezvous_pair_secret[RENDEZVOUS_SECRET_BYTES] = {1, 2, 3};

void rendezvous_pair_open(struct rendezvous_pair *p, size_t bytes_0, size_t bytes_1)
{
    rendezvous_pair_open_as(p, rendezvous_pair_nodes, bytes_0, bytes_1);
}

void rendezvous_pair_open_as(struct rendezvous_pair *p, const int nodes[2], size_t bytes_0, size_t bytes_1)
{
    struct err e;

    needs_sealed_memory();
    for (int i = 0; i < 2; i++) {
        size_t bytes = i == 0 ? bytes_0 : bytes_1;

        assert_ok(rendezvous_open(
            &p->m[i], &(struct rendezvous_config){2, nodes, i, bytes, bytes, bytes, NULL, NULL}, &e));
    }
    rendezvous_expect(p->m[0], 1, rendezvous_pair_secret);
}

void rendezvous_pair_join(struct rendezvous_pair *p)
{
    int rc[2];
    struct err e[2];

    assert_int_equal(rendezvous_connect(p->m[1], 0, rendezvous_name(p->m[0]), rendezvous_pair_secret, &e[1]),
                     0);
    for (int k = 0; k < 100; k++)
        rendezvous_pair_advance(p, rc, e);
    assert_int_equal(rc[0], 1);
    assert_int_equal(rc[1], 1);
}

void rendezvous_pair_advance(struct rendezvous_pair *p, int rc[2], struct err e[2])
{
    for (int k = 0; k < 6; k++)
        rc[k % 2] = rendezvous_advance(p->m[k % 2], &e[k % 2]);
}

void rendezvous_pair_close(struct rendezvous_pair *p)
{
    rendezvous_close(p->m[0]);
    rendezvous_close(p->m[1]);
}
