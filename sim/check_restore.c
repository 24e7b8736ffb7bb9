/* check_restore -- a job is saved behind one of its steps as a checkpoint saves it, and goes on from
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/exchange_state.h"
#include "sim/check.h"

enum { SAVED_AT = 7, FILE_NAME = 64 };

struct saved {
    struct check *check;
    float params[CHECK_WORKERS][CHECK_PARAMS], last[CHECK_WORKERS][CHECK_PARAMS];
    struct err e; /* of a save that failed */
    int rc;
};

static void name_file(char out[FILE_NAME], int node)
{
    snprintf(out, FILE_NAME, "saved-%d.safetensors", node);
}

static int write_state(const struct sim_node *n, uint64_t step, struct err *e)
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

/* A node is about to hand its codec the gradient of this step: the last one is done. */
static void save(void *owner, const struct trainer_batch *b, const float *params, const float *grads)
{
    struct saved *s = owner;

    (void)grads;
    if (b->step != SAVED_AT || s->rc < 0)
        return;
    memcpy(s->params[b->node], params, sizeof s->params[0]);
    s->rc = write_state(&s->check->sim.nodes[b->node], b->step, &s->e);
}

static int restore_node(struct sim_node *n, const struct saved *s, struct err *e)
{
    struct tensor_file f;
    char name[FILE_NAME];
    int rc;

    name_file(name, n->node);
    if (tensor_file_open(&f, name, e) < 0)
        return e->code;
    rc = exchange_restore(n->x, &f, SAVED_AT, e);
    tensor_file_close(&f);
    n->step = SAVED_AT;
    memcpy(n->params, s->params[n->node], sizeof s->params[0]);
    return rc;
}

static int go_on(struct check *k, const struct saved *s, struct err *e)
{
    check_hears_gradients(k, NULL, NULL);
    k->sim.timing = 2;
    if (sim_restart(&k->sim, e) < 0)
        return e->code;
    for (int i = 0; i < k->set.node_count; i++)
        if (restore_node(&k->sim.nodes[i], s, e) < 0)
            return e->code;
    if (sim_run(&k->sim, e) < 0)
        return e->code;
    return check_ended(k, e) < 0 ? err_at(e, "restored after %d steps", SAVED_AT) : 0;
}

static int compare(const struct check *k, const struct saved *s, struct err *e)
{
    for (int i = 0; i < k->set.node_count; i++)
        for (size_t p = 0; p < CHECK_PARAMS; p++)
            if (memcmp(&s->last[i][p], &k->sim.nodes[i].params[p], sizeof(float)) != 0)
                return err_set(
                    e, ERR_CODEC,
                    "restored after %d steps worker %d ends with parameter %zu at %.9g, and without at "
                    "%.9g: its state does not hold all that the rule remembers",
                    SAVED_AT, i, p, (double)k->sim.nodes[i].params[p], (double)s->last[i][p]);
    return 0;
}

static int restored_is_the_same(struct check *k, struct err *e)
{
    struct saved s = {.check = k};

    if (k->set.server_count > 0)
        return 0; /* what servers save is the runner's own test */
    if (exchange_can_save(k->sim.nodes[0].x, e) < 0)
        return CHECK_IS_NOT_FOR_IT;
    check_hears_gradients(k, save, &s);
    if (check_run(k, 1, e) < 0 || check_ended(k, e) < 0)
        return e->code;
    if (s.rc < 0) {
        *e = s.e;
        return s.rc;
    }
    for (int i = 0; i < k->set.node_count; i++)
        memcpy(s.last[i], k->sim.nodes[i].params, sizeof s.last[i]);
    return go_on(k, &s, e) < 0 ? e->code : compare(k, &s, e);
}

int check_restore(struct check *k, struct err *e)
{
    if (k->plugin->updates_on_server) {
        err_set(e, ERR_CODEC, "servers have the weights");
        return CHECK_IS_NOT_FOR_IT;
    }
    return check_jobs(k, CHECK_STEPS, false, restored_is_the_same, e);
}
