/* stopwatch -- measures how a node spends its time. At any moment the node is in one phase, so that the
 * phases add up to the total time. A switch to another phase reads the clock once. */
#ifndef PSGD_STOPWATCH_H
#define PSGD_STOPWATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/tracer.h"
#include "shared/base/clock.h"
#include "shared/job/comm.h"

enum { STOPWATCH_CALL = 16 };

/* Names of calls of a plug-in that are not calls of a codec's functions. */
#define STOPWATCH_LOAD   "load"   /* its object is loaded: constructors, and resolvers of its symbols */
#define STOPWATCH_RUN    "run"    /* an executor's only function */
#define STOPWATCH_UNLOAD "unload" /* destructors, and functions that it has registered with atexit */

struct stopwatch {
    /* Read by another process (monitor/monitor.c), or thread (sim/guard.c). */
    _Atomic(enum phase) phase;
    _Atomic double since;      /* stopwatch_now of the last switch */
    _Atomic uint64_t n_calls;  /* of the codec's functions, so far */
    _Atomic uint64_t call[2];  /* the name of the last one: STOPWATCH_CALL characters, the rest zeros */
    struct stopwatch *process; /* switched together with this one: of a process with several nodes; or NULL */
    double spent[N_PHASES];    /* seconds, until `since` */
    struct tracer *tracer;     /* NULL: no trace; borrowed */
    const double *time;        /* NULL: clock_now; else a simulation's clock. Borrowed */
};

static inline double stopwatch_now(const struct stopwatch *w)
{
    return w->time ? *w->time : clock_now();
}

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a process must not wait for a lock of another one");

/* Returns the time of the last switch; relaxed, for the thread that switches. */
static inline double stopwatch_since(const struct stopwatch *w)
{
    return atomic_load_explicit(&w->since, memory_order_relaxed);
}

/* Is the codec running? Acquire: `since`, which is read next, must belong to that phase or a later one. */
static inline bool stopwatch_in_codec(const struct stopwatch *w)
{
    enum phase p = atomic_load_explicit(&w->phase, memory_order_acquire);

    return p == PHASE_ENCODE || p == PHASE_DECODE || p == PHASE_APPLY;
}

/* Notes the name of the codec's function that is called next. Its time is part of the present phase. */
static inline void stopwatch_call(struct stopwatch *w, const char *name)
{
    struct stopwatch *p = w->process ? w->process : w;
    uint64_t call[2] = {0};

    memccpy(call, name, '\0', STOPWATCH_CALL);
    for (int i = 0; i < 2; i++)
        atomic_store_explicit(&p->call[i], call[i], memory_order_relaxed);
    atomic_fetch_add_explicit(&p->n_calls, 1, memory_order_relaxed);
}

/* name: (STOPWATCH_CALL + 1). A process that is not trusted may have written any bytes. */
static inline void stopwatch_read_call(char *name, const struct stopwatch *w)
{
    for (int i = 0; i < 2; i++) {
        uint64_t part = atomic_load_explicit(&w->call[i], memory_order_relaxed);

        memcpy(name + i * 8, &part, 8);
    }
    name[STOPWATCH_CALL] = '\0';
    for (char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || *c == '_'))
            *c = '?';
}

/* Writes the part of a sentence that names the last call of a plug-in that does not return: "returned from
 * merge()". */
static inline void stopwatch_name_call(char *out, size_t size, const struct stopwatch *w, bool is_executor)
{
    char call[STOPWATCH_CALL + 1];

    stopwatch_read_call(call, w);
    if (strcmp(call, STOPWATCH_LOAD) == 0)
        snprintf(out, size, "returned from its constructors, which run when it is loaded,");
    else if (strcmp(call, STOPWATCH_UNLOAD) == 0)
        snprintf(out, size, "returned from its destructors, which run when its process ends,");
    else if (is_executor)
        snprintf(out, size, "called its host");
    else
        snprintf(out, size, "returned from %s%s", call[0] ? call : "a call", call[0] ? "()" : "");
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
    /* Released after the time: a reader that sees the new phase also sees its start, never the start of the
     * previous phase. */
    atomic_store_explicit(&w->since, now, memory_order_relaxed);
    atomic_store_explicit(&w->phase, next, memory_order_release);
    if (w->process)
        atomic_store_explicit(&w->process->phase, next, memory_order_release);
    return last;
}

/* Switches to `next`, a phase of the codec's, for a call of its function `name`. */
static inline enum phase phase_call(struct stopwatch *w, enum phase next, const char *name)
{
    stopwatch_call(w, name);
    return phase_enter(w, next);
}

#endif
