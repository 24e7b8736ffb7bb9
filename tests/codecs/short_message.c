/* short_message -- gradients go to the servers, their mean comes back, and the state counts both; but the
 * contribution of worker 1 in its third round is one number short. */
#include "mean.h"

struct short_message {
    float n_merged; /* contributions so far */
};

static int short_message_encode(struct codec *c, struct wire_out *out)
{
    bool is_short = c->run->node == 1 && c->run->round == 2;

    wire_put_f32s(out, c->grads, c->n_params - is_short);
    return CODEC_GO;
}

static int short_message_merge(struct codec *c, int from, struct wire_in *in)
{
    struct short_message *m = c->state;
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed gradient", from);
    m->n_merged++;
    return mean_add(c, g);
}

/* Sends the count to the workers as the gradient of their first parameter. */
static int short_message_reply(struct codec *c, struct wire_out *out)
{
    const struct short_message *m = c->state;

    wire_put_f32(out, m->n_merged);
    wire_put_f32s(out, c->grads + 1, c->n_params - 1);
    return CODEC_GO;
}

static int short_message_adopt(struct codec *c, struct wire_in *in)
{
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed gradient");
    memcpy(c->grads, g, c->n_params * sizeof *g);
    return CODEC_GO;
}

static const struct codec_round short_message = {.before_update = true,
                                                 .encode = short_message_encode,
                                                 .merge = short_message_merge,
                                                 .reply = short_message_reply,
                                                 .adopt = short_message_adopt};

CODEC_PLUGIN(.name = "short_message", .source = "a test", .state_size = sizeof(struct short_message),
             .more = CODEC_MORE(.round = &short_message))
