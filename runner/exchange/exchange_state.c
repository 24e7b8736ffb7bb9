#include "runner/exchange/exchange_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "shared/records/weights.h"

enum { KNOWN = sizeof(struct stop_vote_result) / sizeof(int64_t) };

static size_t state_size(struct channel *ch)
{
    return ch->x->cfg.plugin->state_size;
}

static void *field_of(const struct channel *ch, size_t k)
{
    return (char *)ch->codec.state + ch->zeros[k].at;
}

static enum tensor_type type_of(const struct codec_vector *v)
{
    return v->item ? TENSOR_U8 : TENSOR_F32;
}

/* The vector to which the field of vector k points now: a codec may swap vectors. NULL: the field points
 * elsewhere, or to a vector of another length. */
static const struct codec_vector *vector_in(const struct channel *ch, size_t k)
{
    const struct codec_vector *own = &ch->zeros[k];
    const void *now;

    memcpy(&now, field_of(ch, k), sizeof now);
    for (const struct codec_vector *v = ch->zeros; v < ch->zeros + ch->n_zeros; v++)
        if (now == v->v)
            return v->n == own->n && v->item == own->item ? v : NULL;
    return NULL;
}

static int check_vectors(struct channel *ch, struct err *e)
{
    for (size_t k = 0; k < ch->n_zeros; k++)
        if (!vector_in(ch, k))
            return err_set(
                e, ERR_CODEC,
                "codec %s cannot be saved: the field at byte %zu of its state does not hold one of its "
                "vectors of %zu %s",
                ch->x->cfg.plugin->name, ch->zeros[k].at, ch->zeros[k].n,
                ch->zeros[k].item ? "bytes" : "numbers");
    return 0;
}

static int check_rule(struct exchange *x, struct err *e)
{
    const struct channel *ch = exchange_channel(x, 0);
    const char *name = ch->x->cfg.plugin->name;

    bool knows_steps = ch->run.n_servers == 0 || barrier_is_used(x);

    if (!ch->rule && (!knows_steps || !x->handlers.is_quiescent)) {
        err_set(e, ERR_CODEC, "codec %s runs by events: %s", name,
                knows_steps ? "the host cannot know when its state is complete"
                            : "its servers receive messages and cannot know the workers' step");
        return err_hint(e, "Leave --checkpoint-every out, or take a codec that runs by rounds.");
    }
    if (!ch->codec.is_sync && !barrier_is_used(x)) {
        err_set(e, ERR_CODEC,
                "codec %s: in asgd without servers contributions may be in transit at any time, so no state "
                "is complete",
                name);
        return err_hint(e, "Leave --checkpoint-every out, or take --parallel_sgd ssgd.");
    }
    return 0;
}

int exchange_can_save(struct exchange *x, struct err *e)
{
    struct channel *ch;

    if (check_rule(x, e) < 0)
        return e->code;
    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++)
        if (check_vectors(ch, e) < 0)
            return e->code;
    return 0;
}

static void add_tensor(struct exchange_state *s, int channel, const char *name, enum tensor_type type,
                       size_t n, const void *data)
{
    struct tensor_view *t = &s->tensors[s->n++];

    *t = (struct tensor_view){.type = type, .n_dims = 1, .shape = {n}, .data = data};
    snprintf(t->name, sizeof t->name, "codec/%d/%s", channel, name);
}

/* Bytes of `own` for one channel: its cursor, and a copy of its state, rounded up to 64-bit words. */
static size_t own_bytes(struct channel *ch)
{
    return (CURSOR_WORDS + state_size(ch) / sizeof(int64_t) + 1) * sizeof(int64_t);
}

static void save_each(struct exchange_state *s, int i, const struct copies *c, const char *name, float **v)
{
    char text[32];

    for (int k = 0; v && k < c->n; k++) {
        snprintf(text, sizeof text, "%s/%d", name, k);
        if (v[k])
            add_tensor(s, i, text, TENSOR_F32, c->n_params, v[k]);
    }
}

