/* path_allreduce -- an all-reduce of all workers for each vector of the contribution. If the weights are not
 * equal, a short all-reduce of the numbers and the weight comes first, so that a vector is scaled once.
 *
 * The path `tree` is the same on two levels: the workers of each machine sum their vectors, in shared memory
 * if they can; one worker of each machine combines these sums with the other machines'; the result returns
 * the same way. So a machine's link carries one vector each way, independent of its number of workers. */
#include <string.h>

#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"

/* Workers with the same number of blocks (shared/job/blocks.h) compute the same number of samples. */
static bool weights_are_equal(const struct channel *ch)
{
    return !ch->combining.rule->contribute && exchange_weights_are_equal(ch->x);
}

/* Returns vector k of the contribution times `part`, where a collective reads it: in shared memory, in place
 * of the gradients, which the step does not need any more, or of the contributed parameters. A contribution
 * without weight is zeros, because 0 times its numbers might be NaN. */
static const float *scaled(struct channel *ch, int k, float part)
{
    const struct combining *b = &ch->combining;
    bool is_shared = ch->collecting.reads_grads && !ch->reducing.is_on;
    float *to = is_shared ? shm_group_in(ch->collecting.shm_group) : b->own[k];

    if (part == 1 && (!is_shared || b->vectors[k] == to)) /* it is contributed without a copy */
        return b->vectors[k];
    if (part == 0)
        memset(to, 0, ch->n_params * sizeof *to);
    else
        vector_sum(to, &b->vectors[k], 1, ch->n_params, part);
    return to;
}

/* This worker's contribution has been checked; a peer may not have checked its own, and a sum may
 * overflow. */
static int check_combination(struct channel *ch, const float *const *vectors, const float *numbers)
{
    return ch->codec.n_workers > 1 ? finite_check_combination(ch, 0, vectors, numbers) : CODEC_GO;
}

/* Is the combination the gradient of the update? Running statistics are combined by their mean in any
 * case. */
static bool is_gradient(const struct channel *ch)
{
    const struct codec_combine *r = ch->combining.rule;
    bool has_mean = r->reduction == CODEC_MEAN || ch->n_params == ch->codec.n_params;

    return r->when == CODEC_EACH_STEP && !r->apply && has_mean;
}

static int finish_exchange(struct channel *ch, const float *const *vectors, const float *numbers, int turn)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    float total = weights_are_equal(ch) ? (float)c->n_workers : b->tails[turn][b->rule->n_numbers];
    int rc = CODEC_GO;

    if (ch->x->cfg.has_trainer)
        b->n_finished = (int)b->tails[turn][b->rule->n_numbers + 1];
    c->n_contributions = c->n_workers;
    combining_check_finished(ch);
    b->has_combined |= vectors != NULL;
    b->statistics_part = b->rule->reduction == CODEC_SUM ? 1 / total : 1;
    if (vectors && is_gradient(ch))
        c->run->gradient = vectors[0]; /* the update checks it */
    else if (vectors && (rc = check_combination(ch, vectors, numbers)) == CODEC_GO)
        rc = combining_apply(ch, vectors, numbers);
    channel_begin_local(ch);
    channel_round_done(ch);
    return rc;
}

/* Where the update can read the combination: in the memory of the workers that have summed it; NULL: it
 * cannot. A training program gets it in its own memory. */
static float *place_of_sums(const struct channel *ch)
{
    bool is_read = is_gradient(ch) && !ch->x->cfg.has_trainer && !ch->reducing.is_on;

    return is_read ? shm_group_sum(ch->collecting.shm_group, ch->n_params) : NULL;
}

/* The place of the combination in shared memory. The last one may overwrite the contributed vector, because
 * no other worker reads it any more. NULL: none. */
static float *place_in_memory(const struct channel *ch, int k)
{
    const struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    bool is_of_rounds = b->rule->when == CODEC_EACH_ROUND;

    if (ch->x->is_late || !ch->collecting.is_in_memory || k < b->n_vectors - 1)
        return NULL;
    if (place_of_sums(ch))
        return place_of_sums(ch);
    if (is_of_rounds && !b->rule->apply && !c->global)
        return c->params;
    return is_of_rounds || !b->rule->apply ? c->grads : NULL;
}

/* Other workers may still receive a result over connections while the next one is made. */
static bool results_alternate(const struct channel *ch)
{
    return ch->x->is_late || (!ch->collecting.is_in_memory && !ch->reducing.is_on);
}

