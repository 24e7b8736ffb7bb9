#include "shared/job/schedule.h"

#include <math.h>

#include "shared/base/crc32c.h"
#include "shared/records/tensor_file.h"
#include "tests/unit/unit.h"

static struct schedule parse(const char *text)
{
    struct schedule s = {0};
    struct err e;

    assert_ok(schedule_parse(&s, text, &e));
    return s;
}

/* The reference's rates are float32, and PyTorch's chained form adds a rounding of double per step: 3e-7 of
 * 0.5. */
TEST(every_schedule_matches_the_rates_of_pytorch_with_and_without_warm_up)
{
    enum { STEPS = 100 };
    struct tensor_file f;
    struct err e;

    assert_ok(tensor_file_open(&f, "tests/reference/schedules.safetensors", &e));
    assert_int_equal(f.n, 16);
    for (size_t k = 0; k < f.n; k++) {
        const struct tensor_view *v = &f.tensors[k];
        const char *after = strstr(v->name, " after ");
        const float *expected = v->data;
        struct schedule_job job = {.learn_rate = 0.5, .steps_per_epoch = 10, .n_steps = STEPS};
        struct schedule s;
        char text[64];

        assert_non_null(after);
        assert_int_equal(tensor_count(v), STEPS);
        snprintf(text, sizeof text, "%.*s", (int)(after - v->name), v->name);
        s = parse(text);
        job.warmup_steps = strtoull(after + 7, NULL, 10);
        for (uint64_t t = 0; t < STEPS; t++) {
            double rate = schedule_rate(&s, &job, t);

            if (!(fabs(rate - (double)expected[t]) <= 1.5e-7))
                fail_msg("%s: step %d: %.9g, PyTorch has %.9g", v->name, (int)t + 1, rate,
                         (double)expected[t]);
        }
    }
    tensor_file_close(&f);
}

TEST(rates_worked_out_by_hand)
{
    static const struct {
        const char *text;
        uint64_t warmup, done;
        double fraction;
    } cases[] = {
        {"constant", 0, 99, 1},
        {"constant", 3, 0, 0.25},
        {"constant", 3, 2, 0.75},
        {"constant", 3, 3, 1},
        {"cosine", 0, 50, 0.5},
        {"cosine", 20, 60, 0.5},
        {"linear", 0, 99, 0.01},
        {"cosine:floor=0.1", 20, 20, 1},
        {"cosine:floor=0.1", 20, 60, 0.55},
        {"linear:floor=0.5", 0, 50, 0.75},
        {"cosine:floor=0", 0, 50, 0.5},
        {"sqrt", 0, 3, 0.5},
        {"sqrt", 10, 13, 0.5},
        {"step:every=2", 0, 19, 1},
        {"step:every=2", 0, 20, 0.1},
        {"step:every=2,factor=0.5", 0, 45, 0.25},
        {"step:every_steps=7", 0, 7, 0.1},
        {"cosine", 100, 99, 100.0 / 101},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        const struct schedule_job job = {
            .learn_rate = 2, .warmup_steps = cases[i].warmup, .steps_per_epoch = 10, .n_steps = 100};
        struct schedule s = parse(cases[i].text);
        double rate = schedule_rate(&s, &job, cases[i].done);

        if (!(fabs(rate - 2 * cases[i].fraction) <= 1e-12))
            fail_msg("%s: %.17g, expected %.17g", cases[i].text, rate, 2 * cases[i].fraction);
    }
}

/* Nodes of one job may have different processors: `make test-processors` runs this on several. */
TEST(rates_have_the_same_bits_on_every_processor)
{
    enum { STEPS = 20000 };
    const struct schedule_job job = {.learn_rate = 0.05, .steps_per_epoch = 100, .n_steps = STEPS};
    static const struct {
        const char *text;
        uint32_t sum;
    } cases[] = {{"cosine", 0x27735c57},
                 {"linear", 0xcb13b0a1},
                 {"cosine:floor=0.1", 0x55756cdc},
                 {"sqrt", 0x66d4b74a},
                 {"step:every_steps=7,factor=0.99", 0x2a843179}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct schedule s = parse(cases[i].text);
        uint32_t sum = 0;

        for (uint64_t t = 0; t < STEPS; t++) {
            double rate = schedule_rate(&s, &job, t);

            sum = crc32c_more(sum, &rate, sizeof rate);
        }
        if (sum != cases[i].sum)
            fail_msg("%s: %#x, not %#x", cases[i].text, sum, cases[i].sum);
    }
}

TEST(an_invalid_schedule_is_refused_with_a_reason)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no schedule is called \"\"; there are: constant, step:every=EPOCHS"},
        {"cosin", "no schedule is called \"cosin\"; did you mean \"cosine\"?"},
        {"cosine ", "no schedule is called"},
        {"Cosine", "no schedule is called"},
        {"cosine:", "cosine: \"\" is not floor=SHARE, of the rate"},
        {"linear:every=2", "linear: \"every=2\" is not floor=SHARE"},
        {"cosine:floor=-0.1", "cosine: floor \"-0.1\" is not a number from 0 and up to 1"},
        {"linear:floor=1.5", "linear: floor \"1.5\""},
        {"sqrt:floor=0.1", "schedule sqrt takes no parameters"},
        {"step", "its interval is missing"},
        {"step:", "\"\" is not one of every=EPOCHS"},
        {"step:factor=0.5", "its interval is missing"},
        {"step:every=0", "every \"0\" is not a number of epochs"},
        {"step:every=-1", "is not a number of epochs"},
        {"step:every=1.5", "is not a number of epochs"},
        {"step:every=99999999999999999999", "is not a number of epochs"},
        {"step:every_steps=x", "every \"x\" is not a number of steps"},
        {"step:every=2,every_steps=3", "and only once"},
        {"step:every=2,factor=0", "factor \"0\" is not a number above 0"},
        {"step:every=2,factor=1.01", "factor \"1.01\""},
        {"step:every=2,factor=nan", "factor \"nan\""},
        {"step:every=2,factor=0x1", "factor \"0x1\""},
        {"step:every=2,factor=", "factor \"\""},
        {"step:every=2,", "\"\" is not one of"},
        {"step:every=2,size=3", "\"size=3\" is not one of"},
        {"step:every=00000000000000000000000000000000000000000000000000000000000002", "is too long"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct schedule s = {.every = 77};
        struct err e;

        assert_int_equal(schedule_parse(&s, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].message);
        assert_int_equal(s.every, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_matches_the_rates_of_pytorch_with_and_without_warm_up),
        cmocka_unit_test(rates_worked_out_by_hand),
        cmocka_unit_test(rates_have_the_same_bits_on_every_processor),
        cmocka_unit_test(an_invalid_schedule_is_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
