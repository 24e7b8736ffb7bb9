#include "runner/mesh/mesh.h"

#include <math.h>
#include <stdlib.h>

#include "shared/base/clock.h"
#include "shared/base/flag.h"

static const double INTERRUPTED_S = 1;

double mesh_closes_until(const struct mesh_spec *spec, double deadline)
{
    return flag_is_up(spec->interrupted) ? fmin(deadline, clock_now() + INTERRUPTED_S) : deadline;
}

struct mesh_buf *mesh_pool_pop(struct mesh_pool *pool)
{
    struct mesh_buf *b = pool->free;

    if (!b)
        return NULL;
    pool->free = b->next;
    b->refs = 1;
    b->len = 0;
    b->next = NULL;
    b->n_uses++;
    return b;
}

struct mesh_buf *mesh_buf_take(struct mesh *m)
{
    struct mesh_buf *b = mesh_pool_pop(m->pool);

    if (b)
        return b;
    b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (struct mesh_buf){
        .refs = 1, .bytes = aligned_alloc(MESH_ALIGNMENT, mesh_buf_room(m->pool->limit)), .pool = m->pool};
    if (!b->bytes) {
        free(b);
        return NULL;
    }
    return b;
}

void mesh_buf_put(struct mesh_buf *b)
{
    if (!b || --b->refs > 0 || !b->pool)
        return;
    b->next = b->pool->free;
    b->pool->free = b;
}

void mesh_pool_clear(struct mesh_pool *pool)
{
    while (pool->free) {
        struct mesh_buf *b = pool->free;

        pool->free = b->next;
        free(b->bytes);
        free(b);
    }
}
