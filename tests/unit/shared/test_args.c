#include "shared/base/args.h"

#include "tests/unit/unit.h"

enum { EAT = 1, DRINK = 2 };

struct meal {
    bool is_hot, was_given;
    int hunger, n, course;
    uint64_t seed;
    double price;
    char name[8], wine[8], menu[8];
    const char *guests[3];
};

#define AT(m) ARGS_AT(struct meal, m)

static const struct args_option table[] = {
    {"is_hot|warm", "h", ARGS_FLAG, AT(is_hot), EAT | DRINK, 0, NULL, "not cold"},
    {"hunger", "v", ARGS_COUNT, AT(hunger), EAT, 0, NULL, "more of it"},
    {"number-of-plates", "n", ARGS_INT, AT(n), EAT, 0, "N", "plates", .min = -2, .max = 10,
     .given = offsetof(struct meal, was_given)},
    {"seed", "", ARGS_U64, AT(seed), EAT, 0, "N", "of the salad", .max = 0x1p53},
    {"price", "p", ARGS_NUMBER, AT(price), EAT, 0, "X", "at most"},
    {"name", "", ARGS_TEXT, AT(name), EAT, 1, "NAME", "for the waiter"},
    {"menu", "", ARGS_PATH, AT(menu), EAT, 1, "FILE", "where it stands"},
    {"wine", "w", ARGS_CHOICE_TEXT, AT(wine), DRINK, 1, "red|white", "colour", .hint = "Water is for free."},
    {"course", "", ARGS_CHOICE, AT(course), EAT, 1, "antipasto|primo|secondo|dolce", "which one",
     .elsewhere = "A drink has no courses."},
    {"guest", "", ARGS_LIST, AT(guests), EAT, 1, "NAME",
     "who else comes, and as many words as it takes to fill more than one line of help"},
};
static const char *const groups[] = {"Food", "People", NULL};
static const struct args args = {"The menu lists the options.", table, N_OF(table), groups};

static struct meal m;
static struct args_found found;
static struct err e;

static int parse(uint64_t verb, const char *const *given)
{
    static struct unit_argv argv;

    m = (struct meal){.n = 1};
    unit_argv(&argv, "meal", given);
    return args_parse(&args, verb, argv.n, argv.of, &m, &found, &e);
}

#define PARSE(...) parse(EAT, (const char *const[]){__VA_ARGS__, NULL})

TEST(each_option_type_sets_its_member)
{
    assert_ok(PARSE("--is_hot", "-vv", "-v", "--number_of-plates", "-2", "--seed=9007199254740992", "-p.5",
                    "--name", "Ada", "--menu", "m", "--course", "secondo", "--guest", "a", "--guest=b"));
    assert_true(m.is_hot && m.was_given);
    assert_int_equal(m.hunger, 3);
    assert_int_equal(m.n, -2);
    assert_true(m.seed == UINT64_C(1) << 53);
    assert_true(m.price == 0.5);
    assert_string_equal(m.name, "Ada");
    assert_string_equal(m.menu, "m");
    assert_int_equal(m.course, 2);
    assert_string_equal(m.guests[0], "a");
    assert_string_equal(m.guests[1], "b");
    assert_null(m.guests[2]);
    assert_true(found.given[0] && found.given[9] && !found.given[7]);
}

TEST(without_options_the_defaults_stay)
{
    assert_ok(parse(EAT, (const char *const[]){NULL}));
    assert_int_equal(m.n, 1);
    assert_false(m.was_given);
    assert_int_equal(found.n_operands, 0);
}

TEST(an_option_name_takes_hyphens_or_underscores_and_its_value_is_unchanged)
{
    assert_ok(PARSE("--warm", "--name=a_b", "--number_of_plates=3"));
    assert_true(m.is_hot);
    assert_string_equal(m.name, "a_b");
    assert_int_equal(m.n, 3);
    assert_ok(PARSE("--name", "--a_b"));
    assert_string_equal(m.name, "--a_b");
}

TEST(operands_are_accepted_anywhere_and_after_two_hyphens)
{
    assert_ok(PARSE("soup", "-h", "-", "--", "--name", "-x"));
    assert_int_equal(found.n_operands, 4);
    assert_string_equal(found.operands[0], "soup");
    assert_string_equal(found.operands[1], "-");
    assert_string_equal(found.operands[2], "--name");
    assert_string_equal(found.operands[3], "-x");
    assert_true(m.is_hot);
}

