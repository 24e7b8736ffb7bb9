/* stopwatch -- where a node's time goes. It is in one phase at any moment and only ever switches, so that the
 * phases add up to all the time there was, whatever calls what. A switch reads the clock once. */
#ifndef PSGD_STOPWATCH_H
#define PSGD_STOPWATCH_H

#include <stdint.h>

#include "agent/runner/tracer.h"
#include "shared/clock.h"
#include "shared/phase.h"

struct stopwatch {
    enum phase phase;
    double since;           /* stopwatch_now of the last switch */
    double spent[N_PHASES]; /* seconds, until `since` */
    struct tracer *tracer;  /* NULL: nobody wants to know more; borrowed */
    const double *time;     /* NULL: clock_now; else it is what stands here: a simulation's. Borrowed */
};

static inline double stopwatch_now(const struct stopwatch *w)
{
    return w->time ? *w->time : clock_now();
}

/* Returns the phase that ends. The same phase again brings `spent` up to date. */
static inline enum phase phase_enter(struct stopwatch *w, enum phase next)
{
    double now = stopwatch_now(w);
    enum phase last = w->phase;

    w->spent[last] += now - w->since;
    if (w->tracer)
        tracer_span(w->tracer, (enum trace_kind)last, w->since, now);
    w->since = now;
    w->phase = next;
    return last;
}

#endif
