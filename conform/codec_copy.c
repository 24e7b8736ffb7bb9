#include "conform/codec_copy.h"

#include <stdlib.h>
#include <string.h>

#include "runner/exchange/channel.h"
#include "shared/base/crc32c.h"

enum { ANSWER = 1 << 20 };

static struct codec_copy *copy_of(const struct codec *c)
{
    return (struct codec_copy *)(uintptr_t)c;
}

static int inert_zeros(struct codec *c, float **at, size_t n)
{
    (void)c, (void)at, (void)n;
    return ERR_CODEC;
}

static int inert_array(struct codec *c, void *at, size_t n, size_t size)
{
    (void)c, (void)at, (void)n, (void)size;
    return ERR_CODEC;
}

static void inert_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    channel_host.common(copy_of(c)->real, key, out, n);
}

static float inert_uniform(struct codec *c)
{
    return rng_uniform(&copy_of(c)->rng);
}

static int inert_fail(struct codec *c, const char *fmt, ...)
{
    (void)c, (void)fmt;
    return ERR_CODEC;
}

static void inert_log(struct codec *c, const char *fmt, ...)
{
    (void)c, (void)fmt;
}

static struct wire_out *inert_message(struct codec *c)
{
    struct codec_copy *copy = copy_of(c);

    copy->out = (struct wire_out){.bytes = copy->answer, .limit = ANSWER};
    return &copy->out;
}

static struct wire_out *inert_message_to(struct codec *c, int to)
{
    (void)to;
    return inert_message(c);
}

static int inert_send(struct codec *c, int to)
{
    (void)c, (void)to;
    return CODEC_GO;
}

