/* costs -- times of a step, the test set, a codec and a message on a node of speed 1: given as options, or
 * measured on this machine.
 *
 * What is measured is repeated many times in turn, as in a job, so that the caches are as in a job. The
 * median counts, because the machine may have other work; of steps the whole range counts, because workers
 * wait for the slowest one.
 *
 * Nodes on one machine slow each other down. So as many processes measure at the same time as nodes can
 * compute, each sends to the next one in a ring, and each uses in turn the vectors of as many nodes as share
 * a processor. The first process' figures are used. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/base/vector.h"
#include "runner/core/step_optimizer.h"
#include "runner/mesh/frame.h"
#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "sim/overhead.h"
#include "sim/sim.h"

enum {
    MEASURED_LEAST = SIMULATION_STEPS,
    MEASURED_MOST = 500,
    EVALUATIONS = 5,
    RING_MOST = 8,
    SHARERS_MOST = 4,
    CONTRIBUTIONS_MOST = 4, /* received by a node in a round */
    CACHES_MOST = 64 << 20  /* bytes; more than this is read from memory */
};
#define MEASURED_S 0.25 /* unless MEASURED_LEAST rounds take longer */

struct sharer {
    struct optimizer *optimizer;
    float *params, *grads, *sum; /* (n_params) each, of one allocation with ... */
    float *received;             /* (n_contributions, n_params) */
};

struct bench {
    int n_sharers, n_contributions;
    struct sharer sharers[SHARERS_MOST];
    struct sim_wire wire; /* not open if --overhead is given */
    int n;                /* rounds measured, and the times of each */
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

/* Returns the mean of each sixteenth of the sorted times, which together have the overall mean. */
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

/* Runs node 0's i-th step. */
static double do_step(const struct sim *s, const struct sharer *o, int i)
{
    struct workload *load = s->workload;
    struct workload_batch batch = {.block = 0, .step = (uint64_t)i % (uint64_t)s->set.steps_per_epoch};
    struct net_score score = {0};
    struct err ignored;
    double begun, norm = 0;
    int n_own = 0;

    while (!blocks_holds(&s->blocks, batch.block, 0))
        batch.block++;
    for (int k = 0; k < s->blocks.n_blocks; k++)
        n_own += blocks_holds(&s->blocks, k, 0);
    load->spent_s = 0;
    load->ops->gradient(load, &batch, o->params, o->grads, &score, &ignored);
    begun = clock_now();
    if (step_needs_norm(&s->set))
        norm = gradient_norm(o->grads, load->n_trained);
    optimizer_step(o->optimizer, o->params, o->grads, (float)s->set.learn_rate,
                   gradient_clip(norm, s->set.clip_norm));
    return n_own * load->spent_s + clock_now() - begun;
}

/* Most rules and collectives add two vectors: the node's own and a received one. */
static double do_codec(const struct workload *load, const struct sharer *o, const float *received)
{
    const float *const in[] = {o->grads, received};
    double begun = clock_now();

    vector_sum(o->sum, in, 2, load->n_params, 0.5f);
    return clock_now() - begun;
}

/* The test set takes long, so few measurements suffice, or a single one if it takes longer than everything
 * else. The weights change between the measurements, because equal weights are not evaluated again. */
static double measure_evaluation(const struct sim *s, const struct sharer *o)
{
    struct workload *load = s->workload;
    double seconds[EVALUATIONS], sum = 0, loss, accuracy;
    struct err ignored;
    int n = 0;

    while (n == 0 || (n < EVALUATIONS && sum < MEASURED_S)) {
        do_step(s, o, n);
        load->spent_s = 0;
        load->ops->evaluate(load, o->params, 0, &loss, &accuracy, &ignored);
        sum += seconds[n++] = load->spent_s;
    }
    return middle_of(seconds, n);
}

/* Computes the overhead from a short message and one as long as the gradient, half of the time of both
 * ends. For a model so small that they do not differ, bytes take no time. */
static struct sim_overhead overhead_of(double message_s, double vector_s, size_t len)
{
    struct sim_overhead o = {.message_s = message_s / 2};

