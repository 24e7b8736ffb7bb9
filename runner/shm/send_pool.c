#include "runner/shm/send_pool.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct send_slot {
    struct mesh_buf buf;
    /* The message that it is a copy of, while it is referenced. */
    const struct mesh_buf *message;
    uint64_t use; /* n_uses of the message: its buffer may be another message's by now */
};

struct send_pool {
    struct rendezvous *rendezvous;
    struct mesh_pool unused; /* slots without a reference */
    struct send_slot slots[SEND_POOL_SLOTS];
    size_t n_slots;
};

size_t send_pool_bytes(size_t limit, size_t n_peers)
{
    size_t n = n_peers > 1 ? SEND_POOL_SLOTS : SEND_POOL_DESCRIPTORS_MAX;

    return limit > SIZE_MAX / (4 * SEND_POOL_SLOTS) ? 0 : n * mesh_buf_room(limit);
}

size_t send_pool_most_bytes(size_t limit, size_t times)
{
    const size_t most = SIZE_MAX / 4;
    size_t bytes = send_pool_bytes(limit, 2);

    return bytes == 0 || times > most / bytes / 4 ? most : 4 * times * bytes;
}

int send_pool_open(struct send_pool **out, struct rendezvous *r, size_t limit, struct err *e)
{
    struct sealed mine = rendezvous_memory(r, rendezvous_me(r));
    struct send_pool *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s) {
        rendezvous_close(r);
        return err_set(e, ERR_NOMEM, "no memory for a send pool");
    }
    s->rendezvous = r;
    s->n_slots = mine.size / mesh_buf_room(limit);
    if (s->n_slots > SEND_POOL_SLOTS)
        s->n_slots = SEND_POOL_SLOTS;
    for (size_t i = 0; i < s->n_slots; i++) {
        s->slots[i].buf = (struct mesh_buf){
            .refs = 1, .bytes = (unsigned char *)mine.start + i * mesh_buf_room(limit), .pool = &s->unused};
        mesh_buf_put(&s->slots[i].buf);
    }
    *out = s;
    return 0;
}

void send_pool_close(struct send_pool *s)
{
    if (!s)
        return;
    rendezvous_close(s->rendezvous);
    free(s);
}

struct sealed send_pool_memory(const struct send_pool *s, int i)
{
    return rendezvous_memory(s->rendezvous, i);
}

static struct send_slot *copy_of(struct send_pool *s, const struct mesh_buf *b)
{
    for (size_t i = 0; i < s->n_slots; i++) {
        struct send_slot *slot = &s->slots[i];

        if (slot->buf.refs > 0 && slot->message == b && slot->use == b->n_uses && slot->buf.len == b->len)
            return slot;
    }
    return NULL;
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

struct mesh_buf *send_pool_copy(struct send_pool *s, const struct mesh_buf *b)
{
    struct send_slot *slot = copy_of(s, b);

    if (slot) {
        slot->buf.refs++;
        return &slot->buf;
    }
    slot = (struct send_slot *)mesh_pool_pop(&s->unused); /* its first member is the buffer */
    if (!slot)
        return NULL;
    slot->buf.len = b->len;
    stream(slot->buf.bytes, b->bytes, b->len); /* up to the end of the last vector: both have room */
    slot->message = b;
    slot->use = b->n_uses;
    return &slot->buf;
}

void send_pool_withdraw(struct mesh_buf *slot)
{
    slot->pool = NULL;
}

void send_pool_describe(uint8_t out[FRAME_DESCRIPTOR_BYTES], struct sealed mine, const void *bytes,
                        size_t len)
{
    frame_descriptor_pack(out, (uint64_t)((const char *)bytes - (const char *)mine.start), len);
}

const void *send_pool_find(const uint8_t descriptor[FRAME_DESCRIPTOR_BYTES], struct sealed theirs,
                           size_t limit, size_t *len)
{
    uint64_t offset, n;

    frame_descriptor_unpack(descriptor, &offset, &n);
    if (n > limit || offset > theirs.size || n > theirs.size - offset)
        return NULL;
    *len = n;
    return (const char *)theirs.start + offset;
}
