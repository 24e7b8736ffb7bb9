#include "conform/codec_copy.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/crc32c.h"

enum { ANSWER = 1 << 20 };

static struct victim *victim_of(const struct codec *c)
{
    return (struct victim *)(uintptr_t)c;
}

static int yes_zeros(struct codec *c, float **at, size_t n)
{
    (void)c, (void)at, (void)n;
    return ERR_CODEC;
}

static int yes_array(struct codec *c, void *at, size_t n, size_t size)
{
    (void)c, (void)at, (void)n, (void)size;
    return ERR_CODEC;
}

static void yes_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    channel_host.common(victim_of(c)->real, key, out, n);
}

static float yes_uniform(struct codec *c)
{
    return rng_uniform(&victim_of(c)->rng);
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
    struct victim *v = victim_of(c);

    v->out = (struct wire_out){.bytes = v->answer, .limit = ANSWER};
    return &v->out;
}

static struct wire_out *yes_message_to(struct codec *c, int to)
{
    (void)to;
    return yes_message(c);
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
    return channel_host.slice(victim_of(c)->real, n, k);
}

static void yes_put_vector(struct codec *c, struct wire_out *out, const float *v, size_t n)
{
    (void)c;
    wire_put_f32s(out, v, n);
}

/* Decodes by the job's chain, if any. The result, like the message, ends at inaccessible memory. */
static const float *yes_get_vector(struct codec *c, struct wire_in *in, size_t n)
{
    struct victim *v = victim_of(c);
    const float *got = compressing_get(channel_of(v->real), in, n);
    bool is_of_message = (const unsigned char *)got >= in->bytes &&
                         (const unsigned char *)got < in->bytes + in->len;

    if (!got || is_of_message || v->n_vectors == WATCH_VECTORS)
        return got;
    return memcpy(watch_buffer(WATCH_VECTOR + v->n_vectors++, n * sizeof *got), got, n * sizeof *got);
}

static bool yes_holds(const struct codec *c, int block, int worker)
{
    return channel_host.holds(victim_of(c)->real, block, worker);
}

static bool yes_has_left(const struct codec *c, int node)
{
    return channel_host.has_left(victim_of(c)->real, node);
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
    (void)name, (void)value;
    victim_of(c)->has_recorded = true;
    return CODEC_GO;
}

static const struct codec_host yes = {.zeros = yes_zeros,
                                      .uniform = yes_uniform,
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
                                      .record = yes_record,
                                      .message_to = yes_message_to,
                                      .array = yes_array,
                                      .common = yes_common};

static size_t rounded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static void *copy_in(struct victim *v, const void *from, size_t bytes)
{
    struct victim_part *p = &v->parts[v->n_parts++];

    *p = (struct victim_part){.real = from, .bytes = bytes, .copy = v->bytes + v->n};
    if (bytes > 0) /* a codec may have no state */
        memcpy(p->copy, from, bytes);
    v->n += rounded(bytes);
    return p->copy;
}

/* Pointers to vectors may have been exchanged in the state: updates each copy at the same index. */
static void copy_vector(struct victim *v, const struct channel *ch, size_t k)
{
    void *copy = copy_in(v, ch->zeros[k].v, vector_bytes(&ch->zeros[k])), *own;

    for (size_t i = 0; i < ch->n_zeros; i++) {
        memcpy(&own, (char *)ch->codec.state + ch->zeros[i].at, sizeof own);
        if (own == ch->zeros[k].v)
            memcpy((char *)v->c.state + ch->zeros[i].at, &copy, sizeof copy);
    }
}

int victim_make(struct victim *v, const struct codec_plugin *plugin, struct codec *c, const struct rng *rng,
                struct err *e)
{
    const struct channel *ch = channel_of(c);
    size_t n = 2 * rounded(c->n_params * sizeof(float)) + rounded(plugin->state_size);

    for (size_t k = 0; k < ch->n_zeros; k++)
        n += rounded(vector_bytes(&ch->zeros[k]));
    *v = (struct victim){.c = *c, .real = c, .plugin = plugin, .rng = *rng, .rng_image = *rng};
    v->bytes = calloc(2, n);
    v->answer = malloc(ANSWER);
    if (!v->bytes || !v->answer) {
        victim_clear(v);
        return err_set(e, ERR_NOMEM, "no memory for a copy of the codec");
    }
    v->image = v->bytes + n;
    v->c.fail_with = yes_fail;
    v->run = *c->run;
    v->run.host = &yes;
    v->c.run = &v->run;
    v->c.params = copy_in(v, c->params, c->n_params * sizeof(float));
    v->c.grads = copy_in(v, c->grads, c->n_params * sizeof(float));
    v->c.state = copy_in(v, c->state, plugin->state_size);
    for (size_t k = 0; k < ch->n_zeros; k++)
        copy_vector(v, ch, k);
    memcpy(v->image, v->bytes, v->n);
    v->codec_image = v->c;
    v->run_image = v->run;
    return 0;
}

void victim_clear(struct victim *v)
{
    free(v->bytes);
    free(v->answer);
}

unsigned char *victim_twin(const struct victim *v, const void *at, size_t bytes)
{
    for (int i = 0; i < v->n_parts; i++) {
        const struct victim_part *p = &v->parts[i];
        size_t before = (uintptr_t)at - (uintptr_t)p->real;

        if ((uintptr_t)at >= (uintptr_t)p->real && before <= p->bytes && bytes <= p->bytes - before)
            return p->copy + before;
    }
    return NULL;
}

static const char *find_trace(const struct victim *v)
{
    static const char *const names[] = {"its parameters", "its gradients", "its state"};
    const int n_names = (int)(sizeof names / sizeof *names);

    for (int i = 0; i < v->n_parts; i++) {
        const struct victim_part *p = &v->parts[i];

        if (memcmp(p->copy, v->image + (p->copy - v->bytes), p->bytes) != 0)
            return i < n_names ? names[i] : "a vector of its state";
    }
    if (memcmp(&v->c, &v->codec_image, sizeof v->c) != 0 ||
        memcmp(&v->run, &v->run_image, sizeof v->run) != 0)
        return "a field of struct codec";
    if (memcmp(&v->rng, &v->rng_image, sizeof v->rng) != 0)
        return "the node's random numbers";
    return v->has_recorded ? "codec.csv" : NULL;
}

static void reset(struct victim *v)
{
    memcpy(v->bytes, v->image, v->n);
    v->c = v->codec_image;
    v->run = v->run_image;
    v->rng = v->rng_image;
    v->has_recorded = false;
}

struct victim_call victim_call(struct victim *v, const struct watch_call *call, const unsigned char *bytes,
                               size_t len)
{
    struct wire_in in = {.len = len};
    struct victim_call done = {0};

    if (bytes)
        in.bytes = memcpy(watch_buffer(WATCH_MESSAGE, len), bytes, len);
    v->n_vectors = 0;
    v->n_calls++;
    watch_enter(call->name, &v->c, call->from);
    done.rc = watch_leave(call->read(v->plugin, &v->c, call->from, bytes ? &in : NULL));
    compressing_begin_reading(&channel_of(v->real)->compressing, call->from);
    done.trace = find_trace(v);
    if (done.trace) {
        done.digest = crc32c_more(crc32c(v->bytes, v->n), &v->c, sizeof v->c);
        reset(v);
    }
    return done;
}
