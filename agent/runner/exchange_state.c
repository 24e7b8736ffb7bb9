#include "agent/runner/exchange_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/channel.h"

enum { CURSOR = 7, LIBRARY = 64 << 20 };

static size_t state_size(struct channel *ch)
{
    return channel_config(ch)->plugin->state_size;
}

static uintptr_t word_at(const struct channel *ch, size_t byte)
{
    uintptr_t word;

    memcpy(&word, (const char *)ch->codec.state + byte, sizeof word);
    return word;
}

static bool is_within(uintptr_t word, const void *begin, size_t len)
{
    return word >= (uintptr_t)begin && word - (uintptr_t)begin < len;
}

/* The vector that begins at this address; -1: none does. */
static int64_t vector_at(const struct channel *ch, uintptr_t word)
{
    for (size_t i = 0; i < ch->n_zeros; i++)
        if (word == (uintptr_t)ch->zeros[i].v)
            return (int64_t)i;
    return -1;
}

/* Something of this process that another will have elsewhere: the middle of a vector, the model, the codec
 * itself, its functions and tables. */
static bool is_foreign_address(struct channel *ch, uintptr_t word)
{
    const struct exchange_config *cfg = channel_config(ch);
    const char *library = (const char *)cfg->plugin - LIBRARY / 2;

    for (size_t i = 0; i < ch->n_zeros; i++)
        if (is_within(word, ch->zeros[i].v, ch->zeros[i].n * sizeof(float)))
            return true;
    return is_within(word, ch, sizeof *ch) || is_within(word, ch->codec.state, state_size(ch)) ||
           is_within(word, cfg->params, cfg->n_params * sizeof(float)) ||
           is_within(word, cfg->grads, cfg->n_params * sizeof(float)) || is_within(word, library, LIBRARY);
}

static int check_pointers(struct channel *ch, struct err *e)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= state_size(ch); at += sizeof(uintptr_t)) {
        uintptr_t word = word_at(ch, at);

        if (vector_at(ch, word) < 0 && is_foreign_address(ch, word))
            return err_set(e, ERR_CODEC,
                           "codec %s cannot be saved: byte %zu of its state holds an address that is not the "
                           "beginning of one of its vectors",
                           channel_config(ch)->plugin->name, at);
    }
    return 0;
}

int exchange_can_save(struct exchange *x, struct err *e)
{
    struct channel *ch = exchange_channel(x, 0);
    const char *name = channel_config(ch)->plugin->name;

    if (!ch->rule && !channel_config(ch)->plugin->events->rests_between_steps) {
        err_set(e, ERR_CODEC, "codec %s runs by events: the host cannot know when its state is whole", name);
        return err_hint(e, "Leave --checkpoint-every out, or take a codec that runs by rounds.");
    }
    if (!ch->codec.is_sync) {
        err_set(e, ERR_CODEC, "codec %s: in asgd words are under way at any time, and no state is whole",
                name);
        return err_hint(e, "Leave --checkpoint-every out, or take --parallel_sgd ssgd.");
    }
    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++)
        if (check_pointers(ch, e) < 0)
            return e->code;
    return 0;
}

static struct tensor_view *add(struct exchange_state *s, int channel, const char *name, enum tensor_type type,
                               size_t n, const void *data)
{
    struct tensor_view *t = &s->tensors[s->n++];

    *t = (struct tensor_view){.type = type, .n_dims = 1, .shape = {n}, .data = data};
    snprintf(t->name, sizeof t->name, "codec/%d/%s", channel, name);
    return t;
}

/* What a channel needs of `own`: its cursor, its pointers, a copy of its state. */
static size_t own_bytes(struct channel *ch)
{
    size_t words = state_size(ch) / sizeof(uintptr_t) + 1;

    return (CURSOR + 2 * words + words) * sizeof(int64_t);
}

/* Replaces the addresses in the copy by 0 and lists them as (byte, vector). Returns how many. */
static size_t take_pointers(const struct channel *ch, char *state, size_t size, int64_t *pointers)
{
    const uintptr_t nothing = 0;
    size_t n = 0;

    for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
        int64_t v = vector_at(ch, word_at(ch, at));

        if (v < 0)
            continue;
        memcpy(state + at, &nothing, sizeof nothing);
        pointers[2 * n] = (int64_t)at;
        pointers[2 * n + 1] = v;
        n++;
    }
    return n;
}

