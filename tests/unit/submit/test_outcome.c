#include "submit/job/outcome.h"

#include "shared/job/reason.h"
#include "tests/unit/unit.h"

/* A job's nodes: state, reason, end time; "lost" is an agent that did not respond. */
struct end {
    enum job_state state;
    const char *reason;
    double at;
};

static struct submission s;
static struct job_node nodes[8];

static void put(const struct end *ends, size_t n)
{
    memset(nodes, 0, sizeof nodes);
    s = (struct submission){.nodes = nodes, .n_nodes = n, .cause = -1};
    for (size_t i = 0; i < n; i++) {
        nodes[i].view.state = ends[i].state;
        nodes[i].is_ended = job_state_is_terminal(ends[i].state);
        nodes[i].has_started = true;
        nodes[i].ended_at = ends[i].at;
        nodes[i].is_lost = strcmp(ends[i].reason, "lost") == 0;
        snprintf(nodes[i].view.reason, sizeof nodes[i].view.reason, "%s",
                 nodes[i].is_lost ? "NodeLost" : ends[i].reason);
    }
}

#define PUT(...)                                                                                             \
    put((const struct end[]){__VA_ARGS__}, sizeof((const struct end[]){__VA_ARGS__}) / sizeof(struct end))

TEST(a_job_succeeds_if_all_nodes_succeeded)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    assert_int_equal(outcome_cause(&s), -1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_SUCCEEDED);
}

TEST(the_state_of_a_job_is_that_of_its_last_node)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_RUNNING, "", 0}, {JOB_READY, "", 0});
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_READY);
    nodes[2].silent_since = 1;
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_RUNNING);
}

TEST(a_node_with_its_own_reason_is_the_cause)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "RunnerDied", 2}, {JOB_FAILED, "RoundTimeout", 0.5});
    assert_int_equal(outcome_cause(&s), 1);
    PUT({JOB_FAILED, "CodecFailed", 3}, {JOB_FAILED, "RunnerDied", 2}, {JOB_CANCELLED, "UserCancelled", 1});
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(of_nodes_with_a_sum_that_is_not_finite_the_one_whose_gradient_it_was_is_the_cause)
{
    PUT({JOB_FAILED, "NumericDivergence", 1}, {JOB_FAILED, "NumericDivergence", 2},
        {JOB_FAILED, "NodeLost", 0.5});
    snprintf(nodes[0].view.message, sizeof nodes[0].view.message,
             "node 0, epoch 1, step 1: after the exchange the gradient of w is not finite: " REASON_OF_A_SUM
             ", or their sum is not");
    snprintf(nodes[1].view.message, sizeof nodes[1].view.message,
             "node 1, epoch 1, step 1: the gradient of w is not finite");
    assert_int_equal(outcome_cause(&s), 1);
    nodes[1].view.state = JOB_SUCCEEDED; /* all gradients are finite, and their sum is not */
    assert_int_equal(outcome_cause(&s), 0);
}

TEST(a_lost_agent_explains_nodes_that_lost_its_node)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "lost", 2});
    assert_int_equal(outcome_cause(&s), 1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_FAILED);
}

/* A launcher kills the other processes when one has ended with an error. */
TEST(a_node_that_has_reported_a_failure_comes_before_those_whose_processes_have_vanished)
{
    PUT({JOB_FAILED, "RunnerDied", 1}, {JOB_FAILED, "CodecFailed", 2}, {JOB_FAILED, "NodeLost", 0.5});
    nodes[0].folder.has_vanished = true;
    assert_int_equal(outcome_cause(&s), 1);
    nodes[1].is_ended = false;
    assert_int_equal(outcome_cause(&s), 0);
}

TEST(a_canceled_node_explains_nodes_that_lost_it)
{
    PUT({JOB_FAILED, "NodeLost", 1}, {JOB_CANCELLED, "UserCancelled", 2});
    assert_int_equal(outcome_cause(&s), 1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_CANCELLED);
}

TEST(a_node_stopped_because_another_failed_is_no_cause_and_its_job_has_failed)
{
    PUT({JOB_CANCELLED, "JobFailed", 1}, {JOB_FAILED, "NodeLost", 2});
    assert_int_equal(outcome_cause(&s), 1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_FAILED);
    PUT({JOB_CANCELLED, "JobFailed", 1}, {JOB_RUNNING, "", 0}); /* the other has not answered */
    assert_int_equal(outcome_cause(&s), 0);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_FAILED);
}

