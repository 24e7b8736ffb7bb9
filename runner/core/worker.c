#include "runner/core/worker.h"

#include <math.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_state.h"
#include "runner/exchange/exchange_step.h"
#include "runner/exchange/feed.h"
#include "runner/exchange/finish_vote.h"
#include "runner/exchange/save_vote.h"
#include "runner/exchange/stop_vote.h"
#include "runner/exchange/test_sum.h"

typedef int state(struct worker *w, struct worker_request *request, struct err *e);

static state at_epoch, at_row, at_shared_row, in_blocks, at_gradient, at_update, at_updated, at_params,
    at_step_end, at_vote, after_step, at_saved, at_point, at_point_reached, at_next_row, at_epoch_end,
    at_epoch_reached, at_epoch_eval, at_close, after_close, at_last_barrier, at_last_eval, at_test_sum,
    at_totals, at_share, after_eval, at_end, is_done, at_rounds, at_barrier, at_release, after_event;

static struct stopwatch *watch_of(const struct worker *w)
{
    return exchange_watch(w->cfg.exchange);
}

static int go_to(struct worker *w, state *next)
{
    w->state = next;
    return WORKER_GOES_ON;
}

/* After a call of the exchange that returned rc. */
static int after_call(struct worker *w, int rc, state *next)
{
    if (rc < 0)
        return rc;
    w->state = next;
    if (rc == CODEC_GO)
        return WORKER_GOES_ON;
    w->waits = true;
    w->resumed = phase_enter(watch_of(w), PHASE_WAIT);
    return WORKER_WAITS;
}

static int save_state(struct worker *w, struct worker_request *request, uint64_t step, state *next)
{
    w->state = at_saved;
    w->after_saved = next;
    w->saves = true;
    w->saved_step = step;
    w->resumed = phase_enter(watch_of(w), PHASE_CHECKPOINT);
    request->step = step;
    return WORKER_SAVES;
}

static int ask_evaluation(struct worker *w, enum worker_place at)
{
    w->at = at;
    w->state = test_sum_is_used(w->cfg.exchange) ? at_test_sum : at_share;
    return WORKER_EVALUATES;
}

/* If the checkpoint was asked for, no node goes on before all have written theirs. */
static int at_saved(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;

    (void)request;
    return w->saved_step == save_vote_point(x) ? after_call(w, save_vote_saved(x, e), w->after_saved)
                                               : go_to(w, w->after_saved);
}

static bool keeps_step(const struct worker *w, uint64_t step)
{
    return settings_saves_after(w->cfg.set, step) || (step > 0 && step == save_vote_point(w->cfg.exchange));
}

/* Is a checkpoint due after the step that was done last? */
static bool keeps_state(const struct worker *w)
{
    return keeps_step(w, w->cfg.step->n_done);
}

static uint64_t rows_per_epoch(const struct worker *w)
{
    return (uint64_t)w->cfg.set->steps_per_epoch;
}

/* Steps. */

static int at_epoch(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    if (w->has_ended)
        return go_to(w, at_end);
    if (w->epoch == w->cfg.set->epochs || step_is_last(w->cfg.step)) {
        w->at = AT_JOB_END; /* the decision has arrived with an epoch's evaluation, or later */
        w->is_whole = false;
        return go_to(w, at_close);
    }
    w->epoch++;
    w->row = w->cfg.step->n_done % rows_per_epoch(w);
    phase_enter(watch_of(w), PHASE_COMPUTE);
    step_begin(w->cfg.step);
    return go_to(w, at_row);
}

static int at_row(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    w->at_block = 0;
    if (step_is_last(w->cfg.step))
        return go_to(w, at_epoch_end);
    if (finish_vote_hold(w->cfg.exchange) == CODEC_WAIT)
        return after_call(w, CODEC_WAIT, at_row);
    if (feed_is_used(w->cfg.exchange))
        return after_call(w, feed_await(w->cfg.exchange, e), at_shared_row);
    return go_to(w, w->row < rows_per_epoch(w) ? in_blocks : at_epoch_end);
}

/* If the assigned mini-batch belongs to a later epoch, this epoch ends and the mini-batch stays assigned. */
static int at_shared_row(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;

    (void)request;
    if (!feed_next_is_of(x, (uint64_t)w->epoch - 1, rows_per_epoch(w)))
        return go_to(w, at_epoch_end);
    w->cfg.step->place = feed_take(x);
    w->row = w->cfg.step->place % rows_per_epoch(w);
    return feed_ask(x, e) < 0 ? e->code : go_to(w, in_blocks);
}

