#include "tests/lib/cluster.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/optimizer.h"
#include "runner/exchange/test_sum.h"
#include "shared/base/rng.h"
#include "shared/job/test_part.h"

enum { N_LAYERS = 3 };
static const float LR = CLUSTER_LR;

const char *test_build_dir(void)
{
    const char *b = getenv("BUILD");

    return b && b[0] ? b : "build";
}

void test_codec_path(char out[TEST_CODEC_PATH], const char *codec)
{
    if (strncmp(codec, "tests/", 6) == 0)
        snprintf(out, TEST_CODEC_PATH, "%s/tests/codecs/%s.so", test_build_dir(), codec + 6);
    else
        snprintf(out, TEST_CODEC_PATH, "%s/codecs/%s.so", test_build_dir(), codec);
}

static void must(int rc, const struct err *e)
{
    if (rc == 0)
        return;
    fprintf(stderr, "cluster: %s\n", e->text);
    abort();
}

float cluster_gradient(uint64_t step, int block, size_t i)
{
    struct rng r;

    rng_init(&r, step, (uint64_t)block, i);
    return rng_uniform(&r) - 0.5f;
}

float cluster_target(int block, size_t i)
{
    return (float)block + (float)i / 8;
}

double cluster_sum(int worker, uint64_t step, size_t i)
{
    return i < TEST_REAL_SUMS ? 1.0 / (double)(step + i + 3 * (size_t)worker)
                              : (double)(step * i + (size_t)worker);
}

static int update(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, const double *norm,
                  struct err *e)
{
    struct cluster_node *node = owner;
    float scale = 1;

    (void)step, (void)e;
    if (node->clip_norm > 0) {
        size_t n_trained = from + n < node->n_trained ? n : node->n_trained - from;

        scale = gradient_clip(norm ? *norm : gradient_norm(node->grads + from, n_trained), node->clip_norm);
    }
    for (size_t i = from; i < from + n; i++)
        node->params[i] -= LR * lr_factor * scale * node->grads[i];
    return 0;
}

static int record(void *owner, const struct codec *c, const char *name, double value, struct err *e)
{
    struct cluster_node *node = owner;

    (void)c, (void)e;
    snprintf(node->record.name, sizeof node->record.name, "%s", name);
    node->record.value = value;
    node->record.n++;
    return 0;
}

static const char *const layer_names[N_LAYERS] = {"layer0.dense.weight", "layer1.dense.weight",
                                                  "layer2.dense.weight"};

static void node_open(struct cluster *c, int slot)
{
    const struct cluster_config *cfg = &c->cfg;
    struct cluster_node *n = &c->nodes[slot];

    n->node = mesh_node_at(cfg->n_workers, slot);
    n->clip_norm = cfg->clip_norm;
    n->n_trained = cfg->n_params - cfg->n_statistics;
    n->params = calloc(cfg->n_params, sizeof *n->params);
    n->grads = calloc(cfg->n_params, sizeof *n->grads);
    for (size_t i = 0; i < cfg->n_params; i++)
        n->params[i] = (float)i / (float)cfg->n_params;
    for (size_t k = 0; k < N_LAYERS; k++)
        n->layers[k] = (struct codec_layer){.name = layer_names[k],
                                            .offset = cfg->n_params * k / N_LAYERS,
                                            .n = cfg->n_params * (k + 1) / N_LAYERS -
                                                 cfg->n_params * k / N_LAYERS};
    must(exchange_new(&n->x,
                      &(struct exchange_config){.plugin = c->lib->plugin,
                                                .options = cfg->options,
                                                .compress = cfg->compress,
                                                .compress_down = cfg->compress_down,
                                                .update = update,
                                                .record = record,
                                                .owner = n,
                                                .node = n->node,
                                                .n_workers = cfg->n_workers,
                                                .n_servers = cfg->n_servers,
                                                .blocks = &c->blocks,
                                                .is_sync = !cfg->is_asgd,
                                                .goes_on = cfg->goes_on > 0,
                                                .min_nodes = cfg->goes_on,
                                                .local_steps = cfg->local_steps,
                                                .n_steps = cfg->n_steps,
                                                .seed = cfg->seed,
                                                .shares_evaluations = cfg->target_accuracy > 0 ||
                                                                      cfg->patience > 0 ||
                                                                      cfg->shares_evaluations,
                                                .target_accuracy = cfg->target_accuracy,
                                                .patience = cfg->patience,
                                                .n_test_sums = cfg->n_test_sums,
                                                .overlap = cfg->overlap,
                                                .has_trainer = cfg->has_trainer,
                                                .saves = cfg->saves,
                                                .path = cfg->path,
                                                .aggregate = cfg->aggregate,
                                                .n_drawn = cfg->n_drawn,
                                                .clips = cfg->clip_norm > 0,
                                                .allreduce = cfg->allreduce,
                                                .n_params = cfg->n_params,
                                                .n_statistics = cfg->n_statistics,
                                                .params = n->params,
                                                .grads = n->grads,
                                                .layers = n->layers,
                                                .n_layers = N_LAYERS,
                                                .bucket = cfg->bucket},
                      &n->e),
         &n->e);
}

