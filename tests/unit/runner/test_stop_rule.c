#include "runner/exchange/stop_rule.h"

#include <math.h>

#include "shared/base/rng.h"
#include "tests/unit/unit.h"

static enum stop_reason add(struct stop_rule *r, double loss, double accuracy)
{
    enum stop_reason reason = N_STOP_REASONS;
    struct err e;

    assert_ok(stop_rule_add(&reason, r, loss, accuracy, &e));
    return reason;
}

/* The number of accuracies until the job ends; 0: it does not. */
static size_t ends_at(struct stop_rule r, const double *accuracies, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; at == 0 && i < n; i++)
        at = add(&r, 1, accuracies[i]) == STOP_NONE ? 0 : i + 1;
    stop_rule_clear(&r);
    return at;
}

TEST(the_first_evaluation_that_reaches_the_target_ends_the_job)
{
    static const double series[] = {0.5, 0.9499, NAN, 0.95, 0.2};

    assert_int_equal(ends_at((struct stop_rule){.target = 0.95}, series, 5), 4);
    assert_int_equal(ends_at((struct stop_rule){.target = 0.96}, series, 5), 0);
    assert_int_equal(ends_at((struct stop_rule){0}, series, 5), 0);
}

/* Worked by hand. K = 2: an evaluation that is not the best is compared with the best of those two or more
 * before it; the third bad one ends the job. */
TEST(patience_counts_as_platoons_controller)
{
    /* errors .5 .4 .3 | .35: min(.5, .4), not bad | .31: min(.5, .4, .3), bad 1 | .30: the best again, as
     * equal | .32: min(.. .31) = .3, bad 1 | .33 bad 2 | .34 bad 3 */
    static const double slow[] = {0.5, 0.6, 0.7, 0.65, 0.69, 0.7, 0.68, 0.67, 0.66, 0.9};
    /* Nothing improves after the first: bad from the third on, over with the fifth: 2 K after the best. */
    static const double flat[] = {0.5, 0.4, 0.4, 0.4, 0.4, 0.4};

    assert_int_equal(ends_at((struct stop_rule){.patience = 2}, slow, 10), 9);
    assert_int_equal(ends_at((struct stop_rule){.patience = 2}, flat, 6), 5);
    assert_int_equal(ends_at((struct stop_rule){.patience = 3}, slow, 9), 0);
}

TEST(without_classes_the_loss_counts_and_a_loss_that_is_not_finite_is_worst)
{
    struct stop_rule r = {.patience = 1};

    assert_int_equal(add(&r, 2, NAN), STOP_NONE);
    assert_int_equal(add(&r, NAN, NAN), STOP_NONE); /* bad 1 */
    assert_int_equal(add(&r, 1, NAN), STOP_NONE);   /* the best */
    assert_int_equal(add(&r, INFINITY, NAN), STOP_NONE);
    assert_int_equal(add(&r, 1.5, NAN), STOP_PATIENCE);
    stop_rule_clear(&r);
}

/* The definition in the header, computed anew from all evaluations. */
static size_t defined_end(const double *v, size_t n, size_t patience)
{
    size_t n_bad = 0;

    for (size_t k = 1; k <= n; k++) {
        double all = INFINITY, before = INFINITY;

        for (size_t i = 0; i < k; i++)
            all = fmin(all, v[i]);
        for (size_t i = 0; i + patience < k; i++)
            before = fmin(before, v[i]);
        if (v[k - 1] <= all)
            n_bad = 0;
        else if (k > patience && v[k - 1] >= before && ++n_bad > patience)
            return k;
    }
    return 0;
}

TEST(every_series_ends_by_the_definition_also_if_it_was_interrupted)
{
    enum { N = 40 };
    double losses[N];
    struct rng rng;
    struct err e;
    int n_ended = 0;

    rng_init(&rng, 1, 2, 3);
    for (int round = 0; round < 2000; round++) {
        struct stop_rule r = {.patience = 1 + (int)rng_below(&rng, 5)};
        size_t want, at = 0, cut = rng_below(&rng, N);

        for (int i = 0; i < N; i++)
            losses[i] = (double)rng_below(&rng, 12) + 10.0 / (i + 1);
        want = defined_end(losses, N, (size_t)r.patience);
        for (size_t i = 0; at == 0 && i < N; i++) {
            if (i < cut && (want == 0 || cut < want))
                assert_ok(stop_rule_add_earlier(&r, losses[i], &e));
            else
                at = add(&r, losses[i], NAN) == STOP_PATIENCE ? i + 1 : 0;
        }
        assert_int_equal(at, want);
        n_ended += want > 0;
        stop_rule_clear(&r);
    }
    assert_in_range(n_ended, 500, 1999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_evaluation_that_reaches_the_target_ends_the_job),
        cmocka_unit_test(patience_counts_as_platoons_controller),
        cmocka_unit_test(without_classes_the_loss_counts_and_a_loss_that_is_not_finite_is_worst),
        cmocka_unit_test(every_series_ends_by_the_definition_also_if_it_was_interrupted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
