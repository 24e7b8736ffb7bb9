#include "runner/token_windows.h"

#include <sys/mman.h>

#include "shared/base/compiler.h"

enum {
    LARGE = 64 << 20, /* bytes */
    /* A page fault maps the pages around it, too, this many bytes (fault_around_bytes of Linux). */
    MAPPED_AT_ONCE = 64 << 10,
    SCANNED_AT_ONCE = 8 << 20
};

/* Releases whole blocks of MAPPED_AT_ONCE that have these bytes. They stay in the page cache. */
static void release_pages(const struct token_windows *w, const uint8_t *from, size_t n)
{
    uintptr_t begin = (uintptr_t)from / MAPPED_AT_ONCE * MAPPED_AT_ONCE;
    uintptr_t end = ((uintptr_t)from + n + MAPPED_AT_ONCE - 1) / MAPPED_AT_ONCE * MAPPED_AT_ONCE;
    uintptr_t map_begin = ((uintptr_t)w->bytes + MAPPED_AT_ONCE - 1) / MAPPED_AT_ONCE * MAPPED_AT_ONCE;
    uintptr_t map_end = ((uintptr_t)w->bytes + w->n_tokens * w->token_bytes) / MAPPED_AT_ONCE *
                        MAPPED_AT_ONCE;

    begin = begin < map_begin ? map_begin : begin;
    end = end > map_end ? map_end : end;
    if (end > begin)
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* of a private map that is never written */
}

FAST static uint16_t largest_token(const uint16_t *tokens, size_t n)
{
    uint16_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = tokens[i] > most ? tokens[i] : most;
    return most;
}

FAST static uint8_t largest_byte(const uint8_t *tokens, size_t n)
{
    uint8_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = tokens[i] > most ? tokens[i] : most;
    return most;
}

static int check_tokens(const struct token_windows *w, size_t first, size_t n, int vocab, struct err *e)
{
    const size_t at_once = SCANNED_AT_ONCE / w->token_bytes;

    if (vocab > (w->token_bytes == 1 ? UINT8_MAX : UINT16_MAX))
        return 0;
    for (size_t i = 0; i < n; i += at_once) {
        const uint8_t *from = w->bytes + (first + i) * w->token_bytes;
        size_t k = n - i < at_once ? n - i : at_once;
        int most = w->token_bytes == 1 ? largest_byte(from, k)
                                       : largest_token((const uint16_t *)(const void *)from, k);

        if (w->is_large)
            release_pages(w, from, k * w->token_bytes);
        if (most >= vocab)
            return err_set(e, ERR_CONFIG, "token %d is outside the model's vocabulary, 0 to %d", most,
                           vocab - 1);
    }
    return 0;
}

int token_windows_open(struct token_windows *w, const struct tensor_view *tokens, size_t time, int vocab,
                       struct err *e)
{
    if (tokens->n_dims != 2 || (tokens->type != TENSOR_U8 && tokens->type != TENSOR_U16) ||
        tokens->shape[0] == 0 || tokens->shape[1] < time + 1 || (tokens->shape[1] - 1) % time != 0)
        return err_set(e, ERR_CONFIG, "tensor tokens is not of windows of %zu tokens, which the model reads",
                       time);
    *w = (struct token_windows){.bytes = tokens->data,
                                .token_bytes = tensor_type_size(tokens->type),
                                .time = time,
                                .n_tokens = tensor_count(tokens),
                                .per_piece = (tokens->shape[1] - 1) / time,
                                .is_large = tensor_bytes(tokens) > LARGE};
    w->n = tokens->shape[0] * w->per_piece;
    return check_tokens(w, 0, w->n_tokens, vocab, e);
}

int token_windows_open_place(struct token_windows *w, const struct tensor_view *train,
                             const struct tensor_view *pieces, size_t per_piece, size_t time, int vocab,
                             struct err *e)
{
    size_t stride = per_piece * time;

    if (train->n_dims != 1 || (train->type != TENSOR_U8 && train->type != TENSOR_U16) ||
        pieces->n_dims != 1 || pieces->type != TENSOR_I32 || pieces->shape[0] == 0 || per_piece == 0 ||
        per_piece > train->shape[0] / time || per_piece > SIZE_MAX / pieces->shape[0])
        return err_set(e, ERR_CONFIG, "tensor pieces does not fit the data set");
    *w = (struct token_windows){.bytes = train->data,
                                .token_bytes = tensor_type_size(train->type),
                                .pieces = pieces->data,
                                .n_tokens = train->shape[0],
                                .time = time,
                                .per_piece = per_piece,
                                .last_token = vocab - 1,
                                .n = pieces->shape[0] * per_piece,
                                .is_large = tensor_bytes(train) > LARGE};
    for (size_t k = 0; k < pieces->shape[0]; k++) {
        if (w->pieces[k] < 0 || (size_t)w->pieces[k] >= (w->n_tokens - 1) / stride)
            return err_set(e, ERR_CONFIG, "piece %d of the data set, which has %zu", w->pieces[k],
                           (w->n_tokens - 1) / stride);
        if (check_tokens(w, (size_t)w->pieces[k] * stride, stride + 1, vocab, e) < 0)
            return e->code;
    }
    return 0;
}

FAST static void take_bytes(float *restrict x, int32_t *restrict labels, const uint8_t *restrict from,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i];
    for (size_t i = 0; i < n; i++)
        labels[i] = from[i + 1];
}

FAST static void take_wide(float *restrict x, int32_t *restrict labels, const uint16_t *restrict from,
                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i];
    for (size_t i = 0; i < n; i++)
        labels[i] = from[i + 1];
}

FAST static void limit_tokens(float *restrict x, int32_t *restrict labels, size_t n, int32_t last)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] < (float)last ? x[i] : (float)last;
    for (size_t i = 0; i < n; i++)
        labels[i] = labels[i] < last ? labels[i] : last;
}

void token_windows_take(const struct token_windows *w, size_t at, float *x, int32_t *labels)
{
    size_t piece = at / w->per_piece, stride = w->per_piece * w->time;
    size_t begin = w->pieces ? (size_t)w->pieces[piece] * stride : piece * (stride + 1);
    size_t first = begin + at % w->per_piece * w->time;
    const uint8_t *from = w->bytes + first * w->token_bytes;

    if (w->token_bytes == 1)
        take_bytes(x, labels, from, w->time);
    else
        take_wide(x, labels, (const uint16_t *)(const void *)from, w->time);
    if (w->pieces)
        limit_tokens(x, labels, w->time, w->last_token);
    if (w->is_large)
        release_pages(w, from, (w->time + 1) * w->token_bytes);
}
