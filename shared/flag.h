/* flag -- raised by a signal's handler. The kernel runs a handler on any thread that does not block the
 * signal, OpenBLAS' among them, and a volatile sig_atomic_t is for one thread alone. A flag says that it was
 * raised and nothing about other memory: relaxed. */
#ifndef PSGD_FLAG_H
#define PSGD_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler must not wait for a lock");

static inline void flag_raise(atomic_bool *f)
{
    atomic_store_explicit(f, true, memory_order_relaxed);
}

static inline bool flag_is_up(const atomic_bool *f)
{
    return atomic_load_explicit(f, memory_order_relaxed);
}

#endif