static float **result_room(struct channel *ch, int turn, int k)
{
    return &ch->combining.results[results_alternate(ch) ? turn : 0][k];
}

static float *result_at(struct channel *ch, int turn, int k)
{
    float *at = place_in_memory(ch, k);

    return at ? at : *result_room(ch, turn, k);
}

static int count_later(const struct channel *ch)
{
    const struct combining *b = &ch->combining;
    int n_turns = results_alternate(ch) ? 2 : 1, n = 0;

    for (int turn = 0; turn < n_turns; turn++)
        for (int k = 0; k < b->n_vectors; k++)
            n += !b->results[turn][k] && !place_in_memory(ch, k);
    return ch->codec.n_workers > 1 ? n : 0;
}

/* Allocates only vectors that a result needs. */
static int make_results(struct channel *ch)
{
    struct combining *b = &ch->combining;

    for (int k = 0; k < b->n_vectors; k++)
        if (!result_at(ch, b->turn, k) && combining_room(ch, result_room(ch, b->turn, k)) < 0)
            return ch->x->e->code;
    return CODEC_GO;
}

static float *result_of(struct channel *ch, int k)
{
    return result_at(ch, ch->combining.turn, k);
}

/* Begins the all-reduce of v, the vector number b->at. */
static int reduce_vector(struct channel *ch, const float *v)
{
    struct combining *b = &ch->combining;

    if (ch->reducing.is_on)
        return reducing_start(ch, b->at, b->rule->reduction, v, result_of(ch, b->at));
    return collecting_all_reduce(ch, b->rule->reduction, v, result_of(ch, b->at), ch->n_params);
}

static int complete_exchange(struct channel *ch, bool is_empty); /* all its collectives are done */

static int reduce_next(struct channel *ch)
{
    struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    float total = weights_are_equal(ch) ? 0 : b->tails[b->turn][b->rule->n_numbers];
    float part = total > 0 ? b->weight : 1;

    if (++b->at == b->n_vectors)
        return complete_exchange(ch, false);
    if (total > 0 && b->rule->reduction == CODEC_MEAN)
        part = b->weight * (float)c->n_workers / total;
    return reduce_vector(ch, scaled(ch, b->at, part));
}

/* As on the other paths, where only a contribution without weight says so. */
static bool is_finished(const struct channel *ch)
{
    return ch->x->is_finished && ch->combining.weight == 0;
}

static size_t tail_length(const struct channel *ch)
{
    return (size_t)ch->combining.rule->n_numbers + 1 + ch->x->cfg.has_trainer;
}

static int reduce_tail(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int n = b->rule->n_numbers;

    for (int k = 0; k < n; k++)
        b->tail[k] = b->weight * b->numbers[k];
    b->tail[n] = b->weight;
    b->tail[n + 1] = is_finished(ch);
    return collecting_all_reduce(ch, CODEC_SUM, b->tail, b->tails[b->turn], tail_length(ch));
}

static int take_tail(struct channel *ch)
{
    struct combining *b = &ch->combining;
    const float *tail = b->tails[b->turn];
    int n = b->rule->n_numbers;

    if (combining_check_weights(ch, tail[n]) < 0)
        return ch->x->e->code;
    if (tail[n] == 0)
        return complete_exchange(ch, true);
    for (int k = 0; k < n; k++)
        b->merged_numbers[k] = b->rule->reduction == CODEC_MEAN ? tail[k] / tail[n] : tail[k];
    return reduce_next(ch);
}

static int begin_reducing(struct channel *ch)
{
    struct combining *b = &ch->combining;

    b->is_under_way = true;
    b->turn = !b->turn;
    b->at = -1;
    if (make_results(ch) < 0)
        return ch->x->e->code;
    return weights_are_equal(ch) ? reduce_next(ch) : reduce_tail(ch);
}

static int start_exchange(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int rc = combining_contribute(ch);

    if (rc < 0)
        return rc;
    if (ch->codec.n_workers == 1 && b->rule->reduction == CODEC_MEAN) {
        b->tails[b->turn][b->rule->n_numbers + 1] = is_finished(ch);
        return finish_exchange(ch, b->weight > 0 ? b->vectors : NULL, b->numbers, b->turn);
    }
    return begin_reducing(ch);
}

