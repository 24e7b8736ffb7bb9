#include "runner/exchange/finite.h"

#include <math.h>
#include <stdio.h>

#include "nn/optimizer.h"
#include "runner/exchange/exchange_private.h"
#include "shared/job/reason.h"

/* Writes the name of value i of a vector (n): its tensor if the vector is as long as the range, otherwise its
 * index. */
static void name_place(const struct channel *ch, size_t i, size_t n, char *out, size_t size)
{
    snprintf(out, size, "value %zu", i);
    for (int k = 0; n == ch->n_params && k < ch->n_layers; k++)
        if (i >= ch->layers[k].offset && i - ch->layers[k].offset < ch->layers[k].n)
            snprintf(out, size, "%s", ch->layers[k].name);
}

/* Sets the error that `what`, the vector v (n), is not finite. */
static int refuse_vector(struct channel *ch, const char *what, const float *v, size_t n)
{
    const struct codec_combine *r = ch->combining.rule;
    const struct codec *c = &ch->codec;
    char place[128], after[64] = "";
    size_t i = 0;

    while (i < n && isfinite(v[i]))
        i++;
    name_place(ch, i, n, place, sizeof place);
    if (c->run->node >= 0 && r)
        snprintf(after, sizeof after, ", step %llu",
                 (unsigned long long)c->run->step +
                     (r->when == CODEC_EACH_STEP)); /* the present step is not complete */
    err_set(ch->x->e, ERR_NUMERIC, "round %llu%s: %s: %s is %g", (unsigned long long)c->run->round + 1, after,
            what, place, err_number((double)v[i]));
    return err_hint(ch->x->e,
                    "A smaller --learn_rate, --warmup-steps or --clip-norm, or what a training program "
                    "has instead, may help, if it is not the codec or the machine.");
}

static int check_vectors(struct channel *ch, const char *what, const float *const *vectors,
                         const float *numbers)
{
    const struct combining *b = &ch->combining;

    for (int k = 0; k < b->n_vectors; k++)
        if (!gradient_is_finite(vectors[k], ch->n_params))
            return refuse_vector(ch, what, vectors[k], ch->n_params);
    if (numbers && !gradient_is_finite(numbers, (size_t)b->rule->n_numbers))
        return refuse_vector(ch, what, numbers, (size_t)b->rule->n_numbers);
    return CODEC_GO;
}

static bool is_left_out(const struct channel *ch)
{
    const struct codec_combine *r = ch->combining.rule;

    return ch->x->cfg.skips_nonfinite && (!r || r->when == CODEC_EACH_STEP);
}

int finite_check_contribution(struct channel *ch, int from, const struct combining_contribution *is)
{
    char what[96];

    if (is->weight == 0 || ch->x->cfg.aggregate.kind != AGGREGATE_MEAN || is_left_out(ch))
        return CODEC_GO;
    snprintf(what, sizeof what, "node %d contributed a vector that is not finite", from);
    return check_vectors(ch, what, is->vectors, is->numbers);
}

int finite_check_combination(struct channel *ch, int from, const float *const *vectors, const float *numbers)
{
    char what[96] = REASON_OF_A_SUM ", or their combination is not";

    if (is_left_out(ch))
        return CODEC_GO;
    if (from < 0)
        snprintf(what, sizeof what, "node %d, a server, sent a combination that is not finite", from);
    return check_vectors(ch, what, vectors, numbers);
}

int finite_check_parameters(struct channel *ch, int from, const float *v)
{
    char what[96];

    snprintf(what, sizeof what, "node %d, a server, sent parameters that are not finite", from);
    return is_left_out(ch) || gradient_is_finite(v, ch->n_params) ? CODEC_GO
                                                                  : refuse_vector(ch, what, v, ch->n_params);
}

int finite_check_message(struct channel *ch, int from, const float *v, size_t n)
{
    char what[96];

    snprintf(what, sizeof what, "node %d sent a vector that is not finite", from);
    return is_left_out(ch) || gradient_is_finite(v, n) ? CODEC_GO : refuse_vector(ch, what, v, n);
}
