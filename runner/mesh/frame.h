/* frame -- packs and unpacks the 64-byte header of every message between nodes (docs/protocol.md §3). Uses
 * no sockets and allocates nothing. */
#ifndef PSGD_FRAME_H
#define PSGD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { FRAME_BYTES = 64, FRAME_VERSION = 9, FRAME_DESCRIPTOR_BYTES = 16 };

enum frame_kind {
    FRAME_HELLO = 1,
    FRAME_CHALLENGE,
    FRAME_PROOF,
    FRAME_CONTRIBUTION, /* of a worker, in a round */
    FRAME_REPLY,        /* of a server */
    FRAME_EVENT,        /* a message of an event rule */
    FRAME_BYE,
    FRAME_CHUNK,   /* part of a vector in a collective */
    FRAME_ACK,     /* no payload; only `ack` counts */
    FRAME_LOCAL,   /* shared memory of the nodes of one machine: how to join it, or whether the sender can */
    FRAME_LOSS,    /* the workers that the sender has lost, and those whose contributions it has used */
    FRAME_WAIT,    /* no payload: the node for which the sender waits, or because of which it ends */
    FRAME_BARRIER, /* exchange/barrier.h: a worker waits at a barrier, or a server's answer */
    FRAME_STOP_VOTE, /* exchange/stop_vote.h: a worker's result of an evaluation, or the mean of all */
    FRAME_FEED,      /* exchange/feed.h, no payload: the mini-batch that a worker computes next */
    FRAME_PART,      /* exchange/whole.h: a server's part of a sum over the ranges of all servers */
    FRAME_KINDS
};

struct frame {
    enum frame_kind kind;
    bool wants_tls;     /* FRAME_HELLO only */
    bool is_descriptor; /* the payload is offset and length of a message in the sender's shared memory */
    uint64_t job;       /* frame_job() of the job id */
    uint32_t attempt;
    int32_t from, to; /* nodes */
    uint16_t channel;
    uint32_t index;
    uint64_t round;
    uint64_t len; /* bytes of the payload; 48 bits on the wire */
    uint32_t seq; /* sequence number per sender and receiver, from 1, modulo 2^32; FRAME_ACK: 0 */
    uint32_t ack; /* seq of the last message that `from` has completely received from `to` */
    uint32_t crc; /* CRC-32C of the payload */
};

/* Whether the frame may carry parameters: only these may be sent through shared memory. */
static inline bool frame_carries_vectors(enum frame_kind kind)
{
    return (kind >= FRAME_CONTRIBUTION && kind <= FRAME_EVENT) || kind == FRAME_BARRIER;
}

uint64_t frame_job(const char *job_id);
void frame_pack(uint8_t out[FRAME_BYTES], const struct frame *f);
/* ERR_PROTOCOL: wrong magic, another version (the text names both), wrong checksum, unknown kind, or a flag
 * that this kind does not have. */
int frame_unpack(struct frame *out, const uint8_t in[FRAME_BYTES], struct err *e);
/* A descriptor: offset and length of a message in shared memory, in bytes. */
void frame_descriptor_pack(uint8_t out[FRAME_DESCRIPTOR_BYTES], uint64_t offset, uint64_t len);
void frame_descriptor_unpack(const uint8_t in[FRAME_DESCRIPTOR_BYTES], uint64_t *offset, uint64_t *len);
/* Is the header one of psgd, but of another version, so that no other field can be interpreted? */
bool frame_has_other_version(const uint8_t in[FRAME_BYTES]);

#endif