/* Exchanges whose combination is applied one exchange late, so that workers compute while vectors are summed.
 * With x_k(r) the params of worker k at its r-th contribution:
 *
 *   gradients    w(t+1) = w(t) - lr (the combination of g(w(t-1))), first of zeros
 *                Akiba, Fukuda and Suzuki, "ChainerMN: Scalable Distributed Deep Learning Framework", 2017
 *   parameters   x_k(r+1) = R(x_k(r)) + (y_k - x_k(r)), where y_k are its params after the local steps from
 *                x_k(r), and R is the rule's result for x_k(r) and the combination of all x(r)
 *                Shen et al., "Faster Distributed Deep Net Training: Computation and Communication Decoupled
 *                Stochastic Gradient Descent", IJCAI 2019, where R is their mean
 *
 * The last gradient is not used. After the last step a rule with local steps waits for its last
 * combination. */

static int open_late(struct channel *ch)
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

/* Has the rule apply the exchange of `turn`. `local`: the sums over the local steps before its
 * contribution. */
static int apply_late(struct channel *ch, int turn, struct combining_local local)
{
    struct combining *b = &ch->combining;
    struct combining_local now = swap_local(ch, local);
    const float *v[CODEC_VECTORS_MAX];
    int rc;

    for (int k = 0; k < b->n_vectors; k++)
        v[k] = result_at(ch, turn, k);
    b->late.has_result = false;
    rc = finish_exchange(ch, b->late.is_empty ? NULL : v, b->merged_numbers, turn);
    swap_local(ch, now);
    return rc;
}

/* Gradients have not been checked yet: they are checked while they are copied, because when their sum is
 * applied, the next gradients have replaced them. */
static int copy_present(struct channel *ch, float *copy, const float *present)
{
    struct combining *b = &ch->combining;
    struct combining_contribution own = {.vectors = {present}, .weight = b->weight};

    return vector_scale(copy, present, 1, ch->n_params) || b->rule->when == CODEC_EACH_ROUND
               ? CODEC_GO
               : finite_check_contribution(ch, ch->run.node, &own);
}

/* The collectives read copies, because the next steps change params and grads. */
static int begin_late(struct channel *ch, float *copy)
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
    rc = begin_reducing(ch);
    return rc < 0 ? rc : CODEC_GO;
}

/* A gradient that changes nothing. */
static void clear_gradient(struct channel *ch)
{
    struct codec *c = &ch->codec;
    size_t n = ch->n_params - c->n_params;

    memset(c->grads, 0, ch->n_params * sizeof *c->grads);
    if (!ch->x->cfg.has_trainer)
        vector_copy(c->grads + c->n_params, c->params + c->n_params, n);
}

/* The rule contributes before it applies, because applying changes grads. */
static int exchange_gradients(struct channel *ch)
{
    struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    struct combining_local local = b->late.local;
    bool is_first = !b->late.has_result, is_empty = b->late.is_empty && ch->x->cfg.has_trainer;
    int turn = b->turn, rc = c->run->step + 1 < c->run->n_steps ? begin_late(ch, b->own[0]) : CODEC_GO;

    if (rc < 0)
        return rc;
    if (!is_first)
        rc = apply_late(ch, turn, local);
    if (is_first || is_empty)
        clear_gradient(ch);
    return rc;
}

/* A variance plus a difference of variances could be negative: between exchanges a worker keeps the running
 * statistics of its own steps, and at the end of the job it has those of the last exchange. */
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
        rc = apply_late(ch, b->turn, b->late.local);
        for (size_t i = 0; i < c->n_params; i++)
            c->params[i] += b->late.now[i] - b->late.at[i];
        keep_statistics(ch);
    }
    if (b->late.is_last) /* independent of what the rule has set in its last combination */
        c->run->wants_stop = c->run->step < c->run->n_steps;
    if (rc < 0 || b->late.is_last)
        return rc;
    vector_copy(b->late.at, c->params, ch->n_params);
    rc = begin_late(ch, b->late.at);
    b->late.is_due = b->late.is_last = c->run->step == c->run->n_steps || c->run->wants_stop;
    return rc == CODEC_GO && b->late.is_last ? CODEC_WAIT : rc;
}

static int exchange_late(struct channel *ch)
{
    ch->combining.late.is_due = false;
    return ch->combining.rule->when == CODEC_EACH_STEP ? exchange_gradients(ch) : exchange_parameters(ch);
}

