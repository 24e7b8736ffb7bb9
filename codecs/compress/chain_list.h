/* chain_list -- the value of --compress: a chain for whole vectors, or a list with a chain for each layer:
 *
 *     layer0=topk:ratio=0.01,ef=true|qsgd;layer2.dense.bias=none;*=fp16
 *
 * A name is that of a layer, of a tensor, or * for all others; the chain of a tensor's own name comes before
 * that of its layer, and that before the one of *. A list compresses each tensor by itself, as per=layer
 * does: the same chain for each is CHAIN:per=layer, to the bit. */
#ifndef PSGD_COMPRESS_CHAIN_LIST_H
#define PSGD_COMPRESS_CHAIN_LIST_H

#include "codecs/compress/chain.h"

enum { CHAIN_LIST_MAX = 64, CHAIN_NAME_MAX = 63, CHAIN_LIST_TEXT_MAX = 2047 };

struct chain_list {
    bool is_by_layer;
    int n; /* 0: vectors are sent as they are; 1 unless by layer */
    struct chain_entry {
        char name[CHAIN_NAME_MAX + 1]; /* "": of whole vectors */
        struct chain_spec chain;
    } of[CHAIN_LIST_MAX];
};

/* Parses `text`; NULL or "": nothing is compressed. ERR_CONFIG as chain_parse, with the entry. */
int chain_list_parse(struct chain_list *l, const char *text, struct err *e);
/* Is it a list: does the text begin with NAME=? */
bool chain_list_is_one(const char *text);
bool chain_list_is_lossy(const struct chain_list *l);
/* The index of the chain for a tensor "layer0.dense.weight"; -1: there is none. */
int chain_list_find(const struct chain_list *l, const char *tensor);

/* The values of --compress and --compress-down of a job. */
struct chain_pair {
    bool down_differs; /* servers send differences of parameters: lossy chains have error feedback (ef) */
    struct chain_list up, down;
};

/* Parses both options. servers_send_params: the first vector of a server's message are parameters, of which
 * lossy chains send differences. ERR_CONFIG as chain_list_parse(), and where `codec` allows no compression,
 * or no lossy compression, in that direction. */
int chain_pair_parse(struct chain_pair *p, const char *up, const char *down, const char *codec,
                     enum codec_compression takes, bool servers_send_params, struct err *e);
/* Does a job with these options compress only to items that can be added on their way (chain_sums), of that
 * many workers? */
bool chain_pair_sums(const char *up, const char *down, int n_workers);

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
