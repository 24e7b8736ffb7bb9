/* workload_clients -- the workload that is a function of a training program: client_pool.h has its processes.
 * A function that trains is called for a step of the job in which the worker takes part, one that gives
 * gradients for each block of a step, and then psgd updates as it updates a network. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/optimizer.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "sim/client_pool.h"
#include "sim/sim.h"

enum { MEASURED = 3 };

struct client_workload {
    struct workload base;
    const struct settings *set;
    struct client_pool *pool;
    char *arch;
    struct model_spec spec;
    float *initial;   /* (n_params) */
    float *evaluated; /* (n_params): of the latest evaluation, which nodes with equal params share */
    float *momentum;  /* of the statistics: 1 */
    struct tensor_view *views;
    bool has_evaluated;
    struct client_answer evaluation;
};

static void client_begin(struct workload *load, float *params)
{
    memcpy(params, ((struct client_workload *)load)->initial, load->n_params * sizeof *params);
}

static struct client_call call_of(const struct workload_batch *b, const float *params)
{
    return (struct client_call){
        .node = b->node, .block = b->block, .step = b->step, .lr_factor = b->lr_factor, .params = params};
}

static int client_start(struct workload *load, const struct workload_batch *b, const float *params,
                        struct err *e)
{
    const struct client_call c = call_of(b, params);

    return client_pool_begin(((struct client_workload *)load)->pool, &c, e);
}

static int take_call(struct workload *load, const struct workload_batch *b, const float *params, float *out,
                     struct client_answer *a, struct err *e)
{
    const struct client_call c = call_of(b, params);

    if (client_pool_take(((struct client_workload *)load)->pool, &c, out, a, e) < 0)
        return e->code;
    load->metrics = a->metrics;
    load->n_metrics = a->n_metrics;
    load->has_labels = load->has_labels || !isnan(a->accuracy);
    return 0;
}

/* The name of the first tensor that has a value which is not finite; NULL: none. */
static const char *find_nonfinite(const struct model_spec *m, const float *params)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (!gradient_is_finite(params + m->tensors[i].offset, m->tensors[i].n))
            return m->tensors[i].name;
    return NULL;
}

static int client_train(struct workload *load, const struct workload_batch *b, float *params,
                        struct step_result *result, double *lr, struct err *e)
{
    const struct client_workload *c = (const struct client_workload *)load;
    struct client_answer a;
    const char *tensor;

    if (take_call(load, b, params, params, &a, e) < 0)
        return e->code;
    tensor = find_nonfinite(&c->spec, params);
    if (tensor) {
        err_set(e, ERR_NUMERIC, "step %llu of worker %d: '%s' has values that are not finite after train()",
                (unsigned long long)b->step + 1, b->node, tensor);
        return err_hint(e, "A smaller learning rate, or a clipped gradient, may help. A function may leave a "
                           "round out: it returns the parameters that it got, and 0 samples.");
    }
    *result = (struct step_result){.n = a.n, .loss = a.loss, .accuracy = a.accuracy};
    *lr = a.lr * b->lr_factor;
    return 0;
}

static int client_gradient(struct workload *load, const struct workload_batch *b, const float *params,
                           float *grads, struct net_score *score, struct err *e)
{
    const struct client_workload *c = (const struct client_workload *)load;
    size_t batch = (size_t)c->set->batch_size;
    struct client_answer a;

    if (take_call(load, b, params, grads, &a, e) < 0)
        return e->code;
    if (a.n != batch) {
        err_set(e, ERR_TRAINER, "step %llu of worker %d: gradient() is of %zu samples, and --batch_size %zu",
                (unsigned long long)b->step + 1, b->node, a.n, batch);
        return err_hint(e, "Each gradient counts alike: compute it of all the indices, and give --batch_size "
                           "the number of samples.");
    }
    /* A network's gradient has the new values of statistics, a program's the old ones less the new ones. */
    for (size_t i = load->n_trained; i < load->n_params; i++)
        grads[i] = params[i] - grads[i];
    score->loss += a.loss * (double)a.n;
    score->n += a.n;
    score->n_right += isnan(a.accuracy) ? 0 : (size_t)lround(fmin(fmax(a.accuracy, 0), 1) * (double)a.n);
    return 0;
}

