#include "shared/base/choice.h"

#include "tests/unit/unit.h"

TEST(a_name_is_found_by_its_index)
{
    assert_int_equal(choice_find("on|off|auto", "on"), 0);
    assert_int_equal(choice_find("on|off|auto", "off"), 1);
    assert_int_equal(choice_find("on|off|auto", "auto"), 2);
    assert_int_equal(choice_find("one", "one"), 0);
}

TEST(a_name_that_is_not_in_the_list_is_not_found)
{
    static const char *const none[] = {"", "o", "of", "offs", "auto|", "on|off", "|", "ON"};

    for (size_t i = 0; i < N_OF(none); i++)
        assert_int_equal(choice_find("on|off|auto", none[i]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_by_its_index),
        cmocka_unit_test(a_name_that_is_not_in_the_list_is_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
