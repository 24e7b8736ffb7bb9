/* token_stream -- the tokens of a set for language models. Each half is one stream: documents one after
 * another, with the token TOKEN_END behind each. It is cut into windows of `time` tokens, the length of the
 * model's input, each with the token behind it, the label of its last token. A partition assigns pieces of
 * `per_piece` consecutive windows: of one, unless the half has more than PIECES_MAX windows, so that the
 * memory of an order of all pieces has a limit. */
#ifndef PSGD_TOKEN_STREAM_H
#define PSGD_TOKEN_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "submit/data/data_map.h"
#include "submit/data/tokenizer.h"

enum { TOKEN_END = 0, PIECES_MAX = 1 << 20 };

struct token_document { /* of the training half */
    size_t start;       /* its first token */
    int32_t topic;
};

struct token_stream {
    size_t n_train, n_test; /* tokens of the halves; 0: the set is none of tokens */
    size_t time, per_piece, n_pieces;
    int n_topics;      /* 0: there are none */
    char *topic_names; /* (n_topics), one after another, each with its zero byte; NULL: numbers only */
    /* (n_docs): of the training half, if there are topics; the first begins at 0. */
    struct token_document *docs;
    size_t n_docs;
    int32_t *topics; /* (n_pieces): of the document in which a piece begins; NULL: there are no topics */
    double bytes_per_token;     /* of the text, in the test half */
    struct token_merge *merges; /* (n_merges): of the tokenizer; NULL: tokens are bytes */
    size_t n_merges;
    /* Of a generated text, in nats a token, else NAN. The entropy rate, if the topic is known; and the mean
     * loss on the windows of the test half of the best model that there can be: it knows the source, and
     * sees what is before a token in its window. */
    double entropy, floor;
    /* The halves are in maps[0], or each in its own; or else they are allocated. */
    struct data_map maps[2];
};

/* Sets the time of a window, the pieces and their topics. ERR_CONFIG: a half has no window with the token
 * behind it. ERR_NOMEM. */
int token_stream_cut(struct token_stream *s, size_t time, struct err *e);
/* Tokens from the beginning of a piece to that of the next one; a piece has one more. */
size_t token_stream_stride(const struct token_stream *s);
/* Windows of the test half. */
size_t token_stream_tests(const struct token_stream *s);
/* Releases the pages of the maps. */
void token_stream_release(const struct token_stream *s);
void token_stream_clear(struct token_stream *s);

#endif
