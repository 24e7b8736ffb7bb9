/* costs -- what a step, the test set and a codec take a node of speed 1: as was said, or measured on this
 * machine. Each is done some times over, and the middle one counts: the machine may be at something else
 * meanwhile. */
#include <stdlib.h>

#include "shared/clock.h"
#include "sim/sim.h"

enum { MEASURED = 15 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle_of(double seconds[MEASURED])
{
    qsort(seconds, MEASURED, sizeof *seconds, by_size);
    return seconds[MEASURED / 2];
}

/* Node 0's first steps. `params`: and behind them as many gradients. */
static double measure_step(const struct sim *s, float *params, struct optimizer *o)
{
    struct trainer *t = s->trainer;
    float *grads = params + t->n_params;
    struct trainer_batch b = {.block = 0};
    double seconds[MEASURED];
    int n_own = 0;

    while (!blocks_holds(&s->blocks, b.block, 0))
        b.block++;
    for (int i = 0; i < s->blocks.n_blocks; i++)
        n_own += blocks_holds(&s->blocks, i, 0);
    for (int i = 0; i < MEASURED; i++) {
        struct net_score score = {0};
        double begun;

        t->spent_s = 0;
        b.step = (uint64_t)i % (uint64_t)s->set.steps_per_epoch;
        t->ops->gradient(t, &b, params, grads, &score);
        begun = clock_now();
        optimizer_step(o, params, grads, (float)s->set.learn_rate,
                       gradient_clip(gradient_norm(grads, t->n_trained), 0));
        seconds[i] = n_own * t->spent_s + clock_now() - begun;
    }
    return middle_of(seconds);
}

static double measure_evaluation(struct trainer *t, const float *params)
{
    double loss, accuracy;

    t->spent_s = 0;
    t->ops->evaluate(t, params, &loss, &accuracy);
    return t->spent_s;
}

/* Most rules add a vector to another, or take a share of it: bytes a second of the one that was sent. */
static double measure_codec(const struct trainer *t, float *params)
{
    double seconds[MEASURED];

    for (int i = 0; i < MEASURED; i++) {
        double begun = clock_now();

        for (size_t k = 0; k < t->n_params; k++)
            params[k] += 0.5f * params[t->n_params + k];
        seconds[i] = clock_now() - begun;
    }
    return (double)(t->n_params * sizeof *params) / middle_of(seconds);
}

static int measure(struct sim *s, struct err *e)
{
    const struct optimizer_config cfg = sim_optimizer_of(s);
    struct trainer *t = s->trainer;
    float *params = malloc(2 * t->n_params * sizeof *params);
    struct optimizer *o = NULL;
    int rc = params ? optimizer_new(&o, &cfg, t->n_trained, e)
                    : err_set(e, ERR_NOMEM, "no memory to measure a step");

    if (rc == 0) {
        t->ops->begin(t, params);
        t->step_time_s = measure_step(s, params, o);
        t->eval_time_s = measure_evaluation(t, params);
        s->codec_rate = measure_codec(t, params);
    }
    optimizer_free(o);
    free(params);
    return rc;
}

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;
    bool is_said = how->step_time_s > 0 && how->eval_time_s > 0 && how->codec_rate_mbps > 0;

    if (how->gradients == 0 && !is_said && measure(s, e) < 0)
        return e->code;
    if (how->step_time_s > 0)
        s->trainer->step_time_s = how->step_time_s;
    if (how->eval_time_s > 0)
        s->trainer->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return 0;
}