    if (vector_s > message_s)
        o.bytes_per_s = (double)len / ((vector_s - message_s) / 2);
    return o;
}

static int exchange(const struct bench *b, const void *from, void *to, size_t len, double *seconds,
                    struct err *e)
{
    return b->wire.in < 0 ? 0 : sim_wire_exchange(&b->wire, from, to, len, seconds, e);
}

/* An unmeasured short message first synchronizes the neighbors. */
static int exchange_short(struct bench *b, const struct sharer *o, size_t len, double *seconds, struct err *e)
{
    size_t n = len < FRAME_BYTES ? len : FRAME_BYTES;

    return exchange(b, o->grads, o->received, n, seconds, e) < 0
               ? e->code
               : exchange(b, o->grads, o->received, n, seconds, e);
}

/* Measures a step, and the processing of its gradient. */
static int measure_round(const struct sim *s, struct bench *b, struct err *e)
{
    const struct workload *load = s->workload;
    size_t len = load->n_params * sizeof(float);
    int i = b->n++;
    const struct sharer *o = &b->sharers[i % b->n_sharers];

    b->step[i] = do_step(s, o, i);
    if (exchange_short(b, o, len, &b->message[i], e) < 0)
        return e->code;
    b->codec[i] = b->vector[i] = 0;
    for (int w = 0; w < b->n_contributions; w++) {
        float *received = o->received + (size_t)w * load->n_params;
        double seconds = 0;

        if (exchange(b, o->grads, received, len, &seconds, e) < 0)
            return e->code;
        b->vector[i] += seconds / b->n_contributions;
        b->codec[i] += do_codec(load, o, received) / b->n_contributions;
    }
    return 0;
}

/* The first steps are not measured, because they wait for memory to be mapped. */
static int warm_up(const struct sim *s, struct bench *b, struct err *e)
{
    while (b->n < b->n_sharers)
        if (measure_round(s, b, e) < 0)
            return e->code;
    b->n = 0;
    return 0;
}

static int measure_all(struct sim *s, struct bench *b, struct err *e)
{
    size_t len = s->workload->n_params * sizeof(float);
    double begun;

    if (warm_up(s, b, e) < 0)
        return e->code;
    begun = clock_now();
    while (b->n < MEASURED_LEAST || (b->n < MEASURED_MOST && clock_now() - begun < MEASURED_S))
        if (measure_round(s, b, e) < 0)
            return e->code;
    s->steps = range_of(b->step, b->n);
    s->eval_time_s = measure_evaluation(s, &b->sharers[0]);
    s->codec_rate = (double)len / middle_of(b->codec, b->n);
    s->overhead = overhead_of(middle_of(b->message, b->n), middle_of(b->vector, b->n), len);
    return 0;
}

static int sharer_open(const struct sim *s, struct sharer *o, int n_contributions, struct err *e)
{
    size_t n = s->workload->n_params;

    o->params = calloc((size_t)(3 + n_contributions) * n, sizeof *o->params);
    if (!o->params)
        return err_set(e, ERR_NOMEM, "no memory to measure a step");
    o->grads = o->params + n;
    o->sum = o->grads + n;
    o->received = o->sum + n;
    s->workload->ops->begin(s->workload, o->params);
    return step_optimizer_new(&o->optimizer, &s->set, s->layers, s->n_layers, 0, s->workload->n_trained, e);
}

static int at_most(int n, int most)
{
    return n < most ? n : most;
}

static int bench_open(const struct sim *s, struct bench *b, struct err *e)
{
    int n = s->set.node_count, processors = s->how.processors;
    bool is_star = codec_is_star(s->codec.plugin, s->set.server_count);

    b->n_sharers = processors > 0 ? at_most((n + processors - 1) / processors, SHARERS_MOST) : 1;
    b->n_contributions = is_star || n == 1 ? 1 : at_most(n - 1, CONTRIBUTIONS_MOST);
    if (s->workload->n_params >
        CACHES_MOST / sizeof(float) / (size_t)(b->n_sharers * (3 + b->n_contributions)))
        b->n_sharers = b->n_contributions = 1;
    for (int i = 0; i < b->n_sharers; i++)
        if (sharer_open(s, &b->sharers[i], b->n_contributions, e) < 0)
            return e->code;
    return 0;
}

static void bench_clear(struct bench *b)
{
    sim_wire_close(&b->wire);
    for (int i = 0; i < b->n_sharers; i++) {
        optimizer_free(b->sharers[i].optimizer);
        free(b->sharers[i].params);
    }
}

/* Returns the number of measuring processes: nodes that share processors and compute at the same time, at
 * most the processors of this machine. */
static int ring_size(const struct sim *s)
{
    cpu_set_t own;
    int here = sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 1;
    int n = at_most(at_most(s->how.processors, s->set.node_count), at_most(here, RING_MOST));

    return n > 1 ? n : 1;
}

/* Repeats until this process' parent is done or has ended. */
static _Noreturn void keep_measuring(const struct sim *s, struct bench *b)
{
    struct err e;

    while (measure_round(s, b, &e) == 0)
        b->n %= MEASURED_MOST;
    _exit(0);
}

static void close_wires(struct sim_wire *wires, int n)
{
    for (int k = 0; k < n; k++)
        sim_wire_close(&wires[k]);
}

/* The first of `n` processes, which is this one, has wires[0], and each of the others its own. */
static int ring_start(const struct sim *s, struct bench *b, struct child *others, int n, struct err *e)
{
    struct sim_wire wires[RING_MOST];
    int rc = 0;

    if (!s->how.overhead[0] && sim_ring_open(wires, n, e) < 0)
        return e->code;
    for (int k = 0; s->how.overhead[0] && k < n; k++)
        wires[k] = SIM_NO_WIRE;
    for (int k = 1; k < n && rc == 0; k++) {
        rc = child_fork(&others[k], false, e);
        if (rc > 0) {
            b->wire = wires[k];
            wires[k] = SIM_NO_WIRE;
            close_wires(wires, n);
            keep_measuring(s, b);
        }
    }
    b->wire = wires[0];
    close_wires(wires + 1, n - 1);
    return rc;
}

/* Sets steps, eval_time_s, codec_rate and overhead. */
static int measure_costs(struct sim *s, struct err *e)
{
    struct child others[RING_MOST] = {0};
    struct bench b = {0};
    int rc;

    b.wire = SIM_NO_WIRE;
    rc = bench_open(s, &b, e);
    if (rc == 0)
        rc = ring_start(s, &b, others, ring_size(s), e);
    if (rc == 0)
        rc = measure_all(s, &b, e);
    for (int k = 0; k < RING_MOST; k++)
        if (others[k].pid > 0)
            child_end(&others[k], 0);
    bench_clear(&b);
    return rc;
}

double sim_steps_text(char *out, size_t size, const struct sim_steps *t)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < t->n; i++) {
        n += snprintf(out + n, size - (size_t)n, "%s%.9g", i > 0 ? "," : "", t->s[i]);
        sum += t->s[i];
    }
    return sum / t->n;
}

