/* check_malformed -- truncates, lengthens and changes messages that the codec receives in a job, and has a
 * copy of the codec read them: it refuses what has another length, and a merge that refuses leaves no trace.
 * Results of collectives are changed but not truncated: the host accepts any numbers, but only in the right
 * count. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"
#include "conform/codec_copy.h"
#include "runner/exchange/channel.h"
#include "shared/plugin/combine_path.h"

/* A job runs once plainly and, if the codec sends vectors, once more compressed; each run attacks some of
 * the received messages, at regular intervals. All jobs together have fewer than SHARES attacks. If the
 * requested number of changes needs more than CHANGES_MAX per attack, all jobs run again, with other
 * timings and changes. */
enum { ATTACKS = 4, EVERY = 5, EXTRA = 64, WORDS = 64, SHARES = 64, CHANGES_MAX = 5000 };

static struct campaign { /* static, because check_jobs passes no context */
    struct conform_check *check;
    struct rng rng;
    uint64_t seed; /* of this pass over all jobs */
    uint64_t n_received, n_done, n_read, n_changed;
    struct err e;
    int rc;
} campaign;

/* Gives the copy a message that no honest node sends. `what` completes "a message ...". If a server
 * continues without a worker, a refused merge must not have changed anything. */
static int try_message(struct codec_copy *copy, const struct watch_call *call, const unsigned char *bytes,
                       size_t len, bool must_refuse, struct err *e, const char *what, ...)
    __attribute__((format(printf, 7, 8)));

static int try_message(struct codec_copy *copy, const struct watch_call *call, const unsigned char *bytes,
                       size_t len, bool must_refuse, struct err *e, const char *what, ...)
{
    const struct codec_copy_call done = codec_copy_call(copy, call, bytes, len);
    bool has_left_trace = done.rc < 0 && done.trace && strcmp(call->name, "merge") == 0;
    char text[128];
    va_list ap;

    if (!has_left_trace && (done.rc < 0 || !must_refuse))
        return 0;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    if (!has_left_trace)
        return err_set(e, ERR_CODEC, "%s of node %d accepts a message %s; call wire_ok() before using it",
                       call->name, copy->run.node, text);
    return err_set(e, ERR_CODEC, "merge of node %d refuses a message %s, but has already changed %s",
                   copy->run.node, text, done.trace);
}

static int truncate_message(struct codec_copy *copy, const struct watch_call *call, struct err *e)
{
    const struct wire_in *in = call->in;

    for (size_t len = 0; len < in->len; len++)
        if (try_message(copy, call, in->bytes, len, true, e, "truncated to %zu of its %zu bytes", len,
                        in->len) < 0)
            return e->code;
    return 0;
}

/* Followed by a few bytes, and by itself again. `bytes` has room for both. */
static int lengthen_message(struct codec_copy *copy, const struct watch_call *call, unsigned char *bytes,
                            struct err *e)
{
    const struct wire_in *in = call->in;

    memcpy(bytes, in->bytes, in->len);
    memset(bytes + in->len, 0, EXTRA);
    for (size_t more = 1; more <= EXTRA; more *= 2)
        if (try_message(copy, call, bytes, in->len + more, true, e, "of %zu bytes and %zu more", in->len,
                        more) < 0)
            return e->code;
    memcpy(bytes + in->len, in->bytes, in->len);
    return try_message(copy, call, bytes, 2 * in->len, true, e, "of %zu bytes that is there twice", in->len);
}

/* In place of each of the first words, where counts and indices are, and of the last: numbers that no honest
 * message has there, as integers and as floats. */
static int replace_words(struct codec_copy *copy, const struct watch_call *call, unsigned char *bytes,
                         struct err *e)
{
    const struct wire_in *in = call->in;
    const uint32_t n = (uint32_t)copy->c.n_params;
    const uint32_t values[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000, 0x7fc00000,
                               0x7f800000, 0xff800000, 0x10000,    n - 1,      n,          n + 1};
    const size_t n_words = in->len / sizeof *values;

