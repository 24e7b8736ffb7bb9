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

/* Removes the first buffer of the list; returns it with one reference. */
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

static void unlink_copy(struct mesh_buf *b)
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
    unlink_copy(b);
    if (b->is_withdrawn)
        return;
    list = b->is_slot ? &m->send_pool : pool_of(m);
    b->next = *list;
    *list = b;
}

/* Copies with non-temporal stores, which bypass the caches: the receiver's cache still holds the slot's
 * previous message, and taking each line back from it costs 33 ns (docs/dataplane.md). */
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
    struct mesh_buf *slot;

    if (b->copy && b->copy->len == b->len) {
        b->copy->refs++;
        return b->copy;
    }
    unlink_copy(b); /* the message has grown */
    if (!m->send_pool)
        return NULL;
    slot = pop(&m->send_pool);
    slot->len = b->len;
    stream(slot->bytes, b->bytes, b->len); /* up to the end of the last vector: both have room */
    slot->copy = b;
    b->copy = slot;
    return slot;
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
