#include "submit/data/token_stream.h"

#include <stdlib.h>

static int check_half(const char *half, size_t n, size_t time, struct err *e)
{
    if (n > time)
        return 0;
    err_set(e, ERR_CONFIG, "the %s half has %zu token%s, and a window of the model has %zu and one behind it",
            half, n, n == 1 ? "" : "s", time);
    return err_hint(e, "Take more text, or a model with a shorter input.");
}

static int label_pieces(struct token_stream *s, struct err *e)
{
    s->topics = malloc((s->n_pieces + 1) * sizeof *s->topics);
    if (!s->topics)
        return err_set(e, ERR_NOMEM, "no memory for the topics of %zu pieces of text", s->n_pieces);
    for (size_t i = 0, at = 0; i < s->n_pieces; i++) {
        while (at + 1 < s->n_docs && s->docs[at + 1].start <= i * token_stream_stride(s))
            at++;
        s->topics[i] = s->docs[at].topic;
    }
    return 0;
}

int token_stream_cut(struct token_stream *s, size_t time, struct err *e)
{
    size_t n_windows;

    if ((s->n_train > 0 && check_half("training", s->n_train, time, e) < 0) ||
        check_half("test", s->n_test, time, e) < 0)
        return e->code;
    n_windows = s->n_train > 0 ? (s->n_train - 1) / time : 0;
    s->time = time;
    s->per_piece = n_windows / PIECES_MAX + 1;
    s->n_pieces = n_windows / s->per_piece;
    return s->n_topics > 0 ? label_pieces(s, e) : 0;
}

size_t token_stream_stride(const struct token_stream *s)
{
    return s->per_piece * s->time;
}

size_t token_stream_tests(const struct token_stream *s)
{
    return (s->n_test - 1) / s->time;
}

void token_stream_release(const struct token_stream *s)
{
    for (int i = 0; i < 2; i++)
        if (s->maps[i].at)
            data_map_release(s->maps[i].at, s->maps[i].len);
}

void token_stream_clear(struct token_stream *s)
{
    data_map_close(&s->maps[0]);
    data_map_close(&s->maps[1]);
    free(s->merges);
    free(s->docs);
    free(s->topics);
    free(s->topic_names);
    *s = (struct token_stream){0};
}
