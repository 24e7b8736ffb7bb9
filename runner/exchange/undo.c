#include "runner/exchange/undo.h"

#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"

enum { MODEL_VECTORS = 3 }; /* vectors before those of zeros() */

static struct codec_vector vector_of(const struct channel *ch, size_t i)
{
    const struct codec *c = &ch->codec;
    float *const vectors[MODEL_VECTORS] = {c->params, c->grads, c->global == c->params ? NULL : c->global};

    if (i >= MODEL_VECTORS)
        return ch->zeros[i - MODEL_VECTORS];
    return vectors[i] ? (struct codec_vector){.v = vectors[i], .n = ch->n_params}
                      : (struct codec_vector){.v = c->params, .n = 0};
}

static size_t state_size(const struct channel *ch)
{
    return ch->x->cfg.plugin->state_size;
}

static int make_room(struct undo *u, struct channel *ch)
{
    size_t bytes = 1; /* malloc(0) may be NULL */

    /* All vectors are in memory, so the sum does not overflow. */
    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        bytes += vector_bytes(&v);
    }
    u->vectors = malloc(bytes);
    u->state = malloc(state_size(ch) + 1);
    if (u->vectors && u->state)
        return 0;
    undo_clear(u);
    return err_set(ch->x->e, ERR_NOMEM, "no memory to keep %zu bytes of the codec", bytes);
}

int undo_keep(struct undo *u, struct channel *ch)
{
    char *to;

    if (!u->vectors && make_room(u, ch) < 0)
        return ch->x->e->code;
    to = u->vectors;
    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        memcpy(to, v.v, vector_bytes(&v));
        to += vector_bytes(&v);
    }
    memcpy(u->state, ch->codec.state, state_size(ch));
    u->rng = ch->rng;
    return 0;
}

void undo_restore(const struct undo *u, struct channel *ch)
{
    const char *from = u->vectors;

    for (size_t i = 0; i < MODEL_VECTORS + ch->n_zeros; i++) {
        struct codec_vector v = vector_of(ch, i);

        memcpy(v.v, from, vector_bytes(&v));
        from += vector_bytes(&v);
    }
    memcpy(ch->codec.state, u->state, state_size(ch));
    ch->rng = u->rng;
}

void undo_clear(struct undo *u)
{
    free(u->vectors);
    free(u->state);
    *u = (struct undo){0};
}
