#include "shared/job/test_part.h"

static size_t begin_of(size_t n_test, size_t n_workers, size_t worker)
{
    return n_test / n_workers * worker + n_test % n_workers * worker / n_workers;
}

struct test_part test_part_of(size_t n_test, int n_workers, int worker)
{
    size_t first = begin_of(n_test, (size_t)n_workers, (size_t)worker);

    return (struct test_part){first, begin_of(n_test, (size_t)n_workers, (size_t)worker + 1) - first};
}

size_t test_sums_of(const struct model_spec *m)
{
    size_t n_classes = model_spec_classes(m) == 1 ? 2 : (size_t)model_spec_classes(m);
    size_t n = TEST_REAL_SUMS + 2 + METRIC_TOP_MAX;

    if (m->has_trainer || m->metrics[METRIC_AUC] || m->metrics[METRIC_EER])
        return 0;
    if (!m->metrics[METRIC_CONFUSION])
        return n;
    return n_classes > TEST_SUMS_MAX || n_classes * n_classes > TEST_SUMS_MAX - n ? 0
                                                                                  : n + n_classes * n_classes;
}

int test_sums_in(size_t *out, const struct settings *s, const struct model_spec *m, struct err *e)
{
    *out = s->divides_test ? test_sums_of(m) : 0;
    if (s->divides_test && *out == 0)
        return err_set(e, ERR_CONFIG,
                       "settings: /divides_test: the metrics of model \"%s\" need the whole test set",
                       m->name);
    return 0;
}
