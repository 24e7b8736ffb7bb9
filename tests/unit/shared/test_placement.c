#include "shared/job/placement.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* Tensors of 6, 3, 3, 3 (gain and bias of batch_norm, which has statistics of 3 and 3 besides), 6 and 2. */
static void parse(struct model_spec *m)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"m\", \"input\": [2], \"layers\": [{\"kind\": \"dense\", \"units\": 3}, "
        "{\"kind\": \"batch_norm\"}, {\"kind\": \"dense\", \"units\": 2}], \"loss\": "
        "\"softmax_cross_entropy\"}";
    json_t *doc;
    struct err e;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(m, doc, &e));
    json_decref(doc);
    assert_int_equal(m->n_trained, 23);
    assert_int_equal(m->n_params, 29);
}

static void assert_offsets(const struct model_spec *m, const size_t *expected)
{
    for (int i = 0; i < m->n_tensors; i++)
        assert_int_equal(m->tensors[i].offset, expected[i]);
}

TEST(ranges_leave_the_models_order)
{
    struct model_spec m;
    size_t *ranges;
    struct err e;

    parse(&m);
    assert_offsets(&m, (const size_t[]){0, 6, 9, 12, 23, 26, 15, 21});
    assert_ok(placement_lay_out(&ranges, PLACEMENT_RANGE, &m, 2, &e));
    assert_null(ranges);
    assert_false(m.is_reordered);
    assert_offsets(&m, (const size_t[]){0, 6, 9, 12, 23, 26, 15, 21});
    model_spec_clear(&m);
}

/* Server 0 has trained tensors 0, 2, 4, server 1 has 1, 3, 5, and then the statistics. */
TEST(round_robin_gives_tensor_t_to_server_t_mod_s_and_statistics_to_the_last)
{
    struct model_spec m;
    size_t *ranges;
    struct err e;

    parse(&m);
    assert_ok(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 2, &e));
    assert_true(m.is_reordered);
    assert_offsets(&m, (const size_t[]){0, 15, 6, 18, 23, 26, 9, 21});
    assert_memory_equal(ranges, ((const size_t[]){0, 15, 29}), 3 * sizeof *ranges);
    free(ranges);
    model_spec_clear(&m);
    parse(&m);
    assert_ok(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 6, &e));
    assert_offsets(&m, (const size_t[]){0, 6, 9, 12, 23, 26, 15, 21});
    assert_memory_equal(ranges, ((const size_t[]){0, 6, 9, 12, 15, 21, 29}), 7 * sizeof *ranges);
    free(ranges);
    model_spec_clear(&m);
}

TEST(a_server_without_a_tensor_is_refused)
{
    struct model_spec m;
    size_t *ranges;
    struct err e;

    parse(&m);
    assert_int_equal(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 7, &e), ERR_CONFIG);
    assert_error_has("model \"m\" has 6 for 7 servers");
    assert_int_equal(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 0, &e), ERR_CONFIG);
    assert_error_has("the job has no parameter servers");
    assert_ok(placement_lay_out(&ranges, PLACEMENT_RANGE, &m, 0, &e));
    assert_null(ranges);
    model_spec_clear(&m);
}

/* Trained tensors of 6, 1 and 4 values, statistics of 3 and 2. */
TEST(a_training_programs_tensors_are_placed_as_those_of_layers_and_its_statistics_go_to_the_last)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": ["
        "{\"name\": \"bn.mean\", \"shape\": [3], \"statistic\": true}, {\"name\": \"W\", \"shape\": [2, 3]}, "
        "{\"name\": \"scale\", \"shape\": []}, {\"name\": \"bn.var\", \"shape\": [2], \"statistic\": true}, "
        "{\"name\": \"V\", \"shape\": [4], \"statistic\": false}]}";
    struct model_spec m;
    size_t *ranges;
    json_t *doc;
    struct err e;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&m, doc, &e));
    assert_offsets(&m, (const size_t[]){11, 0, 6, 14, 7});
    assert_ok(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 2, &e));
    assert_offsets(&m, (const size_t[]){11, 0, 10, 14, 6});
    assert_memory_equal(ranges, ((const size_t[]){0, 10, 16}), 3 * sizeof *ranges);
    free(ranges);
    assert_int_equal(placement_lay_out(&ranges, PLACEMENT_ROUND_ROBIN, &m, 4, &e), ERR_CONFIG);
    assert_error_has("model \"train.py\" has 3 for 4 servers");
    model_spec_clear(&m);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_leave_the_models_order),
        cmocka_unit_test(round_robin_gives_tensor_t_to_server_t_mod_s_and_statistics_to_the_last),
        cmocka_unit_test(a_server_without_a_tensor_is_refused),
        cmocka_unit_test(
            a_training_programs_tensors_are_placed_as_those_of_layers_and_its_statistics_go_to_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
