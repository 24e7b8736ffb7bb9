#include "agent/runner/shm/shelf.h"

#include <stdlib.h>

struct shelf {
    struct meeting *meeting;
    struct mesh_buf places[SHELF_PLACES];
    size_t n_places;
};

size_t shelf_bytes(size_t limit, size_t n_peers)
{
    size_t n = n_peers > 1 ? SHELF_PLACES : SHELF_SLIPS_MAX;

    return limit > SIZE_MAX / (4 * SHELF_PLACES) ? 0 : n * mesh_buf_room(limit);
}

int shelf_open(struct shelf **out, struct meeting *m, size_t limit, struct err *e)
{
    struct sealed mine = meeting_memory(m, meeting_me(m));
    struct shelf *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s) {
        meeting_close(m);
        return err_set(e, ERR_NOMEM, "no memory for a shelf");
    }
    s->meeting = m;
    s->n_places = mine.size / mesh_buf_room(limit);
    if (s->n_places > SHELF_PLACES)
        s->n_places = SHELF_PLACES;
    for (size_t i = 0; i < s->n_places; i++)
        s->places[i] = (struct mesh_buf){.is_shelved = true,
                                         .bytes = (unsigned char *)mine.start + i * mesh_buf_room(limit)};
    *out = s;
    return 0;
}

void shelf_close(struct shelf *s)
{
    if (!s)
        return;
    meeting_close(s->meeting);
    free(s);
}

struct sealed shelf_memory(const struct shelf *s, int i)
{
    return meeting_memory(s->meeting, i);
}

void shelf_give(struct shelf *s, struct mesh *m)
{
    for (size_t i = 0; i < s->n_places; i++) {
        s->places[i].refs = 1;
        mesh_buf_put(m, &s->places[i]);
    }
}

void shelf_write_slip(uint8_t out[FRAME_SLIP_BYTES], struct sealed mine, const void *bytes, size_t len)
{
    frame_slip_pack(out, (uint64_t)((const char *)bytes - (const char *)mine.start), len);
}

const void *shelf_read_slip(const uint8_t slip[FRAME_SLIP_BYTES], struct sealed theirs, size_t limit,
                            size_t *len)
{
    uint64_t offset, n;

    frame_slip_unpack(slip, &offset, &n);
    if (n > limit || offset > theirs.size || n > theirs.size - offset)
        return NULL;
    *len = n;
    return (const char *)theirs.start + offset;
}
