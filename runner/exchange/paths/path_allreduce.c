/* An all-reduce of all workers for each vector of the contribution. Where rule and job leave the weights
 * open, a short all-reduce of the numbers and the weight comes first, so that a vector is scaled once. */
#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"
#include "runner/exchange/path.h"
#include "runner/exchange/paths/allreduce.h"

int allreduce_open(struct channel *ch)
{
    if (reducing_open(ch) < 0)
        return ch->x->e->code;
    return ch->x->is_late ? allreduce_late_open(ch) : CODEC_GO;
}

/* Workers with as many blocks (shared/job/blocks.h) compute as many samples. */
static bool weights_are_equal(const struct channel *ch)
{
    return !ch->combining.rule->contribute && ch->x->cfg.blocks->is_equal;
}

/* Vector k of the contribution times `part`, where a collective reads it: in shared memory, where the
 * gradients are, which the step does not need any more, or the parameters that are contributed. */
static const float *scaled(struct channel *ch, int k, float part)
{
    const struct combining *b = &ch->combining;
    bool is_shared = collecting_reads_grads(ch) && !ch->reducing.is_on;
    float *to = is_shared ? shm_group_in(ch->collecting.shm_group) : b->own[k];

    if (is_shared ? b->vectors[k] == to : part == 1) /* what is there is contributed as it is */
        return b->vectors[k];
    vector_sum(to, &b->vectors[k], 1, ch->n_params, part);
    return to;
}

/* What this worker has contributed is checked; a peer may not have done so, and a sum may overflow. */
static int check_combination(struct channel *ch, const float *const *vectors, const float *numbers)
{
    return ch->codec.n_workers > 1 ? finite_check_combination(ch, 0, vectors, numbers) : CODEC_GO;
}

/* Is the combination the gradient as it is? Of running statistics the mean is taken in any case. */
static bool is_gradient(const struct channel *ch)
{
    const struct codec_combine *r = ch->combining.rule;
    bool has_mean = r->reduction == CODEC_MEAN || ch->n_params == ch->codec.n_params;

    return r->when == CODEC_EACH_STEP && !r->apply && has_mean;
}

int allreduce_finish(struct channel *ch, const float *const *vectors, const float *numbers, int turn)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    float total = weights_are_equal(ch) ? (float)c->n_workers : b->tails[turn][b->rule->n_numbers];
    int rc = CODEC_GO;

    c->n_contributions = c->n_workers;
    b->has_combined |= vectors != NULL;
    b->statistics_part = b->rule->reduction == CODEC_SUM ? 1 / total : 1;
    if (vectors && is_gradient(ch))
        c->run->gradient = vectors[0]; /* which the update checks */
    else if (vectors && (rc = check_combination(ch, vectors, numbers)) == CODEC_GO &&
             (rc = combining_apply(ch, vectors, numbers)) == CODEC_GO)
        rc = combining_adopt(ch);
    channel_begin_local(ch);
    channel_round_done(ch);
    return rc;
}

/* Where the last vector's combination replaces what was contributed: in shared memory nobody else reads it
 * then. */
static float *in_place(const struct channel *ch, int k)
{
    const struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    bool is_of_rounds = b->rule->when == CODEC_EACH_ROUND;

    if (ch->x->is_late || !collecting_is_in_memory(ch) || k < b->n_vectors - 1)
        return NULL;
    if (is_of_rounds && !b->rule->apply && !c->global)
        return c->params;
    return is_of_rounds || !b->rule->apply ? c->grads : NULL;
}

/* Other workers may still receive a result over connections while the next one is made. */
static bool results_alternate(const struct channel *ch)
{
    return ch->x->is_late || (!collecting_is_in_memory(ch) && !ch->reducing.is_on);
}

static float **result_room(struct channel *ch, int turn, int k)
{
    return &ch->combining.results[results_alternate(ch) ? turn : 0][k];
}

float *allreduce_result(struct channel *ch, int turn, int k)
{
    float *at = in_place(ch, k);

    return at ? at : *result_room(ch, turn, k);
}

int allreduce_n_later(const struct channel *ch)
{
    const struct combining *b = &ch->combining;
    int n_turns = results_alternate(ch) ? 2 : 1, n = 0;

    for (int turn = 0; turn < n_turns; turn++)
        for (int k = 0; k < b->n_vectors; k++)
            n += !b->results[turn][k] && !in_place(ch, k);
    return ch->codec.n_workers > 1 ? n : 0;
}

/* The vectors that no result goes into are not allocated. */
static int make_results(struct channel *ch)
{
    struct combining *b = &ch->combining;

    for (int k = 0; k < b->n_vectors; k++)
        if (!allreduce_result(ch, b->turn, k) && combining_room(ch, result_room(ch, b->turn, k)) < 0)
            return ch->x->e->code;
    return CODEC_GO;
}

static float *result_of(struct channel *ch, int k)
{
    return allreduce_result(ch, ch->combining.turn, k);
}