static void save_channel(struct exchange_state *s, int i, struct channel *ch, uint64_t step, int64_t *own)
{
    int64_t *cursor = own;
    char *state = (char *)(own + CURSOR_WORDS);
    const float *const nothing = NULL;
    const struct copies *c = &ch->compressing.copies;
    char name[32];

    cursor[CURSOR_STEP] = ch->run.node < 0 ? (int64_t)ch->run.step : (int64_t)step;
    cursor[CURSOR_ROUND] = (int64_t)ch->run.round;
    cursor[CURSOR_SAMPLES] = (int64_t)ch->codec.samples;
    memcpy(cursor + CURSOR_GENERATOR, ch->rng.s, sizeof ch->rng.s);
    memcpy(cursor + CURSOR_LR_FACTOR, &ch->run.lr_factor, sizeof ch->run.lr_factor);
    cursor[CURSOR_N_LOCAL] = (int64_t)ch->codec.n_local;
    memcpy(cursor + CURSOR_LR_SUM, &ch->codec.lr_sum, sizeof ch->codec.lr_sum);
    cursor[CURSOR_SERVER_ROUND] = (int64_t)ch->combining.version;
    add_tensor(s, i, "cursor", TENSOR_I64, CURSOR_WORDS, cursor);
    memcpy(state, ch->codec.state, state_size(ch));
    for (size_t k = 0; k < ch->n_zeros; k++)
        memcpy(state + ch->zeros[k].at, &nothing, sizeof nothing);
    add_tensor(s, i, "state", TENSOR_U8, state_size(ch), state);
    for (size_t k = 0; k < ch->n_zeros; k++) {
        snprintf(name, sizeof name, "vector%zu", k);
        add_tensor(s, i, name, type_of(&ch->zeros[k]), ch->zeros[k].n, vector_in(ch, k)->v);
    }
    if (ch->codec.global)
        add_tensor(s, i, "global", TENSOR_F32, ch->n_params, ch->codec.global);
    for (size_t k = 0; k < ch->compressing.n_residuals; k++) {
        const struct residual *r = &ch->compressing.residuals[k];

        snprintf(name, sizeof name, "residual/%d/%d", r->block, r->vector);
        add_tensor(s, i, name, TENSOR_F32, r->n, r->v);
    }
    save_each(s, i, c, "copy", c->of);
    save_each(s, i, c, "left", c->left);
}

static struct tensor_view stop_vote_view(const char *name, enum tensor_type type, size_t n, const void *data)
{
    struct tensor_view t = {.type = type, .n_dims = 1, .shape = {n}, .data = data};

    snprintf(t.name, sizeof t.name, "verdict/%s", name);
    return t;
}

static void save_stop_vote(struct exchange_state *s, const struct stop_vote *v)
{
    if (v->known.n == 0)
        return;
    s->tensors[s->n++] = stop_vote_view("known", TENSOR_I64, KNOWN, &v->known);
    s->tensors[s->n++] = stop_vote_view("errors", TENSOR_F64, v->rule.n, v->rule.errors);
}

int exchange_save(struct exchange_state *out, struct exchange *x, uint64_t step, struct err *e)
{
    struct exchange_state s = {0};
    size_t n_tensors = 2, bytes = 0; /* of the stop vote */
    struct channel *ch;
    char *own;

    if (exchange_can_save(x, e) < 0)
        return e->code;
    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++) {
        if (ch->round.stage != ROUND_OPEN || ch->round.next > 0)
            return err_set(e, ERR_INTERNAL, "codec %s is in the middle of round %" PRIu64,
                           ch->x->cfg.plugin->name, ch->run.round);
        n_tensors += 3 + ch->n_zeros + ch->compressing.n_residuals + 2 * (size_t)ch->compressing.copies.n;
        bytes += own_bytes(ch);
    }
    s.tensors = calloc(n_tensors, sizeof *s.tensors);
    s.own = own = calloc(1, bytes);
    if (!s.tensors || !own) {
        exchange_state_clear(&s);
        return err_set(e, ERR_NOMEM, "no memory for the codecs' state");
    }
    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++) {
        save_channel(&s, i, ch, step, (int64_t *)(void *)own);
        own += own_bytes(ch);
    }
    save_stop_vote(&s, &x->stop_vote);
    *out = s;
    return 0;
}

