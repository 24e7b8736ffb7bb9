#include "shared/base/clock.h"

#include <time.h>

#include "tests/unit/unit.h"

TEST(a_time_is_printed_as_the_c_library_prints_it)
{
    for (time_t day = 0; day < 60000; day++) { /* to the year 2134, over 2000 and 2100 */
        time_t t = day * 86400 + day * 7919 % 86400;
        char text[CLOCK_TEXT], same[64];
        struct tm tm;

        assert_non_null(gmtime_r(&t, &tm));
        strftime(same, sizeof same, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        assert_string_equal(clock_text(text, (double)t), same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_printed_as_the_c_library_prints_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
