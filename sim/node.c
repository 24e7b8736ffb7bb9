/* node -- one node of a simulation: the loops of runner/train.c and serve.c as an event-driven state
 * machine around the same steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_state.h"
#include "runner/exchange/verdict.h"
#include "sim/records.h"
#include "sim/sim.h"

enum { IDLE = CODEC_WAIT + 1, YIELDS };

static void spend(struct sim_node *n, enum phase phase, double seconds)
{
    enum phase last;

    if (seconds == 0)
        return;
    last = phase_enter(exchange_watch(n->x), phase);
    n->now += seconds / n->speed;
    phase_enter(exchange_watch(n->x), last);
}

/* Adds the time of a codec's reading or writing. */
static void work(const struct sim *s, struct sim_node *n, enum phase phase, uint64_t bytes)
{
    if (s->codec_rate > 0)
        spend(n, phase, (double)bytes / s->codec_rate);
}

/* Returns the time at one end of a message: checksum, and copying between node and kernel. */
static double overhead(const struct sim *s, const struct sim_message *l)
{
    const struct sim_overhead *o = &s->overhead;

    return o->message_s + (o->bytes_per_s > 0 ? (double)(l->len + FRAME_BYTES) / o->bytes_per_s : 0);
}

/* Adds the time for bytes that its exchange has read since the last call. */
static void spend_on_reading(const struct sim *s, struct sim_node *n)
{
    static const enum phase phases[] = {PHASE_DECODE, PHASE_APPLY};

    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        uint64_t *read = &n->read[phases[i]], bytes = exchange_read(n->x, phases[i]) - *read;

        *read += bytes;
        work(s, n, phases[i], bytes);
    }
}

void sim_node_sent(struct sim *s, struct sim_node *n, const struct sim_message *l)
{
    if (l->kind != MESH_MESSAGE)
        return;
    spend_on_reading(s, n); /* reading before this message */
    if (l->buf && (l->buf != n->encoded || l->head.round != n->encoded_round)) {
        n->encoded = l->buf; /* one encoding, however many receivers */
        n->encoded_round = l->head.round;
        work(s, n, PHASE_ENCODE, l->len);
    }
    spend(n, PHASE_SEND, overhead(s, l));
}

void sim_node_took(struct sim *s, struct sim_node *n, const struct sim_message *l)
{
    spend(n, PHASE_WAIT, overhead(s, l));
}

int sim_node_keep_busy(struct sim *s, struct sim_node *n, double until, struct err *e)
{
    n->is_busy = true;
    return sim_queue_push(&s->queue, (struct sim_event){.at = until, .what = SIM_WAKE, .slot = n->slot}, e);
}

static int finish(struct sim *s, struct sim_node *n, struct err *e)
{
    if (n->node >= 0)
        exchange_end_rounds(n->x);
    if (s->records && sim_record_comm(s->records, s, n, e) < 0)
        return e->code;
    n->phase = SIM_DONE;
    n->ended_at = n->now;
    exchange_detach(n->x);
    return mesh_sim_leave(s->net, n->slot, e);
}

void sim_node_fail(struct sim *s, struct sim_node *n, const struct err *why)
{
    struct err e;

    n->phase = SIM_FAILED;
    n->ended_at = n->now;
    if (s->cause < 0)
        s->cause = n->slot;
    n->e = malloc(sizeof *n->e);
    if (n->e)
        *n->e = *why;
    mesh_sim_kill(s->net, n->slot, &e); /* without memory the others hang, which is reported */
}

static double draw_step(const struct sim_steps *t, struct rng *rng)
{
    return t->s[t->n > 1 ? rng_below(rng, (uint32_t)t->n) : 0];
}

void sim_node_begin(struct sim *s, struct sim_node *n)
{
    step_begin(&n->step);
    n->step_time = draw_step(&s->steps, &n->rng) / n->speed * ((double)n->n_blocks / s->nodes[0].n_blocks);
    if (s->straggler.share > 0 && rng_uniform(&n->rng) < (float)s->straggler.share)
        n->step_time *= s->straggler.factor;
}

/* Enters a phase in which the codec waits, or continues at once. */
static void enter_phase(struct sim_node *n, enum sim_phase phase, int rc)
{
    n->phase = phase;
    if (rc != CODEC_WAIT)
        return;
    n->waits_since = n->now;
    phase_enter(exchange_watch(n->x), PHASE_WAIT);
}

/* Ends the computation of one block's gradient. After the last one of the step the codec gets it. */
static int end_block(struct sim *s, struct sim_node *n, struct err *e)
{
    struct trainer_batch b = {
        .node = n->node, .i = n->at_block, .block = n->blocks[n->at_block], .step = n->step.n_done};
    struct net_score score = {0};
    int rc;

    n->phase = SIM_BEGINS;
    if (!exchange_takes_part(n->x)) {
        step_sit_out(&n->step);
        n->at_block = n->n_blocks - 1;
    } else {
        s->trainer->ops->gradient(s->trainer, &b, n->params, n->grads, &score);
        if (step_add_block(&n->step, n->grads, b.block, &score, e) < 0)
            return e->code;
    }
    if (++n->at_block < n->n_blocks)
        return 0;
    n->at_block = 0;
    rc = step_exchange(&n->step, e);
    spend_on_reading(s, n);
    enter_phase(n, SIM_IN_GRAD, rc);
    return rc;
}