uint64_t exchange_saved_bytes(struct exchange *x)
{
    uint64_t bytes = 0;
    struct channel *ch;

    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++) {
        bytes += own_bytes(ch);
        for (size_t k = 0; k < ch->n_zeros; k++)
            bytes += vector_bytes(&ch->zeros[k]);
        bytes += compressing_saved_bytes(ch) + (ch->codec.global ? ch->n_params * sizeof(float) : 0);
    }
    return bytes + sizeof(struct stop_vote_result) + x->stop_vote.rule.n * sizeof(double);
}

void exchange_state_clear(struct exchange_state *s)
{
    free(s->tensors);
    free(s->own);
    *s = (struct exchange_state){0};
}

/* The tensor codec/i/name, a vector of the given type. ERR_CONFIG: it is missing, or of another type or
 * shape. */
static int find_tensor(const void **data, size_t *n, const struct tensor_file *f, int i, const char *name,
                       enum tensor_type type, struct err *e)
{
    char whole[TENSOR_NAME];
    const struct tensor_view *t;

    *data = NULL;
    *n = 0;
    snprintf(whole, sizeof whole, "codec/%d/%s", i, name);
    t = tensor_file_find(f, whole);
    if (!t || t->type != type || t->n_dims != 1)
        return err_set(e, ERR_CONFIG, "tensor \"%s\" is missing or of another type", whole);
    *data = t->data;
    *n = t->shape[0];
    return 0;
}

static int restore_global(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const void *data;
    size_t n;

    if (find_tensor(&data, &n, f, i, "global", TENSOR_F32, e) < 0)
        return e->code;
    if (n != ch->n_params)
        return err_set(e, ERR_CONFIG, "codec/%d/global has %zu values, the model has %zu there", i, n,
                       ch->n_params);
    memcpy(ch->codec.global, data, n * sizeof(float));
    return 0;
}

static int restore_vectors(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const void *data;
    char name[32];
    size_t n;

    for (size_t k = 0; k < ch->n_zeros; k++) {
        snprintf(name, sizeof name, "vector%zu", k);
        if (find_tensor(&data, &n, f, i, name, type_of(&ch->zeros[k]), e) < 0)
            return e->code;
        if (n != ch->zeros[k].n)
            return err_set(e, ERR_CONFIG, "codec/%d/%s has %zu values, but the codec's vector has %zu", i,
                           name, n, ch->zeros[k].n);
        if (n > 0)
            memcpy(ch->zeros[k].v, data, vector_bytes(&ch->zeros[k]));
    }
    if (ch->codec.global && restore_global(ch, i, f, e) < 0)
        return e->code;
    snprintf(name, sizeof name, "codec/%d/vector%zu", i, ch->n_zeros);
    if (tensor_file_find(f, name))
        return err_set(e, ERR_CONFIG, "there is a tensor %s, but the codec has only %zu vectors", name,
                       ch->n_zeros);
    return 0;
}

static int restore_residuals(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    for (size_t k = 0; k < f->n; k++) {
        const struct tensor_view *t = &f->tensors[k];
        int channel, block, vector, len = 0;

        if (sscanf(t->name, "codec/%d/residual/%d/%d%n", &channel, &block, &vector, &len) != 3 ||
            t->name[len] || channel != i)
            continue;
        if (t->type != TENSOR_F32 || t->n_dims != 1)
            return err_set(e, ERR_CONFIG, "tensor \"%s\" is not a vector of floats", t->name);
        if (compressing_restore(ch, block, vector, t->data, t->shape[0], e) < 0)
            return err_at(e, "tensor \"%s\"", t->name);
    }
    return 0;
}