    for (size_t i = 0; i < n_words; i++) {
        if (i == WORDS && n_words > WORDS)
            i = n_words - 1;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            memcpy(bytes, in->bytes, in->len);
            memcpy(bytes + i * sizeof *values, &values[k], sizeof *values);
            if (try_message(copy, call, bytes, in->len, false, e, "with 0x%x as its word %zu",
                            (unsigned)values[k], i) < 0)
                return e->code;
        }
    }
    return 0;
}

/* A codec that has refused messages reads the next one as if it had never received them. Its memory was
 * compared after each; this finds what it keeps elsewhere. `before`: the true message, read before them. */
static int read_again(struct codec_copy *copy, const struct watch_call *call,
                      const struct codec_copy_call *before, struct err *e)
{
    const struct codec_copy_call after = codec_copy_call(copy, call, call->in->bytes, call->in->len);

    if (after.rc == before->rc && after.digest == before->digest)
        return 0;
    return err_set(
        e, ERR_CODEC,
        "%s of node %d reads a message differently after it has refused others: it keeps something "
        "outside of its state",
        call->name, copy->run.node);
}

static void put_value(unsigned char *bytes, size_t len)
{
    static const uint32_t values[] = {0,          1,          0xffffffff, 0x7fffffff,
                                      0x80000000, 0x7fc00000, 0x7f800000, 0x10000};

    if (len >= sizeof *values)
        memcpy(bytes + rng_below(&campaign.rng, (uint32_t)(len / sizeof *values)) * sizeof *values,
               &values[rng_below(&campaign.rng, sizeof values / sizeof *values)], sizeof *values);
}

static void put_values(unsigned char *bytes, size_t len)
{
    for (uint32_t n = rng_below(&campaign.rng, 3); n > 0; n--)
        put_value(bytes, len);
}

static void flip(unsigned char *bytes, size_t len)
{
    if (len > 0)
        bytes[rng_below(&campaign.rng, (uint32_t)len)] ^= (unsigned char)(1u << rng_below(&campaign.rng, 8));
}

/* Changes a message. Returns its new length, at most EXTRA more. */
static size_t change(unsigned char *bytes, size_t len)
{
    switch (rng_below(&campaign.rng, 4)) {
    case 0:
        flip(bytes, len);
        return len;
    case 1:
        put_value(bytes, len);
        return len;
    case 2:
        return rng_below(&campaign.rng, (uint32_t)len + 1);
    default:
        for (size_t i = 0; i < EXTRA; i++)
            bytes[len + i] = (unsigned char)rng_below(&campaign.rng, 256);
        return len + rng_below(&campaign.rng, EXTRA + 1);
    }
}

/* Whether to change one more message, the i-th of this attack. */
static bool is_wanted(uint64_t i)
{
    uint64_t share = campaign.check->n_mutations / SHARES + 1;

    return i < (share < CHANGES_MAX ? share : CHANGES_MAX) &&
           campaign.n_changed < campaign.check->n_mutations;
}

/* Makes one or several changes, of which only the last may lengthen the message. */
static int change_often(struct codec_copy *copy, const struct watch_call *call, unsigned char *bytes,
                        struct err *e)
{
    const struct wire_in *in = call->in;

    for (uint64_t i = 0; is_wanted(i); i++, campaign.n_changed++) {
        memcpy(bytes, in->bytes, in->len);
        put_values(bytes, in->len);
        if (try_message(copy, call, bytes, change(bytes, in->len), false, e,
                        "with some of its bytes changed") < 0)
            return e->code;
    }
    return 0;
}

static int attack_message(struct codec_copy *copy, const struct watch_call *call, struct err *e)
{
    unsigned char *bytes = malloc(2 * call->in->len + EXTRA);
    struct codec_copy_call first, again;
    int rc;

    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    first = codec_copy_call(copy, call, call->in->bytes, call->in->len);
    again = codec_copy_call(copy, call, call->in->bytes, call->in->len);
    rc = truncate_message(copy, call, e) < 0 || lengthen_message(copy, call, bytes, e) < 0 ||
                 replace_words(copy, call, bytes, e) < 0
             ? e->code
             : change_often(copy, call, bytes, e);
    if (rc == 0 && first.rc == again.rc && first.digest == again.digest)
        rc = read_again(copy, call, &first, e);
    free(bytes);
    return rc;
}