static int check_test(const struct sim *s, const struct sim_node *n, struct err *e)
{
    return s->trainer->has_test ? step_check_test(&n->step, n->eval_loss, step_is_last(&n->step), e) : 0;
}

static int begin_evaluation(struct sim *s, struct sim_node *n)
{
    n->phase = SIM_EVALUATES;
    phase_enter(exchange_watch(n->x), PHASE_EVALUATE);
    n->now += s->eval_time_s / n->speed;
    return 0;
}

/* The job ends here: as end_job() in train.c. */
static int end_job(struct sim *s, struct sim_node *n, struct err *e)
{
    int rc;

    if (exchange_must_close(n->x)) {
        n->has_changed = exchange_close_changes(n->x);
        rc = exchange_close(n->x, e);
        spend_on_reading(s, n);
        enter_phase(n, SIM_CLOSES, rc);
        return rc == CODEC_GO ? end_job(s, n, e) : rc;
    }
    if (exchange_has_barriers(n->x) && !n->has_met_end) {
        n->has_met_end = n->has_changed = true;
        rc = exchange_reach(n->x, BARRIER_END, (uint64_t)n->epoch, e);
        enter_phase(n, SIM_AT_END, rc);
        return rc;
    }
    if (n->evaluated == n->step.n_done && !n->has_changed)
        return check_test(s, n, e) < 0 ? e->code : finish(s, n, e);
    n->is_ending = true;
    return begin_evaluation(s, n);
}

static int end_step(struct sim *s, struct sim_node *n, struct err *e)
{
    const struct record_train row = step_end(&n->step, 0);

    if (s->records && ((step_is_recorded(&n->step) && sim_record_step(s->records, &row, e) < 0) ||
                       sim_record_comm(s->records, s, n, e) < 0))
        return e->code;
    sim_node_begin(s, n);
    n->phase = SIM_BEGINS;
    if (step_is_last(&n->step))
        return end_job(s, n, e);
    if (exchange_take_evaluation(n->x) || step_is_evaluated_by_all(&n->step))
        return begin_evaluation(s, n);
    return 0;
}

static int end_sharing(struct sim *s, struct sim_node *n, struct err *e)
{
    if (n->is_ending)
        return finish(s, n, e);
    if (step_is_last(&n->step))
        return end_job(s, n, e);
    phase_enter(exchange_watch(n->x), PHASE_COMPUTE);
    sim_node_begin(s, n);
    n->epoch = (int)(n->step.n_done / (uint64_t)s->set.steps_per_epoch) + 1;
    n->phase = SIM_BEGINS;
    return 0;
}

/* As in train.c: evaluations that all workers make; of the last ones those in ssgd, after a whole epoch. */
static bool shares(const struct sim *s, const struct sim_node *n)
{
    bool is_whole = n->step.n_done % (uint64_t)s->set.steps_per_epoch == 0 && !n->has_changed &&
                    !exchange_closes_early(n->x, n->step.n_done);

    if (!exchange_shares_evaluations(n->x))
        return false;
    return n->is_ending ? is_whole && s->set.sync == SYNC_SSGD : step_is_evaluated_by_all(&n->step);
}

static int end_evaluation(struct sim *s, struct sim_node *n, struct err *e)
{
    int rc = CODEC_GO;

    s->trainer->ops->evaluate(s->trainer, sim_model_of(s, n), &n->eval_loss, &n->eval_accuracy);
    n->evaluated = n->step.n_done;
    if (s->records && sim_record_evaluation(s->records, n, e) < 0)
        return e->code;
    if (check_test(s, n, e) < 0)
        return e->code;
    if (shares(s, n))
        rc = exchange_evaluated(n->x, n->step.n_done, n->eval_loss, n->eval_accuracy, e);
    enter_phase(n, SIM_SHARES, rc);
    return rc == CODEC_GO ? end_sharing(s, n, e) : rc;
}

/* The first node to update finds that a sum is not finite, and the simulation ends: the node whose gradient
 * was not finite is named in its place. */
static int name_own(struct sim *s, struct err *e)
{
    struct err own;

    for (int i = 0; e->code == ERR_NUMERIC && i < s->set.node_count; i++)
        if (s->nodes[i].x && step_check_own(&s->nodes[i].step, &own) < 0) {
            *e = own;
            break;
        }
    return e->code;
}