static int restore_each(float **v, const struct copies *c, const char *name, int i,
                        const struct tensor_file *f, struct err *e)
{
    char text[TENSOR_NAME];
    const void *data;
    size_t n;

    for (int k = 0; v && k < c->n; k++) {
        snprintf(text, sizeof text, "%s/%d", name, k);
        if (find_tensor(&data, &n, f, i, text, TENSOR_F32, e) < 0)
            return e->code;
        if (n != c->n_params)
            return err_set(e, ERR_CONFIG, "codec/%d/%s has %zu values, the model has %zu there", i, text, n,
                           c->n_params);
        if (n > 0)
            memcpy(v[k], data, n * sizeof(float));
    }
    snprintf(text, sizeof text, "codec/%d/%s/%d", i, name, v ? c->n : 0);
    if (tensor_file_find(f, text))
        return err_set(e, ERR_CONFIG, "there is a tensor %s, which this job's --compress-down does not use",
                       text);
    return 0;
}

/* Without the copies, a worker would add a difference to other parameters than the server has computed it
 * from. */
static int restore_copies(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const struct copies *c = &ch->compressing.copies;

    return restore_each(c->of, c, "copy", i, f, e) < 0 ? e->code : restore_each(c->left, c, "left", i, f, e);
}

/* The saved state has no addresses: the fields are set to the vectors that open() has made. */
static int restore_state(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const void *state;
    size_t size;

    if (find_tensor(&state, &size, f, i, "state", TENSOR_U8, e) < 0)
        return e->code;
    if (size != state_size(ch))
        return err_set(e, ERR_CONFIG, "codec/%d/state has %zu bytes, codec %s has %zu", i, size,
                       ch->x->cfg.plugin->name, state_size(ch));
    if (size > 0)
        memcpy(ch->codec.state, state, size);
    for (size_t k = 0; k < ch->n_zeros; k++)
        memcpy(field_of(ch, k), &ch->zeros[k].v, sizeof ch->zeros[k].v);
    return 0;
}

/* A server takes no steps. */
static int check_cursor(struct channel *ch, int i, const int64_t *cursor, uint64_t step, struct err *e)
{
    uint64_t own_step = ch->run.node < 0 ? 0 : step;
    uint64_t round = exchange_rounds_after(ch->x, step);
    bool has_round = barrier_is_used(ch->x) || (uint64_t)cursor[CURSOR_ROUND] == round;

    if ((uint64_t)cursor[CURSOR_STEP] != own_step || !has_round)
        return err_set(e, ERR_CONFIG,
                       "codec/%d/cursor is at step %" PRId64 " and round %" PRId64
                       ", the job at step %" PRIu64 " and round %" PRIu64,
                       i, cursor[CURSOR_STEP], cursor[CURSOR_ROUND], own_step, round);
    return 0;
}

static int restore_channel(struct channel *ch, int i, const struct tensor_file *f, uint64_t step,
                           struct err *e)
{
    const void *data;
    const int64_t *cursor;
    float lr_factor, lr_sum;
    size_t n;

    if (find_tensor(&data, &n, f, i, "cursor", TENSOR_I64, e) < 0)
        return e->code;
    cursor = data;
    if (n != CURSOR_WORDS || cursor[CURSOR_STEP] < 0 || cursor[CURSOR_ROUND] < 0 ||
        cursor[CURSOR_SAMPLES] < 0 || cursor[CURSOR_N_LOCAL] < 0 || cursor[CURSOR_SERVER_ROUND] < 0 ||
        cursor[CURSOR_SERVER_ROUND] > UINT32_MAX)
        return err_set(e, ERR_CONFIG, "codec/%d/cursor is not a valid position in a job", i);
    memcpy(&lr_factor, cursor + CURSOR_LR_FACTOR, sizeof lr_factor);
    memcpy(&lr_sum, cursor + CURSOR_LR_SUM, sizeof lr_sum);
    if (!isfinite(lr_factor) || !isfinite(lr_sum))
        return err_set(e, ERR_CONFIG, "codec/%d/cursor: a learning rate is not finite", i);
    if (check_cursor(ch, i, cursor, step, e) < 0 || restore_vectors(ch, i, f, e) < 0 ||
        restore_residuals(ch, i, f, e) < 0 || restore_copies(ch, i, f, e) < 0 ||
        restore_state(ch, i, f, e) < 0)
        return e->code;
    ch->run.step = (uint64_t)cursor[CURSOR_STEP];
    ch->run.round = (uint64_t)cursor[CURSOR_ROUND];
    ch->codec.samples = (float)cursor[CURSOR_SAMPLES];
    memcpy(ch->rng.s, cursor + CURSOR_GENERATOR, sizeof ch->rng.s);
    ch->run.lr_factor = lr_factor;
    ch->codec.n_local = (uint64_t)cursor[CURSOR_N_LOCAL];
    ch->codec.lr_sum = lr_sum;
    ch->combining.version = (uint32_t)cursor[CURSOR_SERVER_ROUND];
    return 0;
}

