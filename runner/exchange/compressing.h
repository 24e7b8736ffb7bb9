/* compressing -- a codec's put_vector and get_vector: they pass the vectors of its messages through the job's
 * chains of compressors. One list of chains is for the messages of workers (up), one for those of servers
 * (down); a list has one chain for whole vectors, or one for each layer. Sent uncompressed are running
 * statistics, which follow the parameters of a vector, a vector longer than the codec's range, and, with
 * chains by layer, a shorter vector.
 *
 * With error feedback each vector has a residual of its own: the first of every message, the second, ...,
 * and for per-block rules those of each block. All holders of a block must send equal contributions about it:
 * their random numbers follow from the job's seed, the block and the round.
 *
 * Differences. In a job whose servers send parameters through a lossy chain (--compress-down), a lossy copy
 * of the parameters would lose every update below its error. So a server sends how its parameters x differ
 * from the parameters y that the worker has. With C the chain,
 *
 *     send C(x - y);      y <- y + C(x - y)      on both sides, to the same bits
 *
 * What a message leaves out, l = x - y, is part of the next difference, which is error feedback for
 * weights: the algorithm EF21-P of Gruntkowska, Tyurin and Richtarik, "EF21-P and Friends: Improved
 * Theoretical Communication Complexity for Distributed Optimization with Bidirectional Compression", ICML
 * 2023, w <- w + C(x - w). C must have |C(d) - d| < |d|, so it is multiplied as with ef=true (chain.h). The
 * paper does not treat asgd; here each worker of such a job has a y of its own. All nodes begin with the same
 * weights, which are the first y. Only the first vector of a message is sent so, and with chains by layer
 * only the layers whose chain is lossy; any other vector is sent uncompressed.
 *
 * Where a worker contributes its weights (fedavg), it has computed them from y, not from x: they lack l. The
 * server adds the l of its last message to that worker, so that nothing is lost there either. */
#ifndef PSGD_COMPRESSING_H
#define PSGD_COMPRESSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/compress/chain.h"
#include "shared/base/err.h"

struct channel;

struct residual {
    int block, vector; /* index in the message, from 0 */
    size_t n;
    float *v;
};

/* The parameters as their receivers have them, where servers send differences. */
struct copies {
    int n; /* of a worker 1; of a server 1 if all workers have the same, else n_workers; 0: no differences */
    size_t n_params;
    float **of;   /* (n) vectors (n_params): y, the same at both ends; NULL: its worker is lost */
    float **left; /* server: (n) vectors (n_params): l. NULL: contributions do not lack it */
    float *work;  /* (n_params); on a worker y plus the difference being read, ... */
    bool is_read; /* ... which becomes of[0] when the message has been processed */
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
    int from;         /* of the message being read: the node, or in a round of blocks the block */
    bool is_by_block; /* a program's contribution, for which psgd's own worker would send one for its block */
    bool lacks_memory,
        lacks_receiver; /* why the message being written is invalid, if the reason is not its length */
    int64_t saved_out, saved_in; /* bytes that compression saved in the message last written, or read */
};

/* Opens the chains and raises the channel's limit by the bytes that they may add to a message. ERR_CONFIG:
 * not a valid chain, or not for this codec; ERR_NOMEM. */
int compressing_open(struct channel *ch, struct err *e);
void compressing_clear(struct compressing *c);

/* Before a message is written. A server sets `to` first. */
static inline void compressing_begin_writing(struct compressing *c)
{
    c->n_put = 0;
    c->saved_out = 0;
    c->lacks_memory = c->lacks_receiver = false;
}

void compressing_put(struct channel *ch, struct wire_out *out, const float *v, size_t n);

/* Before a message of `from` is read; negative: it is a server's. */
static inline void compressing_begin_reading(struct compressing *c, int from)
{
    c->n_got = 0;
    c->saved_in = 0;
    c->from = from;
    c->copies.is_read = false;
}

/* After a message has been processed; not if it was refused. */
void compressing_end_reading(struct compressing *c);

const float *compressing_get(struct channel *ch, struct wire_in *in, size_t n);

/* On a server: returns the weights v (n_params) that worker `from` contributes, plus l if they lack it. Valid
 * until the next call. */
const float *compressing_whole(struct channel *ch, int from, const float *v);
/* On a server: frees the copy of a lost worker. No effect where all workers have the same copy. */
void compressing_forget(struct compressing *c, int worker);

/* The residual of the rule's vector number `vector` in an all-reduce: *r is NULL without error feedback.
 * CODEC_GO or ERR_NOMEM. */
int compressing_residual(struct channel *ch, int vector, float **r);

/* Bytes of residuals and copies in a checkpoint; residuals exist after the first messages. */
uint64_t compressing_saved_bytes(const struct channel *ch);
/* Restores a checkpoint's residual, before the first message. ERR_CONFIG: there is none of that length here;
 * ERR_NOMEM. */
int compressing_restore(struct channel *ch, int block, int vector, const float *v, size_t n, struct err *e);

#endif
