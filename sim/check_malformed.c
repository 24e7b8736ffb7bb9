/* check_malformed -- truncates and changes messages that the codec receives in a job, and has a copy of the
 * codec read them. Results of collectives are changed but not truncated: the host accepts any numbers, but
 * only in the right count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/check.h"
#include "sim/victim.h"

/* A job runs once plainly and, if the codec sends vectors, once more compressed; each run attacks some of
 * the received messages, at regular intervals. All jobs together have fewer than SHARES attacks. If the
 * requested number of changes needs more than CHANGES_MAX per attack, all jobs run again, with other
 * timings and changes. */
enum { ATTACKS = 4, EVERY = 5, EXTRA = 64, SHARES = 64, CHANGES_MAX = 5000 };

static struct campaign { /* static, because check_jobs passes no context */
    struct check *check;
    struct rng rng;
    uint64_t seed; /* of this pass over all jobs */
    uint64_t n_received, n_done, n_read, n_changed;
    struct err e;
    int rc;
} hunt;

/* If a server continues without a worker, a refused merge must not have changed anything. */
static int truncate_message(struct victim *v, const struct watch_call *call, struct err *e)
{
    const struct wire_in *in = call->in;
    bool is_touched;

    for (size_t len = 0; len < in->len; len++) {
        if (victim_call(v, call, in->bytes, len, &is_touched) >= 0)
            return err_set(
                e, ERR_CODEC,
                "%s of node %d accepts a message truncated to %zu of its %zu bytes; call wire_ok() "
                "before using it",
                call->name, v->c.node, len, in->len);
        if (is_touched && strcmp(call->name, "merge") == 0)
            return err_set(e, ERR_CODEC,
                           "merge of node %d refuses a message truncated to %zu of its %zu bytes, but has "
                           "already changed "
                           "parameters, gradients or state",
                           v->c.node, len, in->len);
    }
    return 0;
}

static void put_value(unsigned char *bytes, size_t len)
{
    static const uint32_t values[] = {0,          1,          0xffffffff, 0x7fffffff,
                                      0x80000000, 0x7fc00000, 0x7f800000, 0x10000};

    if (len >= sizeof *values)
        memcpy(bytes + rng_below(&hunt.rng, (uint32_t)(len / sizeof *values)) * sizeof *values,
               &values[rng_below(&hunt.rng, sizeof values / sizeof *values)], sizeof *values);
}

static void put_values(unsigned char *bytes, size_t len)
{
    for (uint32_t n = rng_below(&hunt.rng, 3); n > 0; n--)
        put_value(bytes, len);
}

static void flip(unsigned char *bytes, size_t len)
{
    if (len > 0)
        bytes[rng_below(&hunt.rng, (uint32_t)len)] ^= (unsigned char)(1u << rng_below(&hunt.rng, 8));
}

/* Changes a message. Returns its new length, at most EXTRA more. */
static size_t change(unsigned char *bytes, size_t len)
{
    switch (rng_below(&hunt.rng, 4)) {
    case 0:
        flip(bytes, len);
        return len;
    case 1:
        put_value(bytes, len);
        return len;
    case 2:
        return rng_below(&hunt.rng, (uint32_t)len + 1);
    default:
        for (size_t i = 0; i < EXTRA; i++)
            bytes[len + i] = (unsigned char)rng_below(&hunt.rng, 256);
        return len + rng_below(&hunt.rng, EXTRA + 1);
    }
}

/* Whether to change one more message, the i-th of this attack. */
static bool is_wanted(uint64_t i)
{
    uint64_t share = hunt.check->n_mutations / SHARES + 1;

    return i < (share < CHANGES_MAX ? share : CHANGES_MAX) && hunt.n_changed < hunt.check->n_mutations;
}

/* Makes one or several changes, of which only the last may lengthen the message. */
static int change_often(struct victim *v, const struct watch_call *call, struct err *e)
{
    const struct wire_in *in = call->in;
    unsigned char *bytes = malloc(in->len + EXTRA);
    bool ignored;

    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    for (uint64_t i = 0; is_wanted(i); i++, hunt.n_changed++) {
        memcpy(bytes, in->bytes, in->len);
        put_values(bytes, in->len);
        victim_call(v, call, bytes, change(bytes, in->len), &ignored);
    }
    free(bytes);
    return 0;
}

