/* costs -- times of a step, the test set, a codec and a message on a node of speed 1: given as options, or
 * measured on this machine (measure.c). */
#include "sim/sim.h"

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;
    bool is_given = how->step_time[0] && how->eval_time_s > 0 && how->codec_rate_mbps > 0 && how->overhead[0];

    s->steps = (struct sim_steps){.n = 1}; /* which take no time with stand-ins */
    if (how->gradients == 0 && !is_given && sim_measure(s, e) < 0)
        return e->code;
    if (how->step_time[0] && sim_steps_parse(&s->steps, how->step_time, e) < 0)
        return e->code;
    if (how->eval_time_s > 0)
        s->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return how->overhead[0] ? sim_overhead_parse(&s->overhead, how->overhead, e) : 0;
}
