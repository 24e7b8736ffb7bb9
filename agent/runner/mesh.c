#include "agent/runner/mesh.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

static struct mesh_buf **pool_of(struct mesh *m)
{
    return m->lender ? &m->lender->pool : &m->pool;
}

struct mesh_buf *mesh_buf_take(struct mesh *m)
{
    struct mesh_buf *b = *pool_of(m);

    if (b) {
        *pool_of(m) = b->next;
    } else {
        b = malloc(sizeof *b);
        if (!b)
            return NULL;
        b->bytes = aligned_alloc(ALIGNMENT, (m->limit / ALIGNMENT + 1) * ALIGNMENT);
        if (!b->bytes) {
            free(b);
            return NULL;
        }
    }
    b->refs = 1;
    b->len = 0;
    b->next = NULL;
    return b;
}

void mesh_buf_put(struct mesh *m, struct mesh_buf *b)
{
    if (!b || --b->refs > 0)
        return;
    b->next = *pool_of(m);
    *pool_of(m) = b;
}

void mesh_pool_clear(struct mesh *m)
{
    while (m->pool) {
        struct mesh_buf *b = m->pool;

        m->pool = b->next;
        free(b->bytes);
        free(b);
    }
}
