#include "nn/optimizer.h"

#include <math.h>

#include "tests/unit/unit.h"

static void assert_near(float x, double expected)
{
    if (!(fabs((double)x - expected) <= 2e-7 * fabs(expected)))
        fail_msg("%.9g, expected %.9g", (double)x, expected);
}

TEST(sgd_goes_against_the_gradient)
{
    float w[3] = {1, -2, 0};
    const float g[3] = {2, -4, 0};
    struct optimizer *o;
    struct err e;

    assert_ok(optimizer_new(&o, "sgd", 3, 0.25f, &e));
    optimizer_step(o, w, g);
    assert_true(w[0] == 0.5f && w[1] == -1 && w[2] == 0);
    optimizer_step(o, w, g);
    assert_true(w[0] == 0 && w[1] == 0 && w[2] == 0);
    optimizer_free(o);
}

/* Worked out from Algorithm 1 in double precision, lr = 0.1. First step: m^ = g, v^ = g^2, so w falls by
 * 0.1 * 0.1 / (0.1 + 1e-8). Second: m = -0.011, m^ = -0.011 / 0.19, v = 4.999e-5, v^ = 4.999e-5 /
 0.001999. */
TEST(adam_goes_through_the_papers_iterates)
{
    static const float grads[] = {0.1f, -0.2f, 0, 3};
    static const double expected[] = {0.900000009999999, 0.9366103603884888, 0.9649102669442554,
                                      0.9086790214307613};
    struct optimizer *o;
    float w = 1;
    struct err e;

    assert_ok(optimizer_new(&o, "adam", 1, 0.1f, &e));
    for (size_t t = 0; t < N_OF(grads); t++) {
        optimizer_step(o, &w, &grads[t]);
        assert_near(w, expected[t]);
    }
    optimizer_free(o);
}

TEST(adam_stands_still_without_a_gradient)
{
    float w[5] = {1, 2, 3, 4, 5};
    const float g[5] = {0};
    struct optimizer *o;
    struct err e;

    assert_ok(optimizer_new(&o, "adam", 5, 0.1f, &e));
    for (int t = 0; t < 3; t++)
        optimizer_step(o, w, g);
    for (int i = 0; i < 5; i++)
        assert_true(w[i] == (float)(i + 1));
    optimizer_free(o);
}

TEST(every_parameter_is_updated_alike_whatever_their_number)
{
    static const char *const names[] = {"sgd", "adam"};

    for (size_t k = 0; k < N_OF(names); k++)
        for (size_t n = 0; n <= 67; n++) {
            float *w = calloc(n + 1, sizeof *w);
            float *g = calloc(n + 1, sizeof *g);
            float one = 0, g_one = 0.5f;
            struct optimizer *o, *single;
            struct err e;

            for (size_t i = 0; i <= n; i++)
                g[i] = 0.5f;
            assert_ok(optimizer_new(&o, names[k], n, 0.1f, &e));
            assert_ok(optimizer_new(&single, names[k], 1, 0.1f, &e));
            for (int t = 0; t < 3; t++) {
                optimizer_step(o, w, g);
                optimizer_step(single, &one, &g_one);
            }
            for (size_t i = 0; i < n; i++)
                assert_true(w[i] == one);
            assert_true(w[n] == 0); /* nor any behind the last */
            optimizer_free(o);
            optimizer_free(single);
            free(w);
            free(g);
        }
}

TEST(a_gradient_that_is_no_number_shows_in_the_parameter)
{
    static const char *const names[] = {"sgd", "adam"};

    for (size_t k = 0; k < N_OF(names); k++) {
        float w = 1, g = NAN;
        struct optimizer *o;
        struct err e;

        assert_ok(optimizer_new(&o, names[k], 1, 0.1f, &e));
        optimizer_step(o, &w, &g);
        assert_true(isnan(w));
        optimizer_free(o);
    }
}

TEST(another_name_is_refused)
{
    struct optimizer *o;
    struct err e;

    assert_int_equal(optimizer_new(&o, "adm", 1, 0.1f, &e), ERR_CONFIG);
    assert_says("\"adm\"");
    assert_says("sgd, adam");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_goes_against_the_gradient),
        cmocka_unit_test(adam_goes_through_the_papers_iterates),
        cmocka_unit_test(adam_stands_still_without_a_gradient),
        cmocka_unit_test(every_parameter_is_updated_alike_whatever_their_number),
        cmocka_unit_test(a_gradient_that_is_no_number_shows_in_the_parameter),
        cmocka_unit_test(another_name_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
