/* control -- controls the node: after the third step a quarter of the learning rate, after the fifth an
 * evaluation, after the seventh all workers stop. */
#include "codec_events.h"

static int control_on_step(struct codec *c)
{
    if (c->run->step == 3)
        c->run->lr_factor = 0.25f;
    c->run->wants_evaluation = c->run->step == 5;
    c->run->wants_stop = c->run->step == 7;
    return codec_record(c, "factor", (double)c->run->lr_factor);
}

static const struct codec_events control = {.on_step = control_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "control", .source = "a test", .more = CODEC_MORE(.events = &control))
