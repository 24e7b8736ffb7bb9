/* sim_node -- drives the worker of one node (runner/core/worker.h) in simulated time, as runner/train.c and
 * serve.c do in real time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/test_sum.h"
#include "sim/sim.h"

static void add_time(struct sim_node *n, enum phase phase, double seconds)
{
    enum phase last;

    if (seconds == 0)
        return;
    last = phase_enter(exchange_watch(n->x), phase);
    n->now += seconds / n->speed;
    phase_enter(exchange_watch(n->x), last);
}

/* Adds the time of a codec's reading or writing. */
static void add_codec_time(const struct sim *s, struct sim_node *n, enum phase phase, uint64_t bytes)
{
    if (s->codec_rate > 0)
        add_time(n, phase, (double)bytes / s->codec_rate);
}

/* Returns the time at one end of a message: checksum, and copying between node and kernel. */
static double message_overhead(const struct sim *s, const struct sim_message *m)
{
    const struct sim_overhead *o = &s->overhead;

    return o->message_s + (o->bytes_per_s > 0 ? (double)(m->len + FRAME_BYTES) / o->bytes_per_s : 0);
}

/* Adds the time for bytes that its exchange has read since the last call. */
static void add_reading_time(const struct sim *s, struct sim_node *n)
{
    static const enum phase phases[] = {PHASE_DECODE, PHASE_APPLY};

    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        uint64_t *read = &n->read[phases[i]], bytes = exchange_read(n->x, phases[i]) - *read;

        *read += bytes;
        add_codec_time(s, n, phases[i], bytes);
    }
}

void sim_node_sent(struct sim *s, struct sim_node *n, const struct sim_message *m)
{
    if (m->kind != MESH_MESSAGE)
        return;
    add_reading_time(s, n); /* reading before this message */
    if (m->buf && (m->buf != n->encoded || m->head.round != n->encoded_round)) {
        n->encoded = m->buf; /* one encoding, however many receivers */
        n->encoded_round = m->head.round;
        add_codec_time(s, n, PHASE_ENCODE, m->len);
    }
    add_time(n, PHASE_SEND, message_overhead(s, m));
}

void sim_node_took(struct sim *s, struct sim_node *n, const struct sim_message *m)
{
    add_time(n, PHASE_WAIT, message_overhead(s, m));
}

int sim_node_keep_busy(struct sim *s, struct sim_node *n, double until, struct err *e)
{
    n->is_busy = true;
    return sim_queue_push(&s->queue, (struct sim_event){.at = until, .what = SIM_WAKE, .slot = n->slot}, e);
}