/* Changes the result of the workers' collective, which is in the codec's own vector. */
static void change_result(struct codec_copy *copy, const struct watch_call *call)
{
    const struct collecting *of = &channel_of(call->c)->collecting;
    size_t len = of->n_last_out;
    unsigned char *out = codec_copy_twin(copy, of->last_out, len);

    for (uint64_t i = 0; out && is_wanted(i); i++, campaign.n_changed++) {
        put_values(out, len);
        flip(out, len);
        codec_copy_call(copy, call, NULL, 0);
    }
}

static int attack(const struct watch_call *call, struct err *e)
{
    struct codec_copy copy;
    int rc = 0;

    if (codec_copy_make(&copy, campaign.check->plugin, call->c, &campaign.rng, e) < 0)
        return e->code;
    if (!call->in)
        change_result(&copy, call);
    else
        rc = attack_message(&copy, call, e);
    campaign.n_read += copy.n_calls;
    codec_copy_clear(&copy);
    return rc;
}

/* Attacks some of the messages, early and late ones, at every kind of node. */
static void attack_some(void *owner, const struct watch_call *call)
{
    (void)owner;
    if (campaign.rc < 0 || campaign.n_received++ % EVERY != 0 || campaign.n_done == ATTACKS ||
        (call->in && call->in->len == 0))
        return;
    campaign.n_done++;
    campaign.rc = attack(call, &campaign.e);
}

static int attack_a_job(struct conform_check *k, struct err *e)
{
    campaign.n_received = campaign.n_done = 0;
    campaign.rc = 0;
    rng_init(&campaign.rng, campaign.seed, 0xbad, 0);
    k->page->seed = campaign.seed;
    watch_receives(attack_some, NULL);
    if (check_run(k, campaign.seed, e) < 0)
        return e->code;
    if (campaign.rc < 0)
        *e = campaign.e;
    return campaign.rc < 0 ? campaign.rc : check_ended(k, e);
}

/* With all parts that a chain can put in a message: a factor, scales, coded symbols, indices. */
static void compress(struct conform_check *k)
{
    static const char *const chains[] = {"none|huffman", "topk:ratio=0.3,ef=true|qsgd|huffman"};
    enum codec_compression takes = combine_path_compression(k->plugin);
    size_t n = strlen(k->page->what);

    strcpy(k->set.compress, chains[takes != CODEC_LOSSLESS_ONLY]);
    if (k->set.server_count > 0)
        strcpy(k->set.compress_down, chains[takes == CODEC_LOSSY || takes == CODEC_LOSSY_PARAMS]);
    snprintf(k->page->what + n, sizeof k->page->what - n, ", compressed");
}

static int attack_in_both_forms(struct conform_check *k, struct err *e)
{
    if (attack_a_job(k, e) < 0)
        return e->code;
    if (combine_path_compression(k->plugin) == CODEC_UNCOMPRESSED)
        return 0;
    compress(k);
    return attack_a_job(k, e);
}

int check_malformed(struct conform_check *k, struct err *e)
{
    uint64_t before;
    int rc;

    if (k->plugin->combine) {
        err_set(e, ERR_CODEC, "it receives no messages");
        return CHECK_IS_NOT_FOR_IT;
    }
    campaign = (struct campaign){.check = k, .seed = k->seed > 0 ? k->seed : 1};
    do {
        before = campaign.n_changed;
        rc = check_jobs(k, CHECK_STEPS, CHECK_EITHER, attack_in_both_forms, e);
        campaign.seed++;
    } while (rc == 0 && k->seed == 0 && campaign.n_changed > before && campaign.n_changed < k->n_mutations);
    if (rc == 0 && campaign.n_read == 0) {
        err_set(e, ERR_CODEC, "it receives no messages");
        return CHECK_IS_NOT_FOR_IT;
    }
    return rc;
}
