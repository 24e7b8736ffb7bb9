#include "runner/exchange/exchange.h"

#include "shared/records/tensor_file.h"
#include "tests/unit/unit.h"

/* Tensors in the model's order: 6 values at 3, statistics of 2 at 10, a number at 9, 3 values at 0. */
TEST(layers_are_listed_by_their_place_and_those_behind_the_trained_ones_are_statistics)
{
    static float params[12];
    const struct tensor_view tensors[] = {
        {.name = "W", .n_dims = 2, .shape = {2, 3}, .data = params + 3},
        {.name = "bn.mean", .n_dims = 1, .shape = {2}, .data = params + 10},
        {.name = "scale", .data = params + 9},
        {.name = "V", .n_dims = 1, .shape = {3}, .data = params},
    };
    static const struct {
        const char *name;
        size_t offset, n;
        bool is_statistic;
    } expected[] = {{"V", 0, 3, false}, {"W", 3, 6, false}, {"scale", 9, 1, false}, {"bn.mean", 10, 2, true}};
    struct codec_layer *layers;
    struct err e;

    assert_ok(exchange_list_layers(&layers, tensors, N_OF(tensors), 10, &e));
    for (size_t i = 0; i < N_OF(expected); i++) {
        assert_string_equal(layers[i].name, expected[i].name);
        assert_int_equal(layers[i].offset, expected[i].offset);
        assert_int_equal(layers[i].n, expected[i].n);
        assert_int_equal(layers[i].is_statistic, expected[i].is_statistic);
    }
    free(layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_listed_by_their_place_and_those_behind_the_trained_ones_are_statistics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