static int finish_node(struct sim *s, struct sim_node *n, struct err *e)
{
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

static void draw_step_time(struct sim *s, struct sim_node *n)
{
    n->step_time = draw_step(&s->steps, &n->rng) / n->speed * ((double)n->n_blocks / s->nodes[0].n_blocks);
    if (s->straggler.share > 0 && rng_uniform(&n->rng) < (float)s->straggler.share)
        n->step_time *= s->straggler.factor;
}

static int record_rows(struct sim *s, struct sim_node *n, struct err *e)
{
    const struct record_train *row = n->request.train;

    if (s->records &&
        ((row && sim_record_step(s->records, row, e) < 0) || sim_record_comm(s->records, s, n, e) < 0))
        return e->code;
    return 0;
}

/* The node computes until its own time. */
static void note_computing(struct sim *s, const struct sim_node *n)
{
    s->progress.busy = fmax(s->progress.busy, n->now);
}

/* Before a block is computed, or a step begins in which there is nothing to compute. */
static int begin_block(struct sim *s, struct sim_node *n, struct err *e)
{
    (void)e;
    if (n->request.i == 0)
        draw_step_time(s, n);
    n->phase = SIM_BEGINS;
    return 0;
}

static int begin_wait(struct sim *s, struct sim_node *n, struct err *e)
{
    (void)s, (void)e;
    n->phase = SIM_WAITS;
    n->waits_since = n->now;
    return 0;
}

static int begin_evaluation(struct sim *s, struct sim_node *n, struct err *e)
{
    (void)e;
    n->phase = SIM_EVALUATES;
    n->now += s->eval_time_s / n->speed / (test_sum_is_used(n->x) ? s->set.node_count : 1);
    note_computing(s, n);
    return 0;
}

/* The node that updates first finds that the combined gradient is not finite. The message names instead the
 * node whose own gradient is not. */
static int name_own_gradient(struct sim *s, const struct sim_node *n, struct err *e)
{
    struct err own;

    for (int i = 0; n->step.cause_is_unknown && i < s->set.node_count; i++)
        if (s->nodes[i].x && step_check_own(&s->nodes[i].step, &own) < 0) {
            *e = own;
            break;
        }
    return e->code;
}

/* Draws the time of the step once more, because the step that follows an evaluation begins only now. */
static int note_evaluation(struct sim *s, struct sim_node *n, double loss, double accuracy, struct err *e)
{
    n->eval_loss = loss;
    n->eval_accuracy = accuracy;
    if (s->records && sim_record_evaluation(s->records, n, e) < 0)
        return e->code;
    if (worker_evaluated(&n->worker, loss, accuracy, e) < 0)
        return e->code;
    draw_step_time(s, n);
    return 0;
}

static int score(struct sim *s, struct sim_node *n, struct err *e)
{
    double loss, accuracy;

    s->workload->ops->score(s->workload, test_sum_numbers(n->x), &loss, &accuracy);
    return note_evaluation(s, n, loss, accuracy, e);
}

/* Asks the worker what to do until the node computes, evaluates, waits or has ended. */
static int advance_node(struct sim *s, struct sim_node *n, struct err *e)
{
    static int (*const doing[N_WORKER_WANTS])(struct sim *, struct sim_node *, struct err *) = {
        [WORKER_COMPUTES] = begin_block,       [WORKER_ABSTAINS] = begin_block, [WORKER_WAITS] = begin_wait,
        [WORKER_EVALUATES] = begin_evaluation, [WORKER_IS_DONE] = finish_node,
    };

    if (n->node >= 0)
        s->progress = (struct sim_progress){.went_on = s->queue.now, .busy = s->progress.busy};
    for (;;) {
        n->wants = worker_next(&n->worker, &n->request, e);
        if (n->wants < 0)
            return name_own_gradient(s, n, e);
        if (n->wants == WORKER_GOES_ON || (n->wants == WORKER_WAITS && n->node >= 0))
            add_reading_time(s, n);
        if (n->wants == WORKER_RECORDS && record_rows(s, n, e) < 0)
            return e->code;
        if (n->wants == WORKER_SCORES && score(s, n, e) < 0)
            return e->code;
        if (n->wants == WORKER_UPDATES && worker_updated(&n->worker, n->lr, e) < 0)
            return e->code; /* its function has updated, too */
        if (doing[n->wants])
            return doing[n->wants](s, n, e);
    }
}

int sim_node_begin(struct sim *s, struct sim_node *n, struct err *e)
{
    worker_open(&n->worker, &(struct worker_config){.set = &s->set,
                                                    .exchange = n->x,
                                                    .step = &n->step,
                                                    .blocks = n->blocks,
                                                    .has_test = s->workload->has_test});
    return advance_node(s, n, e);
}

/* Otherwise the worker does not take part, and the step takes no time. */
static bool has_to_compute(const struct sim_node *n)
{
    return n->wants == WORKER_COMPUTES && n->request.takes_part;
}

static struct workload_batch batch_of(const struct sim_node *n)
{
    return (struct workload_batch){.node = n->node,
                                   .i = n->request.i,
                                   .block = n->request.block,
                                   .step = n->step.n_done,
                                   .lr_factor = n->request.lr_factor};
}

static int compute_gradient(struct sim *s, struct sim_node *n, struct err *e)
{
    const struct workload_batch b = batch_of(n);
    struct net_score score = {0};

    if (s->workload->ops->gradient(s->workload, &b, n->params, n->grads, &score, e) < 0)
        return e->code;
    n->step.cfg.has_labels = s->workload->has_labels;
    return worker_computed(&n->worker, n->grads, &score, e);
}

static int train_params(struct sim *s, struct sim_node *n, struct err *e)
{
    const struct workload_batch b = batch_of(n);
    struct step_result result = {.loss = NAN, .accuracy = NAN};

    if (has_to_compute(n) && s->workload->ops->train(s->workload, &b, n->params, &result, &n->lr, e) < 0)
        return e->code;
    return worker_reported(&n->worker, NULL, &result, e);
}

static int end_block(struct sim *s, struct sim_node *n, struct err *e)
{
    bool computes = has_to_compute(n);

    if (n->wants == WORKER_COMPUTES &&
        (s->workload->ops->train ? train_params : compute_gradient)(s, n, e) < 0)
        return e->code;
    if (computes && s->records && sim_record_metrics(s->records, n, s->workload, e) < 0)
        return e->code;
    return advance_node(s, n, e);
}

static int end_evaluation(struct sim *s, struct sim_node *n, struct err *e)
{
    double loss = NAN, accuracy = NAN;
    int rc;

    if (test_sum_is_used(n->x)) {
        s->workload->ops->test(s->workload, n->node, sim_model_of(s, n), test_sum_numbers(n->x));
        return advance_node(s, n, e);
    }
    rc = s->workload->ops->evaluate(s->workload, sim_model_of(s, n), n->step.n_done, &loss, &accuracy, e);
    if (rc < 0)
        return rc;
    if (s->records && sim_record_metrics(s->records, n, s->workload, e) < 0)
        return e->code;
    if (rc == WORKLOAD_HAS_NO_TEST) {
        if (worker_evaluated(&n->worker, loss, accuracy, e) < 0)
            return e->code;
        draw_step_time(s, n);
        return advance_node(s, n, e);
    }
    if (!s->workload->has_test && step_check_test(&n->step, loss, step_is_last(&n->step), e) < 0)
        return e->code; /* a program's, of which the worker does not know */
    return note_evaluation(s, n, loss, accuracy, e) < 0 ? e->code : advance_node(s, n, e);
}

static int check_time(const struct sim *s, const struct sim_node *n, struct err *e)
{
    char what[128];

    /* At a barrier a worker waits for the slowest one, and a simulated one hangs only if it is killed. */
    if (barrier_waits(n->x) || n->now - n->waits_since <= s->set.round_timeout_s)
        return 0;
    exchange_waits_for(n->x, what, sizeof what);
    err_set(e, ERR_TIMEOUT, "%s has not arrived for %g s", what, s->set.round_timeout_s);
    return err_hint(e, "Use a longer --round-timeout.");
}

/* Processes one event of the mesh. */
static int receive_event(struct sim *s, struct sim_node *n, struct err *e)
{
    struct mesh_event ev;
    int rc;

    if (n->phase == SIM_WAITS && n->node >= 0 && check_time(s, n, e) < 0)
        return e->code;
    if (mesh_poll(n->mesh, &ev, 0, e) < 0)
        return e->code;
    n->has_room = false;
    rc = worker_event(&n->worker, &ev, e);
    add_reading_time(s, n);
    if (ev.kind != MESH_NOTHING) /* a timer does not restart --round-timeout, as in a runner */
        n->waits_since = n->now;
    if (rc < 0)
        return rc;
    if (n->node >= 0 && s->records && sim_record_comm(s->records, s, n, e) < 0)
        return e->code; /* of a server, WORKER_RECORDS follows each event */
    return n->phase == SIM_WAITS && !worker_waits(&n->worker) ? advance_node(s, n, e) : 0;
}

static int start_computing(struct sim *s, struct sim_node *n, struct err *e)
{
    const struct workload_batch b = batch_of(n);

    return s->workload->ops->start(s->workload, &b, n->params, e);
}

/* The result of take_turn, if it is neither 0 nor a code. */
enum {
    IDLE = 1, /* nothing to do until the node is woken */
    YIELDS    /* other nodes run first */
};

/* Runs a node that is not busy. Returns 0, IDLE, YIELDS or a code. */
static int take_turn(struct sim *s, struct sim_node *n, struct err *e)
{
    if (n->phase == SIM_COMPUTES)
        return end_block(s, n, e);
    if (n->phase == SIM_EVALUATES)
        return end_evaluation(s, n, e);
    if (n->has_room || mesh_sim_has_event(s->net, n->slot))
        return receive_event(s, n, e);
    if (n->phase != SIM_BEGINS || exchange_must_wait(n->x) || (s->explorer && !n->may_step))
        return IDLE;
    if (n->has_computed && sim_processor_is_wanted(s))
        return YIELDS;
    n->has_computed = true;
    n->may_step = false;
    n->phase = SIM_COMPUTES;
    if (!has_to_compute(n))
        return 0;
    n->now += n->step_time / n->n_blocks;
    note_computing(s, n);
    return s->workload->ops->start ? start_computing(s, n, e) : 0;
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
        rc = take_turn(s, n, &s->why);
        if (rc < 0)
            sim_node_fail(s, n, &s->why);
    }
    if ((rc == YIELDS ? sim_processor_yield : sim_processor_leave)(s, n, e) < 0)
        return e->code;
    return set_timer(s, n, e);
}
