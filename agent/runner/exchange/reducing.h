/* reducing -- the job's chain of compressors inside an all-reduce: where its items can be added
 * (chain_sums), a collective sums items instead of floats, and rounds each partial sum to one.
 *
 * A worker's vector is compressed once, with error feedback; the same bits result on every worker. In shared
 * memory, where no bytes are saved, the collective sums what the items stand for. */
#ifndef PSGD_REDUCING_H
#define PSGD_REDUCING_H

#include "agent/runner/collective/collective.h"
#include "codecs/codec.h"

struct channel;

struct reducing {
    bool is_on; /* else collectives sum floats */
    struct collective_item item;
    void *in;     /* (n_params) items */
    void *out[2]; /* (n_params) items: of two collectives in turn */
    int turn;
};

/* After compressing_open(), for a path of collectives. CODEC_GO or ERR_NOMEM. */
int reducing_open(struct channel *ch);
void reducing_clear(struct reducing *r);

/* Compresses v (n_params), the rule's vector number `vector`, into r->in. CODEC_GO or a code. */
int reducing_put(struct channel *ch, int vector, const float *v);
/* What r->in, or r->out[r->turn], stands for. */
void reducing_get(struct channel *ch, const void *items, float *v);
/* Begins the all-reduce of r->in. As codec_host.all_reduce. */
int reducing_start(struct channel *ch, enum codec_reduction what);

#endif
