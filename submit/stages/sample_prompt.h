/* sample_prompt -- the prompt of --sample-prompt, as tokens, and the bytes of all tokens: tensors of the
 * shard of worker 0, which goes on with it at each evaluation (runner/text_sample.h). */
#ifndef PSGD_SUBMIT_SAMPLE_PROMPT_H
#define PSGD_SUBMIT_SAMPLE_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "shared/records/tensor_file.h"
#include "submit/data/dataset.h"
#include "submit/job/submission.h"

enum { SAMPLE_TENSORS = 3 };

struct sample_prompt { /* {0}: there is none */
    int32_t *tokens;   /* (n) */
    int32_t *ends;     /* (n_known): where the bytes of each token end */
    uint8_t *bytes;    /* of the tokens, one after another */
    size_t n, n_known;
};

/* Of the job's data set. ERR_CONFIG: the job has no model of language, or the prompt is longer than its
 * input; ERR_NOMEM. */
int sample_prompt_make(struct sample_prompt *p, const struct submission *s, const struct dataset *d,
                       struct err *e);
/* Describes its tensors; returns their number. */
size_t sample_prompt_tensors(struct tensor_view out[SAMPLE_TENSORS], const struct sample_prompt *p);
void sample_prompt_clear(struct sample_prompt *p);

#endif