TEST(of_equal_causes_the_first_counts)
{
    PUT({JOB_FAILED, "NodeLost", 3}, {JOB_FAILED, "NodeLost", 1}, {JOB_FAILED, "NodeLost", 2});
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(a_lost_worker_is_tolerated_while_enough_workers_remain)
{
    PUT({JOB_FAILED, "RunnerDied", 1}, {JOB_SUCCEEDED, "", 2}, {JOB_RUNNING, "", 0}, {JOB_SUCCEEDED, "", 3});
    nodes[3].at.node = -2;
    s.settings.on_node_loss = NODE_LOSS_CONTINUES;
    s.settings.min_nodes = 2;
    assert_int_equal(outcome_cause(&s), -1);
    assert_int_equal(outcome_state(&s, JOB_RUNNING), JOB_RUNNING);
    nodes[0].has_started = false; /* then the others have never worked with it */
    assert_int_equal(outcome_cause(&s), 0);
    nodes[0].has_started = true;
    s.settings.min_nodes = 3;
    assert_int_equal(outcome_cause(&s), 0);
}

TEST(a_lost_server_or_a_canceled_worker_is_not_tolerated)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    s.settings.on_node_loss = NODE_LOSS_CONTINUES;
    s.settings.min_nodes = 1;
    assert_int_equal(outcome_cause(&s), -1);
    nodes[1].at.node = -2;
    assert_int_equal(outcome_cause(&s), 1);
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_CANCELLED, "UserCancelled", 2});
    s.settings.on_node_loss = NODE_LOSS_CONTINUES;
    s.settings.min_nodes = 1;
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(an_outcome_is_kept_while_a_node_is_unreachable_or_has_failed)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    s.state = JOB_FAILED;
    nodes[1].is_ended = false;
    nodes[1].silent_since = 1;
    assert_false(outcome_update(&s));
    assert_int_equal(s.state, JOB_FAILED);
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    s.state = JOB_CANCELLED;
    assert_false(outcome_update(&s));
    assert_int_equal(s.state, JOB_CANCELLED);
    assert_int_equal(s.cause, -1);
}

TEST(a_job_succeeds_if_all_its_nodes_finally_succeeded)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_SUCCEEDED, "", 2});
    s.state = JOB_FAILED;
    strcpy(s.seen.reason, "NodeLost");
    assert_true(outcome_update(&s));
    assert_int_equal(s.state, JOB_SUCCEEDED);
    assert_string_equal(s.seen.reason, "");
    assert_false(outcome_update(&s)); /* no news */
}

TEST(a_job_without_a_stored_outcome_has_that_of_its_nodes)
{
    PUT({JOB_SUCCEEDED, "", 1}, {JOB_FAILED, "RunnerDied", 2});
    s.state = JOB_RUNNING;
    assert_false(outcome_update(&s));
    assert_int_equal(s.state, JOB_FAILED);
    assert_int_equal(s.cause, 1);
}

TEST(a_started_job_continues_while_an_agent_is_unreachable)
{
    PUT({JOB_RUNNING, "", 0}, {JOB_PENDING, "", 0});
    nodes[1].silent_since = 1;
    s.state = JOB_PENDING; /* as for a job that is read from the index */
    assert_false(outcome_update(&s));
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
        cmocka_unit_test(a_job_succeeds_if_all_nodes_succeeded),
        cmocka_unit_test(the_state_of_a_job_is_that_of_its_last_node),
        cmocka_unit_test(a_node_with_its_own_reason_is_the_cause),
        cmocka_unit_test(of_nodes_with_a_sum_that_is_not_finite_the_one_whose_gradient_it_was_is_the_cause),
        cmocka_unit_test(a_lost_agent_explains_nodes_that_lost_its_node),
        cmocka_unit_test(a_node_that_has_reported_a_failure_comes_before_those_whose_processes_have_vanished),
        cmocka_unit_test(a_canceled_node_explains_nodes_that_lost_it),
        cmocka_unit_test(a_node_stopped_because_another_failed_is_no_cause_and_its_job_has_failed),
        cmocka_unit_test(of_equal_causes_the_first_counts),
        cmocka_unit_test(a_lost_worker_is_tolerated_while_enough_workers_remain),
        cmocka_unit_test(a_lost_server_or_a_canceled_worker_is_not_tolerated),
        cmocka_unit_test(an_outcome_is_kept_while_a_node_is_unreachable_or_has_failed),
        cmocka_unit_test(a_job_succeeds_if_all_its_nodes_finally_succeeded),
        cmocka_unit_test(a_job_without_a_stored_outcome_has_that_of_its_nodes),
        cmocka_unit_test(a_started_job_continues_while_an_agent_is_unreachable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
