#include "sim/sim.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/collective/collective.h"
#include "shared/base/file.h"
#include "shared/records/weights.h"

/* Far more events than a rule needs before a worker goes on: of each node, at once and in each second, and of
 * each pair of nodes for each chunk of a vector. */
enum { NODE_EVENTS = 100000, PAIR_EVENTS = 100 };

atomic_bool sim_interrupted;

static const struct codec_plugin *plugin_of(const struct sim *s, int node)
{
    return node < 0 && s->server_codec.plugin ? s->server_codec.plugin : s->codec.plugin;
}

static int carry(void *owner, struct sim_message *m, struct err *e)
{
    struct sim *s = owner;
    struct sim_node *n = &s->nodes[m->from];

    if (s->explorer)
        return sim_explorer_keep(s->explorer, m, e);
    sim_node_sent(s, n, m);
    return sim_wires_carry(s->wires, m, fmax(n->now, s->queue.now), e);
}

static void on_room(void *owner, int slot)
{
    struct sim *s = owner;

    if (!s->nodes[slot].has_room)
        s->waking[s->n_waking++] = slot;
    s->nodes[slot].has_room = true;
}

static void on_taken(void *owner, const struct sim_message *m)
{
    struct sim *s = owner;

    sim_node_took(s, &s->nodes[m->to], m);
}

static int load_codec(struct codec_library *l, const struct sim *s, const char *path, struct err *e)
{
    int rc;

    if (s->guard)
        phase_call(s->guard, PHASE_APPLY, STOPWATCH_LOAD);
    rc = codec_library_open(l, path, e);
    if (s->guard)
        phase_enter(s->guard, PHASE_COMPUTE);
    return rc;
}

/* Destructors run. */
static void unload_codec(struct codec_library *l, const struct sim *s)
{
    if (s->guard)
        phase_call(s->guard, PHASE_APPLY, STOPWATCH_UNLOAD);
    codec_library_close(l);
    if (s->guard)
        phase_enter(s->guard, PHASE_COMPUTE);
}

static int open_codecs(struct sim *s, const char *folder, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, folder, "codec.so", e) < 0 || load_codec(&s->codec, s, path, e) < 0)
        return e->code;
    if (s->set.server_count == 0 || strcmp(s->set.server_codec, s->set.codec) == 0)
        return 0;
    if (file_join(path, sizeof path, folder, "server_codec.so", e) < 0)
        return e->code;
    return load_codec(&s->server_codec, s, path, e);
}

static double speed_of(const struct sim_speed *speed, int node, struct rng *r)
{
    for (int i = 0; i < speed->n; i++)
        if (speed->of[i].node == node)
            return speed->of[i].speed;
    return speed->low + (speed->high - speed->low) * rng_uniform(r);
}

/* The exchange's `update`: the optimizer on a server. */
static int update_params(void *owner, size_t from, size_t n_params, uint64_t step, float lr_factor,
                         const double *norm, struct err *e)
{
    struct sim_node *n = owner;

    return step_apply(&n->step, from, n_params, n->grads + from, step, lr_factor, norm, e);
}

static int record_value(void *owner, const struct codec *c, const char *name, double value, struct err *e)
{
    struct sim_node *n = owner;

    return n->sim->records ? sim_record_codec(n->sim->records, n, c, name, value, e) : 0;
}

static int open_exchange(struct sim *s, struct sim_node *n, struct err *e)
{
    struct exchange_config cfg = exchange_config_of(&s->set, n->node);

    cfg.plugin = plugin_of(s, n->node);
    cfg.blocks = &s->blocks;
    cfg.n_params = s->workload->n_params;
    cfg.n_statistics = s->workload->n_params - s->workload->n_trained;
    cfg.n_test_sums = s->workload->n_test_sums;
    cfg.ranges = s->workload->ranges;
    cfg.params = n->params;
    cfg.grads = n->grads;
    cfg.layers = s->layers;
    cfg.n_layers = s->n_layers;
    cfg.update = update_params;
    cfg.record = record_value;
    cfg.owner = n;
    cfg.time = &n->now;
    cfg.process = s->guard;
    return exchange_new(&n->x, &cfg, e);
}

