#include "shared/base/suggest.h"

#include "tests/unit/unit.h"

static const char *const names[] = {"epochs", "batch_size", "learn_rate", "codec", NULL};

TEST(the_nearest_name_is_suggested)
{
    assert_string_equal(suggest("epoch", names), "epochs");
    assert_string_equal(suggest("bacth_size", names), "batch_size");
    assert_string_equal(suggest("learning_rate", names), "learn_rate");
    assert_string_equal(suggest("codec", names), "codec");
}

TEST(an_abbreviation_a_longer_name_and_one_with_the_same_beginning_are_near)
{
    const char *const options[] = {"codec",      "trace", "node-count", "cert",
                                   "learn-rate", "lr",    "min-nodes",  NULL};

    assert_string_equal(suggest("nodes", options), "node-count");
    assert_string_equal(suggest("lrate", options), "lr");
    assert_string_equal(suggest("learn", options), "learn-rate");
    assert_string_equal(suggest("trcae", options), "trace");
    assert_null(suggest("port", options)); /* half of a short word is another word */
    assert_null(suggest("c", options));
}

TEST(the_choices_of_a_list_may_be_any_number)
{
    char list[26 * 26 * 4] = "";
    int n;

    for (int i = 0; i < 26 * 26; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%c%cq", i ? "|" : "", 'a' + i / 26,
                 'a' + i % 26);
    assert_string_equal(suggest_choice("zzq9", list, &n), "zzq");
    assert_int_equal(n, 3);
    assert_true(strncmp(suggest_choice("ab", list, &n), "abq|", 4) == 0);
    assert_null(suggest_choice("12345", list, &n));
    assert_null(suggest_choice("ab", NULL, &n));
}

TEST(a_distant_name_is_not_suggested)
{
    const char *const none[] = {NULL};

    assert_null(suggest("zzzzzz", names));
    assert_null(suggest("", names));
    assert_null(suggest("epoch", none));
}

TEST(long_names_get_no_suggestion)
{
    char name[201];
    const char *const known[] = {name, NULL};

    memset(name, 'a', 200);
    name[200] = '\0';
    assert_null(suggest(name, names));
    assert_null(suggest("aaaa", known));
}

TEST(an_unknown_name_is_answered_with_the_nearest_one_or_with_all)
{
    struct err e;

    err_set(&e, ERR_CONFIG, "\"epoch\" is unknown");
    assert_int_equal(suggest_instead("epoch", names, &e), ERR_CONFIG);
    assert_string_equal(e.text, "\"epoch\" is unknown; did you mean \"epochs\"?");
    err_set(&e, ERR_USAGE, "\"zzzzzz\" is unknown");
    assert_int_equal(suggest_instead("zzzzzz", names, &e), ERR_USAGE);
    assert_string_equal(e.text, "\"zzzzzz\" is unknown; there are: epochs, batch_size, learn_rate, codec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(an_abbreviation_a_longer_name_and_one_with_the_same_beginning_are_near),
        cmocka_unit_test(the_choices_of_a_list_may_be_any_number),
        cmocka_unit_test(a_distant_name_is_not_suggested),
        cmocka_unit_test(long_names_get_no_suggestion),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_nearest_one_or_with_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