static int in_blocks(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    request->takes_part = exchange_takes_part(w->cfg.exchange);
    if (w->at_block == 0 && !request->takes_part) {
        step_abstain(w->cfg.step);
        if (!w->cfg.step->cfg.updates_outside) {
            w->state = at_gradient;
            return WORKER_ABSTAINS;
        }
    }
    request->stores = exchange_reads_params(w->cfg.exchange);
    request->lr_factor = exchange_lr_factor(w->cfg.exchange);
    w->is_behind = w->cfg.step->cfg.updates_outside && !request->stores;
    request->row = w->row;
    request->i = w->at_block;
    request->block = w->cfg.blocks[w->at_block];
    return WORKER_COMPUTES;
}

int worker_computed(struct worker *w, float *grads, const struct net_score *score, struct err *e)
{
    if (step_add_block(w->cfg.step, grads, w->cfg.blocks[w->at_block], score, e) < 0)
        return e->code;
    if (++w->at_block == w->cfg.step->cfg.n_blocks)
        w->state = at_gradient;
    return 0;
}

int worker_reported(struct worker *w, float *grads, const struct step_result *result, struct err *e)
{
    w->state = at_gradient;
    return step_add_result(w->cfg.step, grads, result, e);
}

static int at_gradient(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    return after_call(w, step_exchange(w->cfg.step, e), at_update);
}

/* A program's update counts as computing, which has no limit: PHASE_APPLY is watched as the codec's. */
static int ask_update(struct worker *w, struct worker_request *request, struct err *e)
{
    const struct exchange *x = w->cfg.exchange;

    if (step_release(w->cfg.step, e) < 0)
        return e->code;
    request->lr_factor = exchange_lr_factor(x);
    request->gradient = exchange_reads_gradient(x) ? exchange_gradient(x) : NULL;
    w->state = at_updated;
    return WORKER_UPDATES;
}

int worker_updated(struct worker *w, double lr, struct err *e)
{
    return step_updated(w->cfg.step, lr, e);
}

static int at_update(struct worker *w, struct worker_request *request, struct err *e)
{
    enum phase last;

    if (w->cfg.step->cfg.updates_outside)
        return ask_update(w, request, e);
    last = phase_enter(watch_of(w), PHASE_APPLY);
    if (step_update(w->cfg.step, e) < 0)
        return e->code;
    phase_enter(watch_of(w), last);
    return at_updated(w, request, e);
}

static int at_updated(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    if (exchange_closes_early(w->cfg.exchange, w->cfg.step->n_done) && keeps_state(w))
        return save_state(w, request, w->cfg.step->n_done, at_params);
    return go_to(w, at_params);
}

static int at_params(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    return after_call(w, exchange_on_step(w->cfg.exchange, e), at_step_end);
}

static int at_step_end(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    w->train = step_end(w->cfg.step, w->cfg.started);
    request->train = step_is_recorded(w->cfg.step) ? &w->train : NULL;
    w->state = at_vote;
    return WORKER_RECORDS;
}

/* Until it is known whether a checkpoint that was asked for is due after this step. */
static int at_vote(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    return after_call(w, save_vote_hold(w->cfg.exchange), after_step);
}

/* An evaluation after the last step of an epoch is left out, because the epoch's own follows. */
static int after_step(struct worker *w, struct worker_request *request, struct err *e)
{
    const struct step *s = w->cfg.step;
    bool is_asked = exchange_take_evaluation(w->cfg.exchange) || step_is_evaluated(s);

    (void)request, (void)e;
    w->row++;
    if (is_asked && w->row < rows_per_epoch(w) && !step_is_last(s)) {
        phase_enter(watch_of(w), PHASE_EVALUATE);
        return ask_evaluation(w, WITHIN_EPOCH);
    }
    return go_to(w, at_point);
}

/* The checkpoint at an epoch's end follows its evaluation, and none is written at the end of the job within
 * an epoch. */
static int at_point(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;

    (void)request;
    if (w->row >= rows_per_epoch(w) || step_is_last(w->cfg.step) || !keeps_state(w))
        return go_to(w, at_row);
    if (barrier_is_used(x))
        return after_call(w, barrier_reach(x, BARRIER_POINT, w->cfg.step->n_done, e), at_point_reached);
    return go_to(w, at_point_reached);
}

