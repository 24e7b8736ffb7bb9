#include "runner/text_sample.h"

#include <stdlib.h>
#include <string.h>

#include "shared/records/record.h"

/* Behind a document; as TOKEN_END of submit/data/token_stream.h. */
enum { END_OF_TEXT = 0 };

static int check_tokens_of(const struct text_sample *t, size_t n_bytes, int vocab, struct err *e)
{
    int32_t before = 0;

    for (size_t k = 0; k < t->n_known; k++) {
        if (t->ends[k] < before || (size_t)t->ends[k] > n_bytes)
            return err_set(e, ERR_CONFIG, "tensor token_ends: token %zu ends at %d", k, t->ends[k]);
        before = t->ends[k];
    }
    for (size_t i = 0; i < t->n; i++)
        if (t->prompt[i] < 0 || t->prompt[i] >= vocab || (size_t)t->prompt[i] >= t->n_known)
            return err_set(e, ERR_CONFIG, "tensor prompt: token %d is unknown", t->prompt[i]);
    return 0;
}

/* The bytes of a token, from `line` on in the form of a cell. Returns where they end. */
static char *put_token(const struct text_sample *t, char *line, int token)
{
    int32_t from = token > 0 ? t->ends[token - 1] : 0;

    record_put_line(line, t->bytes + from, (size_t)(t->ends[token] - from));
    return line + strlen(line);
}

static size_t longest_token(const struct text_sample *t)
{
    int32_t most = 1, before = 0;

    for (size_t k = 0; k < t->n_known; before = t->ends[k++])
        most = t->ends[k] - before > most ? t->ends[k] - before : most;
    return (size_t)most;
}

static int make_lines(struct text_sample *t, struct err *e)
{
    const size_t room = 3 * longest_token(t);
    char *at;

    t->prompt_line = malloc(t->n * room + 1);
    t->line = malloc(TEXT_SAMPLE_TOKENS * room + 1);
    if (!t->prompt_line || !t->line)
        return err_set(e, ERR_NOMEM, "no memory for a text of %d tokens", TEXT_SAMPLE_TOKENS);
    at = t->prompt_line;
    for (size_t i = 0; i < t->n; i++)
        at = put_token(t, at, t->prompt[i]);
    return 0;
}

int text_sample_open(struct text_sample *t, const struct tensor_file *shard, const struct model_spec *m,
                     struct err *e)
{
    const struct tensor_view *prompt = tensor_file_find(shard, "prompt"),
                             *ends = tensor_file_find(shard, "token_ends"),
                             *bytes = tensor_file_find(shard, "token_bytes");
    int rc;

    *t = (struct text_sample){0};
    if (!prompt)
        return 0;
    if (model_spec_language(m, e) < 0)
        return e->code;
    if (!ends || !bytes || prompt->type != TENSOR_I32 || ends->type != TENSOR_I32 ||
        bytes->type != TENSOR_U8 || prompt->n_dims != 1 || ends->n_dims != 1 || bytes->n_dims != 1 ||
        prompt->shape[0] > (size_t)m->n_in || ends->shape[0] > (size_t)model_spec_vocab(m))
        return err_set(e, ERR_CONFIG, "tensors prompt, token_ends and token_bytes do not fit each other");
    *t = (struct text_sample){.prompt = prompt->data,
                              .ends = ends->data,
                              .bytes = bytes->data,
                              .n = prompt->shape[0],
                              .n_known = ends->shape[0]};
    rc = check_tokens_of(t, bytes->shape[0], model_spec_vocab(m), e) < 0 ? e->code : make_lines(t, e);
    if (rc < 0)
        text_sample_close(t);
    return rc;
}

void text_sample_close(struct text_sample *t)
{
    generator_free(t->g);
    free(t->prompt_line);
    free(t->line);
    *t = (struct text_sample){0};
}

bool text_sample_is_asked(const struct text_sample *t)
{
    return t->n > 0;
}

int text_sample_begin(struct text_sample *t, struct net *net, const struct model_spec *m, uint64_t seed,
                      struct err *e)
{
    const struct sampling how = {.temperature = 1, .top_p = 1, .seed = seed};

    generator_free(t->g);
    t->g = NULL;
    t->n_drawn = 0;
    t->line_len = 0;
    t->line[0] = '\0';
    if (generator_new(&t->g, net, m, (int)t->n_known, &how, e) < 0)
        return e->code;
    for (size_t i = 0; i < t->n; i++)
        if (generator_add(t->g, t->prompt[i], e) < 0)
            return e->code;
    return 0;
}

bool text_sample_go_on(struct text_sample *t, int n)
{
    struct err not_finite;

    for (; n > 0 && t->n_drawn < TEXT_SAMPLE_TOKENS; n--) {
        int token = generator_next(t->g, &not_finite);

        if (token < 0 || token == END_OF_TEXT)
            return true;
        t->line_len = (size_t)(put_token(t, t->line + t->line_len, token) - t->line);
        t->n_drawn++;
    }
    return t->n_drawn == TEXT_SAMPLE_TOKENS;
}
