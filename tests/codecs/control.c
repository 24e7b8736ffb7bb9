/* control -- controls the node: after the third step a quarter of the learning rate, after the fifth an
 * evaluation, after the seventh all workers stop. */
#include "codec.h"

static int control_on_step(struct codec *c)
{
    if (c->step == 3)
        c->lr_factor = 0.25f;
    c->wants_evaluation = c->step == 5;
    c->wants_stop = c->step == 7;
    return c->host->record(c, "factor", (double)c->lr_factor);
}

static const struct codec_events control = {.on_step = control_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "control", .source = "a test", .events = &control)
