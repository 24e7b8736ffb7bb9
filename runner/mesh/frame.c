#include "runner/mesh/frame.h"

#include <string.h>

#include "shared/base/crc32c.h"
#include "shared/base/crypto.h"

enum { FLAG_TLS = 1, FLAG_DESCRIPTOR = 2 };

uint64_t frame_job(const char *job_id)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t job;

    sha256(digest, job_id, strlen(job_id));
    memcpy(&job, digest, sizeof job);
    return job;
}

static void put_int(uint8_t *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_int(const uint8_t *at, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

void frame_pack(uint8_t out[FRAME_BYTES], const struct frame *f)
{
    memset(out, 0, FRAME_BYTES);
    memcpy(out, "PSGD", 4);
    put_int(out + 4, FRAME_VERSION, 2);
    put_int(out + 6, (uint64_t)f->kind, 1);
    put_int(out + 7, (f->wants_tls ? FLAG_TLS : 0u) | (f->is_descriptor ? FLAG_DESCRIPTOR : 0u), 1);
    put_int(out + 8, f->job, 8);
    put_int(out + 16, f->attempt, 4);
    put_int(out + 20, (uint32_t)f->from, 4);
    put_int(out + 24, (uint32_t)f->to, 4);
    put_int(out + 28, f->channel, 2);
    put_int(out + 30, f->len, 6);
    put_int(out + 36, f->round, 8);
    put_int(out + 44, f->index, 4);
    put_int(out + 48, f->seq, 4);
    put_int(out + 52, f->ack, 4);
    put_int(out + 56, f->crc, 4);
    put_int(out + 60, crc32c(out, 60), 4);
}

bool frame_has_other_version(const uint8_t in[FRAME_BYTES])
{
    return memcmp(in, "PSGD", 4) == 0 && get_int(in + 4, 2) != FRAME_VERSION;
}

static unsigned flags_of(uint64_t kind)
{
    return kind == FRAME_HELLO                            ? FLAG_TLS
           : frame_carries_vectors((enum frame_kind)kind) ? FLAG_DESCRIPTOR
                                                          : 0;
}

int frame_unpack(struct frame *out, const uint8_t in[FRAME_BYTES], struct err *e)
{
    uint64_t kind = get_int(in + 6, 1);

    if (memcmp(in, "PSGD", 4) != 0)
        return err_set(e, ERR_PROTOCOL,
                       "it sent bytes that are not a frame of psgd: does another program use this port?");
    if (frame_has_other_version(in))
        return err_set(e, ERR_PROTOCOL,
                       "the peer uses version %u of the data plane, this node version %d: install the same "
                       "psgd on both",
                       (unsigned)get_int(in + 4, 2), FRAME_VERSION);
    if (get_int(in + 60, 4) != crc32c(in, 60))
        return err_set(e, ERR_PROTOCOL, "the checksum of a frame header is wrong");
    if (kind < FRAME_HELLO || kind >= FRAME_KINDS || (in[7] & ~flags_of(kind)) != 0)
        return err_set(e, ERR_PROTOCOL, "a frame has kind %u and flags %u, unknown in version %d",
                       (unsigned)kind, in[7], FRAME_VERSION);
    *out = (struct frame){
        .kind = (enum frame_kind)kind,
        .wants_tls = in[7] & FLAG_TLS,
        .is_descriptor = in[7] & FLAG_DESCRIPTOR,
        .job = get_int(in + 8, 8),
        .attempt = (uint32_t)get_int(in + 16, 4),
        .from = (int32_t)get_int(in + 20, 4),
        .to = (int32_t)get_int(in + 24, 4),
        .channel = (uint16_t)get_int(in + 28, 2),
        .len = get_int(in + 30, 6),
        .round = get_int(in + 36, 8),
        .index = (uint32_t)get_int(in + 44, 4),
        .seq = (uint32_t)get_int(in + 48, 4),
        .ack = (uint32_t)get_int(in + 52, 4),
        .crc = (uint32_t)get_int(in + 56, 4),
    };
    return 0;
}

void frame_descriptor_pack(uint8_t out[FRAME_DESCRIPTOR_BYTES], uint64_t offset, uint64_t len)
{
    put_int(out, offset, 8);
    put_int(out + 8, len, 8);
}

void frame_descriptor_unpack(const uint8_t in[FRAME_DESCRIPTOR_BYTES], uint64_t *offset, uint64_t *len)
{
    *offset = get_int(in, 8);
    *len = get_int(in + 8, 8);
}