static int at_point_reached(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    return save_state(w, request, w->cfg.step->n_done, at_next_row);
}

static int at_next_row(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    phase_enter(watch_of(w), PHASE_COMPUTE);
    step_begin(w->cfg.step);
    return go_to(w, at_row);
}

/* Ends of epochs, and of the job. */

static int at_epoch_end(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;
    bool is_last = step_is_last(w->cfg.step);

    (void)request;
    tracer_set_step(watch_of(w)->tracer, 0);
    w->is_whole = !feed_is_used(x) && w->row == rows_per_epoch(w) &&
                  !exchange_closes_early(x, w->cfg.step->n_done);
    /* A longer job would continue with the present state, but at the job's end the last barrier's result
     * replaces it, or an exchange that a longer job makes later. */
    w->is_saved = is_last && (barrier_is_used(x) || stop_vote_must_close(x));
    w->at = is_last ? AT_JOB_END : AT_EPOCH_END;
    if (w->is_whole && barrier_is_used(x) && keeps_state(w))
        return after_call(w, barrier_reach(x, BARRIER_POINT, w->cfg.step->n_done, e), at_epoch_reached);
    return go_to(w, at_epoch_reached);
}

static int at_epoch_reached(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    if (w->is_whole && w->is_saved && keeps_state(w))
        return save_state(w, request, w->cfg.step->n_done, at_epoch_eval);
    return go_to(w, at_epoch_eval);
}

static int at_epoch_eval(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    phase_enter(watch_of(w), PHASE_EVALUATE);
    w->is_whole = w->is_whole && !w->is_saved;
    return w->at == AT_JOB_END ? go_to(w, at_close) : ask_evaluation(w, AT_EPOCH_END);
}

static int ask_store(struct worker *w)
{
    w->is_behind = false;
    return WORKER_STORES;
}

/* A decision of the job's nodes may have come after the last step's exchange. */
static int at_close(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;

    (void)request;
    if (w->is_behind && stop_vote_must_close(x))
        return ask_store(w);
    w->has_ended = true;
    w->is_unevaluated = w->evaluated != w->cfg.step->n_done || stop_vote_close_changes(x) ||
                        barrier_is_used(x);
    if (!stop_vote_must_close(x))
        return go_to(w, at_last_barrier);
    return after_call(w, exchange_close(x, e), after_close);
}

static int after_close(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    w->state = at_last_barrier;
    return WORKER_RECORDS;
}

static int at_last_barrier(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;

    (void)request;
    if (!barrier_is_used(x))
        return go_to(w, at_last_eval);
    return after_call(w, barrier_reach(x, BARRIER_END, w->cfg.step->n_done, e), at_last_eval);
}

static int check_test(const struct worker *w, struct err *e)
{
    const struct step *s = w->cfg.step;

    return w->cfg.has_test ? step_check_test(s, w->loss, step_is_last(s), e) : 0;
}

/* The model that is the job's result. */
static int at_last_eval(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    phase_enter(watch_of(w), PHASE_EVALUATE);
    if (w->is_unevaluated)
        return ask_evaluation(w, AT_JOB_END);
    return check_test(w, e) < 0 ? e->code : go_to(w, after_eval);
}

static int at_test_sum(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    return after_call(w, test_sum_share(w->cfg.exchange, w->cfg.step->n_done, e), at_totals);
}

static int at_totals(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    w->state = at_share;
    return WORKER_SCORES;
}

int worker_evaluated(struct worker *w, double loss, double accuracy, struct err *e)
{
    w->evaluated = w->cfg.step->n_done;
    w->loss = loss;
    w->accuracy = accuracy;
    return check_test(w, e);
}

/* Is this evaluation shared? All workers make it after the same step. The job's last one is shared only in
 * ssgd and after a whole epoch, where a longer job would share it, too. */
static bool is_shared(const struct worker *w)
{
    if (!stop_vote_is_used(w->cfg.exchange))
        return false;
    return w->at == WITHIN_EPOCH   ? step_is_evaluated(w->cfg.step)
           : w->at == AT_EPOCH_END ? true
                                   : w->is_whole && w->cfg.set->sync == SYNC_SSGD;
}

static int at_share(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request;
    if (!is_shared(w))
        return go_to(w, after_eval);
    return after_call(w, stop_vote_share(w->cfg.exchange, w->evaluated, w->loss, w->accuracy, e), after_eval);
}

