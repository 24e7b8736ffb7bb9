/* stopwatch -- measures how a node spends its time. It is in one phase at any moment and only switches, so
 * that the phases add up to the total time. A switch reads the clock once. */
#ifndef PSGD_STOPWATCH_H
#define PSGD_STOPWATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/runner/tracer.h"
#include "shared/clock.h"
#include "shared/phase.h"

struct stopwatch {
    /* Read by another process (monitor/monitor_time.c). */
    _Atomic(enum phase) phase;
    _Atomic double since;   /* stopwatch_now of the last switch */
    double spent[N_PHASES]; /* seconds, until `since` */
    struct tracer *tracer;  /* NULL: no trace; borrowed */
    const double *time;     /* NULL: clock_now; else a simulation's clock. Borrowed */
};

static inline double stopwatch_now(const struct stopwatch *w)
{
    return w->time ? *w->time : clock_now();
}

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a process must not wait for another one's lock");

/* Returns the time of the last switch; relaxed, for the thread that switches. */
static inline double stopwatch_since(const struct stopwatch *w)
{
    return atomic_load_explicit(&w->since, memory_order_relaxed);
}

/* Whether the codec runs. Acquire: `since` is read next, and must be that phase's or a later one's. */
static inline bool stopwatch_in_codec(const struct stopwatch *w)
{
    enum phase p = atomic_load_explicit(&w->phase, memory_order_acquire);

    return p == PHASE_ENCODE || p == PHASE_DECODE || p == PHASE_APPLY;
}

/* Switches to `next` and returns the phase that ends. Entering the same phase again updates `spent`. */
static inline enum phase phase_enter(struct stopwatch *w, enum phase next)
{
    double now = stopwatch_now(w);
    double since = stopwatch_since(w);
    enum phase last = atomic_load_explicit(&w->phase, memory_order_relaxed);

    w->spent[last] += now - since;
    if (w->tracer)
        tracer_span(w->tracer, (enum trace_kind)last, since, now);
    /* Released after the time: a reader that sees the new phase also sees its start, never that of the wait
     * before it. */
    atomic_store_explicit(&w->since, now, memory_order_relaxed);
    atomic_store_explicit(&w->phase, next, memory_order_release);
    return last;
}

#endif