static int open_step(struct sim *s, struct sim_node *n, struct err *e)
{
    return step_open(&n->step,
                     &(struct step_config){.set = &s->set,
                                           .schedule = &s->schedule,
                                           .exchange = n->x,
                                           .layers = s->layers,
                                           .n_layers = s->n_layers,
                                           .node = n->node,
                                           .params = n->params,
                                           .n_params = s->workload->n_params,
                                           .n_trained = s->workload->n_trained,
                                           .momentum = s->workload->momentum,
                                           .n_blocks = n->n_blocks,
                                           .updates_outside = n->node >= 0 && s->workload->ops->train,
                                           .has_labels = s->workload->has_labels,
                                           .text = s->workload->text},
                     e);
}

static int open_worker(struct sim *s, struct sim_node *n, struct err *e)
{
    n->n_blocks = blocks_of(&s->blocks, n->node, s->waking); /* has room for all blocks */
    n->blocks = malloc((size_t)n->n_blocks * sizeof *n->blocks);
    if (!n->blocks)
        return err_set(e, ERR_NOMEM, "no memory for node %d", n->node);
    memcpy(n->blocks, s->waking, (size_t)n->n_blocks * sizeof *n->blocks);
    return 0;
}

static int open_node(struct sim *s, int slot, const struct sim_speed *speed, struct err *e)
{
    struct sim_node *n = &s->nodes[slot];

    *n = (struct sim_node){.sim = s,
                           .slot = slot,
                           .timer = INFINITY,
                           .node = mesh_node_at(s->set.node_count, slot),
                           .phase = SIM_WAITS,
                           .eval_loss = NAN,
                           .eval_accuracy = NAN};
    rng_init(&n->rng, s->timing, 0x5d, (uint64_t)slot);
    n->speed = speed_of(speed, n->node, &n->rng);
    n->params = calloc(s->workload->n_params, sizeof *n->params);
    n->grads = calloc(s->workload->n_params, sizeof *n->grads);
    if (!n->params || !n->grads)
        return err_set(e, ERR_NOMEM, "no memory for the %zu parameters of node %d", s->workload->n_params,
                       n->node);
    s->workload->ops->begin(s->workload, n->params);
    if ((n->node >= 0 && open_worker(s, n, e) < 0) || open_exchange(s, n, e) < 0)
        return e->code;
    assert(n->node < 0 || !s->workload->ops->train ||
           !exchange_reads_gradient(n->x)); /* job_submit refuses */
    return open_step(s, n, e);
}

static int find_machines(struct sim *s, struct err *e)
{
    s->machines = malloc((size_t)s->set.node_count * sizeof *s->machines);
    if (!s->machines)
        return err_set(e, ERR_NOMEM, "no memory for the machines of %d workers", s->set.node_count);
    for (int k = 0; k < s->set.node_count; k++)
        s->machines[k] = k / s->how.workers_per_machine * s->how.workers_per_machine;
    return 0;
}

static int open_network(struct sim *s, struct err *e)
{
    struct sim_link worker, server;
    struct mesh_sim_config cfg = {.n_workers = s->set.node_count,
                                  .n_servers = s->set.server_count,
                                  .is_star = codec_is_star(s->codec.plugin, s->set.server_count),
                                  .links_servers = exchange_links_servers(s->nodes[0].x),
                                  .carry = carry,
                                  .on_room = on_room,
                                  .on_taken = on_taken,
                                  .owner = s};

    for (int i = 0; i < s->n_nodes; i++)
        if (exchange_limit(s->nodes[i].x) > cfg.limit)
            cfg.limit = exchange_limit(s->nodes[i].x);
    if (sim_link_parse(&worker, s->how.link, e) < 0 ||
        sim_link_parse(&server, s->how.server_link[0] ? s->how.server_link : s->how.link, e) < 0 ||
        sim_cuts_parse(&s->cuts, s->how.cut, e) < 0 || find_machines(s, e) < 0 ||
        sim_wires_new(&s->wires, s->set.node_count, s->set.server_count, s->machines, &worker, &server,
                      &s->cuts, &s->queue, s->timing, e) < 0 ||
        mesh_sim_new(&s->net, &cfg, e) < 0)
        return e->code;
    for (int i = 0; i < s->n_nodes; i++) {
        s->nodes[i].mesh = mesh_sim_node(s->net, i);
        exchange_attach(s->nodes[i].x, s->nodes[i].mesh, s->machines);
    }
    return 0;
}

static int push_kills(struct sim *s, struct err *e)
{
    struct sim_kills kills;

    if (simulation_check(&s->how, s->set.node_count, s->set.server_count, e) < 0 ||
        sim_kills_parse(&kills, s->how.kill, e) < 0)
        return e->code;
    for (int i = 0; i < kills.n; i++)
        if (sim_queue_push(&s->queue,
                           (struct sim_event){.at = kills.of[i].at,
                                              .what = SIM_KILL,
                                              .slot = mesh_slot(s->set.node_count, kills.of[i].node)},
                           e) < 0)
            return e->code;
    return 0;
}

