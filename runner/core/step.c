#include "runner/core/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/vector.h"
#include "runner/core/step_optimizer.h"
#include "runner/exchange/exchange_step.h"
#include "runner/exchange/feed.h"
#include "runner/exchange/stop_vote.h"
#include "shared/job/reason.h"

static bool may_skip(const struct settings *set)
{
    return set->on_nonfinite == NONFINITE_SKIPS && !set->trainer[0];
}

bool step_needs_norm(const struct settings *set)
{
    return may_skip(set) || set->clip_norm > 0;
}

/* The number of parameters in [from, from + n) that the optimizer updates. */
static size_t trained_of(const struct step_config *cfg, size_t from, size_t n)
{
    return from >= cfg->n_trained ? 0 : cfg->n_trained - from < n ? cfg->n_trained - from : n;
}

/* Opens it for all trained parameters on a worker, and for those in its range on a server. */
static int open_optimizer(struct step *s, struct err *e)
{
    const struct step_config *cfg = &s->cfg;
    struct exchange_range own = exchange_range(cfg->exchange);

    return step_optimizer_new(&s->optimizer, cfg->set, cfg->layers, cfg->n_layers, own.first,
                              trained_of(cfg, own.first, own.n), e);
}

int step_open(struct step *s, const struct step_config *cfg, struct err *e)
{
    bool sends = exchange_collects(cfg->exchange) || exchange_has_messages(cfg->exchange);
    bool is_alone = !sends || cfg->set->node_count + cfg->set->server_count == 1;

    *s = (struct step){.cfg = *cfg, .may_skip = may_skip(cfg->set), .loss = NAN, .accuracy = NAN};
    /* Gradients are checked late if no other node receives them, or if all nodes get them in an all-reduce:
     * then the job ends anyway. */
    s->gets_gradients = !is_alone && (cfg->node < 0 || exchange_gives_gradient(cfg->exchange));
    s->checks_late = is_alone || (!s->may_skip && exchange_collects(cfg->exchange) &&
                                  exchange_shows_gradient(cfg->exchange));
    if (cfg->n_blocks > 1 && !(s->sum = malloc(cfg->n_params * sizeof *s->sum)))
        return err_set(e, ERR_NOMEM, "no memory for the gradient of several blocks");
    return exchange_updates_here(cfg->exchange) && !cfg->updates_outside ? open_optimizer(s, e) : 0;
}

void step_close(struct step *s)
{
    optimizer_free(s->optimizer);
    free(s->sum);
    *s = (struct step){0};
}

void step_begin(struct step *s)
{
    const struct stopwatch *watch = exchange_watch(s->cfg.exchange);

    s->begun = stopwatch_since(watch);
    memcpy(s->spent, watch->spent, sizeof s->spent);
    s->before = *exchange_totals(s->cfg.exchange);
    s->score = (struct net_score){0};
    s->result = (struct step_result){0};
    s->n_added = 0;
    s->abstains = false;
    tracer_set_step(watch->tracer, s->n_done + 1);
}

static int epoch_of(const struct step *s, uint64_t step)
{
    return (int)(step / (uint64_t)s->cfg.set->steps_per_epoch) + 1;
}

/* A worker can skip steps only while its weights are finite. */
static bool can_skip(const struct step *s)
{
    return s->may_skip && (s->cfg.node < 0 || gradient_is_finite(s->cfg.params, s->cfg.n_params));
}

/* Applies --on-nonfinite to a value of this step that is not finite; `then`: the part of the step that is
 * left out. */
static int leave_out(struct step *s, uint64_t step, const char *what, const char *then, struct err *e)
{
    char text[512];

    err_set(e, ERR_NUMERIC, "node %d, epoch %d, step %llu: %s", s->cfg.node, epoch_of(s, step),
            (unsigned long long)step + 1, what);
    if (!can_skip(s))
        return err_hint(e, s->cfg.updates_outside
                               ? "A smaller learning rate, or a clipped gradient, may help. A program may "
                                 "leave such a step out: it reports 0 samples."
                           : s->may_skip
                               ? "No step can be left out any more: the weights are not finite either."
                               : "A smaller --learn_rate, --warmup-steps or --clip-norm may help; "
                                 "--on-nonfinite skip leaves such steps out.");
    if (s->n_left_out++ == 0 && s->cfg.warn) {
        snprintf(text, sizeof text, "%.400s; %s (the first time)", e->text, then);
        s->cfg.warn(s->cfg.owner, text);
    }
    return 0;
}

