/* mumble -- gradients go to the servers, their mean comes back, and the state counts both; but the
 * contribution of worker 1 in its third round is one number short. */
#include "mean.h"

struct mumble {
    float n_merged; /* contributions so far */
};

static int mumble_encode(struct codec *c, struct wire_out *out)
{
    bool is_short = c->run->node == 1 && c->run->round == 2;

    wire_put_f32s(out, c->grads, c->n_params - is_short);
    return CODEC_GO;
}

static int mumble_merge(struct codec *c, int from, struct wire_in *in)
{
    struct mumble *m = c->state;
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed gradient", from);
    m->n_merged++;
    return mean_add(c, g);
}

/* Sends the count to the workers as the gradient of their first parameter. */
static int mumble_reply(struct codec *c, struct wire_out *out)
{
    const struct mumble *m = c->state;

    wire_put_f32(out, m->n_merged);
    wire_put_f32s(out, c->grads + 1, c->n_params - 1);
    return CODEC_GO;
}

static int mumble_adopt(struct codec *c, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed gradient");
    memcpy(c->grads, g, c->n_params * sizeof *g);
    return CODEC_GO;
}

static const struct codec_round mumble = {.before_update = true,
                                          .encode = mumble_encode,
                                          .merge = mumble_merge,
                                          .reply = mumble_reply,
                                          .adopt = mumble_adopt};

CODEC_PLUGIN(.name = "mumble", .source = "a test", .state_size = sizeof(struct mumble),
             .more = CODEC_MORE(.round = &mumble))