/* Continues after CODEC_GO. */
static int go_on(struct sim *s, struct sim_node *n, struct err *e)
{
    int rc;

    if (n->phase == SIM_AT_END || n->phase == SIM_CLOSES)
        return end_job(s, n, e);
    if (n->phase == SIM_SHARES)
        return end_sharing(s, n, e);
    if (n->phase == SIM_IN_STEP)
        return end_step(s, n, e);
    phase_enter(exchange_watch(n->x), PHASE_APPLY);
    if (step_update(&n->step, e) < 0)
        return name_own(s, e);
    phase_enter(exchange_watch(n->x), PHASE_COMPUTE);
    rc = exchange_on_step(n->x, e);
    spend_on_reading(s, n);
    enter_phase(n, SIM_IN_STEP, rc);
    return rc == CODEC_GO ? end_step(s, n, e) : rc;
}

static int check_time(const struct sim *s, const struct sim_node *n, struct err *e)
{
    char what[128];

    /* At a barrier a worker waits for the slowest one, and a simulated one hangs only if it is killed. */
    if (n->phase == SIM_SERVES || n->phase == SIM_AT_END || n->now - n->waits_since <= s->set.round_timeout_s)
        return 0;
    exchange_waits_for(n->x, what, sizeof what);
    err_set(e, ERR_TIMEOUT, "%s has not arrived for %g s", what, s->set.round_timeout_s);
    return err_hint(e, "Use a longer --round-timeout.");
}

static bool is_waiting(const struct sim_node *n)
{
    return n->phase == SIM_IN_GRAD || n->phase == SIM_IN_STEP || n->phase == SIM_CLOSES ||
           n->phase == SIM_AT_END || n->phase == SIM_SHARES;
}

/* Processes one event of the mesh. */
static int receive(struct sim *s, struct sim_node *n, struct err *e)
{
    struct mesh_event ev;
    int rc;

    if (is_waiting(n) && check_time(s, n, e) < 0)
        return e->code;
    if (mesh_poll(n->mesh, &ev, 0, e) < 0)
        return e->code;
    n->has_room = false;
    rc = exchange_on_event(n->x, &ev, e);
    spend_on_reading(s, n);
    n->waits_since = n->now;
    if (rc < 0)
        return rc;
    if (s->records && sim_record_comm(s->records, s, n, e) < 0)
        return e->code;
    if (n->phase == SIM_SERVES && exchange_release(n->x, e) < 0)
        return e->code;
    if (n->phase == SIM_SERVES)
        return exchange_is_over(n->x) ? finish(s, n, e) : 0;
    return rc == CODEC_GO && is_waiting(n) ? go_on(s, n, e) : rc;
}

/* Runs a node that is not busy. Returns IDLE: nothing to do until it is woken; YIELDS: other nodes run
 * first. */
static int act(struct sim *s, struct sim_node *n, struct err *e)
{
    int rc;

    if (n->phase == SIM_COMPUTES) {
        rc = end_block(s, n, e);
        return rc == CODEC_GO && n->phase == SIM_IN_GRAD ? go_on(s, n, e) : rc;
    }
    if (n->phase == SIM_EVALUATES)
        return end_evaluation(s, n, e);
    if (n->has_room || mesh_sim_has_news(s->net, n->slot))
        return receive(s, n, e);
    if (n->phase != SIM_BEGINS || exchange_must_wait(n->x) || (s->explorer && !n->may_step))
        return IDLE;
    if (n->has_computed && sim_processor_is_wanted(s))
        return YIELDS;
    n->has_computed = true;
    n->may_step = false;
    n->phase = SIM_COMPUTES;
    if (exchange_takes_part(n->x))
        n->now += n->step_time / n->n_blocks;
    return 0;
}

/* Queues its codec's timer. */
static int set_timer(struct sim *s, struct sim_node *n, struct err *e)
{
    double at = fmax(exchange_wakes_at(n->x), s->queue.now);

    if (sim_node_is_over(n) || s->explorer || !(at < n->timer))
        return 0;
    n->timer = at;
    return sim_queue_push(&s->queue, (struct sim_event){.at = at, .what = SIM_TIMER, .slot = n->slot}, e);
}

int sim_node_drive(struct sim *s, struct sim_node *n, struct err *e)
{
    int rc = 0;

    if (n->is_busy)
        return 0;
    if (sim_node_is_over(n))
        return sim_processor_leave(s, n, e);
    if (!sim_processor_take(s, n))
        return 0;
    n->now = fmax(n->now, s->queue.now);
    while (rc != IDLE && rc != YIELDS && !sim_node_is_over(n)) {
        if (n->now > s->queue.now && !s->explorer)
            return sim_node_keep_busy(s, n, n->now, e) < 0 ? e->code : set_timer(s, n, e);
        rc = act(s, n, &s->why);
        if (rc < 0)
            sim_node_fail(s, n, &s->why);
    }
    if ((rc == YIELDS ? sim_processor_yield : sim_processor_leave)(s, n, e) < 0)
        return e->code;
    return set_timer(s, n, e);
}