/* Changes the result of the workers' collective, which is in the codec's own vector. */
static void change_result(struct victim *v, const struct watch_call *call)
{
    const struct collecting *of = &((const struct channel *)(const void *)call->c)->collecting;
    size_t len = of->n_last_out;
    unsigned char *out = victim_twin(v, of->last_out, len);
    bool ignored;

    for (uint64_t i = 0; out && is_wanted(i); i++, hunt.n_changed++) {
        put_values(out, len);
        flip(out, len);
        victim_call(v, call, NULL, 0, &ignored);
    }
}

static int attack(const struct watch_call *call, struct err *e)
{
    struct victim v;
    int rc = 0;

    if (victim_make(&v, hunt.check->plugin, call->c, &hunt.rng, e) < 0)
        return e->code;
    if (!call->in)
        change_result(&v, call);
    else if ((rc = truncate_message(&v, call, e)) == 0)
        rc = change_often(&v, call, e);
    hunt.n_read += v.n_calls;
    victim_clear(&v);
    return rc;
}

/* Attacks some of the messages, early and late ones, at every kind of node. */
static void receive(void *owner, const struct watch_call *call)
{
    (void)owner;
    if (hunt.rc < 0 || hunt.n_received++ % EVERY != 0 || hunt.n_done == ATTACKS ||
        (call->in && call->in->len == 0))
        return;
    hunt.n_done++;
    hunt.rc = attack(call, &hunt.e);
}

static int attack_a_job(struct check *k, struct err *e)
{
    hunt.n_received = hunt.n_done = 0;
    hunt.rc = 0;
    rng_init(&hunt.rng, hunt.seed, 0xbad, 0);
    k->page->seed = hunt.seed;
    watch_receives(receive, NULL);
    if (check_run(k, hunt.seed, e) < 0)
        return e->code;
    if (hunt.rc < 0)
        *e = hunt.e;
    return hunt.rc < 0 ? hunt.rc : check_ended(k, e);
}

/* With all parts that a chain can put in a message: a factor, scales, coded symbols, indices. */
static void compress(struct check *k)
{
    static const char *const chains[] = {"none|huffman", "topk:ratio=0.3,ef=true|qsgd|huffman"};
    enum codec_compression takes = k->plugin->compression;
    size_t n = strlen(k->page->what);

    strcpy(k->set.compress, chains[takes != CODEC_LOSSLESS_ONLY]);
    if (k->set.server_count > 0)
        strcpy(k->set.compress_down, chains[takes == CODEC_LOSSY || takes == CODEC_LOSSY_PARAMS]);
    snprintf(k->page->what + n, sizeof k->page->what - n, ", compressed");
}

static int attack_in_both_forms(struct check *k, struct err *e)
{
    if (attack_a_job(k, e) < 0)
        return e->code;
    if (k->plugin->compression == CODEC_UNCOMPRESSED)
        return 0;
    compress(k);
    return attack_a_job(k, e);
}

int check_malformed(struct check *k, struct err *e)
{
    uint64_t before;
    int rc;

    if (k->plugin->combine) {
        err_set(e, ERR_CODEC, "it receives no messages");
        return CHECK_IS_NOT_FOR_IT;
    }
    hunt = (struct campaign){.check = k, .seed = k->seed > 0 ? k->seed : 1};
    do {
        before = hunt.n_changed;
        rc = check_jobs(k, CHECK_STEPS, CHECK_EITHER, attack_in_both_forms, e);
        hunt.seed++;
    } while (rc == 0 && k->seed == 0 && hunt.n_changed > before && hunt.n_changed < k->n_mutations);
    if (rc == 0 && hunt.n_read == 0) {
        err_set(e, ERR_CODEC, "it receives no messages");
        return CHECK_IS_NOT_FOR_IT;
    }
    return rc;
}
