#include "submit/sweep/sweep_plan.h"

#include "tests/unit/unit.h"

static struct err e;
static struct sweep_plan p;

#define MAKE(repeat, ...) sweep_plan_make(&p, (const char *const[]){__VA_ARGS__, NULL}, repeat, 1, &e)

TEST(runs_are_the_product_of_all_values)
{
    char name[SWEEP_NAME];

    assert_ok(MAKE(3, "codec=fedavg,diloco", "learn_rate=0.1,0.01,1"));
    assert_int_equal(p.n_combinations, 6);
    assert_int_equal(p.n_repeats, 3);
    assert_string_equal(sweep_value(&p, 0, 0), "fedavg");
    assert_string_equal(sweep_value(&p, 2, 1), "1"); /* the last one varies first */
    assert_string_equal(sweep_value(&p, 3, 0), "diloco");
    sweep_name(name, &p, &(struct sweep_run){4, 1, 0});
    assert_string_equal(name, "codec=diloco_learn_rate=0.01_seed=2");
    sweep_job_name(name, 64, &p, &(struct sweep_run){4, 1, 0});
    assert_string_equal(name, "codec-diloco_learn_rate-0.01_seed-2");
    sweep_values_text(name, sizeof name, &p, 4);
    assert_string_equal(name, "codec=diloco, learn_rate=0.01");
    sweep_plan_clear(&p);
    assert_ok(MAKE(0, "epochs=2"));
    sweep_name(name, &p, &(struct sweep_run){0, 0, 0});
    assert_string_equal(name, "epochs=2");
    sweep_plan_clear(&p);
}

TEST(values_with_commas_are_given_as_json)
{
    char one[SWEEP_NAME], other[SWEEP_NAME];

    assert_ok(MAKE(0, "codec=[\"a:x=1,y=2\",\"dir/b.c\",\"b.c\"]", "seed=[1,2.5]"));
    assert_int_equal(p.n_combinations, 6);
    assert_string_equal(sweep_value(&p, 0, 0), "a:x=1,y=2");
    assert_string_equal(sweep_value(&p, 1, 1), "2.5");
    sweep_name(one, &p, &(struct sweep_run){2, 0, 0});
    sweep_name(other, &p, &(struct sweep_run){4, 0, 0});
    assert_true(strncmp(one, "codec=b.c~", 10) == 0);
    assert_string_equal(one + 18, "_seed=1");
    assert_string_equal(other, "codec=b.c_seed=1");
    sweep_name(one, &p, &(struct sweep_run){0, 0, 0});
    assert_string_equal(one, "codec=a:x=1,y=2_seed=1");
    sweep_name(one, &p, &(struct sweep_run){2, 0, 0});
    assert_string_not_equal(one, other); /* though both are b.c */
    sweep_plan_clear(&p);
    assert_ok(MAKE(0, "seed=[9007199254740993,-1]")); /* is no double */
    assert_string_equal(sweep_value(&p, 0, 0), "9007199254740993");
    assert_string_equal(sweep_value(&p, 1, 0), "-1");
    sweep_plan_clear(&p);
}

TEST(each_rung_is_twice_as_long_as_the_one_before)
{
    char name[SWEEP_NAME];

    assert_ok(MAKE(2, "learn_rate=1,2,3,4,5"));
    assert_ok(sweep_halve(&p, 5, 10, false, &e));
    assert_int_equal(p.n_rungs, 3);
    assert_true(p.lengths[0] == 3 && p.lengths[1] == 5 && p.lengths[2] == 10);
    sweep_name(name, &p, &(struct sweep_run){0, 1, 0});
    assert_string_equal(name, "learn_rate=1_seed=2_epochs=3");
    sweep_name(name, &p, &(struct sweep_run){0, 1, 2});
    assert_string_equal(name, "learn_rate=1_seed=2"); /* that of a run of a grid */
    assert_ok(sweep_halve(&p, 4, 1001, true, &e));
    assert_true(p.n_rungs == 2 && p.lengths[0] == 501 && p.lengths[1] == 1001);
    sweep_name(name, &p, &(struct sweep_run){0, 0, 0});
    assert_string_equal(name, "learn_rate=1_seed=1_max-steps=501");
    assert_ok(sweep_halve(&p, 1, 1, false, &e));
    assert_int_equal(p.n_rungs, 1);
    assert_int_equal(sweep_halve(&p, 5, 3, false, &e), ERR_USAGE);
    assert_string_equal(e.text, "--search halving of 5 combinations has 3 rungs, the first of 3/4 epochs");
    sweep_plan_clear(&p);
}

