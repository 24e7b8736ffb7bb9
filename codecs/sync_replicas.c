/* sync_replicas -- synchronous SGD with backup workers: in each global step the server applies the mean of
 * the first `aggregate` gradients of that step, and drops those that come later:
 *     x <- x - eta (1 / N) sum of the first N of g_1 ... g_M,      N = aggregate, M - N = backups
 * A worker whose gradient counted waits for the end of the global step; one whose gradient came too late
 * gets the present weights at once. With the weights goes the number of the global step they belong to, as
 * which the next gradient counts: the token of TensorFlow's SyncReplicasOptimizer.
 *
 * Chen, Pan, Monga, Bengio and Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016, Algorithms 3 and
 * 4. Which gradients count depends on the speed of the workers, so the job needs --psgd asgd. Without either
 * option all count, as in ps. The update is a step of the job's optimizer, on the servers. When workers end,
 * fewer than N may be left: then all that are left count.
 *
 * Cost per step: 4 S + 4 n_params bytes to S servers, and as many back. A server's codec.csv has a row
 * "late" for each dropped gradient: the global steps that it came too late. */
#include "codec_events.h"

struct sync_replicas {
    int aggregate, backups;
    uint32_t global_step; /* on a worker: of its weights */
    int n_fresh;          /* server: gradients of this global step so far, added up in grads */
    float *waits;         /* server: (n_workers), 1 for a worker that waits for the end of the global step */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct sync_replicas, aggregate, 0, 0, 4096, "N; 0: all workers without the backups"),
    CODEC_OPTION(struct sync_replicas, backups, 0, 0, 4095, "M - N, workers that may be late"),
    {0},
};

static int sync_replicas_open(struct codec *c)
{
    struct sync_replicas *s = c->state;

    if (s->backups >= c->n_workers || s->aggregate > c->n_workers)
        return codec_fail(c,
                          "backups=%d leave no gradient, or aggregate=%d is too many: the job has %d workers",
                          s->backups, s->aggregate, c->n_workers);
    if (s->aggregate > 0 && s->backups > 0 && s->aggregate + s->backups != c->n_workers)
        return codec_fail(
            c, "aggregate=%d and backups=%d are not the %d workers of the job; one of them suffices",
            s->aggregate, s->backups, c->n_workers);
    if (s->aggregate == 0)
        s->aggregate = c->n_workers - s->backups;
    return codec_zeros(c, &s->waits, c->run->node < 0 ? (size_t)c->n_workers : 0);
}

static int sync_replicas_send(struct codec *c, int to, const float *v)
{
    const struct sync_replicas *s = c->state;
    struct wire_out *out = codec_message_to(c, to);

    wire_put_u32(out, s->global_step);
    codec_put_vector(c, out, v, c->n_params);
    return codec_send(c, to);
}

static int sync_replicas_on_grad(struct codec *c)
{
    int rc = sync_replicas_send(c, c->run->server, c->grads);

    return rc < 0 ? rc : CODEC_WAIT;
}

static int n_present(const struct codec *c)
{
    int n = 0;

    for (int w = 0; w < c->n_workers; w++)
        n += !codec_has_left(c, w);
    return n;
}

/* Server: ends the global step once enough gradients are there. */
static int end_step(struct codec *c)
{
    struct sync_replicas *s = c->state;
    int enough = s->aggregate < n_present(c) ? s->aggregate : n_present(c), rc;

    if (s->n_fresh == 0 || s->n_fresh < enough)
        return CODEC_GO;
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] /= (float)s->n_fresh;
    rc = codec_update(c);
    s->global_step++;
    s->n_fresh = 0;
    for (int w = 0; w < c->n_workers && rc == CODEC_GO; w++) {
        if (s->waits[w] > 0)
            rc = sync_replicas_send(c, w, c->params);
        s->waits[w] = 0;
    }
    return rc;
}

static int sync_replicas_add(struct codec *c, int from, uint32_t step, const float *g)
{
    struct sync_replicas *s = c->state;
    int rc;

    if (step < s->global_step) {
        rc = codec_record(c, "late", s->global_step - step);
        return rc < 0 ? rc : sync_replicas_send(c, from, c->params);
    }
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (s->n_fresh > 0 ? c->grads[i] : 0) + g[i];
    s->n_fresh++;
    s->waits[from] = 1;
    return end_step(c);
}

static int sync_replicas_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct sync_replicas *s = c->state;
    uint32_t step = wire_get_u32(in);
    const float *v = codec_get_vector(c, in, c->n_params);

    if (c->run->node < 0 ? from < 0 : from != c->run->server)
        return codec_fail(c, "node %d has no part in this exchange", from);
    if (!wire_ok(in) || (c->run->node < 0 && (step > s->global_step || s->waits[from] > 0)))
        return codec_fail(c, "node %d sent a malformed vector", from);
    if (c->run->node < 0)
        return sync_replicas_add(c, from, step, v);
    s->global_step = step;
    memcpy(c->params, v, c->n_params * sizeof *v);
    return CODEC_GO;
}

static int sync_replicas_on_lost(struct codec *c, int node)
{
    struct sync_replicas *s = c->state;

    if (c->run->node >= 0)
        return CODEC_WAIT; /* for the server */
    if (node >= 0)
        s->waits[node] = 0;
    return end_step(c);
}

static struct codec_cost sync_replicas_sends(const struct codec *c)
{
    return (struct codec_cost){1, 4 + 4 * c->n_params};
}

static const struct codec_events sync_replicas = {.on_grad = sync_replicas_on_grad,
                                                  .on_message = sync_replicas_on_message,
                                                  .on_lost = sync_replicas_on_lost};

CODEC_PLUGIN(.name = "sync_replicas", .source = "Chen et al. 2016, Algorithms 3 and 4",
             .equation = "x <- x - eta (1 / N) sum of the first N of g_1 ... g_M",
             .state_size = sizeof(struct sync_replicas), .options = options, .open = sync_replicas_open,
             .limits = CODEC_NO_SSGD,
             .more = CODEC_MORE(.cost = "each step 4 S + 4 n_params bytes to S servers, and as many back",
                                .events = &sync_replicas, .updates_on_server = true,
                                .compression = CODEC_LOSSY_PARAMS, .sends = sync_replicas_sends))