/* Servers update with update(). */
static void open_step(struct cluster *c, struct cluster_node *n)
{
    n->n_blocks = n->node < 0 ? 0 : blocks_of(&c->blocks, n->node, n->blocks);
    must(step_open(&n->step,
                   &(struct step_config){.set = &c->set,
                                         .schedule = &c->schedule,
                                         .exchange = n->x,
                                         .layers = n->layers,
                                         .n_layers = N_LAYERS,
                                         .node = n->node,
                                         .params = n->params,
                                         .n_params = c->cfg.n_params,
                                         .n_trained = c->cfg.n_params,
                                         .n_blocks = n->n_blocks},
                   &n->e),
         &n->e);
}

/* The job ends within its only epoch, by a number of steps. */
static void make_settings(struct cluster *c)
{
    struct err e = {0};

    must(schedule_parse(&c->schedule, "constant", &e), &e);
    c->set = (struct settings){.node_count = c->cfg.n_workers,
                               .server_count = c->cfg.n_servers,
                               .sync = c->cfg.is_asgd ? SYNC_ASGD : SYNC_SSGD,
                               .epochs = 1,
                               .steps_per_epoch = (int)c->cfg.n_steps + 1,
                               .max_steps = (int)c->cfg.n_steps,
                               .batch_size = 10,
                               .accumulate = 1,
                               .learn_rate = (double)LR,
                               .record_every = 1,
                               .eval_every = (int)c->cfg.eval_every};
}

enum { OPENED_MAX = 64 };

/* A codec is opened once and stays loaded: libFuzzer reads an object's counters until the end, and each
 * opening makes a copy of the object. */
const struct codec_library *cluster_library(const char *codec)
{
    static struct {
        char path[TEST_CODEC_PATH];
        struct codec_library lib;
    } opened[OPENED_MAX];
    char path[TEST_CODEC_PATH];
    struct err e = {0};
    size_t i = 0;

    test_codec_path(path, codec);
    while (i < OPENED_MAX && opened[i].lib.handle && strcmp(opened[i].path, path) != 0)
        i++;
    assert(i < OPENED_MAX);
    if (!opened[i].lib.handle) {
        must(codec_library_open(&opened[i].lib, path, &e), &e);
        strcpy(opened[i].path, path);
    }
    return &opened[i].lib;
}

void cluster_open(struct cluster *c, const struct cluster_config *cfg)
{
    struct err e = {0};

    *c = (struct cluster){.cfg = *cfg, .n_nodes = cfg->n_workers + cfg->n_servers};
    if (!c->cfg.redundancy)
        c->cfg.redundancy = 1;
    if (!c->cfg.local_steps)
        c->cfg.local_steps = 1;
    c->lib = cluster_library(cfg->codec);
    if (cfg->is_fed)
        must(blocks_init_shared(&c->blocks, cfg->n_workers, &e), &e);
    else
        must(blocks_init(&c->blocks, cfg->assignment, cfg->n_workers, c->cfg.redundancy, &e), &e);
    make_settings(c);
    c->nodes = calloc((size_t)c->n_nodes, sizeof *c->nodes);
    for (int i = 0; i < c->n_nodes; i++) {
        c->nodes[i].blocks = calloc((size_t)c->blocks.n_blocks + 1, sizeof *c->nodes[i].blocks);
        node_open(c, i);
        open_step(c, &c->nodes[i]);
    }
    c->net = mesh_mem_new(cfg->n_workers, cfg->n_servers, exchange_limit(c->nodes[0].x), cfg->seed);
    for (int i = 0; i < c->n_nodes; i++) {
        struct cluster_node *n = &c->nodes[i];

        n->mesh = mesh_mem_node(c->net, n->node);
        exchange_attach(n->x, n->mesh, NULL);
    }
}

static void end_node(struct cluster *c, struct cluster_node *n, bool well)
{
    n->phase = well ? NODE_DONE : NODE_FAILED;
    if (well)
        mesh_close(n->mesh, 0);
    else
        mesh_mem_kill(c->net, n->node);
}

/* From end to front, as layers are computed, and with `bucket` exchanged meanwhile. */
static int make_gradient(const struct cluster *c, struct cluster_node *n)
{
    bool overlaps = c->cfg.bucket > 0;
    int block = n->request.block;

    if (overlaps)
        must(exchange_on_backward(n->x, &n->e), &n->e);
    if (overlaps && !exchange_is_collecting(n->x))
        must(err_set(&n->e, ERR_INTERNAL, "nothing is asked for before the gradient is there"), &n->e);
    for (size_t i = c->cfg.n_params; i-- > 0;) {
        struct mesh_event ev;

        n->grads[i] = c->cfg.is_convex ? n->params[i] - cluster_target(block, i)
                                       : cluster_gradient(n->step.n_done, block, i);
        if (overlaps && i > 0 &&
            (exchange_on_ready(n->x, i, &n->e) < 0 || mesh_poll(n->mesh, &ev, 0, &n->e) < 0 ||
             worker_event(&n->worker, &ev, &n->e) < 0))
            return -1;
    }
    return 0;
}