/* The name of the last tensor in [from, from + n) whose gradient, `grads` (n), is not finite; or NULL. */
static const char *nonfinite(const struct step *s, size_t from, size_t n, const float *grads)
{
    if (gradient_is_finite(grads, n))
        return NULL;
    for (int i = s->cfg.n_layers; i-- > 0;) {
        const struct codec_layer *l = &s->cfg.layers[i];
        size_t begin = l->offset > from ? l->offset : from;
        size_t end = l->offset + l->n < from + n ? l->offset + l->n : from + n;

        if (begin < end && !gradient_is_finite(grads + (begin - from), end - begin))
            return l->name;
    }
    return "the model";
}

static int check_gradient(struct step *s, float *grads, double loss, struct err *e)
{
    bool is_late = !grads || (isfinite(loss) && s->checks_late);
    const char *tensor = is_late ? NULL : nonfinite(s, 0, s->cfg.n_params, grads);
    char what[256];

    if (isfinite(loss) && !tensor)
        return 0;
    if (tensor)
        snprintf(what, sizeof what, "the loss is %g, and the gradient of %s is not finite", err_number(loss),
                 tensor);
    else
        snprintf(what, sizeof what, "the loss is %g", err_number(loss));
    if (leave_out(s, s->n_done, what, "its gradient is left out", e) < 0)
        return e->code;
    memset(grads, 0, s->cfg.n_trained * sizeof *grads);
    vector_copy(grads + s->cfg.n_trained, s->cfg.params + s->cfg.n_trained,
                s->cfg.n_params - s->cfg.n_trained);
    return 0;
}

int step_add_block(struct step *s, float *grads, int block, const struct net_score *score, struct err *e)
{
    float part = 1.0f / (float)s->cfg.n_blocks;

    s->grads = grads;
    s->score.loss += score->loss;
    s->score.n += score->n;
    s->score.n_right += score->n_right;
    if (check_gradient(s, grads, score->loss, e) < 0)
        return e->code;
    if (exchange_wants_blocks(s->cfg.exchange) && exchange_on_block(s->cfg.exchange, block, e) < 0)
        return e->code;
    if (!s->sum)
        return 0;
    (s->n_added > 0 ? vector_add : vector_scale)(s->sum, grads, part, s->cfg.n_params);
    if (++s->n_added == s->cfg.n_blocks)
        memcpy(grads, s->sum, s->cfg.n_params * sizeof *grads);
    return 0;
}

int step_add_result(struct step *s, float *grads, const struct step_result *r, struct err *e)
{
    s->grads = grads;
    s->result = *r;
    s->abstains = s->abstains || r->n == 0;
    if (r->is_finished && exchange_set_finished(s->cfg.exchange, e) < 0)
        return e->code;
    if (!s->abstains)
        return check_gradient(s, grads, r->loss, e);
    if (grads)
        memset(grads, 0, s->cfg.n_params * sizeof *grads);
    return 0;
}

void step_abstain(struct step *s)
{
    s->abstains = true;
}

/* Not to be called before the worker has computed. */
static struct step_result result_of(const struct step *s)
{
    double n = (double)s->score.n;

    if (s->abstains)
        return (struct step_result){.loss = NAN, .accuracy = NAN};
    if (s->cfg.updates_outside)
        return s->result;
    return (struct step_result){.n = (size_t)s->cfg.n_blocks * settings_block_samples(s->cfg.set),
                                .loss = s->score.loss / n,
                                .accuracy = s->cfg.has_labels ? (double)s->score.n_right / n : NAN};
}

int step_exchange(struct step *s, struct err *e)
{
    const struct step_result r = result_of(s);

    if (!s->abstains)
        exchange_set_loss(s->cfg.exchange, r.loss);
    return exchange_on_grad(s->cfg.exchange, r.n, e);
}

static double learn_rate(const struct step *s, uint64_t step)
{
    const struct settings *set = s->cfg.set;
    const struct schedule_job job = {.learn_rate = set->learn_rate,
                                     .warmup_steps = (uint64_t)set->warmup_steps,
                                     .steps_per_epoch = (uint64_t)set->steps_per_epoch,
                                     .n_steps = settings_steps(set)};

    return schedule_rate(s->cfg.schedule, &job, step);
}

/* The tensor of the gradient that this node has computed itself, if it is not finite; or NULL. */
static const char *own_nonfinite(const struct step *s)
{
    return s->cfg.node < 0 || s->abstains || !s->grads ? NULL : nonfinite(s, 0, s->cfg.n_params, s->grads);
}

/* Returns the node whose own gradient made the exchanged gradients, `grads`, non-finite; -1: not known. */
static int nonfinite_node(const struct step *s, const float *grads)
{
    if (!s->gets_gradients)
        return s->cfg.node;
    if (exchange_sums_in_memory(s->cfg.exchange))
        return exchange_nonfinite_node(s->cfg.exchange);
    return grads != s->grads && own_nonfinite(s) ? s->cfg.node : -1;
}

