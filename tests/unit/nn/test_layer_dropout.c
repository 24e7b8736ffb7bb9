#include "tests/lib/layer_check.h"

#define DENSE(n)   "{\"kind\": \"dense\", \"units\": " #n "}"
#define DROPOUT(p) "{\"kind\": \"dropout\", \"rate\": " #p "}"
#define TANH       "{\"kind\": \"tanh\"}"
#define COMMA      ", "

enum { WIDTH = 20001 };

/* After a tanh it does not work in place, after a dense layer it does. */
TEST(gradients_agree_with_central_differences_for_kept_values)
{
    static const char *const nets[] = {
        DROPOUT(0.3) COMMA DENSE(4),
        DENSE(20) COMMA DROPOUT(0.5) COMMA DENSE(4),
        DENSE(9) COMMA TANH COMMA DROPOUT(0.5) COMMA DROPOUT(0.25) COMMA DENSE(4),
        DENSE(30) COMMA DROPOUT(0.1),
    };

    check_gradients("[30]", nets, N_OF(nets), 8, true);
}

/* The factor of each input of ones, seen in the gradient of the dense layer above. */
static void masks(float *m, const char *layers, int n, uint64_t seed, uint64_t stream)
{
    struct check c;
    struct net_score s = {0};
    struct net_batch b;

    check_open(&c, "[20001]", layers, n);
    for (size_t i = 0; i < (size_t)n * WIDTH; i++) /* and parameters of 0, so that no class is certain */
        c.x[i] = 1;
    b = check_batch(&c, n);
    b.seed = seed;
    b.stream = stream;
    net_train(c.net, &b, &s);
    for (size_t i = 0; i < WIDTH; i++)
        m[i] = net_grads(c.net)[2 * i] / net_grads(c.net)[2 * WIDTH];
    for (size_t i = 0; i < (size_t)n * WIDTH; i++)
        assert_true(c.x[i] == 1);
    check_close(&c);
}

static float *new_masks(const char *layers, int n, uint64_t seed, uint64_t stream)
{
    float *m = calloc(WIDTH, sizeof *m);

    assert_non_null(m);
    masks(m, layers, n, seed, stream);
    return m;
}

TEST(the_dropped_fraction_matches_the_rate_and_the_others_are_scaled_up)
{
    static const struct {
        const char *layers;
        double rate;
    } cases[] = {
        {DROPOUT(0) COMMA DENSE(2), 0},
        {DROPOUT(0.1) COMMA DENSE(2), 0.1},
        {DROPOUT(0.5) COMMA DENSE(2), 0.5},
        {DROPOUT(0.99) COMMA DENSE(2), 0.99},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        float *m = new_masks(cases[i].layers, 1, 1, 1);
        double rate = cases[i].rate, deviation = sqrt(rate * (1 - rate) * (double)WIDTH);
        size_t n_dropped = 0;

        for (size_t k = 0; k < WIDTH; k++) {
            n_dropped += m[k] == 0;
            assert_true(m[k] == 0 || fabs((double)m[k] * (1 - rate) - 1) < 1e-3);
        }
        assert_true(fabs((double)n_dropped - rate * (double)WIDTH) <= 4 * deviation);
        free(m);
    }
}

TEST(the_mask_depends_on_seed_and_stream_only)
{
    static const char layers[] = DROPOUT(0.5) COMMA DENSE(2);
    static const char second[] = TANH COMMA DROPOUT(0.5) COMMA DENSE(2);
    float *first = new_masks(layers, 1, 1, 2);
    float *others[] = {new_masks(layers, 1, 1, 2), new_masks(layers, 1, 2, 2), new_masks(layers, 1, 1, 3),
                       new_masks(second, 1, 1, 2)};

    for (size_t i = 0; i < N_OF(others); i++) {
        size_t n_equal = 0;

        for (size_t k = 0; k < WIDTH; k++)
            n_equal += (first[k] == 0) == (others[i][k] == 0);
        if (i == 0)
            assert_int_equal(n_equal, WIDTH);
        else
            assert_in_range(n_equal, WIDTH / 2 - 300, WIDTH / 2 + 300); /* 4 standard deviations: 283 */
        free(others[i]);
    }
    free(first);
}

/* The gradient sums the masks of the samples: with one mask for both, no value would be 1 / (1 - rate). */
TEST(samples_of_a_batch_have_different_masks)
{
    float *m = new_masks(DROPOUT(0.5) COMMA DENSE(2), 2, 7, 7);
    size_t n_one = 0;

    for (size_t k = 0; k < WIDTH; k++)
        n_one += m[k] == 1;                                   /* the mean of 0 and 2 */
    assert_in_range(n_one, WIDTH / 2 - 300, WIDTH / 2 + 300); /* 4 standard deviations: 283 */
    free(m);
}

TEST(adjacent_values_are_dropped_independently)
{
    float *m = new_masks(DROPOUT(0.5) COMMA DENSE(2), 1, 7, 7);
    size_t n_both = 0;

    for (size_t lag = 1; lag < 9; lag++, n_both = 0) {
        for (size_t k = lag; k < WIDTH; k++)
            n_both += m[k] == 0 && m[k - lag] == 0;
        assert_in_range(n_both, WIDTH / 4 - 300, WIDTH / 4 + 300); /* 4 standard deviations: 245 */
    }
    free(m);
}

TEST(evaluation_drops_nothing)
{
    static const char *const nets[] = {
        DROPOUT(0.9) COMMA DENSE(4),
        DENSE(4) COMMA DROPOUT(0.9),
        DENSE(4) COMMA TANH COMMA DROPOUT(0.9),
    };
    static const char *const without[] = {DENSE(4), DENSE(4), DENSE(4) COMMA TANH};

    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check a, b;

        check_open(&a, "[30]", nets[i], 8);
        check_open(&b, "[30]", without[i], 8);
        check_fill(&a);
        check_fill(&b);
        check_train(&a, 8);
        assert_memory_equal(net_forward(a.net, a.x, 8), net_forward(b.net, a.x, 8), 8 * 4 * sizeof(float));
        check_close(&a);
        check_close(&b);
    }
}

TEST(a_nan_is_visible_even_where_it_is_dropped)
{
    struct check c;

    check_open(&c, "[30]", DROPOUT(0.99) COMMA DENSE(4), 8);
    check_fill(&c);
    c.x[7] = NAN;
    assert_true(isnan(check_train(&c, 8)));
    check_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences_for_kept_values),
        cmocka_unit_test(the_dropped_fraction_matches_the_rate_and_the_others_are_scaled_up),
        cmocka_unit_test(the_mask_depends_on_seed_and_stream_only),
        cmocka_unit_test(samples_of_a_batch_have_different_masks),
        cmocka_unit_test(adjacent_values_are_dropped_independently),
        cmocka_unit_test(evaluation_drops_nothing),
        cmocka_unit_test(a_nan_is_visible_even_where_it_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
