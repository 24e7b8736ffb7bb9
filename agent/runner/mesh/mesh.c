#include "agent/runner/mesh/mesh.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static struct mesh_buf **pool_of(struct mesh *m)
{
    return m->pool_owner ? &m->pool_owner->pool : &m->pool;
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

static void part(struct mesh_buf *b)
{
    if (b->copy)
        b->copy->copy = NULL;
    b->copy = NULL;
}

void mesh_buf_put(struct mesh *m, struct mesh_buf *b)
{
    struct mesh_buf **list;

    if (!b || --b->refs > 0)
        return;
    part(b);
    if (b->is_withdrawn)
        return;
    list = b->is_slot ? &m->send_pool : pool_of(m);
    b->next = *list;
    *list = b;
}

/* Past the caches: those of who reads it next hold the place's last message, and to take each line back from
 * them takes a processor 33 ns (docs/dataplane.md). */
static void stream(void *to, const void *from, size_t len)
{
#ifdef __SSE2__
    for (size_t i = 0; i < len; i += sizeof(__m128i))
        _mm_stream_si128((__m128i *)((char *)to + i),
                         _mm_load_si128((const __m128i *)((const char *)from + i)));
    _mm_sfence();
#else
    memcpy(to, from, len);
#endif
}

struct mesh_buf *mesh_buf_to_slot(struct mesh *m, struct mesh_buf *b)
{
    struct mesh_buf *sink;

    if (b->copy && b->copy->len == b->len) {
        b->copy->refs++;
        return b->copy;
    }
    part(b); /* the message was continued */
    if (!m->send_pool)
        return NULL;
    sink = pop(&m->send_pool);
    sink->len = b->len;
    stream(sink->bytes, b->bytes, b->len); /* to the end of the last lanes: both have room */
    sink->copy = b;
    b->copy = sink;
    return sink;
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
