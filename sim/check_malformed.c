/* check_malformed -- messages that the codec gets in a job are cut short and changed, and read by a copy of
 * it, on a host that does nothing but say yes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/channel.h"
#include "sim/check.h"

enum { ATTACKS = 4, EVERY = 5, EXTRA = 64, ANSWER = 1 << 20 };

/* What a reading may change, one block after the other: parameters, gradients, state, vectors. */
struct victim {
    struct codec c, codec_image;
    unsigned char *bytes, *image; /* (n): as the codec sees them, and as they were */
    size_t n;
};

static struct campaign { /* the callbacks of `yes` have no other owner */
    struct check *check;
    const struct codec *real; /* whose copy the victim is */
    struct rng rng;
    unsigned char *answer; /* (ANSWER): what the victim writes */
    struct wire_out out;
    uint64_t n_heard, n_done, n_read;
    struct err e;
    int rc;
} hunt;

static int yes_zeros(struct codec *c, float **at, size_t n)
{
    (void)c, (void)at, (void)n;
    return ERR_CODEC;
}

static float yes_uniform(struct codec *c)
{
    (void)c;
    return rng_uniform(&hunt.rng);
}

static int yes_fail(struct codec *c, const char *fmt, ...)
{
    (void)c, (void)fmt;
    return ERR_CODEC;
}

static void yes_log(struct codec *c, const char *fmt, ...)
{
    (void)c, (void)fmt;
}

static struct wire_out *yes_message(struct codec *c)
{
    (void)c;
    hunt.out = (struct wire_out){.bytes = hunt.answer, .limit = ANSWER};
    return &hunt.out;
}

static int yes_send(struct codec *c, int to)
{
    (void)c, (void)to;
    return CODEC_GO;
}

