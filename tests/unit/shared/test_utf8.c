#include "shared/base/utf8.h"

#include "tests/unit/unit.h"

TEST(a_text_is_cut_at_a_character_boundary)
{
    static const struct {
        const char *text;
        size_t whole;
    } cases[] = {
        {"", 0},
        {"ab", 2},
        {"ab\303", 2},
        {"ab\303\244", 4},
        {"ab\342\202", 2},
        {"ab\342\202\254", 5},
        {"ab\360\237\230", 2},
        {"ab\360\237\230\200", 6},
        {"\360\237", 0},
        {"\200\200\200\200\200", 5}, /* no characters at all: cutting gains nothing */
        {"\377", 1},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t len = strlen(cases[i].text);
        char *exact = unit_copy(cases[i].text, len);

        assert_int_equal(utf8_whole(exact, len), cases[i].whole);
        free(exact);
    }
}

TEST(a_text_is_valid_utf8_or_not)
{
    assert_true(utf8_is_all(""));
    assert_true(utf8_is_all("caf\303\251 \342\202\254"));
    assert_false(utf8_is_all("caf\351"));
    assert_false(utf8_is_all("caf\303"));
    assert_false(utf8_is_all("\300\200"));
}

TEST(only_printable_text_reaches_the_terminal)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"tab\there\n", "tab\there\n"},
        {"\033]0;x\007", "?]0;x?"},
        {"\302\233m", "??m"},
        {"caf\303\251 \342\202\254 \360\237\230\200", "caf\303\251 \342\202\254 \360\237\230\200"},
        {"\300\200\355\240\200\377", "??????"},
        {"cut \342\202", "cut ??"},
        {"\r\b\177", "???"},
        {"gpj.\342\200\256exe", "gpj.???exe"},                                 /* U+202E */
        {"\342\201\246a\342\201\251 \330\234 \342\200\217", "???a??? ?? ???"}, /* U+2066, 2069, 061C, 200F */
        {"ad\342\200\213min \357\273\277 \342\200\215", "ad???min ??? ???"},   /* U+200B, FEFF, 200D */
        {"a\342\200\250b \363\240\201\201", "a???b ????"},                     /* U+2028, E0041 */
        {"\342\200\220 \342\200\247 \342\200\257 \342\201\237",
         "\342\200\220 \342\200\247 \342\200\257 \342\201\237"}, /* their neighbours */
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t len = strlen(cases[i].in);
        char *s = unit_copy(cases[i].in, len);

        utf8_clean(s, len, true);
        assert_memory_equal(s, cases[i].out, len);
        free(s);
    }
}

TEST(a_text_is_clean_if_nothing_in_it_would_be_replaced)
{
    static const char *const unclean[] = {"a\n",     "\033[2J",      "\177",           "a\302\233m",
                                          "caf\351", "cut \342\202", "a\342\200\256b", "\342\200\213"};

    assert_true(utf8_is_clean(""));
    assert_true(utf8_is_clean("caf\303\251 \302\240 \360\237\230\200"));
    for (size_t i = 0; i < N_OF(unclean); i++)
        assert_false(utf8_is_clean(unclean[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_at_a_character_boundary),
        cmocka_unit_test(a_text_is_valid_utf8_or_not),
        cmocka_unit_test(only_printable_text_reaches_the_terminal),
        cmocka_unit_test(a_text_is_clean_if_nothing_in_it_would_be_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