void sim_overhead_text(char *out, size_t size, const struct sim_overhead *o)
{
    double us = o->message_s * 1e6;

    if (o->bytes_per_s > 0)
        snprintf(out, size, "%.6gGbit,%.6gus", o->bytes_per_s * 8e-9, us);
    else
        snprintf(out, size, "any,%.6gus", us);
}

/* As run.json has it. */
static double rounded(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", v);
    return strtod(text, NULL);
}

/* Rounds measured costs to the digits that the summary has, so that a simulation with these values as options
 * gives the same result: a time that differs in its last bit may reverse the order of two messages. A
 * measured value that no option can have stays as it is. */
static void round_costs(struct sim *s)
{
    char steps[SIMULATION_TEXT], overhead[64];
    struct err ignored;

    sim_steps_text(steps, sizeof steps, &s->steps);
    sim_overhead_text(overhead, sizeof overhead, &s->overhead);
    s->eval_time_s = rounded(s->eval_time_s);
    s->codec_rate = rounded(s->codec_rate / 1e6) * 1e6;
    sim_steps_parse(&s->steps, steps, &ignored);
    sim_overhead_parse(&s->overhead, overhead, &ignored);
}

/* A program's functions take so long that its codec and messages hardly count. */
static int measure_program(struct sim *s, struct err *e)
{
    struct workload *load = s->workload;

    if (s->how.step_time[0] && s->how.eval_time_s > 0)
        return 0;
    if (load->ops->measure(load, &s->steps.s[0], &s->eval_time_s, e) < 0)
        return e->code;
    round_costs(s);
    return 0;
}

static int measure_network(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;

    if (how->step_time[0] && how->eval_time_s > 0 && how->codec_rate_mbps > 0 && how->overhead[0])
        return 0;
    if (measure_costs(s, e) < 0)
        return e->code;
    round_costs(s);
    return 0;
}

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;

    s->steps = (struct sim_steps){.n = 1}; /* which take no time with stand-ins */
    if (how->gradients == 0 && (s->workload->ops->measure ? measure_program : measure_network)(s, e) < 0)
        return e->code;
    if (how->step_time[0] && sim_steps_parse(&s->steps, how->step_time, e) < 0)
        return e->code;
    if (how->eval_time_s > 0)
        s->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return how->overhead[0] ? sim_overhead_parse(&s->overhead, how->overhead, e) : 0;
}
