#include "agent/runner/mesh.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

struct mesh_buf *mesh_buf_take(struct mesh *m)
{
    struct mesh_buf *b = m->pool;

    if (b) {
        m->pool = b->next;
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
    b->next = m->pool;
    m->pool = b;
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