static void save_channel(struct exchange_state *s, int i, struct channel *ch, uint64_t step, int64_t *own)
{
    int64_t *cursor = own;
    int64_t *pointers = own + CURSOR;
    size_t size = state_size(ch);
    char *state = (char *)(pointers + 2 * (size / sizeof(uintptr_t) + 1));
    struct tensor_view *t;
    char name[32];
    size_t n;

    cursor[0] = ch->codec.node < 0 ? (int64_t)ch->codec.step : (int64_t)step;
    cursor[1] = (int64_t)ch->codec.round;
    cursor[2] = (int64_t)ch->codec.samples;
    memcpy(cursor + 3, ch->rng.s, sizeof ch->rng.s);
    add(s, i, "cursor", TENSOR_I64, CURSOR, cursor);
    memcpy(state, ch->codec.state, size);
    n = take_pointers(ch, state, size, pointers);
    add(s, i, "state", TENSOR_U8, size, state);
    t = add(s, i, "pointers", TENSOR_I64, n, pointers);
    t->n_dims = 2;
    t->shape[1] = 2;
    for (size_t k = 0; k < ch->n_zeros; k++) {
        snprintf(name, sizeof name, "vector%zu", k);
        add(s, i, name, TENSOR_F32, ch->zeros[k].n, ch->zeros[k].v);
    }
}

int exchange_save(struct exchange_state *out, struct exchange *x, uint64_t step, struct err *e)
{
    struct exchange_state s = {0};
    size_t n_tensors = 0, bytes = 0;
    struct channel *ch;
    char *own;

    if (exchange_can_save(x, e) < 0)
        return e->code;
    for (int i = 0; (ch = exchange_channel(x, i)) != NULL; i++) {
        if (ch->round.has_said || ch->round.next > 0)
            return err_set(e, ERR_INTERNAL, "codec %s is in the midst of round %" PRIu64,
                           channel_config(ch)->plugin->name, ch->codec.round);
        n_tensors += 3 + ch->n_zeros;
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
            bytes += ch->zeros[k].n * sizeof(float);
    }
    return bytes;
}

void exchange_state_clear(struct exchange_state *s)
{
    free(s->tensors);
    free(s->own);
    *s = (struct exchange_state){0};
}

/* The tensor codec/i/name of the given type and shape. ERR_CONFIG: it is another, or not there. */
static int find(const void **data, size_t *n, const struct tensor_file *f, int i, const char *name,
                enum tensor_type type, int n_dims, struct err *e)
{
    char whole[TENSOR_NAME];
    const struct tensor_view *t;

    snprintf(whole, sizeof whole, "codec/%d/%s", i, name);
    t = tensor_file_find(f, whole);
    if (!t || t->type != type || t->n_dims != n_dims || (n_dims == 2 && t->shape[1] != 2))
        return err_set(e, ERR_CONFIG, "tensor \"%s\" is missing or of another kind", whole);
    *data = t->data;
    *n = t->shape[0];
    return 0;
}

static int restore_vectors(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const void *data;
    char name[32];
    size_t n;

    for (size_t k = 0; k < ch->n_zeros; k++) {
        snprintf(name, sizeof name, "vector%zu", k);
        if (find(&data, &n, f, i, name, TENSOR_F32, 1, e) < 0)
            return e->code;
        if (n != ch->zeros[k].n)
            return err_set(e, ERR_CONFIG, "codec/%d/%s has %zu values, the codec's vector %zu", i, name, n,
                           ch->zeros[k].n);
        if (n > 0)
            memcpy(ch->zeros[k].v, data, n * sizeof(float));
    }
    snprintf(name, sizeof name, "codec/%d/vector%zu", i, ch->n_zeros);
    if (tensor_file_find(f, name))
        return err_set(e, ERR_CONFIG, "%s is there, and the codec has %zu vectors", name, ch->n_zeros);
    return 0;
}

