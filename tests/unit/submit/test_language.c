/* The results of a model of language in the units of texts. */
#include "submit/results/language.h"

#include <math.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* Two workers and a server after 10 and 12 steps of 6 windows of 64 tokens, with 2 bytes of text each. */
static const char text_run[] =
    "{\"settings\": {\"feed\": \"%s\"}, \"mean_over_workers\": {\"eval_loss\": 1.3862943611198906},"
    " \"facts\": {\"data\": {\"window\": 64, \"global_batch\": 6, \"bytes_per_token\": 2}},"
    " \"nodes\": [{\"node\": 0, \"steps\": 10, \"elapsed_s\": 3}, {\"node\": 1, \"steps\": 12, "
    "\"elapsed_s\": 4},"
    " {\"node\": -2, \"steps\": 99, \"elapsed_s\": 2}]}";

static struct language_results measured(const char *text)
{
    struct language_results r;
    json_t *run;
    struct err e;

    assert_ok(json_parse(&run, text, strlen(text), "run", &e));
    language_measure(&r, run);
    json_decref(run);
    return r;
}

static struct language_results measured_with(const char *feed)
{
    char text[sizeof text_run + 16];

    snprintf(text, sizeof text, text_run, feed);
    return measured(text);
}

TEST(perplexity_bits_and_tokens_follow_from_loss_steps_and_the_facts_of_the_text)
{
    struct language_results r = measured_with("own");

    assert_true(fabs(r.perplexity - 4) < 1e-12);
    assert_true(fabs(r.bits_per_byte - 1) < 1e-12);
    assert_true(r.tokens == 11 * 6 * 64);
    assert_true(r.tokens_per_s == 11 * 6 * 64 / 4.0);
}

TEST(with_a_shared_feed_each_step_of_a_worker_has_its_own_tokens)
{
    assert_true(measured_with("shared").tokens == 22 * 6 * 64);
}

TEST(another_run_has_no_such_results)
{
    struct language_results r = measured("{\"mean_over_workers\": {\"eval_loss\": 1}, \"nodes\": [],"
                                         " \"facts\": {\"data\": {\"global_batch\": 6}}}");

    assert_true(isnan(r.perplexity) && isnan(r.bits_per_byte) && isnan(r.tokens) && isnan(r.tokens_per_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_bits_and_tokens_follow_from_loss_steps_and_the_facts_of_the_text),
        cmocka_unit_test(with_a_shared_feed_each_step_of_a_worker_has_its_own_tokens),
        cmocka_unit_test(another_run_has_no_such_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
