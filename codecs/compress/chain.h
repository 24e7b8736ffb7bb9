/* chain -- chains of compressors (chain_list.h) at work: vectors become bytes, and bytes vectors.
 *
 * Error feedback. With C the chain,
 *
 *     x = v + decay r;  send C(x);  r <- x - C(x)
 *
 * Seide et al. 2014; Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression
 * Schemes", ICML 2019. It needs |C(x) - x| < |x|, which unbiased compressors do not guarantee: their message
 * is multiplied by <x, C(x)> / |C(x)|^2, so that |C(x) - x|^2 = |x|^2 - <x, C(x)>^2 / |C(x)|^2. Where x is
 * not finite, the residual becomes 0.
 *
 * On the wire a vector is, once per layer or once in all, at a multiple of 4 bytes:
 *     f32 factor          with ef, where a compressor is unbiased
 *     u32 seed[2]         if indices are drawn from one, low half first
 *     f32 scales[]        of the values
 *     items               of the values (items.h)
 *     indices             of a selection (indices.h), unless drawn from a seed
 * and nothing for a layer without values. All counts follow from n and the options: no length is read from
 * the wire, except those of huffman's streams. */
#ifndef PSGD_COMPRESS_CHAIN_H
#define PSGD_COMPRESS_CHAIN_H

#include "codecs/compress/chain_list.h"
#include "codecs/compress/items.h"

enum { CHAIN_VALUES_MAX = 1 << 30 };

/* The state of a chain for vectors of up to n values. */
struct chain {
    struct chain_spec spec;
    struct compress_work work;
    struct items items;
    size_t n;             /* values in a vector; in the longest, if there are several */
    const size_t *starts; /* first index of each layer of a vector of n; borrowed */
    int n_layers;
    float *values; /* the selected values, where there is a selection */
    uint32_t *at;  /* their indices */
    float *sent;   /* with ef, after chain_encode(): the vector that receivers decode */
};

/* `starts` holds the first index of each of n_layers layers in ascending order, starting with 0; used for
 * per=layer and vectors of exactly n values. Allocates all memory that the chain needs; `c` must not move
 * after that. ERR_CONFIG: too many values; ERR_NOMEM. */
int chain_open(struct chain *c, const struct chain_spec *s, size_t n, const size_t *starts, int n_layers,
               struct err *e);
void chain_clear(struct chain *c);

size_t chain_most_bytes(const struct chain *c, size_t n);

/* Writes v (n, at most c->n). `residual` is NULL without ef; else n floats owned by the caller, zeros
 * before the first message, and the state to be saved between messages. If `out` has no room its flag is
 * set, and the residual is undefined. */
void chain_encode(struct chain *c, struct rng *rng, float *residual, const float *v, size_t n,
                  struct wire_out *out);

/* Reads a vector. Returns false, with the flag of `in` set and `out` (n) undefined, for bytes that are not
 * a message of this chain. Safe for any input. */
bool chain_decode(struct chain *c, struct wire_in *in, float *out, size_t n);

/* A vector (c->n) as items alone, for a chain whose items can be added (chain_sums):
 *
 *     chain_measure()  with chain_n_scales() > 0: feeds the residual, if any, and writes the worker's scales
 *     chain_to_items() with their sums over n_summed workers; the residual is fed first where there are none
 *     chain_of_items() the vector that items, or sums of them, stand for */
size_t chain_n_scales(const struct chain *c);
void chain_measure(struct chain *c, float *residual, const float *v, float *scales);
void chain_to_items(struct chain *c, float *residual, const float *v, float *scales, int n_summed,
                    void *items);
void chain_of_items(struct chain *c, const float *scales, int n_summed, const void *items, float *out);

/* The chains of one direction at work, for vectors of n values; {0}: none. */
struct chains {
    int n_chains;
    struct chain *of; /* (n_chains) */
    int *use;         /* (n_layers): the chain of each layer; NULL: of[0] compresses whole vectors */
    size_t n;
    const size_t *starts;
    int n_layers;
    bool has_ef;
};

/* Allocates all memory, unless the list is empty. `layers` and `starts` (n_layers), of a vector of n, are as
 * in chain_open(). ERR_CONFIG: a layer has no chain, or too many values; ERR_NOMEM. */
int chains_open(struct chains *c, const struct chain_list *l, size_t n, const struct codec_layer *layers,
                const size_t *starts, int n_layers, struct err *e);
void chains_clear(struct chains *c);

/* Are vectors of n values compressed? Those of the whole length are, and without a list shorter ones, too. */
bool chains_take(const struct chains *c, size_t n);
size_t chains_most_bytes(const struct chains *c); /* of a vector of the whole length */
/* As chain_encode() and chain_decode(), where chains_take(c, n). `residual`: NULL without has_ef. */
void chains_encode(struct chains *c, struct rng *rng, float *residual, const float *v, size_t n,
                   struct wire_out *out);
bool chains_decode(struct chains *c, struct wire_in *in, float *out, size_t n);

/* Of a pair that down_differs. Encodes v - y where the chain has ef, and v itself where it loses nothing.
 * Then y is what receivers make of it, to the bit, and `left` what that lacks of v. All are (c->n). */
void chains_encode_difference(struct chains *c, struct rng *rng, float *left, float *y, const float *v,
                              struct wire_out *out);
/* Adds y to what chains_decode() has made of such a vector, where that is a difference. */
void chains_add_base(const struct chains *c, const float *y, float *decoded);

struct compress_report chains_report(const struct chains *c); /* of all of them */

#endif
