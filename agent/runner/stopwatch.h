/* stopwatch -- where a node's time goes. It is in one phase at any moment and only ever switches, so that the
 * phases add up to all the time there was, whatever calls what. A switch reads the clock once. */
#ifndef PSGD_STOPWATCH_H
#define PSGD_STOPWATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/runner/tracer.h"
#include "shared/clock.h"
#include "shared/phase.h"

struct stopwatch {
    /* A signal's handler looks at these two, on whatever thread the kernel chose (watchdog.c). */
    _Atomic(enum phase) phase;
    _Atomic double since;   /* stopwatch_now of the last switch */
    double spent[N_PHASES]; /* seconds, until `since` */
    struct tracer *tracer;  /* NULL: nobody wants to know more; borrowed */
    const double *time;     /* NULL: clock_now; else it is what stands here: a simulation's. Borrowed */
};

static inline double stopwatch_now(const struct stopwatch *w)
{
    return w->time ? *w->time : clock_now();
}

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a handler must not wait for a lock");

/* Of the last switch; for the thread that switches, so in no order. */
static inline double stopwatch_since(const struct stopwatch *w)
{
    return atomic_load_explicit(&w->since, memory_order_relaxed);
}

/* Returns the phase that ends. The same phase again brings `spent` up to date. */
static inline enum phase phase_enter(struct stopwatch *w, enum phase next)
{
    double now = stopwatch_now(w);
    double since = stopwatch_since(w);
    enum phase last = atomic_load_explicit(&w->phase, memory_order_relaxed);

    w->spent[last] += now - since;
    if (w->tracer)
        tracer_span(w->tracer, (enum trace_kind)last, since, now);
    /* Released behind the time: a reader that sees the new phase also sees its start, never that of the wait
     * before it. */
    atomic_store_explicit(&w->since, now, memory_order_relaxed);
    atomic_store_explicit(&w->phase, next, memory_order_release);
    return last;
}

#endif
