/* flag -- a flag set by a signal handler. The kernel runs a handler on any thread that does not block the
 * signal, also OpenBLAS' threads, and volatile sig_atomic_t is only for a single thread. A flag orders no
 * other memory accesses: relaxed. */
#ifndef PSGD_FLAG_H
#define PSGD_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler must not wait for a lock");

static inline void flag_raise(atomic_bool *f)
{
    atomic_store_explicit(f, true, memory_order_relaxed);
}

static inline void flag_lower(atomic_bool *f)
{
    atomic_store_explicit(f, false, memory_order_relaxed);
}

static inline bool flag_is_up(const atomic_bool *f)
{
    return atomic_load_explicit(f, memory_order_relaxed);
}

#endif
