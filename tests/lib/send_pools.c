#include "tests/lib/send_pools.h"

#include "runner/mesh/tcp/mesh_tcp.h"
#include "tests/unit/unit.h"

static const uint8_t secret[RENDEZVOUS_SECRET_BYTES] = {7};

static void join_all(struct rendezvous *joined[], int n)
{
    const size_t bytes = send_pool_bytes(MESH_LIMIT, MESH_NODES);
    struct err e = {0};
    int n_complete;

    for (int me = 0; me < n; me++) {
        const struct rendezvous_config cfg = {
            .n = n, .nodes = mesh_ids, .me = me, .bytes = bytes, .min_bytes = bytes, .max_bytes = bytes};

        assert_ok(rendezvous_open(&joined[me], &cfg, &e));
        for (int later = me + 1; later < n; later++)
            rendezvous_expect(joined[me], later, secret);
        for (int earlier = 0; earlier < me; earlier++)
            assert_ok(rendezvous_connect(joined[me], earlier, rendezvous_name(joined[earlier]), secret, &e));
    }
    do {
        n_complete = 0;
        for (int me = 0; me < n; me++) {
            int rc = rendezvous_advance(joined[me], &e);

            assert_ok(rc);
            n_complete += rc;
        }
    } while (n_complete < n);
}

void send_pools_open(struct send_pools *s, struct mesh *const nodes[], int n)
{
    struct rendezvous *joined[MESH_NODES];
    struct err e = {0};

    *s = (struct send_pools){.n = n};
    join_all(joined, n);
    for (int me = 0; me < n; me++) {
        assert_ok(send_pool_open(&s->of[me], joined[me], MESH_LIMIT, &e));
        for (int peer = 0; peer < n; peer++)
            if (peer != me) {
                mesh_tcp_attach(nodes[me], mesh_ids[peer], send_pool_memory(s->of[me], peer));
                mesh_tcp_expose(nodes[me], mesh_ids[peer], send_pool_memory(s->of[me], me));
            }
        mesh_tcp_use_pool(nodes[me], s->of[me]);
    }
}

void send_pools_close(struct send_pools *s)
{
    for (int i = 0; i < s->n; i++)
        send_pool_close(s->of[i]);
    s->n = 0;
}