static int client_evaluate(struct workload *load, const float *params, uint64_t step, double *loss,
                           double *accuracy, struct err *e)
{
    struct client_workload *c = (struct client_workload *)load;
    const struct client_call call = {.step = step, .params = params};
    size_t bytes = load->n_params * sizeof *params;
    bool decides = c->set->target_accuracy > 0 || c->set->patience > 0;

    if (!c->has_evaluated || memcmp(c->evaluated, params, bytes) != 0) {
        c->has_evaluated = false;
        if (client_pool_evaluate(c->pool, &call, &c->evaluation, e) < 0)
            return e->code;
        memcpy(c->evaluated, params, bytes);
        c->has_evaluated = true;
    }
    *loss = c->evaluation.loss;
    *accuracy = c->evaluation.accuracy;
    load->metrics = c->evaluation.metrics;
    load->n_metrics = c->evaluation.n_metrics;
    if (c->evaluation.n > 0)
        return 0;
    if (!decides)
        return WORKLOAD_HAS_NO_TEST;
    return err_set(e, ERR_TRAINER, "client() has no evaluate=, and %s needs evaluations",
                   c->set->patience > 0 ? "--patience" : "--target-accuracy");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The first call of a program may take longer than the others. */
static int client_measure(struct workload *load, double *step_s, double *eval_s, struct err *e)
{
    struct client_workload *c = (struct client_workload *)load;
    const struct client_call call = {.lr_factor = 1, .params = c->initial};
    struct client_answer ignored;
    double seconds[MEASURED], begun;

    for (int i = 0; i < MEASURED; i++)
        if (client_pool_measure(c->pool, &call, &seconds[i], e) < 0)
            return e->code;
    qsort(seconds, MEASURED, sizeof *seconds, by_size);
    *step_s = seconds[MEASURED / 2];
    begun = clock_now();
    if (client_pool_evaluate(c->pool, &call, &ignored, e) < 0)
        return e->code;
    *eval_s = clock_now() - begun;
    return 0;
}

static size_t client_tensors(struct workload *load, const float *params, const struct tensor_view **out)
{
    struct client_workload *c = (struct client_workload *)load;

    for (int i = 0; i < c->spec.n_tensors; i++)
        weights_view(&c->views[i], &c->spec.tensors[i],
                     (params ? params : c->initial) + c->spec.tensors[i].offset);
    *out = c->views;
    return (size_t)c->spec.n_tensors;
}

static void client_free(struct workload *load, const char *why_failed)
{
    struct client_workload *c = (struct client_workload *)load;

    client_pool_close(c->pool, why_failed);
    model_spec_clear(&c->spec);
    free(c->base.ranges);
    free(c->arch);
    free(c->initial);
    free(c->evaluated);
    free(c->momentum);
    free(c->views);
    free(c);
}

static int read_values(struct client_workload *c, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    struct tensor_file f;
    int rc;

    if (file_join(path, sizeof path, folder, "weights.safetensors", e) < 0 ||
        tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = weights_check(&f, "", &c->spec, e);
    for (int i = 0; rc == 0 && i < c->spec.n_tensors; i++)
        weights_floats(c->initial + c->spec.tensors[i].offset, weights_find(&f, "", c->spec.tensors[i].name));
    tensor_file_close(&f);
    return rc;
}

static int open_model(struct client_workload *c, const char *folder, struct err *e)
{
    const struct settings *set = c->set;
    size_t n, n_statistics;

    if (model_spec_read(&c->spec, &c->arch, folder, e) < 0 ||
        placement_lay_out(&c->base.ranges, set->placement, &c->spec, set->server_count, e) < 0)
        return e->code;
    if (c->spec.is_reordered)
        return err_set(e, ERR_CONFIG,
                       "--placement round_robin orders parameters by server, and a training program has them "
                       "in its own order; leave it out");
    n = c->spec.n_params;
    n_statistics = n - c->spec.n_trained;
    c->initial = malloc(n * sizeof *c->initial);
    c->evaluated = malloc(n * sizeof *c->evaluated);
    c->momentum = malloc((n_statistics + 1) * sizeof *c->momentum);
    c->views = calloc((size_t)c->spec.n_tensors, sizeof *c->views);
    if (!c->initial || !c->evaluated || !c->momentum || !c->views)
        return err_set(e, ERR_NOMEM, "no memory for %zu parameters", n);
    for (size_t i = 0; i < n_statistics; i++)
        c->momentum[i] = 1;
    return read_values(c, folder, e);
}

int workload_clients(struct workload **out, const struct settings *set, const struct simulation *how,
                     const struct blocks *b, const char *folder, struct err *e)
{
    static const struct workload_ops training = {.begin = client_begin,
                                                 .start = client_start,
                                                 .train = client_train,
                                                 .evaluate = client_evaluate,
                                                 .measure = client_measure,
                                                 .tensors = client_tensors,
                                                 .free = client_free};
    static const struct workload_ops giving = {.begin = client_begin,
                                               .start = client_start,
                                               .gradient = client_gradient,
                                               .evaluate = client_evaluate,
                                               .measure = client_measure,
                                               .tensors = client_tensors,
                                               .free = client_free};
    struct client_workload *c = calloc(1, sizeof *c);
    const struct client_pool_config cfg = {.set = set,
                                           .blocks = b,
                                           .spec = &c->spec,
                                           .folder = folder,
                                           .python = how->trainer_python,
                                           .n_processes = how->client_processes};

    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a training program");
    c->set = set;
    if (open_model(c, folder, e) < 0 || client_pool_open(&c->pool, &cfg, e) < 0) {
        client_free(&c->base, e->text);
        return e->code;
    }
    c->base = (struct workload){.ops = client_pool_gives_gradients(c->pool) ? &giving : &training,
                                .n_params = c->spec.n_params,
                                .n_trained = c->spec.n_trained,
                                .momentum = c->spec.n_params > c->spec.n_trained ? c->momentum : NULL,
                                .arch = c->arch,
                                .ranges = c->base.ranges,
                                .spec = &c->spec};
    *out = &c->base;
    return 0;
}
