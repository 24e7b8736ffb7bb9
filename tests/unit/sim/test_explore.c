/* Every order of a short job's deliveries. */
#include "tests/unit/unit.h"

#include "sim/explore.h"
#include "tests/lib/sim_job.h"

static struct settings set;
static struct simulation how;
static struct explore_result found, again;
static struct sim s;
static struct err e;

static void job(const char *codec, int n_workers, int n_servers, int n_steps)
{
    settings_default(&set);
    simulation_default(&how);
    snprintf(set.codec, sizeof set.codec, "%s", codec);
    snprintf(set.server_codec, sizeof set.server_codec, "%s", codec);
    set.node_count = n_workers;
    set.server_count = n_servers;
    set.path = strcmp(codec, "plain") == 0 ? COMBINE_PATH_GATHER : COMBINE_PATH_AUTO;
    set.epochs = 1;
    set.steps_per_epoch = n_steps;
    set.momentum = 0;
    how.gradients = 3;
    sim_job_open(&s, &set, &how, codec);
}

TEST(two_nodes_that_average_after_two_steps_have_five_orders)
{
    /* A node receives the other's contribution before its first step, before its second, or after it;
     * before the second only if the other one receives its contribution last. */
    job("fedavg", 2, 0, 2);
    assert_ok(sim_explore(&s, "", &found, &e));
    assert_true(found.is_complete && !found.failure[0]);
    assert_int_equal(found.n_orders, 5);
    assert_int_equal(found.n_different, 0);
    sim_close(&s);
}

TEST(synchronous_rules_succeed_with_the_same_result_in_every_order)
{
    static const struct {
        const char *codec;
        int n_workers, n_servers, n_steps;
    } cases[] = {{"plain", 3, 0, 1}, {"fedavg", 3, 1, 1}, {"fedavg", 2, 2, 2}, {"allreduce", 3, 0, 1}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        job(cases[i].codec, cases[i].n_workers, cases[i].n_servers, cases[i].n_steps);
        assert_ok(sim_explore(&s, "", &found, &e));
        assert_true(found.is_complete && !found.failure[0] && found.n_orders > 1 && found.n_different == 0);
        assert_true(sim_models_agree(&s));
        sim_close(&s);
    }
}

TEST(an_asynchronous_rule_has_different_results_in_different_orders)
{
    job("plain", 2, 0, 2);
    s.set.sync = SYNC_ASGD;
    assert_ok(sim_explore(&s, "", &found, &e));
    assert_true(found.is_complete && !found.failure[0] && found.n_different > 0);
    sim_close(&s);
}

TEST(an_order_dependent_rule_is_found_and_its_order_can_be_replayed)
{
    job("tests/has_globals", 3, 0, 1);
    assert_ok(sim_explore(&s, "", &found, &e));
    assert_non_null(strstr(found.failure, "depends on timing"));
    assert_true(!found.is_complete && found.n_orders > 1);
    assert_ok(sim_explore(&s, found.order, &again, &e));
    assert_string_equal(again.order, found.order);
    assert_int_equal(again.n_orders, 1);
    sim_close(&s);
}

TEST(an_invalid_order_is_refused)
{
    static const char *const wrong[] = {"0", "0x", "9s", "0s,1s", "0s.", "01", "0s.0s.0s.0s"};

    job("fedavg", 2, 0, 2);
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_int_equal(sim_explore(&s, wrong[i], &found, &e), ERR_CONFIG);
    sim_close(&s);
    job("fedavg", 6, 0, 2);
    assert_int_equal(sim_explore(&s, "", &found, &e), ERR_CONFIG);
    assert_error_has("not with 6");
    sim_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_that_average_after_two_steps_have_five_orders),
        cmocka_unit_test(synchronous_rules_succeed_with_the_same_result_in_every_order),
        cmocka_unit_test(an_asynchronous_rule_has_different_results_in_different_orders),
        cmocka_unit_test(an_order_dependent_rule_is_found_and_its_order_can_be_replayed),
        cmocka_unit_test(an_invalid_order_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