/* The tensors are missing in the checkpoint of a job that shared no evaluations, and a job that shares none
 * ignores them. */
static int restore_stop_vote(struct exchange *x, const struct tensor_file *f, struct err *e)
{
    const struct tensor_view *known = tensor_file_find(f, "verdict/known");
    const struct tensor_view *errors = tensor_file_find(f, "verdict/errors");
    struct stop_vote *v = &x->stop_vote;

    if (!v->is_on || (!known && !errors))
        return 0;
    if (!known || !errors || known->type != TENSOR_I64 || errors->type != TENSOR_F64 || known->n_dims != 1 ||
        errors->n_dims != 1 || known->shape[0] != KNOWN)
        return err_set(e, ERR_CONFIG, "verdict/known and verdict/errors are not the results of evaluations");
    memcpy(&v->known, known->data, sizeof v->known);
    if (v->known.n == 0 || v->known.n > v->n_most || errors->shape[0] > v->known.n)
        return err_set(e, ERR_CONFIG, "verdict/known is of evaluation %" PRIu64 " of at most %" PRIu64,
                       v->known.n, v->n_most);
    for (size_t i = 0; i < errors->shape[0]; i++) {
        double error;

        memcpy(&error, (const char *)errors->data + i * sizeof error, sizeof error);
        if (stop_rule_add_earlier(&v->rule, error, e) < 0)
            return e->code;
    }
    v->own.n = v->known.n;
    for (int i = 0; i < x->n_channels; i++)
        x->channels[i].run.evaluation = (struct codec_evaluation){v->known.step, (float)v->known.loss,
                                                                  (float)v->known.accuracy};
    return 0;
}

int exchange_restore(struct exchange *x, const struct tensor_file *f, uint64_t step, struct err *e)
{
    struct channel *ch;
    char name[TENSOR_NAME];
    int i = 0;

    if (check_rule(x, e) < 0)
        return e->code;
    for (; (ch = exchange_channel(x, i)) != NULL; i++)
        if (restore_channel(ch, i, f, step, e) < 0)
            return e->code;
    snprintf(name, sizeof name, "codec/%d/cursor", i);
    if (tensor_file_find(f, name))
        return err_set(e, ERR_CONFIG, "there is a tensor %s, but this node has only %d codecs", name, i);
    exchange_set_rounds(x, exchange_channel(x, 0)->run.round);
    return restore_stop_vote(x, f, e);
}

bool exchange_closes_early(struct exchange *x, uint64_t step)
{
    struct channel *ch = exchange_channel(x, 0);
    const struct exchange_config *cfg = &ch->x->cfg;

    return exchange_has_local_steps(x) && !barrier_is_used(x) && step == cfg->n_steps &&
           step % cfg->local_steps != 0;
}

uint64_t exchange_rounds_after(struct exchange *x, uint64_t step)
{
    struct channel *ch = exchange_channel(x, 0);

    return exchange_has_local_steps(x) ? step / ch->x->cfg.local_steps : step;
}

uint64_t exchange_rounds_in_all(struct exchange *x)
{
    const struct exchange_config *cfg = &x->cfg;
    uint64_t n = exchange_rounds_after(x, cfg->n_steps);

    if (!exchange_channel(x, 0)->rule)
        return 0;
    n += exchange_has_local_steps(x) && cfg->n_steps % cfg->local_steps != 0;
    return cfg->node < 0 && !cfg->is_sync && !feed_is_used(x) ? n * (uint64_t)cfg->n_workers : n;
}
