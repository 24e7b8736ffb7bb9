/* broken_server -- the server's learning rate falls from round to round, by a counter of rounds outside its
 * state: no checkpoint contains it. */
#include "mean.h"

static int n_rounds;

static int broken_apply(struct codec *c)
{
    c->run->lr_factor = 1 / (float)++n_rounds;
    return codec_update(c);
}

static int broken_reply(struct codec *c, struct wire_out *out)
{
    codec_put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

static int broken_adopt(struct codec *c, struct wire_in *in)
{
    const float *w = codec_get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent malformed weights");
    memcpy(c->params, w, c->n_params * sizeof *w);
    return CODEC_GO;
}

static const struct codec_round broken = {.before_update = true,
                                          .encode = mean_encode,
                                          .merge = mean_merge,
                                          .apply = broken_apply,
                                          .reply = broken_reply,
                                          .adopt = broken_adopt};

CODEC_PLUGIN(.name = "broken_server", .source = "a test",
             .more = CODEC_MORE(.round = &broken, .updates_on_server = true))
