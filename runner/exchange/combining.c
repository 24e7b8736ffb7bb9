#include "runner/exchange/combining.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/vector.h"
#include "runner/exchange/aggregators/aggregators.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"

static bool is_server(const struct channel *ch)
{
    return ch->run.node < 0;
}

size_t combining_limit(const struct codec_combine *r, size_t n_params)
{
    size_t n = r->n_vectors > 0 ? (size_t)r->n_vectors : 1;

    return 64 + sizeof(float) * ((size_t)r->n_numbers + n * n_params);
}

int combining_room(struct channel *ch, float **at)
{
    struct combining *b = &ch->combining;
    size_t n = ch->n_params;

    *at = calloc(n ? n : 1, sizeof **at);
    if (!*at)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for a vector of %zu numbers", n);
    b->rooms[b->n_rooms++] = *at;
    return CODEC_GO;
}

/* On a server of an asynchronous job, params are the global parameters; a server of a synchronous job has
 * none. */
static int open_global(struct channel *ch)
{
    struct codec *c = &ch->codec;

    c->global = c->params;
    if (is_server(ch))
        return CODEC_GO;
    if (combining_room(ch, &c->global) < 0)
        return ch->x->e->code;
    vector_copy(c->global, c->params, ch->n_params);
    return CODEC_GO;
}

/* Are contributions vectors of their own, not grads or params as they are? */
static bool has_own(const struct channel *ch)
{
    return ch->combining.rule->contribute || ch->combining.rule->contributes_change;
}

/* Does a path of collectives scale what is contributed as it is? That needs a copy. */
static bool is_copied(const struct channel *ch)
{
    bool is_weighted = ch->combining.rule->when == CODEC_EACH_ROUND || ch->x->cfg.has_trainer;

    return !ch->rule && is_weighted && !exchange_weights_are_equal(ch->x);
}

int combining_open(struct channel *ch, struct err *e)
{
    struct combining *b = &ch->combining;

    b->rule = ch->x->cfg.plugin->combine;
    b->path = ch->x->path;
    if (!b->rule)
        return CODEC_GO;
    b->statistics_part = 1;
    b->is_weighted = b->rule->contribute || b->rule->when == CODEC_EACH_ROUND || ch->x->cfg.has_trainer;
    b->divides = ch->x->cfg.has_trainer && !b->rule->contribute && b->rule->when == CODEC_EACH_STEP;
    ch->codec.numbers = b->numbers;
    b->n_vectors = b->rule->n_vectors > 0 ? b->rule->n_vectors : 1;
    if (b->rule->keeps_global && open_global(ch) < 0)
        return e->code;
    if (b->rule->adopt && combining_room(ch, &b->before) < 0)
        return e->code;
    for (int k = 0; (has_own(ch) || is_copied(ch)) && !is_server(ch) && k < b->n_vectors; k++)
        if (combining_room(ch, &b->own[k]) < 0)
            return e->code;
    if (ch->round.draw && ch->x->cfg.has_trainer) {
        b->finished = calloc((size_t)ch->codec.n_workers, sizeof *b->finished);
        if (!b->finished)
            return err_set(e, ERR_NOMEM, "no memory for what %d workers have said", ch->codec.n_workers);
    }
    return b->path->open(ch);
}

void combining_clear(struct combining *b)
{
    while (b->n_rooms > 0)
        free(b->rooms[--b->n_rooms]);
    free(b->all);
    free(b->all_numbers);
    free(b->senders);
    free(b->work);
    free(b->inputs);
    free(b->finished);
    *b = (struct combining){0};
}

/* Running statistics are behind the parameters that the rule sees, and the host combines them by their
 * mean. */
static size_t n_statistics(const struct channel *ch)
{
    return ch->n_params - ch->codec.n_params;
}

/* The vector that a worker contributes if the rule has no contribute(). */
static const float *plain_contribution(const struct channel *ch)
{
    return ch->combining.rule->when == CODEC_EACH_STEP ? ch->codec.grads : ch->codec.params;
}

static float write_own(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;

    if (b->rule->contribute) {
        stopwatch_call(ch->x->watch, "contribute");
        return b->rule->contribute(c, b->own);
    }
    for (size_t i = 0; i < c->n_params; i++)
        b->own[0][i] = c->params[i] - c->global[i];
    return c->samples;
}

