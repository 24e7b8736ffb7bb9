/* token_windows -- a stream of tokens as samples of a language model: the input of a window is `time` tokens,
 * and its labels are the next token of each. The stream is the tensor "tokens" (n_pieces, windows of a piece
 * x time + 1), U8 or U16, of a shard (submit/stages/shard.h): windows of a piece follow each other, so that a
 * window's last label is the first token of the next window. Where the node reads the data set in place, the
 * stream is the set's own tensor "train" (tokens), and the shard has the numbers of the pieces that are this
 * node's, in "pieces" (n_pieces), I32: piece k begins at token k x windows of a piece x time. */
#ifndef PSGD_TOKEN_WINDOWS_H
#define PSGD_TOKEN_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/records/tensor_file.h"

struct token_windows {
    const uint8_t *bytes;  /* mapped; not owned */
    size_t token_bytes;    /* 1 or 2 */
    const int32_t *pieces; /* (n / per_piece), mapped; NULL: all, each with the token behind it */
    size_t n_tokens;       /* of the stream */
    size_t time, per_piece, n;
    int32_t last_token; /* of the vocabulary */
    bool is_large;      /* pages are released after use, so that the process's memory does not grow */
};

/* ERR_CONFIG: the tensor has another form, or a token that is not below `vocab`. Reads all tokens if the type
 * has such tokens. */
int token_windows_open(struct token_windows *w, const struct tensor_view *tokens, size_t time, int vocab,
                       struct err *e);
/* The same in place: `train` is the set's tensor. ERR_CONFIG also: a piece that it does not have. Reads the
 * tokens of this node's pieces only. */
int token_windows_open_place(struct token_windows *w, const struct tensor_view *train,
                             const struct tensor_view *pieces, size_t per_piece, size_t time, int vocab,
                             struct err *e);
/* x (time), labels (time) of window `at`. A file in place may be written to after it was checked: a token
 * that is beyond the vocabulary then is taken for the last one. */
void token_windows_take(const struct token_windows *w, size_t at, float *x, int32_t *labels);

#endif