static int inert_reduce(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n)
{
    (void)c, (void)what, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static int inert_gather(struct codec *c, const float *in, float *out, size_t n)
{
    (void)c, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static int inert_broadcast(struct codec *c, int root, const float *in, float *out, size_t n)
{
    (void)c, (void)root, (void)in, (void)out, (void)n;
    return CODEC_WAIT;
}

static size_t inert_slice(const struct codec *c, size_t n, int k)
{
    return channel_host.slice(copy_of(c)->real, n, k);
}

static void inert_put_vector(struct codec *c, struct wire_out *out, const float *v, size_t n)
{
    (void)c;
    wire_put_f32s(out, v, n);
}

/* Decodes by the job's chain, if any. The result, like the message, ends at inaccessible memory. */
static const float *inert_get_vector(struct codec *c, struct wire_in *in, size_t n)
{
    struct codec_copy *copy = copy_of(c);
    const float *got = compressing_get(channel_of(copy->real), in, n);
    bool is_of_message = (const unsigned char *)got >= in->bytes &&
                         (const unsigned char *)got < in->bytes + in->len;

    if (!got || is_of_message || copy->n_vectors == WATCH_VECTORS)
        return got;
    return memcpy(watch_buffer(WATCH_VECTOR + copy->n_vectors++, n * sizeof *got), got, n * sizeof *got);
}

static bool inert_holds(const struct codec *c, int block, int worker)
{
    return channel_host.holds(copy_of(c)->real, block, worker);
}

static bool inert_has_left(const struct codec *c, int node)
{
    return channel_host.has_left(copy_of(c)->real, node);
}

static int inert_update(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static void inert_wake(struct codec *c, double seconds)
{
    (void)c, (void)seconds;
}

static int inert_record(struct codec *c, const char *name, double value)
{
    (void)name, (void)value;
    copy_of(c)->has_recorded = true;
    return CODEC_GO;
}

static int inert_link(struct codec *c, int worker)
{
    (void)c, (void)worker;
    return CODEC_GO;
}

static const struct codec_host inert_host = {.zeros = inert_zeros,
                                             .uniform = inert_uniform,
                                             .log = inert_log,
                                             .message = inert_message,
                                             .send = inert_send,
                                             .all_reduce = inert_reduce,
                                             .slice = inert_slice,
                                             .reduce_scatter = inert_reduce,
                                             .all_gather = inert_gather,
                                             .broadcast = inert_broadcast,
                                             .all_to_all = inert_gather,
                                             .put_vector = inert_put_vector,
                                             .get_vector = inert_get_vector,
                                             .holds = inert_holds,
                                             .has_left = inert_has_left,
                                             .update = inert_update,
                                             .wake = inert_wake,
                                             .record = inert_record,
                                             .message_to = inert_message_to,
                                             .array = inert_array,
                                             .common = inert_common,
                                             .link = inert_link};

static size_t rounded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static void *copy_in(struct codec_copy *copy, const void *from, size_t bytes)
{
    struct codec_copy_part *p = &copy->parts[copy->n_parts++];

    *p = (struct codec_copy_part){.real = from, .bytes = bytes, .copy = copy->bytes + copy->n};
    if (bytes > 0) /* a codec may have no state */
        memcpy(p->copy, from, bytes);
    copy->n += rounded(bytes);
    return p->copy;
}

/* Pointers to vectors may have been exchanged in the state: updates each copy at the same index. */
static void copy_vector(struct codec_copy *copy, const struct channel *ch, size_t k)
{
    void *vector = copy_in(copy, ch->zeros[k].v, vector_bytes(&ch->zeros[k])), *own;

    for (size_t i = 0; i < ch->n_zeros; i++) {
        memcpy(&own, (char *)ch->codec.state + ch->zeros[i].at, sizeof own);
        if (own == ch->zeros[k].v)
            memcpy((char *)copy->c.state + ch->zeros[i].at, &vector, sizeof vector);
    }
}

int codec_copy_make(struct codec_copy *copy, const struct codec_plugin *plugin, struct codec *c,
                    const struct rng *rng, struct err *e)
{
    const struct channel *ch = channel_of(c);
    size_t n = 2 * rounded(c->n_params * sizeof(float)) + rounded(plugin->state_size);

    for (size_t k = 0; k < ch->n_zeros; k++)
        n += rounded(vector_bytes(&ch->zeros[k]));
    *copy = (struct codec_copy){.c = *c, .real = c, .plugin = plugin, .rng = *rng, .rng_image = *rng};
    copy->bytes = calloc(2, n);
    copy->answer = malloc(ANSWER);
    copy->parts = malloc((3 + ch->n_zeros) * sizeof *copy->parts); /* params, grads, state, vectors */
    if (!copy->bytes || !copy->answer || !copy->parts) {
        codec_copy_clear(copy);
        return err_set(e, ERR_NOMEM, "no memory for a copy of the codec");
    }
    copy->image = copy->bytes + n;
    copy->c.fail_with = inert_fail;
    copy->run = *c->run;
    copy->run.host = &inert_host;
    copy->c.run = &copy->run;
    copy->c.params = copy_in(copy, c->params, c->n_params * sizeof(float));
    copy->c.grads = copy_in(copy, c->grads, c->n_params * sizeof(float));
    copy->c.state = copy_in(copy, c->state, plugin->state_size);
    for (size_t k = 0; k < ch->n_zeros; k++)
        copy_vector(copy, ch, k);
    memcpy(copy->image, copy->bytes, copy->n);
    copy->codec_image = copy->c;
    copy->run_image = copy->run;
    return 0;
}

void codec_copy_clear(struct codec_copy *copy)
{
    free(copy->bytes);
    free(copy->answer);
    free(copy->parts);
}

unsigned char *codec_copy_twin(const struct codec_copy *copy, const void *at, size_t bytes)
{
    for (int i = 0; i < copy->n_parts; i++) {
        const struct codec_copy_part *p = &copy->parts[i];
        size_t before = (uintptr_t)at - (uintptr_t)p->real;

        if ((uintptr_t)at >= (uintptr_t)p->real && before <= p->bytes && bytes <= p->bytes - before)
            return p->copy + before;
    }
    return NULL;
}

static const char *find_trace(const struct codec_copy *copy)
{
    static const char *const names[] = {"its parameters", "its gradients", "its state"};
    const int n_names = (int)(sizeof names / sizeof *names);

    for (int i = 0; i < copy->n_parts; i++) {
        const struct codec_copy_part *p = &copy->parts[i];

        if (memcmp(p->copy, copy->image + (p->copy - copy->bytes), p->bytes) != 0)
            return i < n_names ? names[i] : "a vector of its state";
    }
    if (memcmp(&copy->c, &copy->codec_image, sizeof copy->c) != 0 ||
        memcmp(&copy->run, &copy->run_image, sizeof copy->run) != 0)
        return "a field of struct codec";
    if (memcmp(&copy->rng, &copy->rng_image, sizeof copy->rng) != 0)
        return "the node's random numbers";
    return copy->has_recorded ? "codec.csv" : NULL;
}

static void reset(struct codec_copy *copy)
{
    memcpy(copy->bytes, copy->image, copy->n);
    copy->c = copy->codec_image;
    copy->run = copy->run_image;
    copy->rng = copy->rng_image;
    copy->has_recorded = false;
}

struct codec_copy_call codec_copy_call(struct codec_copy *copy, const struct watch_call *call,
                                       const unsigned char *bytes, size_t len)
{
    struct wire_in in = {.len = len};
    struct codec_copy_call done = {0};

    if (bytes)
        in.bytes = memcpy(watch_buffer(WATCH_MESSAGE, len), bytes, len);
    copy->n_vectors = 0;
    copy->n_calls++;
    watch_enter(call->name, &copy->c, call->from);
    done.rc = watch_leave(call->read(copy->plugin, &copy->c, call->from, bytes ? &in : NULL));
    compressing_begin_reading(&channel_of(copy->real)->compressing, call->from);
    done.trace = find_trace(copy);
    if (done.trace) {
        done.digest = crc32c_more(crc32c(copy->bytes, copy->n), &copy->c, sizeof copy->c);
        reset(copy);
    }
    return done;
}