/* A contribution is checked before it is sent, so that its own node ends the job. A plain gradient has been
 * checked when it was computed, or is checked at the update (runner/core/step.c). */
static int check_own(struct channel *ch)
{
    const struct combining *b = &ch->combining;
    struct combining_contribution own = {.numbers = b->numbers, .weight = b->weight};

    memcpy(own.vectors, b->vectors, sizeof own.vectors);
    if (!has_own(ch) && b->rule->when == CODEC_EACH_STEP)
        return CODEC_GO;
    return finite_check_contribution(ch, ch->run.node, &own);
}

int combining_check_weights(struct channel *ch, float sum)
{
    return isfinite(sum)
               ? CODEC_GO
               : channel_fail(
                     ch, "the weights that its contribute returned have no finite sum; return smaller ones");
}

/* A sum counts each gradient once, whatever its number of samples. */
static float plain_weight(const struct channel *ch)
{
    const struct combining *b = &ch->combining;

    if (!b->is_weighted)
        return 1;
    return b->divides && b->rule->reduction == CODEC_SUM ? ch->codec.samples > 0 : ch->codec.samples;
}

int combining_contribute(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;

    b->vectors[0] = plain_contribution(ch);
    b->weight = plain_weight(ch);
    for (int k = 0; has_own(ch) && k < b->n_vectors; k++)
        b->vectors[k] = b->own[k];
    if (ch->x->cfg.has_trainer && c->samples == 0)
        return CODEC_GO;
    if (!has_own(ch))
        return check_own(ch);
    b->weight = write_own(ch);
    if (ch->x->e->code < 0)
        return ch->x->e->code;
    if (!(b->weight >= 0) || !isfinite(b->weight))
        return channel_fail(ch, "its contribute returned the weight %g; a weight is finite and not negative",
                            (double)b->weight);
    vector_copy(b->own[0] + c->n_params, plain_contribution(ch) + c->n_params, n_statistics(ch));
    return check_own(ch);
}

size_t combining_bytes(const struct channel *ch, bool is_weighted)
{
    const struct combining *b = &ch->combining;

    return sizeof(float) * (is_weighted + (size_t)b->rule->n_numbers + (size_t)b->n_vectors * ch->n_params);
}

void combining_put(struct channel *ch, struct wire_out *out, bool is_weighted)
{
    const struct combining *b = &ch->combining;

    if (is_weighted)
        wire_put_f32(out, b->weight);
    if (b->weight == 0) {
        if (ch->x->cfg.has_trainer)
            wire_put_f32(out, ch->x->is_finished);
        return;
    }
    wire_put_f32s(out, b->numbers, (size_t)b->rule->n_numbers);
    for (int k = 0; k < b->n_vectors; k++)
        compressing_put(ch, out, b->vectors[k], ch->n_params);
}

bool combining_may_be_empty(const struct channel *ch)
{
    return ch->combining.rule->contribute || ch->x->cfg.has_trainer;
}

bool combining_get(struct combining_contribution *to, struct channel *ch, struct wire_in *in,
                   bool is_weighted)
{
    const struct combining *b = &ch->combining;

    to->weight = is_weighted ? wire_get_f32(in) : 1;
    to->is_finished = to->weight == 0 && ch->x->cfg.has_trainer && wire_get_f32(in) == 1;
    if (to->weight == 0)
        return wire_ok(in) && combining_may_be_empty(ch);
    to->numbers = wire_get_f32s(in, (size_t)b->rule->n_numbers);
    for (int k = 0; k < b->n_vectors; k++)
        to->vectors[k] = compressing_get(ch, in, ch->n_params);
    return wire_ok(in) && to->weight > 0 && isfinite(to->weight);
}

float *combining_target(const struct channel *ch)
{
    const struct codec *c = &ch->codec;

    return ch->combining.rule->when == CODEC_EACH_STEP ? c->grads : c->global ? c->global : c->params;
}

/* In asgd, without apply(): the number of workers that this node's own parameters represent in the
 * combination. */
static int n_absent(const struct channel *ch)
{
    const struct codec_combine *r = ch->combining.rule;
    const struct codec *c = &ch->codec;

    if (c->is_sync || r->apply || r->when == CODEC_EACH_STEP || r->reduction == CODEC_SUM)
        return 0;
    return c->n_workers > c->n_contributions ? c->n_workers - c->n_contributions : 0;
}

