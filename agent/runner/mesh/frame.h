/* frame -- the 64 bytes before every message between nodes (docs/protocol.md §3), to and from a struct.
 * No sockets, no memory: bytes in, a checked struct out. */
#ifndef PSGD_FRAME_H
#define PSGD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

enum { FRAME_BYTES = 64, FRAME_VERSION = 4, FRAME_DESCRIPTOR_BYTES = 16 };

enum frame_kind {
    FRAME_HELLO = 1,
    FRAME_CHALLENGE,
    FRAME_PROOF,
    FRAME_CONTRIBUTION, /* what a worker says in a round */
    FRAME_REPLY,        /* what a server answers */
    FRAME_EVENT,        /* a message of an event rule */
    FRAME_BYE,
    FRAME_CHUNK, /* a part of a collective's vector */
    FRAME_ACK,   /* nothing but `ack` */
    FRAME_LOCAL, /* how to come to the memory that nodes of one machine share, or that it is not to be */
    FRAME_LOSS,  /* which workers are lost to the sender, and what it has had of them */
    FRAME_KINDS
};

struct frame {
    enum frame_kind kind;
    bool wants_tls;     /* a hello's */
    bool is_descriptor; /* the payload is a slip: where the message lies in memory that both ends share */
    uint64_t job;       /* frame_job() of its id */
    uint32_t attempt;
    int32_t from, to; /* nodes */
    uint16_t channel;
    uint32_t index;
    uint64_t round;
    uint64_t len; /* of the payload; 48 bits of it are carried */
    uint32_t seq; /* of this message among its sender's to its receiver, from 1, modulo 2^32; an ack's is 0 */
    uint32_t ack; /* seq of the last message that the sender has heard from the receiver, whole */
    uint32_t crc; /* of the payload */
};

/* Is it what a rule says? Only that may lie in shared memory. */
static inline bool frame_is_of_rule(enum frame_kind kind)
{
    return kind >= FRAME_CONTRIBUTION && kind <= FRAME_EVENT;
}

uint64_t frame_job(const char *job_id);
void frame_pack(uint8_t out[FRAME_BYTES], const struct frame *f);
/* ERR_PROTOCOL: not our magic, another version (both named), a wrong checksum, or a flag that its kind has
 * not. */
int frame_unpack(struct frame *out, const uint8_t in[FRAME_BYTES], struct err *e);
/* Where in shared memory a message begins, and how long it is. */
void frame_descriptor_pack(uint8_t out[FRAME_DESCRIPTOR_BYTES], uint64_t offset, uint64_t len);
void frame_descriptor_unpack(const uint8_t in[FRAME_DESCRIPTOR_BYTES], uint64_t *offset, uint64_t *len);
/* Our magic and another version, of which nothing else is known. */
bool frame_is_of_another_version(const uint8_t in[FRAME_BYTES]);

#endif
