#include "tests/lib/shelves.h"

#include "tests/unit/unit.h"

static const uint8_t secret[MEETING_SECRET_BYTES] = {7};

static void meet(struct meeting *met[], int n)
{
    const size_t bytes = shelf_bytes(MESH_LIMIT, MESH_NODES);
    struct err e = {0};
    int n_complete;

    for (int me = 0; me < n; me++) {
        const struct meeting_config cfg = {
            .n = n, .nodes = mesh_ids, .me = me, .bytes = bytes, .least = bytes, .most = bytes};

        assert_ok(meeting_open(&met[me], &cfg, &e));
        for (int later = me + 1; later < n; later++)
            meeting_expect(met[me], later, secret);
        for (int earlier = 0; earlier < me; earlier++)
            assert_ok(meeting_connect(met[me], earlier, meeting_name(met[earlier]), secret, &e));
    }
    do {
        n_complete = 0;
        for (int me = 0; me < n; me++) {
            int rc = meeting_hear(met[me], &e);

            assert_ok(rc);
            n_complete += rc;
        }
    } while (n_complete < n);
}

void shelves_open(struct shelves *s, struct mesh *const nodes[], int n)
{
    struct meeting *met[MESH_NODES];
    struct err e = {0};

    *s = (struct shelves){.n = n};
    meet(met, n);
    for (int me = 0; me < n; me++) {
        assert_ok(shelf_open(&s->of[me], met[me], MESH_LIMIT, &e));
        for (int peer = 0; peer < n; peer++)
            if (peer != me) {
                mesh_tcp_borrow(nodes[me], mesh_ids[peer], shelf_memory(s->of[me], peer));
                mesh_tcp_lend(nodes[me], mesh_ids[peer], shelf_memory(s->of[me], me));
            }
        shelf_give(s->of[me], nodes[me]);
    }
}

void shelves_close(struct shelves *s)
{
    for (int i = 0; i < s->n; i++)
        shelf_close(s->of[i]);
    s->n = 0;
}