/* Begins the all-reduce of v, the vector number b->at. */
static int reduce(struct channel *ch, const float *v)
{
    struct combining *b = &ch->combining;

    if (ch->reducing.is_on)
        return reducing_start(ch, b->at, b->rule->reduction, v, result_of(ch, b->at));
    return collecting_all_reduce(ch, b->rule->reduction, v, result_of(ch, b->at), ch->n_params);
}

static int complete(struct channel *ch, bool is_empty)
{
    struct combining *b = &ch->combining;
    const float *v[CODEC_VECTORS_MAX];

    b->is_under_way = false;
    if (ch->x->is_late)
        return allreduce_late_complete(ch, is_empty);
    for (int k = 0; k < b->n_vectors; k++)
        v[k] = result_of(ch, k);
    return allreduce_finish(ch, is_empty ? NULL : v, b->merged_numbers, b->turn);
}

static int reduce_next(struct channel *ch)
{
    struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    float total = weights_are_equal(ch) ? 0 : b->tails[b->turn][b->rule->n_numbers];
    float part = total > 0 ? b->weight : 1;

    if (++b->at == b->n_vectors)
        return complete(ch, false);
    if (total > 0 && b->rule->reduction == CODEC_MEAN)
        part = b->weight * (float)c->n_workers / total;
    return reduce(ch, scaled(ch, b->at, part));
}

static int reduce_tail(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int n = b->rule->n_numbers;

    for (int k = 0; k < n; k++)
        b->tail[k] = b->weight * b->numbers[k];
    b->tail[n] = b->weight;
    return collecting_all_reduce(ch, CODEC_SUM, b->tail, b->tails[b->turn], (size_t)n + 1);
}

static int take_tail(struct channel *ch)
{
    struct combining *b = &ch->combining;
    const float *tail = b->tails[b->turn];
    int n = b->rule->n_numbers;

    if (combining_check_weights(ch, tail[n]) < 0)
        return ch->x->e->code;
    if (tail[n] == 0)
        return complete(ch, true);
    for (int k = 0; k < n; k++)
        b->merged_numbers[k] = b->rule->reduction == CODEC_MEAN ? tail[k] / tail[n] : tail[k];
    return reduce_next(ch);
}

int allreduce_begin(struct channel *ch)
{
    struct combining *b = &ch->combining;

    b->is_under_way = true;
    b->turn = !b->turn;
    b->at = -1;
    if (make_results(ch) < 0)
        return ch->x->e->code;
    return weights_are_equal(ch) ? reduce_next(ch) : reduce_tail(ch);
}

static int start(struct codec *c)
{
    struct channel *ch = channel_of(c);
    struct combining *b = &ch->combining;
    int rc = combining_contribute(ch);

    if (rc < 0)
        return rc;
    if (c->n_workers == 1 && b->rule->reduction == CODEC_MEAN)
        return allreduce_finish(ch, b->weight > 0 ? b->vectors : NULL, b->numbers, b->turn);
    return allreduce_begin(ch);
}

static int on_backward(struct codec *c)
{
    int rc = channel_of(c)->reducing.is_on ? CODEC_GO : start(c);

    return rc < 0 ? rc : CODEC_GO;
}

static int on_grad(struct codec *c)
{
    return channel_of(c)->combining.is_under_way ? CODEC_WAIT : start(c);
}

bool allreduce_is_due(const struct codec *c)
{
    return c->run->step % channel_of(c)->x->cfg.local_steps == 0 || c->run->step == c->run->n_steps;
}

static int on_step(struct codec *c)
{
    return allreduce_is_due(c) ? start(c) : CODEC_GO;
}

int allreduce_close(struct codec *c)
{
    const struct channel *ch = channel_of(c);

    if (ch->x->is_late)
        return allreduce_late_close(c);
    return exchange_close_is_amid(ch->x) ? start(c) : CODEC_GO;
}

int allreduce_on_collective(struct codec *c)
{
    struct channel *ch = channel_of(c);
    int rc = CODEC_GO;

    if (ch->combining.at < 0)
        return take_tail(ch);
    if (ch->reducing.is_on)
        rc = reducing_on_collective(ch);
    return rc == CODEC_GO ? reduce_next(ch) : rc;
}

/* The collective of a gradient as it is may begin while the gradient is computed, uncompressed. */
const struct codec_events *allreduce_events(const struct codec_combine *r, bool is_late)
{
    static const struct codec_events of_params = {
        .on_step = on_step, .on_collective = allreduce_on_collective, .is_quiescent_between_steps = true};
    static const struct codec_events of_grads = {
        .on_grad = on_grad, .on_collective = allreduce_on_collective, .is_quiescent_between_steps = true};
    static const struct codec_events of_own_grads = {.on_backward = on_backward,
                                                     .on_grad = on_grad,
                                                     .on_collective = allreduce_on_collective,
                                                     .is_quiescent_between_steps = true};

    if (is_late)
        return allreduce_late_events(r);
    return r->when == CODEC_EACH_ROUND ? &of_params : r->contribute ? &of_grads : &of_own_grads;
}

const struct path path_allreduce = {.events = allreduce_events,
                                    .close = allreduce_close,
                                    .open = allreduce_open,
                                    .n_later = allreduce_n_later};
