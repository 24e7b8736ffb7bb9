/* text_sample -- what a model of language has learned, as text: at each evaluation worker 0 goes on with a
 * prompt. Its shard has the prompt's tokens, "prompt" (n) I32, and the bytes of all tokens, "token_bytes" U8,
 * which end at "token_ends" (tokens) I32 (submit/stages/sample_prompt.h). Each sample is drawn by the same
 * seed, as by job_submit generate: temperature 1, from all tokens. */
#ifndef PSGD_TEXT_SAMPLE_H
#define PSGD_TEXT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/generator.h"
#include "shared/records/tensor_file.h"

enum { TEXT_SAMPLE_TOKENS = 200 };

struct text_sample {       /* {0}: there is no prompt */
    const int32_t *prompt; /* (n); in the shard */
    const int32_t *ends;   /* (n_known); in the shard */
    const uint8_t *bytes;  /* in the shard */
    size_t n, n_known;
    struct generator *g; /* of the sample that is being drawn; NULL: none is */
    int n_drawn;
    char *prompt_line, *line; /* as cells of samples.csv (record.h); owned */
    size_t line_len;
};

/* Of a shard, which must outlive it. ERR_CONFIG: the tensors contradict each other, or a token is beyond the
 * model's vocabulary. ERR_NOMEM. */
int text_sample_open(struct text_sample *t, const struct tensor_file *shard, const struct model_spec *m,
                     struct err *e);
void text_sample_close(struct text_sample *t);
bool text_sample_is_asked(const struct text_sample *t);
/* Begins a sample by the net's parameters. ERR_NOMEM. */
int text_sample_begin(struct text_sample *t, struct net *net, const struct model_spec *m, uint64_t seed,
                      struct err *e);
/* Draws up to n more tokens. Returns whether the text is complete: t->line has it. Outputs that are not
 * finite end it. */
bool text_sample_go_on(struct text_sample *t, int n);

#endif