/* Merges n numbers of a contribution: into the sum, into a mean of n_contributions with the same weight, into
 * such a mean that is divided later, or into a running mean. Returns whether they are finite. */
static bool merge_values(const struct channel *ch, float *to, const float *v, size_t n, bool is_sum,
                         float weight, bool is_first)
{
    const struct combining *b = &ch->combining;
    float each = 1 / (float)ch->codec.n_contributions;
    float part = is_sum ? weight : b->divides ? weight * each : each;

    if (is_sum || b->divides || !b->is_weighted)
        return (is_first ? vector_scale : vector_add)(to, v, part, n);
    if (is_first)
        return vector_scale(to, v, 1, n);
    return vector_mix(to, v, weight / b->merged_weight, n);
}

/* Merges a vector. Running statistics are combined by their mean, also if vectors are summed. */
static bool merge_vector(const struct channel *ch, float *to, const float *v, float weight, bool is_first)
{
    bool is_sum = ch->combining.rule->reduction == CODEC_SUM;
    size_t n = is_sum ? ch->codec.n_params : ch->n_params;
    bool is_finite = merge_values(ch, to, v, n, is_sum, weight, is_first);

    return merge_values(ch, to + n, v + n, ch->n_params - n, false, weight, is_first) && is_finite;
}

int combining_open_aggregate(struct channel *ch, int n_most)
{
    struct combining *b = &ch->combining;
    size_t n = (size_t)n_most;

    b->aggregate = ch->x->cfg.aggregate;
    if (b->aggregate.kind == AGGREGATE_MEAN)
        return CODEC_GO;
    b->n_most = n_most;
    b->all = calloc(n * (size_t)b->n_vectors, (ch->n_params + 1) * sizeof *b->all);
    b->all_numbers = calloc(n + 1, ((size_t)b->rule->n_numbers + 1) * sizeof *b->all_numbers);
    b->senders = calloc(n, sizeof *b->senders);
    b->work = calloc(aggregate_work(n_most), sizeof *b->work);
    b->inputs = calloc(n, sizeof *b->inputs);
    if (b->all && b->inputs && b->all_numbers && b->senders && b->work)
        return CODEC_GO;
    return err_set(ch->x->e, ERR_NOMEM, "no memory for %d contributions of %zu numbers at once", n_most,
                   (size_t)b->n_vectors * ch->n_params);
}

/* Vector `vector` of a stored contribution; vector == n_vectors: its numbers. */
static float *stored_vector(const struct channel *ch, int contribution, int vector)
{
    const struct combining *b = &ch->combining;

    if (vector == b->n_vectors)
        return b->all_numbers + contribution * b->rule->n_numbers;
    return b->all + (size_t)(contribution * b->n_vectors + vector) * ch->n_params;
}

static void store_contribution(struct channel *ch, int node, const struct combining_contribution *from)
{
    struct combining *b = &ch->combining;

    if (from->weight == 0)
        return;
    for (int k = 0; k < b->n_vectors; k++)
        vector_copy(stored_vector(ch, b->n_all, k), from->vectors[k], ch->n_params);
    vector_copy(stored_vector(ch, b->n_all, b->n_vectors), from->numbers, (size_t)b->rule->n_numbers);
    b->senders[b->n_all++] = node;
}

static bool is_gathered(const struct channel *ch)
{
    return is_server(ch) && whole_needs(ch->x, WHOLE_MEASURES);
}

/* The number of contributions that count: with several servers those that all of them have. */
static int n_counted(const struct channel *ch)
{
    return is_gathered(ch) ? ch->whole.n_common : ch->combining.n_all;
}

/* The index in `all` of the i-th contribution that counts. */
static int index_of_counted(const struct channel *ch, int i)
{
    int k = i;

    if (!is_gathered(ch))
        return i;
    while (ch->combining.senders[k] != ch->whole.common[i])
        k++;
    return k;
}

/* n values of all contributions that count, from `first` of each one's vector on. */
static struct aggregate_input aggregate_input_of(struct channel *ch, int vector, size_t first, size_t n)
{
    struct combining *b = &ch->combining;

    for (int i = 0; i < n_counted(ch); i++)
        b->inputs[i] = stored_vector(ch, index_of_counted(ch, i), vector) + first;
    return (struct aggregate_input){
        .n = n_counted(ch), .f = b->aggregate.f, .n_params = n, .v = b->inputs, .work = b->work};
}

