/* compressing -- a codec's put_vector and get_vector: they pass the vectors of its messages through the job's
 * chains of compressors, those for workers' messages (up) and those for servers' (down): one for whole
 * vectors, or one for each layer. Running statistics at the end of a vector, and a vector longer than the
 * codec's range, are sent uncompressed; with chains by layer a shorter one, too.
 *
 * Where what servers send are their parameters and the chain is lossy, the first vector of their messages is
 * sent as a difference (copies.h), with a list by layer where the layer's chain is lossy; any other vector is
 * sent uncompressed.
 *
 * With error feedback each vector has a residual of its own: the first of every message, the second, ...,
 * and for per-block rules those of each block. All holders of a block must send equal contributions about it:
 * their random numbers follow from the job's seed, block and round. */
#ifndef PSGD_COMPRESSING_H
#define PSGD_COMPRESSING_H

#include "codecs/compress/chain_list.h"
#include "runner/exchange/copies.h"

struct channel;

struct residual {
    int block, vector; /* index in the message, from 0 */
    size_t n;
    float *v;
};

enum { COMPRESSING_TO_ANY = -1 };

struct compressing {
    struct chains up, down;
    size_t *starts; /* offsets of the layers */
    struct residual *residuals;
    size_t n_residuals;
    struct copies copies;
    int to; /* server: the worker that the message being written is for; COMPRESSING_TO_ANY: not known */
    struct {
        float *v;
        size_t n;
    } * read; /* (n_read) vectors of the message being read, valid until the next message */
    int n_read, n_put, n_got;
    int from; /* of the message being read: the node, or in a round of blocks the block */
    bool lacks_memory,
        lacks_receiver; /* why the message being written is invalid, if the reason is not its length */
    int64_t saved_out, saved_in; /* bytes that compression saved in the message last written, or read */
};

/* Opens the chains and raises the channel's limit by what they may add to a message. ERR_CONFIG: not a valid
 * chain, or not for this codec; ERR_NOMEM. */
int compressing_open(struct channel *ch, struct err *e);
void compressing_clear(struct compressing *c);

/* A server sets `to` before. */
static inline void compressing_begin_writing(struct compressing *c)
{
    c->n_put = 0;
    c->saved_out = 0;
    c->lacks_memory = c->lacks_receiver = false;
}

void compressing_put(struct channel *ch, struct wire_out *out, const float *v, size_t n);
/* Around the processing of a message; after a message that was refused, only the first. */
static inline void compressing_begin_reading(struct compressing *c, int from) /* negative: from a server */
{
    c->n_got = 0;
    c->saved_in = 0;
    c->from = from;
    c->copies.is_read = false;
}

static inline void compressing_end_reading(struct compressing *c)
{
    if (c->copies.is_read)
        copies_swap(&c->copies);
}

const float *compressing_get(struct channel *ch, struct wire_in *in, size_t n);

/* On a server: the weights v (n_params) that worker `from` contributes, with what the last message to it left
 * out where they lack that (copies.h). Valid until the next call. */
const float *compressing_whole(struct channel *ch, int from, const float *v);

/* The residual of the rule's vector number `vector` in an all-reduce: *r is NULL without error feedback.
 * CODEC_GO or ERR_NOMEM. */
int compressing_residual(struct channel *ch, int vector, float **r);

/* Bytes of residuals and copies in a checkpoint; residuals exist after the first messages. */
uint64_t compressing_saved_bytes(const struct channel *ch);
/* Restores a checkpoint's residual, before the first message. ERR_CONFIG: there is none of that length here;
 * ERR_NOMEM. */
int compressing_restore(struct channel *ch, int block, int vector, const float *v, size_t n, struct err *e);

#endif
