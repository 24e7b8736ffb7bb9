/* check_restore -- saves a job after one of its steps, as checkpoints do, on workers and on servers, and
 * resumes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"
#include "runner/exchange/exchange_state.h"

enum { SAVED_AT = 7, FILE_NAME = 64 };

/* The state of one node in addition to the file written by its exchange. */
struct saved_node {
    float params[CHECK_PARAMS], moments[OPTIMIZER_TENSORS][CHECK_PARAMS];
    uint64_t n_updates;
};

struct saved {
    struct conform_check *check;
    struct saved_node nodes[CHECK_NODES];
    bool has_servers;
    float last[CHECK_WORKERS][CHECK_PARAMS]; /* of the uninterrupted job */
    struct err e;                            /* of a save that failed */
    int rc;
};

static void name_file(char out[FILE_NAME], int node)
{
    snprintf(out, FILE_NAME, "saved%d.safetensors", node);
}

static int write_exchange(const struct sim_node *n, uint64_t step, struct err *e)
{
    struct exchange_state state = {0};
    char name[FILE_NAME];
    int rc;

    name_file(name, n->node);
    if (exchange_save(&state, n->x, step, e) < 0)
        return e->code;
    rc = tensor_file_write(name, state.tensors, state.n, NULL, e);
    exchange_state_clear(&state);
    return rc;
}

static void save_optimizer(struct saved_node *to, const struct optimizer *o)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(o, views);

    for (size_t i = 0; i < n; i++)
        memcpy(to->moments[i], views[i].data, tensor_bytes(&views[i]));
    to->n_updates = optimizer_steps(o);
}

static void restore_optimizer(struct optimizer *o, const struct saved_node *from)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(o, views);

    for (size_t i = 0; i < n; i++)
        memcpy(optimizer_vector(o, i), from->moments[i], tensor_bytes(&views[i]));
    optimizer_set_steps(o, from->n_updates);
}

static void save_node(struct saved *s, const struct sim_node *n)
{
    struct saved_node *to = &s->nodes[n->slot];

    if (s->rc < 0)
        return;
    memcpy(to->params, n->params, sizeof to->params);
    if (n->step.optimizer)
        save_optimizer(to, n->step.optimizer);
    s->rc = write_exchange(n, SAVED_AT, &s->e);
}

/* Called before a node passes the gradient of this step to its codec, so the last step is done. At the
 * first such call all servers have answered, and no node has sent a message of this step. */
static void save_params(void *owner, const struct trainer_batch *b, const float *params, const float *grads)
{
    struct saved *s = owner;
    const struct sim *sim = &s->check->sim;

    (void)params, (void)grads;
    if (b->step != SAVED_AT || b->i > 0)
        return;
    save_node(s, &sim->nodes[b->node]);
    for (int slot = sim->set.node_count; slot < sim->n_nodes && !s->has_servers; slot++)
        save_node(s, &sim->nodes[slot]);
    s->has_servers = true;
}

static int restore_node(struct sim_node *n, const struct saved *s, struct err *e)
{
    const struct saved_node *from = &s->nodes[n->slot];
    struct tensor_file f;
    char name[FILE_NAME];
    int rc;

    name_file(name, n->node);
    if (tensor_file_open(&f, name, e) < 0)
        return e->code;
    rc = exchange_restore(n->x, &f, SAVED_AT, e);
    tensor_file_close(&f);
    memcpy(n->params, from->params, sizeof from->params);
    if (n->step.optimizer)
        restore_optimizer(n->step.optimizer, from);
    if (n->node >= 0)
        n->step.n_done = SAVED_AT;
    return rc;
}

static int go_on(struct conform_check *k, const struct saved *s, struct err *e)
{
    check_receives_gradients(k, NULL, NULL);
    k->sim.timing = 2;
    if (sim_restart(&k->sim, e) < 0)
        return e->code;
    for (int slot = 0; slot < k->sim.n_nodes; slot++)
        if (restore_node(&k->sim.nodes[slot], s, e) < 0)
            return e->code;
    if (sim_run(&k->sim, e) < 0)
        return e->code;
    return check_ended(k, e) < 0 ? err_at(e, "restored after %d steps", SAVED_AT) : 0;
}

static int compare_params(const struct conform_check *k, const struct saved *s, struct err *e)
{
    for (int i = 0; i < k->set.node_count; i++)
        for (size_t p = 0; p < CHECK_PARAMS; p++)
            if (memcmp(&s->last[i][p], &k->sim.nodes[i].params[p], sizeof(float)) != 0)
                return err_set(e, ERR_CODEC,
                               "worker %d, parameter %zu: in the end %.9g after a restore at step %d, %.9g "
                               "without one: %s not contain all of the rule's state",
                               i, p, (double)k->sim.nodes[i].params[p], SAVED_AT, (double)s->last[i][p],
                               k->set.server_count > 0 ? "the states of workers and servers do"
                                                       : "its state does");
    return 0;
}

static int run_to_end(struct conform_check *k, struct saved *s, struct err *e)
{
    check_receives_gradients(k, save_params, s);
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    if (s->rc < 0) {
        *e = s->e;
        return s->rc;
    }
    for (int i = 0; i < k->set.node_count; i++)
        memcpy(s->last[i], k->sim.nodes[i].params, sizeof s->last[i]);
    return go_on(k, s, e) < 0 ? e->code : compare_params(k, s, e);
}

/* With an optimizer that has state. */
static int restored_is_the_same(struct conform_check *k, struct err *e)
{
    struct saved *s;
    int rc;

    if (exchange_can_save(k->sim.nodes[0].x, e) < 0)
        return CHECK_IS_NOT_FOR_IT;
    s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory to save a job");
    s->check = k;
    k->set.optimizer = OPTIMIZER_ADAM;
    rc = run_to_end(k, s, e);
    free(s);
    return rc;
}

int check_restore(struct conform_check *k, struct err *e)
{
    return check_jobs(k, CHECK_STEPS, CHECK_SSGD, restored_is_the_same, e);
}