TEST(invalid_options_are_reported)
{
    static const struct {
        const char *given[3], *expected, *hint;
    } cases[] = {
        {{"--nmae", "x"}, "unknown option --nmae", "Did you mean --name?"},
        {{"--numb", "1"}, "unknown option --numb", "Did you mean --number-of-plates?"},
        {{"--wrm"}, "unknown option --wrm", "Did you mean --is_hot?"},
        {{"--xyzzy_plugh"}, "unknown option --xyzzy-plugh", "The menu lists the options."},
        {{"--wine", "red"}, "--wine is for other verbs", "The menu lists the options."},
        {{"-w", "red"}, "unknown option -w", NULL},
        {{"-hx"}, "unknown option -x", NULL},
        {{"--name"}, "--name needs a value: NAME", NULL},
        {{"--name", "--is_hot"},
         "--name needs a value, NAME, before --is_hot",
         "--name=--is_hot gives it that value."},
        {{"-n"}, "--number-of-plates needs a value: N", NULL},
        {{"--hunger=2"}, "--hunger takes no value", NULL},
        {{"--is-hot="}, "--is_hot takes no value", NULL},
        {{"-n1.5"}, "\"1.5\" is not an integer", NULL},
        {{"-n", "0x2"}, "\"0x2\" is not a number", NULL},
        {{"-n", ""}, "\"\" is not a number", NULL},
        {{"-n", "11"}, "11 is not between -2 and 10", NULL},
        {{"-n99999999999999999999"}, "is not between -2 and 10", NULL},
        {{"--price", "nan"}, "\"nan\" is not a number", NULL},
        {{"--name", ""}, "--name: empty", NULL},
        {{"--name", "12345678"}, "--name: longer than 7 characters", NULL},
        {{"--course", "primo|secondo"}, "\"primo|secondo\" is not one of antipasto|primo", NULL},
        {{"--course", "scondo"}, "\"scondo\" is not one of", "Did you mean secondo?"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        e.hint[0] = '\0';
        assert_int_equal(parse(EAT, cases[i].given), ERR_USAGE);
        assert_error_has(cases[i].expected);
        if (cases[i].hint)
            assert_string_equal(e.hint, cases[i].hint);
    }
    assert_int_equal(parse(DRINK, (const char *const[]){"--course", "primo", NULL}), ERR_USAGE);
    assert_error_has("--course is for other verbs");
    assert_string_equal(e.hint, "A drink has no courses.");
    assert_int_equal(parse(DRINK, (const char *const[]){"-w", "pink", NULL}), ERR_USAGE);
    assert_error_has("--wine: \"pink\" is not one of red|white");
    assert_string_equal(e.hint, "Water is for free.");
    assert_int_equal(PARSE("--guest", "a", "--guest", "b", "--guest", "c"), ERR_USAGE);
    assert_error_has("--guest: more than 2 of them");
}

TEST(too_many_operands_are_refused)
{
    struct unit_argv argv;
    char operand[] = "x", *many[ARGS_OPERANDS + 2];

    unit_argv(&argv, "meal", (const char *const[]){NULL});
    for (size_t i = 0; i < N_OF(many); i++)
        many[i] = i ? operand : argv.of[0];
    assert_ok(args_parse(&args, EAT, ARGS_OPERANDS + 1, many, &m, &found, &e));
    assert_int_equal(found.n_operands, ARGS_OPERANDS);
    assert_int_equal(args_parse(&args, EAT, ARGS_OPERANDS + 2, many, &m, &found, &e), ERR_USAGE);
    assert_error_has("more than 64 operands");
}

TEST(parsed_options_can_be_written_again)
{
    static const char *const given[] = {
        "-hvv", "-n", "7", "--seed", "9007199254740991", "-p0.1", "--name", "Ada", "--guest", "Bob", NULL};
    static const char *const texts[] = {"yes", "2", "7", "9007199254740991", "0.1",
                                        "Ada", "",  "",  "antipasto",        "Bob"};
    char text[32];

    assert_ok(parse(EAT, given));
    for (size_t i = 0; i < N_OF(texts); i++) {
        args_text(text, sizeof text, &table[i], &m);
        assert_string_equal(text, texts[i]);
    }
}

TEST(help_lists_the_options_of_a_verb_under_their_headings_with_defaults)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    assert_ok(parse(EAT, (const char *const[]){NULL}));
    args_help(f, &args, EAT, &m);
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(text, "\nFood:\n  -h, --is_hot, --warm "));
    assert_non_null(strstr(text, "  -n, --number-of-plates N           plates (default 1)\n"));
    assert_non_null(strstr(text, "\nPeople:\n      --name NAME "));
    assert_non_null(strstr(text, "--course CHOICE                which one: antipasto, primo, secondo, dolce "
                                 "(default antipasto)\n"));
    assert_non_null(strstr(text, "--name NAME                    for the waiter\n"));
    assert_null(strstr(text, "wine"));
    assert_non_null(
        strstr(text, "to fill more than\n                                     one line of help\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 101);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_type_sets_its_member),
        cmocka_unit_test(without_options_the_defaults_stay),
        cmocka_unit_test(an_option_name_takes_hyphens_or_underscores_and_its_value_is_unchanged),
        cmocka_unit_test(operands_are_accepted_anywhere_and_after_two_hyphens),
        cmocka_unit_test(invalid_options_are_reported),
        cmocka_unit_test(too_many_operands_are_refused),
        cmocka_unit_test(parsed_options_can_be_written_again),
        cmocka_unit_test(help_lists_the_options_of_a_verb_under_their_headings_with_defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
