/* check_result -- compares the result and the cost of rounds with the codec's declarations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"
#include "runner/exchange/exchange_private.h"
#include "runner/mesh/frame.h"
#include "shared/plugin/codec_options.h"

struct course { /* of a job: gradients given to the codec, and its results */
    const struct conform_check *check;
    double sums[CHECK_STEPS][CHECK_PARAMS];                     /* of all workers' gradients */
    float params[CHECK_WORKERS][CHECK_STEPS + 1][CHECK_PARAMS]; /* before each step, and at the end */
};

static void record_step(void *owner, const struct trainer_batch *b, const float *params, const float *grads)
{
    struct course *course = owner;

    memcpy(course->params[b->node][b->step], params, sizeof course->params[0][0]);
    for (size_t i = 0; i < CHECK_PARAMS; i++)
        course->sums[b->step][i] += (double)grads[i];
}

/* Returns the steps from one exchange to the next. */
static uint64_t interval(const struct conform_check *k)
{
    return codec_common_of(k->plugin) ? (uint64_t)k->set.local_steps : 1;
}

static const char *name_of(enum codec_result r)
{
    static const char *const names[] = {[CODEC_MEAN_OF_GRADIENTS] = "the mean of all gradients",
                                        [CODEC_SUM_OF_GRADIENTS] = "the sum of all gradients",
                                        [CODEC_MEAN_OF_PARAMETERS] = "the mean of all parameters"};

    return names[r];
}

/* All workers begin step `from` with the same weights; checks that each has the declared ones at step `to`.
 * The mean of the parameters of workers that start with equal weights is these weights minus the mean of
 * their gradients. Each holder of a block has added its gradient. */
static int hold(const struct course *c, uint64_t from, uint64_t to, struct err *e)
{
    const struct conform_check *k = c->check;
    double n = codec_result(k->plugin) == CODEC_SUM_OF_GRADIENTS ? 1 : k->sim.blocks.n_blocks;
    double part = 1 / (n * k->sim.blocks.redundancy);

    for (size_t i = 0; i < CHECK_PARAMS; i++) {
        double right = (double)c->params[0][from][i];

        for (uint64_t s = from; s < to; s++)
            right -= CHECK_LEARN_RATE * part * c->sums[s][i];
        for (int w = 0; w < k->set.node_count; w++) {
            double is = (double)c->params[w][to][i];

            if (!(fabs(is - right) <= 1e-5 * (1 + fabs(right))))
                return err_set(e, ERR_CODEC,
                               "worker %d after %llu steps: parameter %zu is %.7g, with %s it would be %.7g",
                               w, (unsigned long long)to, i, is, name_of(codec_result(k->plugin)), right);
        }
    }
    return 0;
}

static int run_rule(struct conform_check *k, struct course *c, struct err *e)
{
    memset(c->sums, 0, sizeof c->sums);
    check_receives_gradients(k, record_step, c);
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    for (int i = 0; i < k->set.node_count; i++)
        memcpy(c->params[i][CHECK_STEPS], k->sim.nodes[i].params, sizeof c->params[0][0]);
    for (uint64_t from = 0, to; from < CHECK_STEPS; from = to) {
        to = from + interval(k) < CHECK_STEPS ? from + interval(k) : CHECK_STEPS;
        if (hold(c, from, to, e) < 0)
            return e->code;
    }
    return 0;
}

static int result_is_right(struct conform_check *k, struct err *e)
{
    struct course *c;
    int rc;

    if (!check_is_of_mean(k))
        return CHECK_IS_NOT_FOR_IT;
    c = malloc(sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for the course of a job");
    c->check = k;
    rc = run_rule(k, c, e);
    free(c);
    return rc;
}

int check_result(struct conform_check *k, struct err *e)
{
    enum codec_result result = codec_result(k->plugin);

    if (result == CODEC_OWN_RESULT || result == CODEC_EQUAL_RESULT) {
        err_set(e, ERR_CODEC, "it declares no formula (.result in CODEC_MORE)");
        return CHECK_IS_NOT_FOR_IT;
    }
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, result_is_right, e);
}

/* Sums over the codecs of a worker: one for each server's range. */
static struct codec_cost declared(const struct conform_check *k, struct sim_node *n)
{
    struct codec_cost sum = {0, 0};
    uint64_t times = codec_more(k->plugin)->events ? CHECK_STEPS : exchange_rounds(n->x);
    struct channel *ch;

    for (int i = 0; (ch = exchange_channel(n->x, i)) != NULL; i++) {
        struct codec_cost one = n->x->path ? n->x->path->cost(ch) : codec_more(k->plugin)->sends(&ch->codec);

        sum.messages += times * one.messages;
        sum.bytes += times * one.bytes;
    }
    return sum;
}

static int cost_is_right(struct conform_check *k, struct err *e)
{
    const struct combine_path *path = k->sim.nodes[0].x->path;

    if (path && !path->cost)
        return CHECK_IS_NOT_FOR_IT;
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    for (int i = 0; i < k->sim.n_nodes; i++) {
        struct sim_node *n = &k->sim.nodes[i];
        const struct exchange_totals *t = exchange_totals(n->x);
        struct codec_cost cost = declared(k, n);
        uint64_t bytes = t->sent_bytes - FRAME_BYTES * t->sent_messages;

        if (n->node < 0 && codec_more(k->plugin)->events)
            continue; /* a server takes no steps */
        if (t->sent_messages != cost.messages || bytes != cost.bytes)
            return err_set(e, ERR_CODEC,
                           "node %d sent %llu messages (%llu bytes) in %d steps; its .sends declares %llu "
                           "messages (%llu bytes)",
                           n->node, (unsigned long long)t->sent_messages, (unsigned long long)bytes,
                           CHECK_STEPS, (unsigned long long)cost.messages, (unsigned long long)cost.bytes);
    }
    return 0;
}

int check_cost(struct conform_check *k, struct err *e)
{
    if (!k->plugin->combine && !codec_more(k->plugin)->sends) {
        err_set(e, ERR_CODEC, "it declares no number of bytes (.sends in CODEC_MORE)");
        return CHECK_IS_NOT_FOR_IT;
    }
    /* In asgd the number of contributions in a round, and so of a server's answers, is not known
     * beforehand. */
    return check_jobs(k, CHECK_STEPS, codec_more(k->plugin)->events ? CHECK_EITHER : CHECK_SSGD,
                      cost_is_right, e);
}