static int after_eval(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)e;
    if (w->at == WITHIN_EPOCH) {
        phase_enter(watch_of(w), PHASE_COMPUTE);
        step_begin(w->cfg.step);
        return go_to(w, at_point);
    }
    return w->is_whole && keeps_state(w) ? save_state(w, request, w->cfg.step->n_done, at_epoch)
                                         : go_to(w, at_epoch);
}

static int at_end(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    exchange_end_rounds(w->cfg.exchange);
    w->state = is_done;
    return WORKER_RECORDS;
}

static int is_done(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)w, (void)request, (void)e;
    return WORKER_IS_DONE;
}

/* Servers. */

static bool is_server(const struct worker *w)
{
    return w->cfg.step->cfg.node < 0;
}

/* A server is at a checkpoint's point of the job when it has closed as many rounds as the workers have at
 * that step. Rounds close one at a time, so none is missed. An early last round is at no such point. */
static int at_rounds(struct worker *w, struct worker_request *request, struct err *e)
{
    struct exchange *x = w->cfg.exchange;
    bool is_over = barrier_is_used(x) || stop_vote_decision(x)->reason != STOP_NONE;
    uint64_t apart = settings_checkpoint_steps(w->cfg.set), asked = save_vote_point(x);
    uint64_t step = asked > 0 && asked < w->next_saved ? asked : w->next_saved;

    if (apart == 0 || is_over || step > settings_steps(w->cfg.set) ||
        exchange_rounds_after(x, step) > exchange_rounds(x))
        return at_barrier(w, request, e);
    if (step == w->next_saved)
        w->next_saved += apart;
    return save_state(w, request, step, at_rounds);
}

/* Nothing is saved at the last barrier: if a checkpoint is due after the last step, it was written at a
 * barrier of its own. */
static int at_barrier(struct worker *w, struct worker_request *request, struct err *e)
{
    enum barrier_kind kind;
    uint64_t step;

    if (barrier_is_reached(w->cfg.exchange, &kind, &step) && kind == BARRIER_POINT &&
        step <= settings_steps(w->cfg.set) && keeps_step(w, step))
        return save_state(w, request, step, at_release);
    return at_release(w, request, e);
}

static int at_release(struct worker *w, struct worker_request *request, struct err *e)
{
    if (barrier_release(w->cfg.exchange, e) < 0)
        return e->code;
    if (exchange_is_over(w->cfg.exchange))
        return is_done(w, request, e);
    w->state = after_event;
    w->waits = true;
    phase_enter(watch_of(w), PHASE_WAIT);
    w->resumed = PHASE_COMPUTE;
    return WORKER_WAITS;
}

static int after_event(struct worker *w, struct worker_request *request, struct err *e)
{
    (void)request, (void)e;
    w->state = at_rounds;
    return WORKER_RECORDS;
}

void worker_open(struct worker *w, const struct worker_config *cfg)
{
    uint64_t apart = settings_checkpoint_steps(cfg->set), first = cfg->first_step;

    *w = (struct worker){.cfg = *cfg,
                         .epoch = first ? (int)(first / (uint64_t)cfg->set->steps_per_epoch) : 0,
                         .state = at_epoch,
                         .loss = NAN,
                         .accuracy = NAN};
    if (!is_server(w))
        return;
    w->state = at_rounds;
    w->next_saved = apart ? first - first % apart + apart : 0;
}

int worker_next(struct worker *w, struct worker_request *request, struct err *e)
{
    int wants = w->held;

    *request = (struct worker_request){.epoch = w->epoch};
    if (wants) {
        w->held = 0;
        request->step = w->held_step;
        return wants;
    }
    if (w->saves)
        phase_enter(watch_of(w), w->resumed);
    w->saves = false;
    wants = w->state(w, request, e);
    if (!w->is_behind || (wants != WORKER_EVALUATES && wants != WORKER_SAVES))
        return wants;
    w->held = wants;
    w->held_step = request->step;
    return ask_store(w);
}

bool worker_waits(const struct worker *w)
{
    return w->waits;
}

int worker_event(struct worker *w, struct mesh_event *ev, struct err *e)
{
    int rc = exchange_on_event(w->cfg.exchange, ev, e);

    if (w->waits && (rc == CODEC_GO || is_server(w))) {
        w->waits = false;
        phase_enter(watch_of(w), w->resumed);
    }
    return rc < 0 ? rc : 0;
}