static int leave_update_out(struct step *s, size_t from, size_t n, const float *grads, uint64_t step,
                            struct err *e)
{
    const char *tensor = nonfinite(s, from, n, grads);
    int node = nonfinite_node(s, grads);
    char what[256], whose[64] = ", or their sum is not";

    s->cause_is_unknown = node < 0;
    if (node >= 0)
        snprintf(whose, sizeof whose, ", that of node %d", node);
    if (!tensor)
        snprintf(what, sizeof what,
                 "the norm of the whole gradient is not finite, although that of this server's part is");
    else if (!s->gets_gradients || (node >= 0 && node == s->cfg.node))
        snprintf(what, sizeof what, "the gradient of %s is not finite", tensor);
    else
        snprintf(what, sizeof what,
                 "after the exchange the gradient of %s is not finite: " REASON_OF_A_SUM "%s", tensor, whose);
    return leave_out(s, step, what, "the update is left out", e);
}

int step_apply(struct step *s, size_t from, size_t n, const float *grads, uint64_t step, float lr_factor,
               const double *norm, struct err *e)
{
    float *params = s->cfg.params + from;
    size_t n_trained = trained_of(&s->cfg, from, n);
    double limit = s->cfg.set->clip_norm;
    bool rest_is_finite = gradient_is_finite(grads + n_trained, n - n_trained);
    bool norm_first = norm || !s->optimizer || step_needs_norm(s->cfg.set);

    s->lr = learn_rate(s, step) * (double)lr_factor;
    s->grad_norm = norm         ? *norm
                   : norm_first ? gradient_norm(grads, n_trained)
                                : optimizer_step(s->optimizer, params, grads, (float)s->lr, 1);
    if (!isfinite(s->grad_norm) || !rest_is_finite)
        return leave_update_out(s, from, n, grads, step, e);
    /* If every node has left its gradient out, momentum alone would change the parameters. */
    if (!s->optimizer || (s->may_skip && s->grad_norm == 0))
        return 0;
    if (norm_first)
        optimizer_step(s->optimizer, params, grads, (float)s->lr, gradient_clip(s->grad_norm, limit));
    if (n > n_trained)
        statistics_step(params + n_trained, grads + n_trained,
                        s->cfg.momentum + (from + n_trained - s->cfg.n_trained), n - n_trained);
    return 0;
}

int step_check_own(struct step *s, struct err *e)
{
    const char *tensor = s->checks_late && s->gets_gradients ? own_nonfinite(s) : NULL;
    char what[256];

    if (!tensor)
        return 0;
    snprintf(what, sizeof what, "the gradient of %s is not finite", tensor);
    return leave_out(s, s->n_done, what, "the update is left out", e);
}

static bool is_updated(const struct step *s)
{
    return !s->abstains || exchange_gives_gradient(s->cfg.exchange);
}

static void count_step(struct step *s)
{
    if (is_updated(s))
        exchange_updated(s->cfg.exchange, s->lr);
    s->n_done++;
    s->n_samples += result_of(s).n;
}

int step_update(struct step *s, struct err *e)
{
    struct exchange *x = s->cfg.exchange;

    if (is_updated(s) && step_apply(s, 0, s->cfg.n_params, exchange_gradient(x), step_place(s),
                                    exchange_lr_factor(x), NULL, e) < 0)
        return e->code;
    count_step(s);
    return 0;
}

int step_release(struct step *s, struct err *e)
{
    struct exchange *x = s->cfg.exchange;
    size_t n = s->cfg.n_params, n_trained = s->cfg.n_trained;
    const float *grads = exchange_gradient(x);

    s->grad_norm = RECORD_MISSING;
    if (!is_updated(s))
        return 0;
    if (!exchange_reads_gradient(x))
        return 0;
    s->grad_norm = gradient_norm(grads, n_trained);
    return isfinite(s->grad_norm) && gradient_is_finite(grads + n_trained, n - n_trained)
               ? 0
               : leave_update_out(s, 0, n, grads, s->n_done, e);
}

int step_updated(struct step *s, double lr, struct err *e)
{
    if (!isfinite(lr))
        return err_set(e, ERR_TRAINER, "node %d, epoch %d, step %llu: the learning rate of the update is %g",
                       s->cfg.node, epoch_of(s, s->n_done), (unsigned long long)s->n_done + 1,
                       err_number(lr));
    if (is_updated(s))
        s->lr = lr;
    count_step(s);
    return 0;
}

