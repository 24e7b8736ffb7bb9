#include "submit/browse/agents.h"

#include "tests/unit/unit.h"

TEST(a_job_with_more_nodes_than_can_be_connected_is_refused_as_a_whole)
{
    struct live_job job = {.id = "j-abcdef", .n = 1000, .nodes = calloc(1000, sizeof *job.nodes)};
    const struct options o = {.workers = OPTIONS_WORKERS};
    const char *folder = unit_folder();
    struct agents *a;
    struct agents_task task;
    struct err e;

    assert_int_equal(chdir(folder), 0); /* without a worker.json */
    assert_ok(agents_open(&a, &o, &e));
    assert_ok(agents_begin(a, &job, false, &e));
    assert_int_equal(agents_begin(a, &job, true, &e), ERR_REFUSED);
    assert_error_has("1000 requests wait");
    job.n = 24;
    assert_ok(agents_begin(a, &job, true, &e)); /* nothing of the refused one is left */
    assert_false(agents_next_done(a, &task, &e));
    agents_close(a);
    free(job.nodes);
    assert_int_equal(chdir("/"), 0);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_more_nodes_than_can_be_connected_is_refused_as_a_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
