/* costs -- what a step, the test set, a codec and a message take a node of speed 1: as was said, or measured
 * on this machine. Each is done many times over, one after the other, as in a job: so each finds the caches
 * as the others leave them. The middle one counts, the machine may be at something else meanwhile; but of
 * steps their whole range, from quickest to slowest: workers wait for the slowest of them. */
#include <stdlib.h>

#include "agent/runner/frame.h"
#include "agent/runner/vector.h"
#include "shared/clock.h"
#include "sim/overhead.h"
#include "sim/sim.h"

enum { MEASURED_LEAST = SIMULATION_STEPS, MEASURED_MOST = 500 };
#define MEASURED_S 0.25 /* unless the least takes longer */

struct bench {
    struct optimizer *optimizer;
    float *params, *grads, *heard, *sum; /* (n_params) each, of one allocation */
    struct sim_self self;                /* not open where it is said what a message takes */
    int n;                               /* rounds measured, and what was in each */
    double step[MEASURED_MOST], codec[MEASURED_MOST], message[MEASURED_MOST], vector[MEASURED_MOST];
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle_of(double *seconds, int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    return seconds[n / 2];
}

/* The mean of each sixteenth, so that all together have the mean of all. */
static struct sim_steps range_of(double *seconds, int n)
{
    struct sim_steps range = {.n = SIMULATION_STEPS};

    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    for (int k = 0; k < range.n; k++) {
        int from = k * n / range.n, to = (k + 1) * n / range.n;

        for (int i = from; i < to; i++)
            range.s[k] += seconds[i] / (to - from);
    }
    return range;
}

/* Node 0's i-th step. */
static double do_step(const struct sim *s, struct bench *b, int i)
{
    struct trainer *t = s->trainer;
    struct trainer_batch batch = {.block = 0, .step = (uint64_t)i % (uint64_t)s->set.steps_per_epoch};
    struct net_score score = {0};
    double begun, norm = 0;
    int n_own = 0;

    while (!blocks_holds(&s->blocks, batch.block, 0))
        batch.block++;
    for (int k = 0; k < s->blocks.n_blocks; k++)
        n_own += blocks_holds(&s->blocks, k, 0);
    t->spent_s = 0;
    t->ops->gradient(t, &batch, b->params, b->grads, &score);
    begun = clock_now();
    /* Elsewhere a runner has the norm from the step (agent/runner/train.c). */
    if (s->may_skip || s->set.clip_norm > 0)
        norm = gradient_norm(b->grads, t->n_trained);
    optimizer_step(b->optimizer, b->params, b->grads, (float)s->set.learn_rate,
                   gradient_clip(norm, s->set.clip_norm));
    return n_own * t->spent_s + clock_now() - begun;
}

/* Most rules add two vectors, and so do collectives: one's own, and one that has come. */
static double do_codec(const struct trainer *t, struct bench *b)
{
    const float *const in[] = {b->grads, b->heard};
    double begun = clock_now();

    vector_sum(b->sum, in, 2, t->n_params, 0.5f);
    return clock_now() - begun;
}

static double measure_evaluation(struct trainer *t, const float *params)
{
    double loss, accuracy;

    t->spent_s = 0;
    t->ops->evaluate(t, params, &loss, &accuracy);
    return t->spent_s;
}

/* Of a short message and one as long as the gradient, half of what both ends took. Of a model so small that
 * no difference is seen, bytes take no time. */
static struct sim_overhead overhead_of(double message_s, double vector_s, size_t len)
{
    struct sim_overhead o = {.message_s = message_s / 2};

    if (vector_s > message_s)
        o.bytes_per_s = (double)len / ((vector_s - message_s) / 2);
    return o;
}

static int send_self(struct bench *b, size_t len, double *seconds, struct err *e)
{
    return b->self.in < 0 ? 0 : sim_self_send(&b->self, b->grads, b->heard, len, seconds, e);
}

/* A step, and what becomes of its gradient. */
static int measure_round(const struct sim *s, struct bench *b, struct err *e)
{
    struct trainer *t = s->trainer;
    size_t len = t->n_params * sizeof *b->grads;
    int i = b->n++;

    b->step[i] = do_step(s, b, i);
    if (send_self(b, len, &b->vector[i], e) < 0)
        return e->code;
    b->codec[i] = do_codec(t, b);
    return send_self(b, len < FRAME_BYTES ? len : FRAME_BYTES, &b->message[i], e);
}

static int measure_all(struct sim *s, struct bench *b, struct err *e)
{
    size_t len = s->trainer->n_params * sizeof *b->grads;
    double begun = clock_now();

    s->trainer->ops->begin(s->trainer, b->params);
    while (b->n < MEASURED_LEAST || (b->n < MEASURED_MOST && clock_now() - begun < MEASURED_S))
        if (measure_round(s, b, e) < 0)
            return e->code;
    s->steps = range_of(b->step, b->n);
    s->eval_time_s = measure_evaluation(s->trainer, b->params);
    s->codec_rate = (double)len / middle_of(b->codec, b->n);
    s->overhead = overhead_of(middle_of(b->message, b->n), middle_of(b->vector, b->n), len);
    return 0;
}

static int measure(struct sim *s, struct err *e)
{
    const struct optimizer_config cfg = sim_optimizer_of(s);
    size_t n = s->trainer->n_params;
    struct bench b = {.params = calloc(4 * n, sizeof *b.params), .self = {-1, -1}};
    int rc;

    if (!b.params)
        return err_set(e, ERR_NOMEM, "no memory to measure a step");
    b.grads = b.params + n;
    b.heard = b.grads + n;
    b.sum = b.heard + n;
    rc = optimizer_new(&b.optimizer, &cfg, s->trainer->n_trained, e);
    if (rc == 0 && !s->how.overhead[0])
        rc = sim_self_open(&b.self, e);
    if (rc == 0)
        rc = measure_all(s, &b, e);
    sim_self_close(&b.self);
    optimizer_free(b.optimizer);
    free(b.params);
    return rc;
}

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;
    bool is_said = how->step_time[0] && how->eval_time_s > 0 && how->codec_rate_mbps > 0 && how->overhead[0];

    s->steps = (struct sim_steps){.n = 1}; /* which takes a stand-in no time */
    if (how->gradients == 0 && !is_said && measure(s, e) < 0)
        return e->code;
    if (how->step_time[0] && sim_steps_parse(&s->steps, how->step_time, e) < 0)
        return e->code;
    if (how->eval_time_s > 0)
        s->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return how->overhead[0] ? sim_overhead_parse(&s->overhead, how->overhead, e) : 0;
}
