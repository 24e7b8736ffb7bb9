#include "agent/runner/mesh.h"

#include <stdlib.h>

static struct mesh_buf **pool_of(struct mesh *m)
{
    return m->lender ? &m->lender->pool : &m->pool;
}

/* The list's first, with one reference. */
static struct mesh_buf *pop(struct mesh_buf **list)
{
    struct mesh_buf *b = *list;

    *list = b->next;
    b->refs = 1;
    b->len = 0;
    b->next = NULL;
    return b;
}

struct mesh_buf *mesh_buf_take(struct mesh *m)
{
    struct mesh_buf *b;

    if (*pool_of(m))
        return pop(pool_of(m));
    b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (struct mesh_buf){.refs = 1, .bytes = aligned_alloc(MESH_ALIGNMENT, mesh_buf_room(m->limit))};
    if (!b->bytes) {
        free(b);
        return NULL;
    }
    return b;
}

struct mesh_buf *mesh_draft_take(struct mesh *m)
{
    return m->shelf ? pop(&m->shelf) : mesh_buf_take(m);
}

void mesh_buf_put(struct mesh *m, struct mesh_buf *b)
{
    struct mesh_buf **list;

    if (!b || --b->refs > 0)
        return;
    list = b->is_shelved ? &m->shelf : pool_of(m);
    b->next = *list;
    *list = b;
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
