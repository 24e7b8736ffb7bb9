#include "shared/plugin/codec_layer.h"

#include "tests/unit/unit.h"

TEST(a_layer_has_the_shape_of_its_tensor_in_at_most_four_dimensions)
{
    static const struct {
        int n_dims;
        size_t shape[8];
        size_t n;
        int n_seen;
        size_t seen[4];
    } cases[] = {
        {0, {0}, 1, 1, {1}},
        {1, {7}, 7, 1, {7}},
        {2, {3, 5}, 15, 2, {3, 5}},
        {4, {2, 3, 4, 5}, 120, 4, {2, 3, 4, 5}},
        {5, {2, 3, 4, 5, 6}, 720, 4, {2, 3, 4, 30}},
        {8, {1, 2, 1, 2, 1, 1, 1, 3}, 12, 4, {1, 2, 1, 6}},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct codec_layer l = codec_layer_of("w", cases[i].shape, cases[i].n_dims, 11, i % 2 == 1);

        assert_string_equal(l.name, "w");
        assert_int_equal(l.offset, 11);
        assert_int_equal(l.n, cases[i].n);
        assert_int_equal(l.is_statistic, i % 2 == 1);
        assert_int_equal(l.n_dims, cases[i].n_seen);
        for (int k = 0; k < l.n_dims; k++)
            assert_int_equal(l.shape[k], cases[i].seen[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_has_the_shape_of_its_tensor_in_at_most_four_dimensions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
