/* generator -- goes on with a text: draws its next token from what a model of language predicts, and so on.
 *
 * The model reads the last `time` tokens of the text, the length of its input. Until the text is longer, a
 * token costs one step (net_step); then, or for many tokens at once, a forward pass, because the positions of
 * all tokens in the window have changed. */
#ifndef PSGD_GENERATOR_H
#define PSGD_GENERATOR_H

#include <stdint.h>

#include "nn/net.h"
#include "shared/base/err.h"

struct sampling {
    double temperature; /* outputs are divided by it; 0: the most probable token, of equal ones the first */
    int top_k;          /* drawn from that many most probable tokens; 0: from all */
    double top_p;       /* of these from the fewest with at least this probability; 1: from all */
    uint64_t seed;
};

struct generator;

/* A text without tokens. `net`, of the model `m` (model_spec_language), must outlive it, and no other pass of
 * it may be between two calls. Tokens from `n_known` on are never drawn. ERR_CONFIG: the
 * model knows fewer tokens; ERR_NOMEM. */
int generator_new(struct generator **out, struct net *net, const struct model_spec *m, int n_known,
                  const struct sampling *how, struct err *e);
void generator_free(struct generator *g); /* NULL is allowed */
/* Adds a token to the text. ERR_CONFIG: it is beyond the vocabulary. */
int generator_add(struct generator *g, int token, struct err *e);
/* Draws the token behind the text, which is not empty, and adds it. Returns it. ERR_CONFIG: the model's
 * outputs are not finite. */
int generator_next(struct generator *g, struct err *e);

#endif
