/* compressing -- a codec's put_vector and get_vector: the vectors of its messages on their way through the
 * job's chains of compressors, one for what workers say (up), one for what servers say (down). A vector
 * longer than the range its codec works on goes as it is.
 *
 * With error feedback each vector has a residual of its own: the first of every message, the second, ...,
 * and for rules that speak about blocks those of each block. Words on one block must be equal, whichever
 * holder says them: their random numbers follow from the job's seed, block and round. */
#ifndef PSGD_COMPRESSING_H
#define PSGD_COMPRESSING_H

#include "codecs/compress/chain.h"

struct channel;

struct residual {
    int block, vector; /* of a message: from 0 */
    size_t n;
    float *v;
};

struct compressing {
    struct chain up, down;
    bool has_up, has_down;
    size_t *starts; /* of the layers */
    struct residual *residuals;
    size_t n_residuals;
    struct {
        float *v;
        size_t n;
    } * read; /* (n_read) vectors of the message being read: they live until the next */
    int n_read, n_put, n_got;
    bool reads_down;
    bool lacks_memory;
    int64_t saved_out, saved_in; /* bytes that the message last written, or read, would have had more */
};

/* Opens the chains and raises the channel's limit for what they may add to a message. ERR_CONFIG: no chain,
 * or not for this codec; ERR_NOMEM. */
int compressing_open(struct channel *ch, struct err *e);
void compressing_clear(struct compressing *c);

void compressing_begin_writing(struct channel *ch);
void compressing_put(struct channel *ch, struct wire_out *out, const float *v, size_t n);
void compressing_begin_reading(struct channel *ch, int from); /* negative: from a server */
const float *compressing_get(struct channel *ch, struct wire_in *in, size_t n);

/* What a checkpoint holds of the residuals, which exist after the first messages. */
uint64_t compressing_saved_bytes(const struct channel *ch);
/* The residual of a checkpoint, to be there before the first message. ERR_CONFIG: there is none of that
 * length here; ERR_NOMEM. */
int compressing_restore(struct channel *ch, int block, int vector, const float *v, size_t n, struct err *e);

#endif
