#include "submit/queue/queue_plan.h"

#include "tests/unit/unit.h"

enum { N_AGENTS = 4 };

static const size_t all[N_AGENTS] = {0, 1, 2, 3};

static struct plan_job job_of(size_t n_workers)
{
    return (struct plan_job){.agents = all, .n_listed = N_AGENTS, .n_workers = n_workers, .is_waiting = true};
}

static void free_agents(struct plan_agent *agents, const int *n_free)
{
    for (size_t i = 0; i < N_AGENTS; i++)
        agents[i] = (struct plan_agent){.is_usable = true, .n_free = n_free[i]};
}

TEST(the_first_job_gets_the_first_free_agents_of_its_list)
{
    struct plan_job jobs[] = {job_of(2), job_of(1)};
    struct plan_agent agents[N_AGENTS];
    size_t chosen[N_AGENTS];

    free_agents(agents, (int[]){0, 1, 1, 1});
    assert_int_equal(queue_plan_next(chosen, jobs, 2, agents, N_AGENTS), 0);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 2);
}

TEST(a_smaller_job_starts_before_one_that_cannot_start)
{
    struct plan_job jobs[] = {job_of(4), job_of(3), job_of(2)};
    struct plan_agent agents[N_AGENTS];
    size_t chosen[N_AGENTS];

    free_agents(agents, (int[]){0, 1, 0, 1});
    assert_int_equal(queue_plan_next(chosen, jobs, 3, agents, N_AGENTS), 2);
    assert_int_equal(chosen[1], 3);
    jobs[2].is_waiting = false;
    assert_int_equal(queue_plan_next(chosen, jobs, 3, agents, N_AGENTS), -1);
}

TEST(agents_that_are_kept_for_a_job_are_given_to_no_later_one)
{
    static const size_t others[] = {2, 3};
    struct plan_job jobs[] = {
        job_of(4), job_of(1), {.agents = others, .n_listed = 2, .n_workers = 1, .is_waiting = true}};
    struct plan_agent agents[N_AGENTS];
    size_t chosen[N_AGENTS];

    free_agents(agents, (int[]){1, 1, 1, 0});
    jobs[0].is_kept = true;
    assert_int_equal(queue_plan_next(chosen, jobs, 3, agents, N_AGENTS), -1);
    jobs[0].agents = others; /* agents 0 and 1 are not in its list */
    jobs[0].n_listed = jobs[0].n_workers = 2;
    assert_int_equal(queue_plan_next(chosen, jobs, 3, agents, N_AGENTS), 1);
    assert_int_equal(chosen[0], 0);
    agents[3].n_free = 1;
    assert_int_equal(queue_plan_next(chosen, jobs, 3, agents, N_AGENTS), 0);
}

TEST(a_job_needs_all_servers_of_its_list)
{
    struct plan_job j = {.agents = all, .n_listed = 2, .n_servers = 2, .n_workers = 1, .is_waiting = true};
    struct plan_agent agents[N_AGENTS];
    size_t chosen[N_AGENTS];

    free_agents(agents, (int[]){1, 1, 1, 0});
    assert_int_equal(queue_plan_next(chosen, &j, 1, agents, N_AGENTS), -1);
    assert_true(queue_plan_is_possible(&j, agents));
    agents[3].n_free = 1;
    assert_int_equal(queue_plan_next(chosen, &j, 1, agents, N_AGENTS), 0);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 2);
    assert_int_equal(chosen[2], 3);
    agents[3].is_usable = false;
    assert_false(queue_plan_is_possible(&j, agents));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_job_gets_the_first_free_agents_of_its_list),
        cmocka_unit_test(a_smaller_job_starts_before_one_that_cannot_start),
        cmocka_unit_test(agents_that_are_kept_for_a_job_are_given_to_no_later_one),
        cmocka_unit_test(a_job_needs_all_servers_of_its_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
