#include "submit/codecs/open_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/rng.h"
#include "shared/plugin/codec_options.h"
#include "shared/records/weights.h"

enum { TENSORS_MAX = MODEL_LAYERS_MAX * LAYER_TENSORS };

/* One check at a time: the process is the probe's, and ends after it. */
static struct {
    const struct open_check *t;
    struct rng rng;
    uint64_t seed;
    size_t bytes; /* allocated */
    char why[512];
    bool has_refused;
} check;

/* NULL: too much for a check. The process that this is ends soon, and frees it. */
static void *room(size_t n, size_t size)
{
    void *p = size > 0 && n <= (OPEN_CHECK_BYTES_MAX - check.bytes) / size ? calloc(n ? n : 1, size) : NULL;

    check.bytes += p ? n * size : 0;
    return p;
}

static int check_zeros(struct codec *c, float **at, size_t n)
{
    (void)c;
    *at = room(n, sizeof **at);
    return *at ? CODEC_GO : ERR_NOMEM;
}

static int check_array(struct codec *c, void *at, size_t n, size_t size)
{
    void *p = room(n, size);

    (void)c;
    memcpy(at, &p, sizeof p);
    return p ? CODEC_GO : ERR_NOMEM;
}

static void check_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    (void)c;
    rng_common(out, n, check.seed, key);
}

static float check_uniform(struct codec *c)
{
    (void)c;
    return rng_uniform(&check.rng);
}

static int check_fail(struct codec *c, const char *fmt, ...)
{
    va_list ap;

    (void)c;
    va_start(ap, fmt);
    vsnprintf(check.why, sizeof check.why, fmt, ap);
    va_end(ap);
    check.has_refused = true;
    return ERR_CODEC;
}

static void check_log(struct codec *c, const char *fmt, ...)
{
    (void)c;
    (void)fmt;
}

static bool check_holds(const struct codec *c, int block, int worker)
{
    return block >= 0 && block < c->run->n_blocks && worker >= 0 && worker < c->n_workers &&
           blocks_holds(check.t->blocks, block, worker);
}

static const struct codec_host host = {.zeros = check_zeros,
                                       .uniform = check_uniform,
                                       .log = check_log,
                                       .holds = check_holds,
                                       .array = check_array,
                                       .common = check_common};

/* Trained tensors, or running statistics, in the order of the parameters. */
static int list_layers(struct codec_layer *layers, char names[][TENSOR_NAME], int n, bool is_state,
                       const struct model_spec *m)
{
    size_t at = n > 0 ? layers[n - 1].offset + layers[n - 1].n : 0;

    for (int i = 0; i < m->n_layers; i++)
        for (int k = 0; k < m->layers[i].n_tensors; k++) {
            const struct tensor_spec *t = &m->layers[i].tensors[k];
            struct codec_layer *l = &layers[n];

            if (t->is_state != is_state)
                continue;
            weights_name(names[n], m, i, k);
            *l = (struct codec_layer){
                .name = names[n], .offset = at, .n = tensor_spec_count(t), .n_dims = t->n_dims};
            memcpy(l->shape, t->shape, sizeof l->shape);
            at += l->n;
            n++;
        }
    return n;
}

/* A rule that combines does not see running statistics. */
static bool show_model(struct codec *c, const struct codec_plugin *p, const struct model_spec *m)
{
    static struct codec_layer layers[TENSORS_MAX];
    static char names[TENSORS_MAX][TENSOR_NAME];

    c->run->n_layers = list_layers(layers, names, 0, false, m);
    if (!p->combine)
        c->run->n_layers = list_layers(layers, names, c->run->n_layers, true, m);
    c->run->layers = layers;
    c->n_params = p->combine ? m->n_trained : m->n_params;
    c->params = room(m->n_params, sizeof(float));
    c->grads = room(m->n_params, sizeof(float));
    for (size_t i = 0; c->params && i < m->n_params; i++)
        c->params[i] = 0.01f;
    return c->params && c->grads;
}

static bool make_state(struct codec *c, const struct codec_plugin *p)
{
    bool is_made = true;

    if (p->combine)
        is_made = (c->numbers = room(CODEC_NUMBERS_MAX, sizeof(float))) != NULL;
    if (p->combine && p->combine->keeps_global) {
        is_made = is_made && (c->global = room(c->n_params, sizeof(float))) != NULL;
        if (is_made)
            memcpy(c->global, c->params, c->n_params * sizeof *c->global);
    }
    for (const size_t *at = p->vectors; is_made && at && *at != SIZE_MAX; at++)
        is_made = (*(float **)(void *)((char *)c->state + *at) = room(c->n_params, sizeof(float))) != NULL;
    return is_made;
}

int open_check_run(const struct codec_plugin *p, const char *options, const struct open_check *t,
                   struct err *e)
{
    const struct settings *set = t->set;
    struct codec_run run = {.node = t->is_of_servers ? -2 : 0,
                            .n_servers = set->server_count,
                            .server = set->server_count > 0 ? -2 : 0,
                            .n_blocks = t->blocks->n_blocks,
                            .redundancy = set->redundancy,
                            .n_steps = settings_steps(set),
                            .block = -1,
                            .loss = NAN,
                            .evaluation = {.loss = NAN, .accuracy = NAN},
                            .host = &host,
                            .lr_factor = 1};
    struct codec c = {.n_workers = set->node_count,
                      .is_sync = set->sync == SYNC_SSGD,
                      .fail_with = check_fail,
                      .run = &run};

    if (!p->open)
        return 0;
    check.t = t;
    check.bytes = 0;
    check.has_refused = false;
    rng_init(&check.rng, set->seed, 0, 0);
    check.seed = set->seed;
    c.state = calloc(1, p->state_size + 1);
    if (!c.state)
        return 0;
    if (codec_options_set(&(struct codec_options){p->options, c.state}, 1, options, e) < 0)
        return e->code;
    if (show_model(&c, p, t->model) && make_state(&c, p) && p->open(&c) < 0 && check.has_refused)
        return err_set(e, ERR_CODEC, "codec %s: %s", p->name, check.why);
    return 0;
}
