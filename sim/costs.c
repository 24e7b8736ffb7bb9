/* costs -- times of a step, the test set, a codec and a message on a node of speed 1: given as options, or
 * measured on this machine (measure.c). */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes the simulated times of steps in the syntax of --step-time. Returns their mean. */
double sim_steps_text(char *out, size_t size, const struct sim_steps *t)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < t->n; i++) {
        n += snprintf(out + n, size - (size_t)n, "%s%.9g", i > 0 ? "," : "", t->s[i]);
        sum += t->s[i];
    }
    return sum / t->n;
}

void sim_overhead_text(char *out, size_t size, const struct sim_overhead *o)
{
    double us = o->message_s * 1e6;

    if (o->bytes_per_s > 0)
        snprintf(out, size, "%.6gGbit,%.6gus", o->bytes_per_s * 8e-9, us);
    else
        snprintf(out, size, "any,%.6gus", us);
}

/* As run.json has it. */
static double rounded(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", v);
    return strtod(text, NULL);
}

/* Rounds measured costs to the digits that the summary has, so that a simulation with these values as options
 * gives the same result: a time that differs in its last bit may reverse the order of two messages. A
 * measured value that no option can have stays as it is. */
static void round_costs(struct sim *s)
{
    char steps[SIMULATION_TEXT], overhead[64];
    struct err ignored;

    sim_steps_text(steps, sizeof steps, &s->steps);
    sim_overhead_text(overhead, sizeof overhead, &s->overhead);
    s->eval_time_s = rounded(s->eval_time_s);
    s->codec_rate = rounded(s->codec_rate / 1e6) * 1e6;
    sim_steps_parse(&s->steps, steps, &ignored);
    sim_overhead_parse(&s->overhead, overhead, &ignored);
}

int sim_find_costs(struct sim *s, struct err *e)
{
    const struct simulation *how = &s->how;
    bool is_given = how->step_time[0] && how->eval_time_s > 0 && how->codec_rate_mbps > 0 && how->overhead[0];

    s->steps = (struct sim_steps){.n = 1}; /* which take no time with stand-ins */
    if (how->gradients == 0 && !is_given) {
        if (sim_measure(s, e) < 0)
            return e->code;
        round_costs(s);
    }
    if (how->step_time[0] && sim_steps_parse(&s->steps, how->step_time, e) < 0)
        return e->code;
    if (how->eval_time_s > 0)
        s->eval_time_s = how->eval_time_s;
    if (how->codec_rate_mbps > 0)
        s->codec_rate = how->codec_rate_mbps * 1e6;
    return how->overhead[0] ? sim_overhead_parse(&s->overhead, how->overhead, e) : 0;
}
