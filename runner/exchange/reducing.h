/* reducing -- the job's chain of compressors inside an all-reduce: if its items can be added (chain_sums), a
 * collective sums items instead of floats, and rounds each partial sum to an item.
 *
 * A worker's vector is compressed once, with error feedback; the same bits result on every worker. A short
 * all-reduce of floats comes first: of the workers' scales, for items of a common scale, and of the running
 * statistics at the end of the vector, which are not compressed. In shared memory, where items would save no
 * bytes, the collective sums the floats that the items represent. */
#ifndef PSGD_REDUCING_H
#define PSGD_REDUCING_H

#include "codecs/codec_events.h"
#include "runner/collective/collective.h"

struct channel;

struct reducing {
    bool is_on; /* else collectives sum floats */
    struct collective_item item;
    void *in;     /* (chain.n) items */
    void *out[2]; /* (chain.n) items, by turn */
    int turn;
    struct {
        size_t n_scales, n; /* the number of scales, and of scales and statistics together */
        float *in, *sum;    /* (n) */
        bool is_under_way;
    } head;
    /* Of the all-reduce under way: */
    int vector;
    enum codec_reduction what;
    const float *v; /* (n_params) */
    float *result;  /* (n_params) */
};

/* After compressing_open(), for a path of collectives. CODEC_GO or ERR_NOMEM. */
int reducing_open(struct channel *ch);
void reducing_clear(struct reducing *r);

/* As combine_path.link. */
int reducing_link(struct channel *ch, const int *machines, bool *linked);
/* Begins the all-reduce of v (n_params), the rule's vector number `vector`; v and result may not change until
 * it is complete. CODEC_WAIT or a code. */
int reducing_start(struct channel *ch, int vector, enum codec_reduction what, const float *v, float *result);
/* One of its collectives is complete. CODEC_GO: so is `result`; CODEC_WAIT: not yet; or a code. */
int reducing_on_collective(struct channel *ch);

#endif