static int complete_exchange(struct channel *ch, bool is_empty)
{
    struct combining *b = &ch->combining;
    const float *v[CODEC_VECTORS_MAX];

    b->is_under_way = false;
    if (ch->x->is_late) {
        b->late.has_result = true;
        b->late.is_empty = is_empty;
        return b->late.is_due ? exchange_late(ch) : CODEC_GO;
    }
    for (int k = 0; k < b->n_vectors; k++)
        v[k] = result_of(ch, k);
    return finish_exchange(ch, is_empty ? NULL : v, b->merged_numbers, b->turn);
}

/* What a channel does at an event of its node. */

static int exchange_now(struct channel *ch)
{
    struct combining *b = &ch->combining;

    b->late.is_due = b->is_under_way;
    if (b->is_under_way)
        return CODEC_WAIT;
    return ch->x->is_late ? exchange_late(ch) : start_exchange(ch);
}

static int on_grad(struct channel *ch)
{
    return channel_call(ch, PHASE_ENCODE, "on_grad", exchange_now);
}

static int on_step(struct channel *ch)
{
    bool is_due = ch->run.step % ch->x->cfg.local_steps == 0 || ch->run.step == ch->run.n_steps;

    return is_due ? channel_call(ch, PHASE_ENCODE, "on_step", exchange_now) : CODEC_GO;
}

/* The collective of a plain, uncompressed gradient may begin while the gradient is computed. */
static int on_backward(struct channel *ch)
{
    int rc = ch->reducing.is_on ? CODEC_GO : channel_call(ch, PHASE_ENCODE, "on_backward", start_exchange);

    return rc < 0 ? rc : CODEC_GO;
}

/* After an exchange that was not known to be the last one: waits for the exchange under way, because all
 * workers end here. */
static int close_late(struct channel *ch)
{
    struct combining *b = &ch->combining;

    b->late.is_last = b->rule->when == CODEC_EACH_ROUND;
    b->late.is_due = b->is_under_way;
    if (b->is_under_way)
        return CODEC_WAIT;
    return b->late.is_last ? exchange_late(ch) : CODEC_GO;
}

static int on_close(struct channel *ch)
{
    if (stop_vote_closes_within_round(ch->x))
        return on_step(ch);
    return ch->x->is_late ? channel_call(ch, PHASE_ENCODE, "on_step", close_late) : CODEC_GO;
}

/* The worker waits only for a result that is due: the next collective of a late exchange is not. */
static int on_collective(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int rc = CODEC_GO;

    if (b->at >= 0 && ch->reducing.is_on)
        rc = reducing_on_collective(ch);
    if (rc == CODEC_GO)
        rc = b->at < 0 ? take_tail(ch) : reduce_next(ch);
    return rc == CODEC_WAIT && ch->x->is_late && !b->late.is_due ? CODEC_GO : rc;
}

static struct channel_handlers allreduce_handlers(const struct codec_combine *r, bool is_late)
{
    struct channel_handlers h = {.on_collective = on_collective,
                                 .on_close = on_close,
                                 .cannot_complete = collecting_cannot_complete,
                                 .awaits = collecting_awaits,
                                 .waits_for = collecting_waits_for,
                                 .is_quiescent = !is_late};

    if (r->when == CODEC_EACH_ROUND)
        h.on_step = on_step;
    else
        h.on_grad = on_grad;
    if (r->when == CODEC_EACH_STEP && !r->contribute && !is_late)
        h.on_backward = on_backward;
    return h;
}

static int allreduce_open(struct channel *ch)
{
    if (reducing_open(ch) < 0)
        return ch->x->e->code;
    return ch->x->is_late ? open_late(ch) : CODEC_GO;
}

/* The collectives of an exchange: reduce_tail(), reduce_vector(). */
static int link_workers(struct channel *ch, const int *machines, bool *linked)
{
    int rc = CODEC_GO;

    if (!weights_are_equal(ch))
        rc = collecting_link(ch, tail_length(ch), NULL, machines, linked);
    if (rc == CODEC_GO)
        rc = ch->reducing.is_on ? reducing_link(ch, machines, linked)
                                : collecting_link(ch, ch->n_params, NULL, machines, linked);
    return rc;
}

const struct combine_path path_allreduce = {
    .collectives = allreduce_handlers, .open = allreduce_open, .n_later = count_later, .link = link_workers};
const struct combine_path path_tree = {.has_levels = true,
                                       .collectives = allreduce_handlers,
                                       .open = allreduce_open,
                                       .n_later = count_later,
                                       .link = link_workers};