static int open_workload(struct sim *s, const char *folder, struct err *e)
{
    const struct tensor_view *t;
    size_t n;

    if (s->how.gradients > 0 ? workload_standin(&s->workload, s->how.gradients, s->set.seed, e) < 0
        : s->set.trainer[0]  ? workload_clients(&s->workload, &s->set, &s->how, &s->blocks, folder, e) < 0
                             : workload_network(&s->workload, &s->set, &s->blocks, folder, e) < 0)
        return e->code;
    if (s->workload->ops->gradient) /* psgd updates: to the rest of the job it is a network */
        s->set.trainer[0] = '\0';
    n = s->workload->ops->tensors(s->workload, NULL, &t);
    s->n_layers = (int)n;
    return exchange_list_layers(&s->layers, t, n, s->workload->n_trained, e) < 0 ? e->code
                                                                                 : sim_find_costs(s, e);
}

static int open_nodes(struct sim *s, struct err *e)
{
    struct sim_speed speed;

    if (sim_speed_parse(&speed, s->how.speed, e) < 0)
        return e->code;
    s->cause = -1;
    s->n_waking = 0;
    s->progress = (struct sim_progress){0};
    sim_processors_init(s);
    s->nodes = calloc((size_t)s->n_nodes, sizeof *s->nodes);
    if (!s->nodes)
        return err_set(e, ERR_NOMEM, "no memory for %d nodes", s->n_nodes);
    for (int i = 0; i < s->n_nodes; i++)
        if (open_node(s, i, &speed, e) < 0)
            return e->code;
    return open_network(s, e) < 0 ? e->code : push_kills(s, e);
}

static int open_all(struct sim *s, const char *folder, struct err *e)
{
    if (settings_blocks(&s->blocks, &s->set, e) < 0 || schedule_parse(&s->schedule, s->set.schedule, e) < 0 ||
        open_codecs(s, folder, e) < 0 || open_workload(s, folder, e) < 0 ||
        sim_straggler_parse(&s->straggler, s->how.straggler, e) < 0)
        return e->code;
    s->n_nodes = s->set.node_count + s->set.server_count;
    s->waking = malloc((size_t)(s->n_nodes + s->blocks.n_blocks) * sizeof *s->waking);
    s->model = malloc(s->workload->n_params * sizeof *s->model);
    if (!s->waking || !s->model)
        return err_set(e, ERR_NOMEM, "no memory for %d nodes", s->n_nodes);
    return open_nodes(s, e);
}

int sim_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *folder,
             struct stopwatch *guard, struct err *e)
{
    *s = (struct sim){
        .set = *set, .how = *how, .timing = how->timing_seed ? how->timing_seed : set->seed, .guard = guard};
    s->set.checkpoint_every = s->set.checkpoint_steps = 0; /* a simulation writes none */
    sim_queue_init(&s->queue, s->timing);
    if (open_all(s, folder, e) == 0)
        return 0;
    sim_close(s);
    return e->code;
}

int sim_begin(struct sim *s, struct err *e)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (sim_node_begin(s, &s->nodes[i], e) < 0)
            return e->code;
    return 0;
}

static int wake_all(struct sim *s, struct err *e)
{
    for (int i = 0; i < s->n_nodes; i++) {
        struct sim_node *n = &s->nodes[i];

        if (sim_queue_push(&s->queue, (struct sim_event){.at = 0, .what = SIM_WAKE, .slot = i}, e) < 0)
            return e->code;
        n->is_busy = true;
    }
    return 0;
}

static int kill_node(struct sim *s, struct sim_node *n, struct err *e)
{
    if (sim_node_is_over(n))
        return 0;
    n->phase = SIM_KILLED;
    n->ended_at = s->queue.now;
    if (s->set.on_node_loss == NODE_LOSS_ABORTS && s->cause < 0)
        s->cause = n->slot;
    return mesh_sim_kill(s->net, n->slot, e);
}

static int deliver(struct sim *s, struct sim_message *m, struct err *e)
{
    struct sim_node *to = &s->nodes[m->to];

    if (sim_wires_end(s->wires, m, e) < 0)
        return e->code;
    mesh_sim_deliver(s->net, m);
    return sim_node_drive(s, to, e);
}