static void aggregate_part(struct channel *ch, int vector, float *to, size_t first, size_t n,
                           bool of_statistics)
{
    const struct aggregate_input in = aggregate_input_of(ch, vector, first, n);

    aggregate_of(ch->combining.aggregate.kind, of_statistics)(to + first, &in);
}

static double *room_behind_measure(const struct combining *b)
{
    return b->work + (size_t)b->n_most * (size_t)b->n_most;
}

void combining_measure(struct channel *ch, int vector)
{
    struct combining *b = &ch->combining;
    struct aggregate_input in = {
        .n = b->n_all, .n_params = ch->codec.n_params, .v = b->inputs, .work = room_behind_measure(b)};

    for (int i = 0; i < b->n_all; i++)
        b->inputs[i] = stored_vector(ch, i, vector);
    aggregate_halves(b->aggregate.kind)->measure(b->work, b->merged[vector], &in);
}

/* Aggregates the parameters of a vector: on one of several servers by the sum of all servers' measures. */
static void aggregate_params(struct channel *ch, int vector)
{
    struct combining *b = &ch->combining;
    struct aggregate_input in;

    if (!is_gathered(ch)) {
        aggregate_part(ch, vector, b->merged[vector], 0, ch->codec.n_params, false);
        return;
    }
    in = aggregate_input_of(ch, vector, 0, ch->codec.n_params);
    in.work = room_behind_measure(b);
    whole_measure(ch, vector, b->work);
    aggregate_halves(b->aggregate.kind)->take(b->merged[vector], &in, b->work);
}

static int aggregate_contributions(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct err *e = ch->x->e;

    if (n_counted(ch) == 0 && (b->n_all == 0 || b->rule->contribute))
        return CODEC_WAIT;
    if (aggregate_check(&b->aggregate, n_counted(ch), e) < 0)
        return e->code = ERR_CODEC;
    for (int k = 0; k < b->n_vectors; k++) {
        aggregate_params(ch, k);
        if (n_statistics(ch) > 0)
            aggregate_part(ch, k, b->merged[k], ch->codec.n_params, n_statistics(ch), true);
    }
    aggregate_part(ch, b->n_vectors, b->merged_numbers, 0, (size_t)b->rule->n_numbers, false);
    return finite_check_combination(ch, 0, (const float *const *)b->merged, b->merged_numbers);
}

/* Does the job continue, with the merged contributions, after one has been refused? */
static bool goes_on(const struct channel *ch)
{
    return ch->x->cfg.goes_on || !ch->codec.is_sync;
}

static int merge_contribution(struct channel *ch, int node, const struct combining_contribution *from)
{
    struct combining *b = &ch->combining;
    const struct codec *c = &ch->codec;
    int absent = c->run->n_merged == 0 ? n_absent(ch) : 0;
    bool is_first, is_finite = true;

    if (b->aggregate.kind != AGGREGATE_MEAN) {
        b->n_all = c->run->n_merged == 0 ? 0 : b->n_all;
        store_contribution(ch, node, from);
        return CODEC_GO;
    }
    if (goes_on(ch) && finite_check_contribution(ch, node, from) < 0)
        return ch->x->e->code;
    if (c->run->n_merged == 0)
        b->merged_weight = (float)absent * from->weight;
    if (absent > 0 && b->merged[0] != combining_target(ch))
        vector_copy(b->merged[0], combining_target(ch), ch->n_params);
    if (from->weight == 0)
        return CODEC_GO;
    is_first = b->merged_weight == 0;
    b->merged_weight += from->weight;
    if (combining_check_weights(ch, b->merged_weight) < 0)
        return ch->x->e->code;
    for (int k = 0; k < b->n_vectors; k++)
        is_finite &= merge_vector(ch, b->merged[k], from->vectors[k], from->weight, is_first);
    is_finite &= merge_values(ch, b->merged_numbers, from->numbers, (size_t)b->rule->n_numbers,
                              b->rule->reduction == CODEC_SUM, from->weight, is_first);
    return is_finite ? CODEC_GO : finite_check_contribution(ch, node, from);
}

int combining_take(struct channel *ch, int node, struct wire_in *in)
{
    struct combining_contribution to;

    if (!combining_get(&to, ch, in, ch->combining.is_weighted))
        return channel_fail(ch, "node %d sent a malformed contribution", node);
    if (to.weight > 0 && ch->compressing.copies.left)
        to.vectors[0] = compressing_whole(ch, node, to.vectors[0]);
    ch->combining.n_finished = to.is_finished + (ch->run.n_merged > 0 ? ch->combining.n_finished : 0);
    if (ch->combining.finished && to.is_finished)
        ch->combining.finished[node] = true;
    return merge_contribution(ch, node, &to);
}

