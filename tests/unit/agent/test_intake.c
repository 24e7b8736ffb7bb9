#include "agent/jobs/intake.h"

#include "tests/unit/unit.h"

static bool offer(struct intake *in, const char *text, double room, double now)
{
    return intake_offer(in, text, strlen(text), room, now);
}

TEST(a_flood_gives_a_sample_and_its_latest_progress)
{
    enum { LINES = 100000 };
    static struct intake in;
    struct intake_line last;
    uint64_t n_taken = 0;
    char text[64];

    for (int i = 0; i < LINES; i++) { /* within ten seconds */
        snprintf(text, sizeof text, "{\"event\":\"progress\",\"step\":%d}", i);
        n_taken += offer(&in, text, 1, 1000 + 10. * i / LINES);
    }
    assert_true(n_taken >= INTAKE_BURST && n_taken <= INTAKE_BURST + 10 * INTAKE_RATE);
    assert_int_equal(in.n_seen, LINES);
    assert_int_equal(in.n_dropped + n_taken + intake_n_held(&in), LINES);
    assert_true(intake_take_held(&in, &last, 1, 1010, true));
    assert_int_equal(last.len, strlen(text));
    assert_memory_equal(last.text, text, last.len);
    assert_false(intake_take_held(&in, &last, 1, 1010, true));
}

TEST(a_runners_own_lines_all_pass)
{
    static struct intake in;

    for (int i = 0; i < 36000; i++) /* two hours of five a second, the journal half full */
        assert_true(offer(&in, "{\"event\":\"progress\"}", 0.5, 1000 + i / 5.));
    assert_int_equal(in.n_dropped, 0);
}

TEST(a_held_line_passes_when_there_is_a_token_again)
{
    static struct intake in;
    struct intake_line line;

    while (offer(&in, "{\"event\":\"log\"}", 1, 1000))
        continue;
    assert_int_equal(in.n_dropped, 1);
    assert_false(offer(&in, "{\"event\":\"eval\",\"step\":1}", 1, 1000));
    assert_false(intake_take_held(&in, &line, 1, 1000, false));
    assert_true(intake_take_held(&in, &line, 1, 1001, false));
    assert_true(intake_is("eval", line.text, line.len));
}

TEST(nothing_is_taken_once_the_journal_is_full)
{
    static struct intake in;

    assert_false(offer(&in, "{\"event\":\"log\"}", 0, 1000));
    assert_false(offer(&in, "{\"event\":\"log\"}", 0, 9000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_gives_a_sample_and_its_latest_progress),
        cmocka_unit_test(a_runners_own_lines_all_pass),
        cmocka_unit_test(a_held_line_passes_when_there_is_a_token_again),
        cmocka_unit_test(nothing_is_taken_once_the_journal_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