static int process_event(struct sim *s, const struct sim_event *ev, struct err *e)
{
    switch (ev->what) {
    case SIM_WAKE:
        s->nodes[ev->slot].is_busy = false;
        return sim_node_drive(s, &s->nodes[ev->slot], e);
    case SIM_TIMER:
        s->nodes[ev->slot].timer = INFINITY;
        s->nodes[ev->slot].has_room = true;
        return sim_node_drive(s, &s->nodes[ev->slot], e);
    case SIM_ARRIVE:
        return sim_wires_arrive(s->wires, ev->message, e);
    case SIM_DELIVER:
        return deliver(s, ev->message, e);
    case SIM_KILL:
        return kill_node(s, &s->nodes[ev->slot], e);
    case SIM_PART:
        return mesh_sim_part(s->net, ev->slot, ev->other, e) < 0 ? e->code
               : sim_node_drive(s, &s->nodes[ev->slot], e) < 0   ? e->code
                                                                 : sim_node_drive(s, &s->nodes[ev->other], e);
    }
    return 0;
}

/* Fails all nodes that have not ended. `why` completes "it waits for a message, ...". */
static void end_waiting(struct sim *s, const char *why)
{
    char what[128];
    struct err e;

    for (int i = 0; i < s->n_nodes; i++) {
        struct sim_node *n = &s->nodes[i];

        if (sim_node_is_over(n))
            continue;
        exchange_waits_for(n->x, what, sizeof what);
        if (n->phase == SIM_BEGINS && exchange_must_wait(n->x))
            snprintf(what, sizeof what, "room for messages to its peers");
        err_set(&e, ERR_TIMEOUT, "it waits for %s%s", what, why);
        sim_node_fail(s, n, &e);
    }
}

void sim_end_hanging(struct sim *s)
{
    end_waiting(s, ", but there are no more events");
}

static void count_event(struct sim *s, enum sim_what what)
{
    s->progress.n_events++;
    s->progress.n_timers += what == SIM_TIMER;
    s->progress.n_messages += what == SIM_DELIVER;
}

/* sim_run() has the formula. */
static bool is_stalled(const struct sim *s)
{
    const struct sim_progress *p = &s->progress;
    double n = s->n_nodes, busy_s = fmin(p->busy, s->queue.now) - p->went_on;
    double chunks = 1 + (double)s->workload->n_params * sizeof(float) / COLLECTIVE_CHUNK;

    if (p->n_events <= NODE_EVENTS)
        return false;
    return (double)p->n_events > n * NODE_EVENTS * (1 + fmax(busy_s, 0)) + n * n * PAIR_EVENTS * chunks;
}

/* Names the step of the worker that is behind the others. */
static void end_stalled(struct sim *s)
{
    const struct sim_progress *p = &s->progress;
    const struct sim_node *last = NULL;
    char why[640];

    for (int i = 0; i < s->set.node_count; i++)
        if (!sim_node_is_over(&s->nodes[i]) && (!last || s->nodes[i].step.n_done < last->step.n_done))
            last = &s->nodes[i];
    snprintf(
        why, sizeof why,
        ", but no worker has gone on from %.6g s to %.6g s of simulated time, in step %llu; meanwhile the "
        "rule's timers have expired %llu times and %llu messages have arrived, and %llu messages are "
        "queued. A rule must let workers go on: it may not set a timer at each on_wake, or answer each "
        "message, without an end, and may not send more than the links carry",
        fmax(p->went_on, fmin(p->busy, s->queue.now)), s->queue.now,
        (unsigned long long)(last ? last->step.n_done : s->nodes[0].step.n_done),
        (unsigned long long)p->n_timers, (unsigned long long)p->n_messages,
        (unsigned long long)mesh_sim_queued(s->net));
    end_waiting(s, why);
}

int sim_tell_waiting(struct sim *s, struct err *e)
{
    int n = 0;

    for (int i = 0; i < s->n_nodes; i++) {
        int rc = sim_node_is_over(&s->nodes[i]) ? 0 : mesh_sim_tell(s->net, i, e);

        if (rc < 0)
            return rc;
        n += rc;
    }
    return n;
}

/* Returns 1; 0: there are no more events; or a code. */
static int next_event(struct sim *s, struct sim_event *ev, struct err *e)
{
    if (sim_queue_pop(&s->queue, ev))
        return 1;
    return sim_tell_waiting(s, e) < 0 ? e->code : sim_queue_pop(&s->queue, ev);
}

