#include "submit/stages/sample_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "submit/data/tokenizer.h"

static int take_tokens(struct sample_prompt *p, struct tokenizer *t, const struct submission *s,
                       struct err *e)
{
    const char *text = s->opt->sample_prompt;
    const size_t len = strlen(text), time = (size_t)s->model_spec.n_in;
    uint16_t *tokens = calloc(len, sizeof *tokens);

    p->tokens = calloc(len, sizeof *p->tokens);
    if (!tokens || !p->tokens) {
        free(tokens);
        return err_set(e, ERR_NOMEM, "no memory for the prompt");
    }
    p->n = tokenizer_encode_text(t, tokens, (const uint8_t *)text, len);
    for (size_t i = 0; i < p->n; i++)
        p->tokens[i] = tokens[i];
    free(tokens);
    if (p->n > time)
        return err_set(e, ERR_CONFIG, "--sample-prompt: %zu tokens, and model \"%s\" reads %zu", p->n,
                       s->model_spec.name, time);
    return 0;
}

static int take_bytes(struct sample_prompt *p, const struct tokenizer *t, struct err *e)
{
    size_t at = 0;

    p->n_known = (size_t)tokenizer_vocab(t);
    p->bytes = malloc(p->n_known * TOKENIZER_WORD);
    p->ends = calloc(p->n_known, sizeof *p->ends);
    if (!p->bytes || !p->ends)
        return err_set(e, ERR_NOMEM, "no memory for the bytes of %zu tokens", p->n_known);
    for (size_t k = 0; k < p->n_known; k++) {
        size_t n;
        const char *bytes = tokenizer_decode(t, (uint32_t)k, &n);

        memcpy(p->bytes + at, bytes, n);
        at += n;
        p->ends[k] = (int32_t)at;
    }
    return 0;
}

int sample_prompt_make(struct sample_prompt *p, const struct submission *s, const struct dataset *d,
                       struct err *e)
{
    struct tokenizer t;
    int rc;

    *p = (struct sample_prompt){0};
    if (!s->opt->sample_prompt[0])
        return 0;
    if (model_spec_language(&s->model_spec, e) < 0)
        return err_at(e, "--sample-prompt");
    if (tokenizer_init(&t, d->stream.merges, d->stream.n_merges, e) < 0)
        return e->code;
    rc = take_tokens(p, &t, s, e) < 0 ? e->code : take_bytes(p, &t, e);
    tokenizer_clear(&t);
    if (rc < 0)
        sample_prompt_clear(p);
    return rc;
}

size_t sample_prompt_tensors(struct tensor_view out[SAMPLE_TENSORS], const struct sample_prompt *p)
{
    if (p->n == 0)
        return 0;
    out[0] = (struct tensor_view){
        .name = "prompt", .type = TENSOR_I32, .n_dims = 1, .shape = {p->n}, .data = p->tokens};
    out[1] = (struct tensor_view){
        .name = "token_ends", .type = TENSOR_I32, .n_dims = 1, .shape = {p->n_known}, .data = p->ends};
    out[2] = (struct tensor_view){.name = "token_bytes",
                                  .type = TENSOR_U8,
                                  .n_dims = 1,
                                  .shape = {(size_t)p->ends[p->n_known - 1]},
                                  .data = p->bytes};
    return SAMPLE_TENSORS;
}

void sample_prompt_clear(struct sample_prompt *p)
{
    free(p->tokens);
    free(p->ends);
    free(p->bytes);
    *p = (struct sample_prompt){0};
}
