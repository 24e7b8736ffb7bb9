/* path_servers -- each parameter server merges its range of the contributions, and replies with the
 * combination: every worker applies it to its own copy of the parameters. In asgd, and if the job's optimizer
 * runs on the servers, the servers apply it, and reply with the parameters.
 *
 * Servers exchange sums over whole vectors (whole.h). In asgd with --clip-norm, if several servers update,
 * each message of a contribution begins with the norm of the worker's whole gradient. */
#include "runner/base/vector.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"

static bool replies_with_parameters(const struct channel *ch)
{
    return !ch->codec.is_sync || codec_more(ch->x->cfg.plugin)->updates_on_server;
}

/* A vector of its own that a server does not use otherwise. */
static float *unused(const struct channel *ch)
{
    return ch->combining.rule->when == CODEC_EACH_STEP ? ch->codec.grads : ch->codec.params;
}

static int servers_open(struct channel *ch)
{
    struct combining *b = &ch->combining;
    bool is_unused = ch->codec.is_sync || !b->rule->apply;

    for (int k = 0; ch->run.node < 0 && k < b->n_vectors; k++) {
        if (k == 0 && is_unused)
            b->merged[k] = unused(ch);
        else if (combining_room(ch, &b->merged[k]) < 0)
            return ch->x->e->code;
    }
    return ch->run.node < 0 ? combining_open_aggregate(ch, ch->codec.n_workers) : CODEC_GO;
}

static void put_norm(struct wire_out *out, double norm)
{
    double *at = wire_put(out, 1, sizeof norm);

    if (at)
        memcpy(at, &norm, sizeof norm);
}

static double get_norm(struct wire_in *in)
{
    const double *at = wire_get(in, 1, sizeof *at);
    double norm = 0;

    if (at)
        memcpy(&norm, at, sizeof norm);
    return norm;
}

static int servers_encode(struct channel *ch, struct wire_out *out)
{
    int rc = combining_contribute(ch);

    if (rc < 0)
        return rc;
    if (!ch->codec.is_sync)
        wire_put_u32(out, ch->combining.version);
    if (ch->x->sends_norm)
        put_norm(out, ch->x->grad_norm);
    combining_put(ch, out, ch->combining.is_weighted);
    return CODEC_GO;
}

static int servers_merge(struct channel *ch, int from, struct wire_in *in)
{
    uint64_t round = ch->run.round;
    bool is_sync = ch->codec.is_sync;
    uint32_t version = is_sync ? 0 : wire_get_u32(in);
    double norm = ch->x->sends_norm ? get_norm(in) : 0;

    if (version > round || norm < 0)
        return channel_fail(ch, "node %d sent a malformed contribution", from);
    ch->combining.grad_norm = norm;
    if (combining_take(ch, from, in) < 0)
        return ch->x->e->code;
    return is_sync ? CODEC_GO : channel_record(ch, "staleness", (double)(round - version));
}

static int servers_apply(struct channel *ch)
{
    struct combining *b = &ch->combining;
    int rc = combining_finish(ch);

    combining_check_finished(ch);
    b->is_empty = rc == CODEC_WAIT;
    if (rc != CODEC_GO || !replies_with_parameters(ch))
        return rc < 0 ? rc : CODEC_GO;
    if (codec_more(ch->x->cfg.plugin)->updates_on_server)
        return channel_request_update(ch);
    return combining_apply(ch, (const float *const *)b->merged, b->merged_numbers);
}

static int servers_reply(struct channel *ch, struct wire_out *out)
{
    struct combining *b = &ch->combining;

    if (replies_with_parameters(ch)) {
        if (!ch->codec.is_sync)
            wire_put_u32(out, (uint32_t)ch->run.round + 1); /* includes the update of this round */
        compressing_put(ch, out, b->before ? b->before : ch->codec.params, ch->n_params);
        return CODEC_GO;
    }
    for (int k = 0; k < b->n_vectors; k++)
        b->vectors[k] = b->merged[k];
    if (ch->x->cfg.goes_on)
        wire_put_u32(out, (uint32_t)ch->codec.n_contributions);
    b->weight = b->is_empty ? 0 : 1;
    memcpy(b->numbers, b->merged_numbers, sizeof b->numbers);
    combining_put(ch, out, combining_may_be_empty(ch));
    return CODEC_GO;
}

static int adopt_parameters(struct channel *ch, int server, struct wire_in *in)
{
    struct combining *b = &ch->combining;
    struct codec *c = &ch->codec;
    uint32_t version = c->is_sync ? 0 : wire_get_u32(in);
    const float *v = compressing_get(ch, in, ch->n_params);

    if (!wire_ok(in))
        return channel_fail(ch, "the server sent malformed parameters");
    if (finite_check_parameters(ch, server, v) < 0)
        return ch->x->e->code;
    b->version = version;
    vector_copy(c->global ? c->global : c->params, v, ch->n_params);
    if (b->before)
        vector_copy(b->before, v, ch->n_params);
    return combining_adopt(ch);
}

static int servers_adopt(struct channel *ch, int server, struct wire_in *in)
{
    struct codec *c = &ch->codec;
    struct combining_contribution mean;
    uint32_t n;

    if (replies_with_parameters(ch))
        return adopt_parameters(ch, server, in);
    n = ch->x->cfg.goes_on ? wire_get_u32(in) : (uint32_t)(ch->round.draw ? ch->round.draw->m : c->n_workers);
    if (!combining_get(&mean, ch, in, combining_may_be_empty(ch)) || n > (uint32_t)c->n_workers)
        return channel_fail(ch, "the server sent a malformed combination");
    c->n_contributions = (int)n;
    if (mean.is_finished)
        exchange_end_finished(ch->x);
    if (mean.weight == 0)
        return CODEC_GO;
    if (finite_check_combination(ch, server, mean.vectors, mean.numbers) < 0)
        return ch->x->e->code;
    return combining_apply(ch, mean.vectors, mean.numbers);
}

#define SERVERS                                                                                              \
    .encode = servers_encode, .merge = servers_merge, .apply = servers_apply, .reply = servers_reply,        \
    .adopt = servers_adopt

static const struct round_rule *servers_round(const struct codec_combine *r, bool has_trainer)
{
    static const struct round_rule of_params = {SERVERS}, of_grads = {SERVERS, .before_update = true};

    (void)has_trainer;
    return r->when == CODEC_EACH_ROUND ? &of_params : &of_grads;
}

/* Adds the parts that a server sends to the others. */
static struct codec_cost with_parts(const struct channel *ch, struct codec_cost c)
{
    uint64_t n_others = ch->run.node < 0 ? (uint64_t)ch->run.n_servers - 1 : 0;

    for (int kind = 0; kind < WHOLE_KINDS; kind++)
        if (whole_needs(ch->x, (enum whole_kind)kind)) {
            c.messages += n_others;
            c.bytes += n_others * whole_bytes(ch->x, (enum whole_kind)kind);
        }
    return c;
}

static struct codec_cost servers_cost(const struct channel *ch)
{
    uint64_t to = codec_receivers(&ch->codec);
    bool is_server = ch->run.node < 0;
    uint64_t bytes = is_server && replies_with_parameters(ch)
                         ? sizeof(float) * ch->n_params
                         : combining_bytes(ch, is_server ? combining_may_be_empty(ch)
                                                         : ch->combining.is_weighted);

    return with_parts(ch, (struct codec_cost){to, to * bytes});
}

const struct combine_path path_servers = {.round = servers_round, .open = servers_open, .cost = servers_cost};