bool step_is_last(const struct step *s)
{
    const struct exchange *x = s->cfg.exchange;

    return s->n_done == settings_steps(s->cfg.set) || feed_is_over(x) || exchange_wants_stop(x);
}

struct stop step_stop(const struct step *s)
{
    struct stop why = {.step = s->n_done, .loss = NAN, .accuracy = NAN};
    const struct exchange *x = s->cfg.exchange;
    const struct stop *decided = stop_vote_decision(x);
    bool has_all = feed_is_used(x) ? feed_is_over(x) : s->n_done == settings_steps(s->cfg.set);

    if (decided->reason != STOP_NONE)
        return *decided;
    if (s->cfg.set->max_steps > 0 && has_all)
        why.reason = STOP_MAX_STEPS;
    else if (exchange_wants_stop(x))
        why.reason = STOP_CODEC;
    return why;
}

uint64_t step_place(const struct step *s)
{
    return feed_is_used(s->cfg.exchange) ? s->place : s->n_done;
}

bool step_is_recorded(const struct step *s)
{
    return s->n_done % (uint64_t)s->cfg.set->record_every == 0;
}

bool step_is_evaluated(const struct step *s)
{
    int every = s->cfg.set->eval_every;

    return every > 0 && s->n_done % (uint64_t)every == 0;
}

bool step_is_evaluated_by_all(const struct step *s)
{
    return step_is_evaluated(s) || s->n_done % (uint64_t)s->cfg.set->steps_per_epoch == 0;
}

static double spent_in(const struct step *s, const struct stopwatch *watch, enum phase p)
{
    return watch->spent[p] - s->spent[p];
}

/* The mini-batch of the last step, among those of the job. */
static uint64_t last_place(const struct step *s)
{
    return feed_is_used(s->cfg.exchange) ? s->place : s->n_done - 1;
}

void step_describe_text(const struct step *s, struct record_eval *row)
{
    const struct step_text *text = &s->cfg.text;
    const double bits = row->loss / log(2);

    row->tokens = s->n_done > 0 ? (last_place(s) + 1) * text->tokens : 0;
    row->perplexity = text->tokens > 0 ? exp(row->loss) : RECORD_MISSING;
    row->bits_per_byte = text->bytes_per_token > 0 ? bits / text->bytes_per_token : RECORD_MISSING;
}

struct record_train step_end(struct step *s, double started)
{
    struct stopwatch *watch = exchange_watch(s->cfg.exchange);
    const struct exchange_totals *t = exchange_totals(s->cfg.exchange);
    uint64_t n_batches = (uint64_t)s->cfg.set->steps_per_epoch;
    uint64_t place = last_place(s);
    const struct step_result result = result_of(s);
    struct record_train r;

    phase_enter(watch, PHASE_COMPUTE);
    if (watch->tracer)
        tracer_span(watch->tracer, TRACE_STEP, s->begun, stopwatch_since(watch));
    s->loss = result.loss;
    s->accuracy = result.accuracy;
    r = (struct record_train){
        .time_s = stopwatch_since(watch) - started,
        .node = s->cfg.node,
        .role = "worker",
        .epoch = epoch_of(s, place),
        .batch = place % n_batches + 1,
        .batches = n_batches,
        .step = s->n_done,
        .samples = s->n_samples,
        .loss = s->abstains ? RECORD_MISSING : s->loss,
        .accuracy = isnan(s->accuracy) ? RECORD_MISSING : s->accuracy,
        .lr = s->lr,
        .grad_norm = s->grad_norm,
        .compute_s = spent_in(s, watch, PHASE_COMPUTE),
        .encode_s = spent_in(s, watch, PHASE_ENCODE),
        .send_s = spent_in(s, watch, PHASE_SEND),
        .wait_s = spent_in(s, watch, PHASE_WAIT),
        .decode_s = spent_in(s, watch, PHASE_DECODE),
        .raw_bytes = t->raw_bytes - s->before.raw_bytes,
        .sent_bytes = t->sent_bytes - s->before.sent_bytes,
        .recv_bytes = t->recv_bytes - s->before.recv_bytes,
        .apply_s = spent_in(s, watch, PHASE_APPLY),
        .tokens = (place + 1) * s->cfg.text.tokens,
    };
    step_begin(s);
    return r;
}

int step_check_test(const struct step *s, double loss, bool is_last, struct err *e)
{
    if (isfinite(loss) || (!is_last && can_skip(s)))
        return 0;
    return err_set(e, ERR_NUMERIC, "node %d, epoch %d, step %llu: the loss on the test set is %g",
                   s->cfg.node, epoch_of(s, s->n_done - 1), (unsigned long long)s->n_done, err_number(loss));
}
