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

static const char *const names[] = {"epochs", "batch_size", "learn_rate", "codec", NULL};

TEST(the_nearest_name_is_suggested)
{
    assert_string_equal(choice_near("epoch", names), "epochs");
    assert_string_equal(choice_near("bacth_size", names), "batch_size");
    assert_string_equal(choice_near("learning_rate", names), "learn_rate");
    assert_string_equal(choice_near("codec", names), "codec");
}

TEST(the_beginning_of_a_name_a_longer_name_and_one_with_the_same_beginning_are_near)
{
    const char *const options[] = {"codec",      "trace", "node-count", "cert",
                                   "learn-rate", "lr",    "min-nodes",  NULL};

    assert_string_equal(choice_near("nodes", options), "node-count");
    assert_string_equal(choice_near("lrate", options), "lr");
    assert_string_equal(choice_near("learn", options), "learn-rate");
    assert_string_equal(choice_near("trcae", options), "trace");
    assert_null(choice_near("port", options)); /* half of a short word is another word */
    assert_null(choice_near("c", options));
}

TEST(the_choices_of_a_list_may_be_any_number)
{
    char list[26 * 26 * 4] = "";
    int n;

    for (int i = 0; i < 26 * 26; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%c%cq", i ? "|" : "", 'a' + i / 26,
                 'a' + i % 26);
    assert_string_equal(choice_near_in(list, "zzq9", &n), "zzq");
    assert_int_equal(n, 3);
    assert_true(strncmp(choice_near_in(list, "ab", &n), "abq|", 4) == 0);
    assert_null(choice_near_in(list, "12345", &n));
    assert_null(choice_near_in(NULL, "ab", &n));
}

TEST(a_distant_name_is_not_suggested)
{
    const char *const none[] = {NULL};

    assert_null(choice_near("zzzzzz", names));
    assert_null(choice_near("", names));
    assert_null(choice_near("epoch", none));
}

TEST(long_names_get_no_suggestion)
{
    char name[201];
    const char *const known[] = {name, NULL};

    memset(name, 'a', 200);
    name[200] = '\0';
    assert_null(choice_near(name, names));
    assert_null(choice_near("aaaa", known));
}

TEST(an_unknown_name_is_answered_with_the_nearest_one_or_with_all)
{
    struct err e;

    err_set(&e, ERR_CONFIG, "\"epoch\" is unknown");
    assert_int_equal(choice_suggest("epoch", names, &e), ERR_CONFIG);
    assert_string_equal(e.text, "\"epoch\" is unknown; did you mean \"epochs\"?");
    err_set(&e, ERR_USAGE, "\"zzzzzz\" is unknown");
    assert_int_equal(choice_suggest("zzzzzz", names, &e), ERR_USAGE);
    assert_string_equal(e.text, "\"zzzzzz\" is unknown; there are: epochs, batch_size, learn_rate, codec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_by_its_index),
        cmocka_unit_test(a_name_that_is_not_in_the_list_is_not_found),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(the_beginning_of_a_name_a_longer_name_and_one_with_the_same_beginning_are_near),
        cmocka_unit_test(the_choices_of_a_list_may_be_any_number),
        cmocka_unit_test(a_distant_name_is_not_suggested),
        cmocka_unit_test(long_names_get_no_suggestion),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_nearest_one_or_with_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