static int restore_state(struct channel *ch, int i, const struct tensor_file *f, struct err *e)
{
    const void *state, *list;
    const int64_t *pointers;
    size_t size, n;

    if (find(&state, &size, f, i, "state", TENSOR_U8, 1, e) < 0 ||
        find(&list, &n, f, i, "pointers", TENSOR_I64, 2, e) < 0)
        return e->code;
    if (size != state_size(ch))
        return err_set(e, ERR_CONFIG, "codec/%d/state has %zu bytes, codec %s has %zu", i, size,
                       channel_config(ch)->plugin->name, state_size(ch));
    pointers = list;
    for (size_t k = 0; k < n; k++)
        if (pointers[2 * k] < 0 || size < sizeof(uintptr_t) ||
            (uint64_t)pointers[2 * k] > size - sizeof(uintptr_t) || pointers[2 * k + 1] < 0 ||
            (uint64_t)pointers[2 * k + 1] >= ch->n_zeros)
            return err_set(e, ERR_CONFIG, "codec/%d/pointers: %" PRId64 " at byte %" PRId64 " of the state",
                           i, pointers[2 * k + 1], pointers[2 * k]);
    if (size > 0)
        memcpy(ch->codec.state, state, size);
    for (size_t k = 0; k < n; k++) {
        float *const *v = &ch->zeros[pointers[2 * k + 1]].v;

        memcpy((char *)ch->codec.state + pointers[2 * k], v, sizeof *v);
    }
    return 0;
}

/* A server takes no steps. */
static int check_cursor(struct channel *ch, int i, const int64_t *cursor, uint64_t step, struct err *e)
{
    uint64_t own_step = ch->codec.node < 0 ? 0 : step;
    uint64_t round = exchange_rounds_after(ch->x, step);

    if ((uint64_t)cursor[0] != own_step || (uint64_t)cursor[1] != round)
        return err_set(e, ERR_CONFIG,
                       "codec/%d/cursor is at step %" PRId64 " and round %" PRId64
                       ", the job at step %" PRIu64 " and round %" PRIu64,
                       i, cursor[0], cursor[1], own_step, round);
    return 0;
}

static int restore_channel(struct channel *ch, int i, const struct tensor_file *f, uint64_t step,
                           struct err *e)
{
    const void *data;
    const int64_t *cursor;
    size_t n;

    if (find(&data, &n, f, i, "cursor", TENSOR_I64, 1, e) < 0)
        return e->code;
    cursor = data;
    if (n != CURSOR || cursor[0] < 0 || cursor[1] < 0 || cursor[2] < 0)
        return err_set(e, ERR_CONFIG, "codec/%d/cursor: no place in a job", i);
    if (check_cursor(ch, i, cursor, step, e) < 0 || restore_vectors(ch, i, f, e) < 0 ||
        restore_state(ch, i, f, e) < 0)
        return e->code;
    ch->codec.step = (uint64_t)cursor[0];
    ch->codec.round = (uint64_t)cursor[1];
    ch->codec.samples = (float)cursor[2];
    memcpy(ch->rng.s, cursor + 3, sizeof ch->rng.s);
    return 0;
}

int exchange_restore(struct exchange *x, const struct tensor_file *f, uint64_t step, struct err *e)
{
    struct channel *ch;
    char name[TENSOR_NAME];
    int i = 0;

    if (exchange_can_save(x, e) < 0)
        return e->code;
    for (; (ch = exchange_channel(x, i)) != NULL; i++)
        if (restore_channel(ch, i, f, step, e) < 0)
            return e->code;
    snprintf(name, sizeof name, "codec/%d/cursor", i);
    if (tensor_file_find(f, name))
        return err_set(e, ERR_CONFIG, "%s is there, and this node has %d codecs at work", name, i);
    exchange_set_rounds(x, exchange_channel(x, 0)->codec.round);
    return 0;
}

bool exchange_closes_early(struct exchange *x, uint64_t step)
{
    struct channel *ch = exchange_channel(x, 0);
    const struct exchange_config *cfg = channel_config(ch);

    return ch->rule && !ch->rule->before_update && step == cfg->n_steps && step % cfg->local_steps != 0;
}

uint64_t exchange_rounds_after(struct exchange *x, uint64_t step)
{
    struct channel *ch = exchange_channel(x, 0);

    return !ch->rule || ch->rule->before_update ? step : step / channel_config(ch)->local_steps;
}
