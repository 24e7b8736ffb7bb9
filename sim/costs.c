/* costs -- what a step, the test set, a codec and a message take a node of speed 1: as was said, or measured
 * on this machine (measure.c). */
#include "sim/sim.h"

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;
    bool is_said = how->step_time[0] && how->eval_time_s > 0 && how->codec_rate_mbps > 0 && how->overhead[0];

    s->steps = (struct sim_steps){.n = 1}; /* which takes a stand-in no time */
    if (how->gradients == 0 && !is_said && sim_measure(s, e) < 0)
        return e->code;
    if (how->step_time[0] && sim_steps_parse(&s->steps, how->step_time, e) < 0)
        return e->code;
    if (how->eval_time_s > 0)
        s->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return how->overhead[0] ? sim_overhead_parse(&s->overhead, how->overhead, e) : 0;
}
