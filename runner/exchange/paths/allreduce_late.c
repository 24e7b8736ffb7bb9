/* Exchanges whose combination is applied one exchange late, so that workers compute while vectors are summed.
 * Worker k, whose params are x_k(r) when it contributes for the r-th time:
 *
 *   gradients    w(t+1) = w(t) - lr (the combination of g(w(t-1))), first of zeros
 *                Akiba, Fukuda and Suzuki, "ChainerMN: Scalable Distributed Deep Learning Framework", 2017
 *   parameters   x_k(r+1) = R(x_k(r)) + (y_k - x_k(r)), where y_k are its params after the local steps from
 *                x_k(r), and R is what the rule makes of x_k(r) and the combination of all x(r)
 *                Shen et al., "Faster Distributed Deep Net Training: Computation and Communication Decoupled
 *                Stochastic Gradient Descent", IJCAI 2019, where R is their mean
 *
 * The last gradient is not used. After the last step a rule of rounds waits for its last combination. */
#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"
#include "runner/exchange/paths/allreduce.h"

int allreduce_late_open(struct channel *ch)
{
    struct combining *b = &ch->combining;
    bool is_of_rounds = b->rule->when == CODEC_EACH_ROUND;

    if (!is_of_rounds && !b->own[0] && combining_room(ch, &b->own[0]) < 0)
        return ch->x->e->code;
    if (is_of_rounds && (combining_room(ch, &b->late.at) < 0 || combining_room(ch, &b->late.now) < 0))
        return ch->x->e->code;
    return CODEC_GO;
}

static struct combining_local swap_local(struct channel *ch, struct combining_local to)
{
    struct codec *c = &ch->codec;
    struct combining_local from = {.samples = c->samples, .lr_sum = c->lr_sum, .n_local = c->n_local};

    c->samples = to.samples;
    c->lr_sum = to.lr_sum;
    c->n_local = to.n_local;
    return from;
}

/* Has the rule apply the exchange of `turn`, which contributed what the worker had done until then. */
static int apply(struct channel *ch, int turn, struct combining_local local)
{
    struct combining *b = &ch->combining;
    struct combining_local now = swap_local(ch, local);
    const float *v[CODEC_VECTORS_MAX];
    int rc;

    for (int k = 0; k < b->n_vectors; k++)
        v[k] = allreduce_result(ch, turn, k);
    b->late.has_result = false;
    rc = allreduce_finish(ch, b->late.is_empty ? NULL : v, b->merged_numbers, turn);
    swap_local(ch, now);
    return rc;
}

/* Gradients, which nobody has checked, are checked as they are copied: when their sum is applied, they have
 * been replaced by the next. */
static int copy_present(struct channel *ch, float *copy, const float *present)
{
    struct combining *b = &ch->combining;
    struct combining_contribution own = {.vectors = {present}, .weight = b->weight};

    return vector_scale(copy, present, 1, ch->n_params) || b->rule->when == CODEC_EACH_ROUND
               ? CODEC_GO
               : finite_check_contribution(ch, ch->run.node, &own);
}

/* The collectives read copies: the next steps change params and grads. */
static int begin(struct channel *ch, float *copy)
{
    struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    const float *present = b->rule->when == CODEC_EACH_STEP ? c->grads : c->params;
    int rc = combining_contribute(ch);

    if (rc < 0)
        return rc;
    if (b->vectors[0] == present && (rc = copy_present(ch, copy, present)) < 0)
        return rc;
    if (b->vectors[0] == present)
        b->vectors[0] = copy;
    b->late.local = swap_local(ch, (struct combining_local){0});
    rc = allreduce_begin(ch);
    return rc < 0 ? rc : CODEC_GO;
}

/* The rule contributes before it applies: that changes grads. */
static int exchange_gradients(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    struct combining_local local = b->late.local;
    bool is_first = !b->late.has_result;
    int turn = b->turn, rc = c->run->step + 1 < c->run->n_steps ? begin(ch, b->own[0]) : CODEC_GO;

    if (rc < 0)
        return rc;
    if (!is_first)
        return apply(ch, turn, local);
    memset(c->grads, 0, c->n_params * sizeof *c->grads);
    vector_copy(c->grads + c->n_params, c->params + c->n_params, ch->n_params - c->n_params);
    return CODEC_GO;
}

/* A variance moved by a difference of variances could be negative: between exchanges a worker has the running
 * statistics of its own steps, at the end of the job those of the last exchange. */
static void keep_statistics(struct channel *ch)
{
    const struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;

    if (!b->late.is_last)
        vector_copy(c->params + c->n_params, b->late.now + c->n_params, ch->n_params - c->n_params);
}

static int exchange_parameters(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    int rc = CODEC_GO;

    if (b->late.has_result) {
        vector_copy(b->late.now, c->params, ch->n_params);
        vector_copy(c->params, b->late.at, ch->n_params);
        rc = apply(ch, b->turn, b->late.local);
        for (size_t i = 0; i < c->n_params; i++)
            c->params[i] += b->late.now[i] - b->late.at[i];
        keep_statistics(ch);
    }
    if (b->late.is_last) /* whatever the last combination makes of the rule's wish */
        c->run->wants_stop = c->run->step < c->run->n_steps;
    if (rc < 0 || b->late.is_last)
        return rc;
    vector_copy(b->late.at, c->params, ch->n_params);
    rc = begin(ch, b->late.at);
    b->late.is_due = b->late.is_last = c->run->step == c->run->n_steps || c->run->wants_stop;
    return rc == CODEC_GO && b->late.is_last ? CODEC_WAIT : rc;
}

static int exchange(struct channel *ch)
{
    ch->combining.late.is_due = false;
    return ch->combining.rule->when == CODEC_EACH_STEP ? exchange_gradients(ch) : exchange_parameters(ch);
}

int allreduce_late_complete(struct channel *ch, bool is_empty)
{
    struct combining *b = &ch->combining;

    b->late.has_result = true;
    b->late.is_empty = is_empty;
    return b->late.is_due ? exchange(ch) : CODEC_GO;
}

static int on_grad(struct codec *c)
{
    struct channel *ch = channel_of(c);

    ch->combining.late.is_due = ch->combining.is_under_way;
    return ch->combining.is_under_way ? CODEC_WAIT : exchange(ch);
}

/* The worker waits only for what is due: the next collective of an exchange under way is not. */
static int on_collective(struct codec *c)
{
    int rc = allreduce_on_collective(c);

    return rc == CODEC_WAIT && !channel_of(c)->combining.late.is_due ? CODEC_GO : rc;
}

static int on_step(struct codec *c)
{
    return allreduce_is_due(c) ? on_grad(c) : CODEC_GO;
}

/* After an exchange that was not known to be the last one: what is under way is waited for, as all workers
 * end here. */
int allreduce_late_close(struct codec *c)
{
    struct channel *ch = channel_of(c);
    struct combining *b = &ch->combining;

    if (exchange_close_is_amid(ch->x))
        return on_step(c);
    b->late.is_last = b->rule->when == CODEC_EACH_ROUND;
    b->late.is_due = b->is_under_way;
    if (b->is_under_way)
        return CODEC_WAIT;
    return b->late.is_last ? exchange(ch) : CODEC_GO;
}

const struct codec_events *allreduce_late_events(const struct codec_combine *r)
{
    static const struct codec_events of_params = {.on_step = on_step, .on_collective = on_collective},
                                     of_grads = {.on_grad = on_grad, .on_collective = on_collective};

    return r->when == CODEC_EACH_ROUND ? &of_params : &of_grads;
}
