/* chain_list -- the value of --compress: a chain of compressors for whole vectors, or a list with a chain for
 * each layer. A chain is
 *
 *     topk:ratio=0.01,ef=true|qsgd:bits=4|huffman
 *
 * up to three stages in this order, each optional: selection, quantization of values, coding of symbols.
 * Options of the whole chain are given with the first stage:
 *     ef=true      error feedback: the compression error of a message is added to the next vector (chain.h)
 *     decay=0.9    factor on the residual, with ef
 *     per=layer    compress each layer separately, with its own k and scales, instead of the whole vector
 *
 * A list is
 *
 *     layer0=topk:ratio=0.01,ef=true|qsgd;layer2.dense.bias=none;*=fp16
 *
 * A name is that of a tensor, or its beginning up to a dot, or * for all others: "layer2" names all tensors
 * of layer 2, "encoder.layers.0" those of a module of PyTorch. The longest name that fits a tensor counts. A
 * list compresses each tensor separately, as per=layer does: a list with the same chain for each gives the
 * same bytes as CHAIN:per=layer. */
#ifndef PSGD_COMPRESS_CHAIN_LIST_H
#define PSGD_COMPRESS_CHAIN_LIST_H

#include "codecs/compress/compress.h"

enum { CHAIN_TEXT_MAX = 255, CHAIN_LIST_MAX = 64, CHAIN_NAME_MAX = 127, CHAIN_LIST_TEXT_MAX = 2047 };

enum chain_per { CHAIN_PER_VECTOR, CHAIN_PER_LAYER };

/* A parsed chain. */
struct chain_spec {
    const struct compressor *is[COMPRESS_KINDS]; /* NULL: none of this kind */
    struct {
        unsigned char bytes[COMPRESS_OPTIONS_MAX];
    } __attribute__((aligned(8))) options[COMPRESS_KINDS];
    bool ef;
    float decay;
    int per; /* enum chain_per */
};

/* Options of the whole chain; ends with {0}. */
extern const struct codec_option chain_options[];

/* Parses `text`. ERR_CONFIG, with the known names and ranges; `s` is then undefined. */
int chain_parse(struct chain_spec *s, const char *text, struct err *e);
bool chain_is_lossy(const struct chain_spec *s);
/* The compressor of a chain that makes of a vector one item a value, which can be added on its way
 * (compressor.sum). NULL: it does not. */
const struct compressor *chain_sums(const struct chain_spec *s);

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
/* Is the name in a list that of the tensor, or its beginning up to a dot? */
bool chain_name_fits(const char *name, const char *tensor);
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

#endif
