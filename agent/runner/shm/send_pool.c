#include "agent/runner/shm/send_pool.h"

#include <stdlib.h>

struct send_pool {
    struct rendezvous *rendezvous;
    struct mesh_buf slots[SEND_POOL_SLOTS];
    size_t n_slots;
};

size_t send_pool_bytes(size_t limit, size_t n_peers)
{
    size_t n = n_peers > 1 ? SEND_POOL_SLOTS : SEND_POOL_DESCRIPTORS_MAX;

    return limit > SIZE_MAX / (4 * SEND_POOL_SLOTS) ? 0 : n * mesh_buf_room(limit);
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
    for (size_t i = 0; i < s->n_slots; i++)
        s->slots[i] = (struct mesh_buf){.is_slot = true,
                                        .bytes = (unsigned char *)mine.start + i * mesh_buf_room(limit)};
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

void send_pool_attach(struct send_pool *s, struct mesh *m)
{
    for (size_t i = 0; i < s->n_slots; i++) {
        s->slots[i].refs = 1;
        mesh_buf_put(m, &s->slots[i]);
    }
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