static int compute_block(const struct cluster *c, struct cluster_node *n)
{
    const struct net_score score = {.n = 1};

    return make_gradient(c, n) < 0 ? -1 : worker_computed(&n->worker, n->grads, &score, &n->e);
}

static int evaluate_step(const struct cluster *c, struct cluster_node *n)
{
    uint64_t step = n->step.n_done;

    if (test_sum_is_used(n->x)) {
        for (size_t i = 0; i < c->cfg.n_test_sums; i++)
            test_sum_numbers(n->x)[i] = cluster_sum(n->node, step, i);
        return 0;
    }
    return worker_evaluated(&n->worker, (double)step, c->cfg.accuracy ? c->cfg.accuracy(n->node, step) : NAN,
                            &n->e);
}

/* Until the node waits, is done, or has a step to begin. */
static int advance_node(const struct cluster *c, struct cluster_node *n)
{
    int rc = 0;

    do {
        n->wants = worker_next(&n->worker, &n->request, &n->e);
        if (n->wants == WORKER_COMPUTES && n->request.i > 0)
            rc = compute_block(c, n);
        else if (n->wants == WORKER_EVALUATES)
            rc = evaluate_step(c, n);
        else if (n->wants == WORKER_SCORES)
            rc = worker_evaluated(&n->worker, test_sum_numbers(n->x)[0], NAN, &n->e);
        else if (n->wants < 0 || n->wants == WORKER_COMPUTES || n->wants == WORKER_ABSTAINS ||
                 n->wants == WORKER_WAITS || n->wants == WORKER_IS_DONE)
            return n->wants;
    } while (rc == 0);
    return rc;
}

static int begin_step(const struct cluster *c, struct cluster_node *n)
{
    if (n->wants == WORKER_COMPUTES && compute_block(c, n) < 0)
        return -1;
    return advance_node(c, n);
}

/* One turn of one node; false: nothing happened. */
static bool turn(struct cluster *c, struct cluster_node *n)
{
    struct mesh_event ev;
    bool is_waiting = worker_waits(&n->worker);
    int rc = 0;

    mesh_poll(n->mesh, &ev, 0, &n->e);
    if (ev.kind == MESH_NOTHING && (is_waiting || exchange_must_wait(n->x)))
        return false;
    if (ev.kind == MESH_NOTHING)
        rc = begin_step(c, n);
    else if ((rc = worker_event(&n->worker, &ev, &n->e)) == 0 && is_waiting && !worker_waits(&n->worker))
        rc = advance_node(c, n);
    if (rc < 0)
        end_node(c, n, false);
    else if (n->wants == WORKER_IS_DONE)
        end_node(c, n, true);
    return true;
}

static void begin_node(struct cluster *c, struct cluster_node *n)
{
    worker_open(&n->worker, &(struct worker_config){
                                .set = &c->set, .exchange = n->x, .step = &n->step, .blocks = n->blocks});
    must(advance_node(c, n) < 0 ? n->e.code : 0, &n->e);
}

static bool is_killed(const struct cluster_config *cfg, int node, uint64_t n_turns)
{
    return n_turns > 0 && ((n_turns == cfg->kill_at && node == cfg->kill_node) ||
                           (n_turns == cfg->kill_next_at && node == cfg->kill_node + 1));
}

bool cluster_run(struct cluster *c)
{
    struct rng rng;
    uint64_t n_turns = 0;

    rng_init(&rng, c->cfg.seed, 7, 7);
    for (int i = 0; i < c->n_nodes; i++)
        begin_node(c, &c->nodes[i]);
    for (;;) {
        bool happened = false, unfinished = false;
        int first = (int)rng_below(&rng, (uint32_t)c->n_nodes);

        for (int k = 0; k < c->n_nodes && !happened; k++) {
            struct cluster_node *n = &c->nodes[(first + k) % c->n_nodes];

            if (is_killed(&c->cfg, n->node, n_turns) && n->phase < NODE_DONE) {
                n->phase = NODE_KILLED;
                mesh_mem_kill(c->net, n->node);
                happened = true;
            }
            if (n->phase >= NODE_DONE)
                continue;
            unfinished = true;
            happened = happened || turn(c, n);
        }
        n_turns++;
        if (!happened)
            return !unfinished;
    }
}

void cluster_close(struct cluster *c)
{
    for (int i = 0; i < c->n_nodes; i++) {
        exchange_free(c->nodes[i].x);
        step_close(&c->nodes[i].step);
        free(c->nodes[i].blocks);
        free(c->nodes[i].params);
        free(c->nodes[i].grads);
    }
    free(c->nodes);
    mesh_mem_free(c->net);
    blocks_clear(&c->blocks);
}