TEST(names_of_long_values_fit_and_differ)
{
    char value[600], name[SWEEP_NAME], other[SWEEP_NAME];

    memset(value, 'x', sizeof value);
    memcpy(value, "codec=", 6);
    value[299] = ',';
    value[598] = 'y';
    value[599] = '\0';
    assert_ok(MAKE(0, value));
    sweep_name(name, &p, &(struct sweep_run){0, 0, 0});
    sweep_name(other, &p, &(struct sweep_run){1, 0, 0});
    assert_true(strlen(name) < SWEEP_NAME);
    assert_string_not_equal(name, other);
    sweep_plan_clear(&p);
}

TEST(names_of_many_values_fit_differ_and_have_the_seed)
{
    const char *sets[21] = {NULL};
    char text[20][40], name[SWEEP_NAME], other[SWEEP_NAME];

    for (int i = 0; i < 20; i++) {
        snprintf(text[i], sizeof text[i], i < 19 ? "some-long-option-%d=1" : "some-long-option-%d=1,2", i);
        sets[i] = text[i];
    }
    assert_ok(sweep_plan_make(&p, sets, 1, UINT64_MAX, &e));
    sweep_name(name, &p, &(struct sweep_run){0, 0, 0});
    sweep_name(other, &p, &(struct sweep_run){1, 0, 0});
    assert_true(strlen(name) < SWEEP_NAME);
    assert_string_not_equal(name, other);
    assert_non_null(strstr(name, "_seed=18446744073709551615"));
    sweep_plan_clear(&p);
}

TEST(unclear_lists_are_refused)
{
    const char *many[SWEEP_AXES + 2] = {NULL};
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"codec", "not KEY=VALUE"},      {"=1", "not KEY=VALUE"},
        {"a=1,,2", "a value is empty"},  {"a=", "a value is empty"},
        {"a=1,2,1", "1 is there twice"}, {"a=[1", "--set a: the list"},
        {"a=[]", "no values"},           {"a=[[1]]", "item 0 of the list is no string"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(MAKE(0, cases[i].set), ERR_USAGE);
        assert_error_has(cases[i].message);
    }
    assert_int_equal(MAKE(0, "local_steps=1", "local-steps=2"), ERR_USAGE);
    assert_error_has("is there twice");
    assert_int_equal(MAKE(2, "seed=1"), ERR_USAGE);
    for (size_t i = 0; i < N_OF(many) - 1; i++)
        many[i] = "a=1";
    assert_int_equal(sweep_plan_make(&p, many, 0, 1, &e), ERR_USAGE);
    assert_error_has("25 options vary, at most 24 may");
    assert_int_equal(MAKE(10000, "a=1,2"), ERR_USAGE);
    assert_error_has("more than 10000 runs");
}

TEST(a_larger_budget_draws_the_combinations_of_a_smaller_one_too)
{
    const char *const sets[] = {"codec=a,b,c", "learn_rate=1,2,3,4", NULL};
    struct sweep_plan few, more;

    assert_ok(sweep_plan_make(&few, sets, 0, 1, &e));
    assert_ok(sweep_plan_make(&more, sets, 0, 1, &e));
    assert_ok(sweep_plan_draw(&few, 4, 7, &e));
    assert_ok(sweep_plan_draw(&more, 9, 7, &e));
    assert_int_equal(few.n_combinations, 4);
    assert_int_equal(more.n_combinations, 9);
    for (size_t i = 0, at = 0; i < 4; i++, at++) {
        while (at < 9 && sweep_place(&more, at) != sweep_place(&few, i))
            at++;
        assert_true(at < 9); /* ascending, so that none is there twice */
    }
    assert_string_equal(sweep_value(&few, 3, 1), more.axes[1].values[sweep_place(&few, 3) % 4]);
    sweep_plan_clear(&few);
    sweep_plan_clear(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_larger_budget_draws_the_combinations_of_a_smaller_one_too),
        cmocka_unit_test(runs_are_the_product_of_all_values),
        cmocka_unit_test(values_with_commas_are_given_as_json),
        cmocka_unit_test(each_rung_is_twice_as_long_as_the_one_before),
        cmocka_unit_test(names_of_long_values_fit_and_differ),
        cmocka_unit_test(names_of_many_values_fit_differ_and_have_the_seed),
        cmocka_unit_test(unclear_lists_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
