#include "submit/stages/outcome.h"

#include "tests/unit/unit.h"

/* One job's nodes: state, reason, when it ended; "lost" is an agent that did not come back. */
struct end {
    enum job_state state;
    const char *reason;
    double at;
};

static struct submission s;
static struct node nodes[8];

static void put(const struct end *ends, size_t n)
{
    memset(nodes, 0, sizeof nodes);
    s = (struct submission){.nodes = nodes, .n_nodes = n, .cause = -1};
    for (size_t i = 0; i < n; i++) {
        nodes[i].view.state = ends[i].state;
        nodes[i].is_ended = job_state_is_terminal(ends[i].state);
        nodes[i].ended_at = ends[i].at;
        nodes[i].is_lost = strcmp(ends[i].reason, "lost") == 0;
        snprintf(nodes[i].view.reason, sizeof nodes[i].view.reason, "%s",
                 nodes[i].is_lost ? "NodeLost" : ends[i].reason);
    }
}

#define PUT(...)                                                                                             \
    put((const struct end[]){__VA_ARGS__}, sizeof((const struct end[]){__VA_ARGS__}) / sizeof(struct end))

TEST(all_succeeded_is_success)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    assert_int_equal(outcome_cause(&s), -1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_SUCCEEDED);
}

TEST(the_job_is_as_far_as_its_last_node)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_RUNNING, "", 0}, {JOB_READY, "", 0});
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_READY);
    nodes[2].silent_since = 1;
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_RUNNING);
}

TEST(a_node_with_a_reason_of_its_own_is_the_cause)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "RunnerDied", 2}, {JOB_FAILED, "RoundTimeout", 0.5});
    assert_int_equal(outcome_cause(&s), 1);
    PUT({JOB_FAILED, "CodecFailed", 3}, {JOB_FAILED, "RunnerDied", 2}, {JOB_CANCELLED, "UserCancelled", 1});
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(a_lost_agent_explains_nodes_that_lost_it)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "lost", 2});
    assert_int_equal(outcome_cause(&s), 1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_FAILED);
}

TEST(a_cancelled_node_explains_nodes_that_lost_it)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_CANCELLED, "UserCancelled", 2});
    assert_int_equal(outcome_cause(&s), 1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_CANCELLED);
}

TEST(of_equals_the_first_is_the_cause)
{
    PUT({JOB_FAILED, "NodeLost", 3}, {JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "NodeLost", 2});
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(a_lost_worker_is_borne_while_enough_of_the_others_stand)
{
    PUT({JOB_FAILED, "RunnerDied", 1}, {JOB_SUCCEEDED, "", 2}, {JOB_RUNNING, "", 0}, {JOB_SUCCEEDED, "", 3});
    nodes[3].at.node = -2;
    strcpy(s.settings.on_node_loss, "continue");
    s.settings.min_nodes = 2;
    assert_int_equal(outcome_cause(&s), -1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_RUNNING);
    s.settings.min_nodes = 3;
    assert_int_equal(outcome_cause(&s), 0);
}

TEST(a_lost_server_or_a_cancelled_worker_is_not_borne)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    strcpy(s.settings.on_node_loss, "continue");
    s.settings.min_nodes = 1;
    assert_int_equal(outcome_cause(&s), -1);
    nodes[1].at.node = -2;
    assert_int_equal(outcome_cause(&s), 1);
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_CANCELLED, "UserCancelled", 2});
    strcpy(s.settings.on_node_loss, "continue");
    s.settings.min_nodes = 1;
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(what_was_judged_stays_while_a_node_is_silent_or_has_failed)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    s.state = JOB_FAILED;
    nodes[1].is_ended = false;
    nodes[1].silent_since = 1;
    assert_false(outcome_judge(&s));
    assert_int_equal(s.state, JOB_FAILED);
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    s.state = JOB_CANCELLED;
    assert_false(outcome_judge(&s));
    assert_int_equal(s.state, JOB_CANCELLED);
    assert_int_equal(s.cause, -1);
}

TEST(a_job_whose_nodes_all_did_well_after_all_has_succeeded)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    s.state = JOB_FAILED;
    strcpy(s.seen.reason, "NodeLost");
    assert_true(outcome_judge(&s));
    assert_int_equal(s.state, JOB_SUCCEEDED);
    assert_string_equal(s.seen.reason, "");
    assert_false(outcome_judge(&s)); /* nothing new */
}

TEST(a_job_that_nobody_judged_is_what_its_nodes_are)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    s.state = JOB_RUNNING;
    assert_false(outcome_judge(&s));
    assert_int_equal(s.state, JOB_FAILED);
    assert_int_equal(s.cause, 1);
}

TEST(a_started_job_goes_on_where_an_agent_is_silent)
{
    PUT({JOB_RUNNING, "", 0}, {JOB_PENDING, "", 0});
    nodes[1].silent_since = 1;
    s.state = JOB_PENDING; /* as of a job that is read from the index */
    assert_false(outcome_judge(&s));
    assert_int_equal(s.state, JOB_RUNNING);
    assert_string_equal(node_state(&nodes[0]), "running");
    assert_string_equal(node_state(&nodes[1]), "unknown");
    nodes[1].is_ended = true;
    nodes[1].view.state = JOB_FAILED;
    assert_string_equal(node_state(&nodes[1]), "failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_succeeded_is_success),
        cmocka_unit_test(the_job_is_as_far_as_its_last_node),
        cmocka_unit_test(a_node_with_a_reason_of_its_own_is_the_cause),
        cmocka_unit_test(a_lost_agent_explains_nodes_that_lost_it),
        cmocka_unit_test(a_cancelled_node_explains_nodes_that_lost_it),
        cmocka_unit_test(of_equals_the_first_is_the_cause),
        cmocka_unit_test(a_lost_worker_is_borne_while_enough_of_the_others_stand),
        cmocka_unit_test(a_lost_server_or_a_cancelled_worker_is_not_borne),
        cmocka_unit_test(what_was_judged_stays_while_a_node_is_silent_or_has_failed),
        cmocka_unit_test(a_job_whose_nodes_all_did_well_after_all_has_succeeded),
        cmocka_unit_test(a_job_that_nobody_judged_is_what_its_nodes_are),
        cmocka_unit_test(a_started_job_goes_on_where_an_agent_is_silent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
