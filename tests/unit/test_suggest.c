#include "shared/suggest.h"

#include "tests/unit/unit.h"

static const char *const words[] = {"epochs", "batch_size", "learn_rate", "codec", NULL};

TEST(the_nearest_word_is_meant)
{
    assert_string_equal(suggest("epoch", words), "epochs");
    assert_string_equal(suggest("bacth_size", words), "batch_size");
    assert_string_equal(suggest("learning_rate", words), "learn_rate");
    assert_string_equal(suggest("codec", words), "codec");
}

TEST(a_far_word_means_nothing)
{
    const char *const none[] = {NULL};

    assert_null(suggest("zzzzzz", words));
    assert_null(suggest("", words));
    assert_null(suggest("epoch", none));
}

TEST(long_words_are_left_alone)
{
    char word[201];
    const char *const known[] = {word, NULL};

    memset(word, 'a', 200);
    word[200] = '\0';
    assert_null(suggest(word, words));
    assert_null(suggest("aaaa", known));
}

TEST(what_is_unknown_is_answered_with_the_nearest_word_or_with_all)
{
    struct err e;

    err_set(&e, ERR_CONFIG, "\"epoch\" is unknown");
    assert_int_equal(suggest_instead("epoch", words, &e), ERR_CONFIG);
    assert_string_equal(e.text, "\"epoch\" is unknown; did you mean \"epochs\"?");
    err_set(&e, ERR_USAGE, "\"zzzzzz\" is unknown");
    assert_int_equal(suggest_instead("zzzzzz", words, &e), ERR_USAGE);
    assert_string_equal(e.text, "\"zzzzzz\" is unknown; there are: epochs, batch_size, learn_rate, codec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_word_is_meant),
        cmocka_unit_test(a_far_word_means_nothing),
        cmocka_unit_test(long_words_are_left_alone),
        cmocka_unit_test(what_is_unknown_is_answered_with_the_nearest_word_or_with_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