int sim_run(struct sim *s, struct err *e)
{
    struct sim_event ev;
    int rc;

    if (sim_begin(s, e) < 0 || wake_all(s, e) < 0)
        return e->code;
    while ((rc = next_event(s, &ev, e)) > 0) {
        count_event(s, ev.what);
        if (is_stalled(s)) {
            end_stalled(s);
            return 0;
        }
        if (process_event(s, &ev, e) < 0)
            return e->code;
        while (s->n_waking > 0)
            if (sim_node_drive(s, &s->nodes[s->waking[--s->n_waking]], e) < 0)
                return e->code;
        if (flag_is_up(&sim_interrupted))
            return err_set(e, ERR_CANCELLED, "stopped by a signal");
    }
    sim_end_hanging(s);
    return rc;
}

bool sim_has_succeeded(const struct sim *s)
{
    return s->cause < 0;
}

const float *sim_model_of(const struct sim *s, const struct sim_node *n)
{
    return exchange_model(n->x, s->model) ? s->model : n->params;
}

bool sim_weights_sha256(uint8_t out[SHA256_BYTES], const struct sim *s, const struct sim_node *n)
{
    const float *w = sim_model_of(s, n);

    if (s->workload->spec)
        return weights_sha256(out, s->workload->spec, w);
    sha256(out, w, s->workload->n_trained * sizeof *w);
    return true;
}

double sim_time(const struct sim *s)
{
    double last = 0;

    for (int i = 0; i < s->n_nodes; i++)
        last = fmax(last, s->nodes[i].ended_at);
    return last;
}

bool sim_models_agree(const struct sim *s)
{
    uint8_t first[SHA256_BYTES], own[SHA256_BYTES];
    bool has_first = false;

    for (int i = 0; i < s->set.node_count; i++) {
        if (s->nodes[i].phase != SIM_DONE)
            continue;
        sha256(own, sim_model_of(s, &s->nodes[i]), s->workload->n_trained * sizeof(float));
        if (has_first && memcmp(first, own, sizeof own) != 0)
            return false;
        memcpy(first, own, sizeof own);
        has_first = true;
    }
    return has_first;
}

bool sim_models_are_finite(const struct sim *s)
{
    for (int i = 0; i < s->set.node_count; i++)
        if (s->nodes[i].phase == SIM_DONE &&
            !isfinite(gradient_norm(s->nodes[i].params, s->workload->n_params)))
            return false;
    return true;
}

static void node_clear(struct sim_node *n)
{
    exchange_free(n->x);
    step_close(&n->step);
    free(n->params);
    free(n->grads);
    free(n->blocks);
    free(n->e);
}

static void close_nodes(struct sim *s)
{
    for (int i = 0; s->nodes && i < s->n_nodes; i++)
        node_clear(&s->nodes[i]);
    free(s->nodes);
    s->nodes = NULL;
    sim_queue_clear(&s->queue);
    mesh_sim_free(s->net);
    s->net = NULL;
    sim_wires_free(s->wires);
    s->wires = NULL;
    free(s->machines);
    s->machines = NULL;
}

int sim_restart(struct sim *s, struct err *e)
{
    close_nodes(s);
    sim_queue_init(&s->queue, s->timing);
    return open_nodes(s, e);
}

/* For the processes of a training program; "": the simulation has succeeded. */
static void describe_failure(char *out, size_t size, const struct sim *s)
{
    const struct err *e = s->nodes && s->cause >= 0 ? s->nodes[s->cause].e : NULL;
    bool has_ended = s->nodes && s->cause < 0;

    for (int i = 0; has_ended && i < s->n_nodes; i++)
        has_ended = sim_node_is_over(&s->nodes[i]);
    if (has_ended)
        out[0] = '\0';
    else if (e)
        snprintf(out, size, "%s", e->text);
    else
        snprintf(out, size, "the simulation has %s",
                 flag_is_up(&sim_interrupted) ? "been stopped by a signal" : "failed");
}

void sim_close(struct sim *s)
{
    char why[sizeof s->why.text];

    describe_failure(why, sizeof why, s);
    close_nodes(s);
    if (s->workload)
        s->workload->ops->free(s->workload, why[0] ? why : NULL);
    free(s->waking);
    free(s->model);
    free(s->layers);
    blocks_clear(&s->blocks);
    unload_codec(&s->codec, s);
    if (s->server_codec.plugin)
        unload_codec(&s->server_codec, s);
    *s = (struct sim){0};
}
