#include "runner/executor/fold.h"

#define FOLD(name, type, expression)                                                                         \
    static void name(void *acc, const void *v, size_t n)                                                     \
    {                                                                                                        \
        type *out = acc;                                                                                     \
        const type *in = v;                                                                                  \
                                                                                                             \
        for (size_t i = 0; i < n; i++) {                                                                     \
            type a = out[i], b = in[i];                                                                      \
                                                                                                             \
            out[i] = (expression);                                                                           \
        }                                                                                                    \
    }

/* A comparison with NAN is false: a != a keeps one in a, the other branch one in b. */
#define FOLDS(type)                                                                                          \
    FOLD(sum_##type, type, a + b)                                                                            \
    FOLD(product_##type, type, a *b)                                                                         \
    FOLD(max_##type, type, a != a || a >= b ? a : b)                                                         \
    FOLD(min_##type, type, a != a || a <= b ? a : b)

FOLDS(double)
FOLDS(float)

#define ROW(type)                                                                                            \
    {                                                                                                        \
        [EXECUTOR_SUM] = sum_##type, [EXECUTOR_PRODUCT] = product_##type, [EXECUTOR_MAX] = max_##type,       \
        [EXECUTOR_MIN] = min_##type                                                                          \
    }

fold_fn *fold_of(enum fold_type type, enum executor_fold how)
{
    static fold_fn *const folds[][EXECUTOR_MIN + 1] = {
        [FOLD_DOUBLE] = ROW(double), [FOLD_FLOAT] = ROW(float)};

    return how <= EXECUTOR_MIN ? folds[type][how] : NULL;
}
