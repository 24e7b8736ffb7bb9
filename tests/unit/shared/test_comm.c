#include "shared/job/comm.h"

#include <math.h>

#include "tests/unit/unit.h"

TEST(communication_figures_survive_serialization)
{
    struct comm c = {
        .sent_messages = 1, .recv_messages = 2, .raw_bytes = 3, .sent_bytes = 4, .recv_bytes = 5};
    struct comm back = {0};
    json_t *o;

    for (int i = 0; i < N_STEP_PHASES; i++)
        c.seconds[i] = 0.5 + i;
    o = comm_json(&c);
    comm_update(&back, o);
    assert_memory_equal(&back, &c, sizeof c);
    json_decref(o);
}

TEST(missing_negative_or_non_numeric_figures_stay_unchanged)
{
    struct comm c = {.sent_messages = 1, .sent_bytes = 2, .recv_bytes = 3, .seconds = {4, 5, 6}}, was = c;
    json_t *o = json_pack("{s:i, s:f, s:s, s:f, s:n, s:i}", "sent_messages", -1, "sent_bytes", 2.5,
                          "recv_bytes", "3", "compute_s", -4.0, "encode_s", "recv_messages", 9);

    comm_update(&c, o);
    was.recv_messages = 9;
    assert_memory_equal(&c, &was, sizeof c);
    comm_update(&c, NULL);
    assert_memory_equal(&c, &was, sizeof c);
    json_decref(o);
}

TEST(fractions_of_zero_are_null)
{
    const struct comm none = {0};
    json_t *o = comm_json(&none);

    assert_true(isnan(comm_share(&none)));
    assert_true(json_is_null(json_object_get(o, "share")));
    assert_true(json_is_null(json_object_get(o, "compression_ratio")));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communication_figures_survive_serialization),
        cmocka_unit_test(missing_negative_or_non_numeric_figures_stay_unchanged),
        cmocka_unit_test(fractions_of_zero_are_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
