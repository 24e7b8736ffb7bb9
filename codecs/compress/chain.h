/* chain -- compressors one behind the other, as --compress says them:
 *
 *     topk:ratio=0.01,ef=true|qsgd:bits=4|huffman
 *
 * up to three: one that selects, one that shortens values, one that codes symbols, in this order, each of
 * which may be missing. Options of the whole chain stand with the first:
 *     ef=true      error feedback: what a message leaves out is added to the next vector. With the chain C,
 *                  x = v + decay r;  send C(x);  r <- x - C(x)
 *                  Seide et al. 2014; Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient
 *                  Compression Schemes", ICML 2019. It needs |C(x) - x| < |x|, which unbiased compressors do
 *                  not promise: their message is multiplied by <x, C(x)> / |C(x)|^2, for which |C(x) - x|^2
 *                  = |x|^2 - <x, C(x)>^2 / |C(x)|^2. Where x is no finite number, nothing is kept.
 *     decay=0.9    r counts less in each message
 *     per=layer    each layer by itself, with its own k and scales, instead of the whole vector
 *
 * On the wire a vector is, for each layer or once, at a multiple of 4 bytes:
 *     f32 factor          with ef, where a compressor is unbiased
 *     u32 seed[2]         if indices follow from one, low half first
 *     f32 scales[]        of the values
 *     items               of the values (items.h)
 *     indices             of a selection (indices.h), unless they follow from a seed
 * and nothing for a layer without values. All counts follow from n and the options: no length is taken from
 * the wire but those of huffman's streams. */
#ifndef PSGD_COMPRESS_CHAIN_H
#define PSGD_COMPRESS_CHAIN_H

#include "codecs/compress/items.h"

enum { CHAIN_TEXT_MAX = 255, CHAIN_VALUES_MAX = 1 << 30 };

enum chain_per { CHAIN_PER_VECTOR, CHAIN_PER_LAYER };

/* What a chain's text says. */
struct chain_spec {
    const struct compressor *is[COMPRESS_KINDS]; /* NULL: none of this kind */
    struct {
        unsigned char bytes[COMPRESS_OPTIONS_MAX];
    } __attribute__((aligned(8))) options[COMPRESS_KINDS];
    bool ef;
    float decay;
    int per; /* enum chain_per */
};

/* Of the whole chain; ends with {0}. */
extern const struct codec_option chain_options[];

/* ERR_CONFIG, with the names and ranges that there are; `s` is then undefined. */
int chain_parse(struct chain_spec *s, const char *text, struct err *e);
bool chain_is_lossy(const struct chain_spec *s);

/* What --compress and --compress-down say of a job. */
struct chain_pair {
    bool has_up, has_down;
    struct chain_spec up, down;
};

/* NULL or "": nothing. ERR_CONFIG as chain_parse(), and where `codec` takes nothing, or nothing lossy, that
 * way. */
int chain_pair_parse(struct chain_pair *p, const char *up, const char *down, const char *codec,
                     enum codec_compression takes, struct err *e);

/* A chain at work on vectors of up to n values. */
struct chain {
    struct chain_spec spec;
    struct compress_work work;
    struct items items;
    size_t n;             /* of a vector; the longest, if there are several */
    const size_t *starts; /* of the layers of a vector of n; borrowed */
    int n_layers;
    float *values; /* that are sent, where some are selected */
    uint32_t *at;  /* their indices */
    float *sent;   /* with ef, after chain_encode(): what receivers make of the message */
};

/* `starts` are the first indices of n_layers layers in ascending order, the first 0; used for per=layer and
 * vectors of exactly n values. Allocates all it will ever need; `c` then stays where it is. ERR_CONFIG: too
 * many values; ERR_NOMEM. */
int chain_open(struct chain *c, const struct chain_spec *s, size_t n, const size_t *starts, int n_layers,
               struct err *e);
void chain_clear(struct chain *c);

size_t chain_most_bytes(const struct chain *c, size_t n);

/* Writes v (n, at most c->n). `residual` is NULL without ef; else n floats of the caller's, zeros before the
 * first message, and the state to be saved between messages. Without room in `out` its flag says so, and the
 * residual holds nothing of meaning. */
void chain_encode(struct chain *c, struct rng *rng, float *residual, const float *v, size_t n,
                  struct wire_out *out);

/* False, the flag of `in` set and anything in `out` (n): no message of this chain. Any bytes may come. */
bool chain_decode(struct chain *c, struct wire_in *in, float *out, size_t n);

#endif