static int yes_reduce(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n)
{
    (void)c, (void)what, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static int yes_gather(struct codec *c, const float *in, float *out, size_t n)
{
    (void)c, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static int yes_broadcast(struct codec *c, int root, const float *in, float *out, size_t n)
{
    (void)c, (void)root, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static size_t yes_slice(const struct codec *c, size_t n, int k)
{
    (void)c;
    return channel_host.slice(hunt.real, n, k);
}

static void yes_put_vector(struct codec *c, struct wire_out *out, const float *v, size_t n)
{
    (void)c;
    wire_put_f32s(out, v, n);
}

static const float *yes_get_vector(struct codec *c, struct wire_in *in, size_t n)
{
    (void)c;
    return wire_get_f32s(in, n);
}

static bool yes_holds(const struct codec *c, int block, int worker)
{
    (void)c;
    return channel_host.holds(hunt.real, block, worker);
}

static bool yes_has_left(const struct codec *c, int node)
{
    (void)c;
    return channel_host.has_left(hunt.real, node);
}

static int yes_update(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static void yes_wake(struct codec *c, double seconds)
{
    (void)c, (void)seconds;
}

static int yes_record(struct codec *c, const char *name, double value)
{
    (void)c, (void)name, (void)value;
    return CODEC_GO;
}

static const struct codec_host yes = {.zeros = yes_zeros,
                                      .uniform = yes_uniform,
                                      .fail = yes_fail,
                                      .log = yes_log,
                                      .message = yes_message,
                                      .send = yes_send,
                                      .all_reduce = yes_reduce,
                                      .slice = yes_slice,
                                      .reduce_scatter = yes_reduce,
                                      .all_gather = yes_gather,
                                      .broadcast = yes_broadcast,
                                      .all_to_all = yes_gather,
                                      .put_vector = yes_put_vector,
                                      .get_vector = yes_get_vector,
                                      .holds = yes_holds,
                                      .has_left = yes_has_left,
                                      .update = yes_update,
                                      .wake = yes_wake,
                                      .record = yes_record};

static size_t rounded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static void *copy_in(struct victim *v, const void *from, size_t bytes)
{
    void *at = v->bytes + v->n;

    if (bytes > 0) /* a codec may have no state */
        memcpy(at, from, bytes);
    v->n += rounded(bytes);
    return at;
}

/* Vectors may have changed places in the state: the copy of each stands where it stands. */
static void copy_vector(struct victim *v, const struct channel *ch, size_t k)
{
    float *copy = copy_in(v, ch->zeros[k].v, ch->zeros[k].n * sizeof *copy), *own;

    for (size_t i = 0; i < ch->n_zeros; i++) {
        memcpy(&own, (char *)ch->codec.state + ch->zeros[i].at, sizeof own);
        if (own == ch->zeros[k].v)
            memcpy((char *)v->c.state + ch->zeros[i].at, &copy, sizeof copy);
    }
}

static int victim_make(struct victim *v, struct codec *c, size_t state_size, struct err *e)
{
    const struct channel *ch = (const struct channel *)(const void *)c;
    size_t n = 2 * rounded(c->n_params * sizeof(float)) + rounded(state_size);

    for (size_t k = 0; k < ch->n_zeros; k++)
        n += rounded(ch->zeros[k].n * sizeof(float));
    *v = (struct victim){.c = *c, .bytes = calloc(2, n)};
    if (!v->bytes)
        return err_set(e, ERR_NOMEM, "no memory for a copy of the codec");
    v->image = v->bytes + n;
    v->c.host = &yes;
    v->c.params = copy_in(v, c->params, c->n_params * sizeof(float));
    v->c.grads = copy_in(v, c->grads, c->n_params * sizeof(float));
    v->c.state = copy_in(v, c->state, state_size);
    for (size_t k = 0; k < ch->n_zeros; k++)
        copy_vector(v, ch, k);
    memcpy(v->image, v->bytes, v->n);
    v->codec_image = v->c;
    return 0;
}

/* The victim reads `len` bytes and is as before. Returns what it said; *is_touched: it had changed
 * something. */
static int read_once(struct victim *v, watch_read *read, const char *name, int from,
                     const unsigned char *bytes, size_t len, bool *is_touched)
{
    struct wire_in in = {.bytes = memcpy(watch_place(len), bytes, len), .len = len};
    int rc;

    watch_enter(name, &v->c, from);
    rc = watch_leave(read(hunt.check->plugin, &v->c, from, &in));
    hunt.n_read++;
    *is_touched = memcmp(v->bytes, v->image, v->n) != 0;
    if (*is_touched)
        memcpy(v->bytes, v->image, v->n);
    v->c = v->codec_image;
    return rc;
}

/* Where a server goes on without a worker, what a merge refuses must have left no trace. */
static int cut_short(struct victim *v, watch_read *read, const char *name, int from, const struct wire_in *in,
                     struct err *e)
{
    bool is_touched;

    for (size_t len = 0; len < in->len; len++) {
        if (read_once(v, read, name, from, in->bytes, len, &is_touched) >= 0)
            return err_set(e, ERR_CODEC,
                           "%s of node %d takes a message that is cut to %zu of its %zu bytes; ask wire_ok() "
                           "before anything is done with it",
                           name, v->c.node, len, in->len);
        if (is_touched && strcmp(name, "merge") == 0)
            return err_set(
                e, ERR_CODEC,
                "merge of node %d refuses a message that is cut to %zu of its %zu bytes, but has changed "
                "parameters, gradients or state by then",
                v->c.node, len, in->len);
    }
    return 0;
}

static void put_word(unsigned char *bytes, size_t len)
{
    static const uint32_t words[] = {0,          1,          0xffffffff, 0x7fffffff,
                                     0x80000000, 0x7fc00000, 0x7f800000, 0x10000};

    if (len >= sizeof *words)
        memcpy(bytes + rng_below(&hunt.rng, (uint32_t)(len / sizeof *words)) * sizeof *words,
               &words[rng_below(&hunt.rng, sizeof words / sizeof *words)], sizeof *words);
}

/* Returns the new length, at most EXTRA more. */
static size_t change(unsigned char *bytes, size_t len)
{
    switch (rng_below(&hunt.rng, 4)) {
    case 0:
        if (len > 0)
            bytes[rng_below(&hunt.rng, (uint32_t)len)] ^= (unsigned char)(1u << rng_below(&hunt.rng, 8));
        return len;
    case 1:
        put_word(bytes, len);
        return len;
    case 2:
        return rng_below(&hunt.rng, (uint32_t)len + 1);
    default:
        for (size_t i = 0; i < EXTRA; i++)
            bytes[len + i] = (unsigned char)rng_below(&hunt.rng, 256);
        return len + rng_below(&hunt.rng, EXTRA + 1);
    }
}

/* One change or some, of which only the last one may lengthen the message. */
static int change_often(struct victim *v, watch_read *read, const char *name, int from,
                        const struct wire_in *in, struct err *e)
{
    unsigned char *bytes = malloc(in->len + EXTRA);
    bool ignored;

    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    for (uint64_t i = 0; i < hunt.check->n_mutations / ATTACKS; i++) {
        size_t len = in->len;

        memcpy(bytes, in->bytes, len);
        for (uint32_t n = rng_below(&hunt.rng, 3); n > 0; n--)
            put_word(bytes, len);
        len = change(bytes, len);
        read_once(v, read, name, from, bytes, len, &ignored);
    }
    free(bytes);
    return 0;
}

static int attack(watch_read *read, const char *name, struct codec *c, int from, const struct wire_in *in,
                  struct err *e)
{
    struct victim v;
    int rc;

    if (victim_make(&v, c, hunt.check->plugin->state_size, e) < 0)
        return e->code;
    hunt.real = c;
    rc = cut_short(&v, read, name, from, in, e);
    if (rc == 0)
        rc = change_often(&v, read, name, from, in, e);
    free(v.bytes);
    return rc;
}

/* Some of the messages, so that early and late ones, and every kind of node, have their turn. */
static void hear(void *owner, watch_read *read, const char *name, struct codec *c, int from,
                 const struct wire_in *in)
{
    (void)owner;
    if (hunt.rc < 0 || hunt.n_heard++ % EVERY != 0 || hunt.n_done == ATTACKS || in->len == 0)
        return;
    hunt.n_done++;
    hunt.rc = attack(read, name, c, from, in, &hunt.e);
}

static int attack_a_job(struct check *k, struct err *e)
{
    hunt.n_heard = hunt.n_done = 0;
    hunt.rc = 0;
    rng_init(&hunt.rng, k->seed > 0 ? k->seed : 1, 0xbad, 0);
    k->page->seed = k->seed > 0 ? k->seed : 1;
    watch_hears(hear, NULL);
    if (check_run(k, 1, e) < 0)
        return e->code;
    if (hunt.rc < 0)
        *e = hunt.e;
    return hunt.rc < 0 ? hunt.rc : check_ended(k, e);
}

int check_malformed(struct check *k, struct err *e)
{
    int rc;

    hunt = (struct campaign){.check = k, .answer = malloc(ANSWER)};
    if (!hunt.answer)
        return err_set(e, ERR_NOMEM, "no memory for answers");
    rc = check_jobs(k, CHECK_STEPS, false, attack_a_job, e);
    free(hunt.answer);
    if (rc == 0 && hunt.n_read == 0) {
        err_set(e, ERR_CODEC, "it reads no messages of its own");
        return CHECK_IS_NOT_FOR_IT;
    }
    return rc;
}