/* On a server of an asynchronous job the combination has one worker's statistics: the server's own represent
 * the others. */
static void move_statistics(const struct channel *ch, float *to, const float *v)
{
    const struct codec *c = &ch->codec;

    if (c->is_sync || c->run->node >= 0)
        vector_scale(to, v, ch->combining.statistics_part, n_statistics(ch));
    else
        vector_mix(to, v, 1 / (float)c->n_workers, n_statistics(ch));
}

static int apply_combination(struct channel *ch, const float *const *vectors, const float *numbers)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    float *target = combining_target(ch);

    b->has_combined = true;
    if (numbers && numbers != b->numbers)
        memcpy(b->numbers, numbers, (size_t)b->rule->n_numbers * sizeof *numbers);
    if (b->before)
        vector_copy(b->before, c->global, ch->n_params);
    if (b->rule->apply) {
        move_statistics(ch, target + c->n_params, vectors[0] + c->n_params);
        stopwatch_call(ch->x->watch, "apply");
        return channel_after_call(ch, "apply", b->rule->apply(c, vectors), false);
    }
    if (vectors[0] != target)
        vector_copy(target, vectors[0], ch->n_params);
    for (size_t i = c->n_params; b->statistics_part != 1 && i < ch->n_params; i++)
        target[i] *= b->statistics_part;
    return CODEC_GO;
}

int combining_adopt(struct channel *ch)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;

    if (b->rule->adopt) {
        vector_copy(c->params + c->n_params, c->global + c->n_params, n_statistics(ch));
        stopwatch_call(ch->x->watch, "adopt");
        return channel_after_call(ch, "adopt", b->rule->adopt(c, b->before), false);
    }
    if (c->global)
        vector_copy(c->params, c->global, ch->n_params);
    return CODEC_GO;
}

int combining_apply(struct channel *ch, const float *const *vectors, const float *numbers)
{
    int rc = apply_combination(ch, vectors, numbers);

    return rc == CODEC_GO && !is_server(ch) ? combining_adopt(ch) : rc;
}

/* Of a sum, running statistics are divided alone: they are combined by their mean. */
static void divide_sums(struct channel *ch)
{
    struct combining *b = &ch->combining;
    size_t from = b->rule->reduction == CODEC_SUM ? ch->codec.n_params : 0;
    float part = (float)ch->codec.n_contributions / b->merged_weight;

    for (int k = 0; part != 1 && k < b->n_vectors; k++)
        vector_sum(b->merged[k] + from, &(const float *){b->merged[k] + from}, 1, ch->n_params - from, part);
}

int combining_finish(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int rc = b->merged_weight > 0 ? CODEC_GO : CODEC_WAIT;

    if (b->aggregate.kind != AGGREGATE_MEAN)
        rc = aggregate_contributions(ch);
    else if (b->divides && rc == CODEC_GO)
        divide_sums(ch);
    return rc == CODEC_GO && !is_server(ch)
               ? combining_apply(ch, (const float *const *)b->merged, b->merged_numbers)
               : rc;
}

/* Where workers are drawn, each has said so in the round in which it was drawn. What workers without servers
 * know of lost ones may differ. */
static bool all_are_finished(const struct channel *ch)
{
    const struct combining *b = &ch->combining;
    int k = 0;

    if (!b->finished)
        return b->n_finished == ch->codec.n_contributions;
    while (k < ch->codec.n_workers && (b->finished[k] || (is_server(ch) && channel_has_left(ch, k))))
        k++;
    return k == ch->codec.n_workers;
}

void combining_check_finished(struct channel *ch)
{
    if (ch->codec.is_sync && ch->x->cfg.has_trainer && all_are_finished(ch))
        exchange_end_finished(ch->x);
}

int combining_on_gradient(struct channel *ch)
{
    const struct codec_combine *r = ch->combining.rule;
    enum phase last;
    int rc;

    if (!r || !r->on_gradient)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "on_gradient");
    rc = channel_after_call(ch, "on_gradient", r->on_gradient(&ch->codec), false);
    phase_enter(ch->x->watch, last);
    return rc;
}
