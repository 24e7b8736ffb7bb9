/* Which worker is a straggler, by the reports of the nodes. */
#include "tests/unit/unit.h"

#include "submit/job/stragglers.h"
#include "submit/job/submission.h"

enum { WORKERS = 3 };

struct bench {
    struct submission s;
    struct job_node nodes[WORKERS + 1]; /* and a server, which takes no steps */
};

static void open_bench(struct bench *b, size_t n_workers)
{
    *b = (struct bench){.s.n_nodes = n_workers + 1};
    b->s.nodes = b->nodes;
    for (size_t i = 0; i < n_workers; i++)
        b->nodes[i].at.node = (int)i;
    b->nodes[n_workers].at.node = -2;
}

/* The worker reports that it has taken `steps` more of so many milliseconds each, and waited for others. */
static void report(struct bench *b, size_t worker, int steps, double ms)
{
    struct progress_view *v = &b->nodes[worker].view.progress;

    v->step += steps;
    v->comm.seconds[PHASE_COMPUTE] += 0.75e-3 * ms * steps;
    v->comm.seconds[PHASE_ENCODE] += 0.25e-3 * ms * steps;
    v->comm.seconds[PHASE_WAIT] += 7;
    stragglers_find(&b->s);
}

TEST(a_worker_that_is_slow_for_five_steps_is_a_straggler_since_the_first_of_them)
{
    struct bench b;
    char text[160];
    json_t *list;

    open_bench(&b, WORKERS);
    for (int i = 0; i < 10; i++) {
        bool is_found = i >= 7 && i < 10;

        report(&b, 0, 1, 50);
        report(&b, 1, 1, 60);
        report(&b, 2, 1, i < 3 ? 60 : 180);
        assert_int_equal(straggler_text(text, sizeof text, &b.s, 2), is_found);
        assert_false(straggler_text(text, sizeof text, &b.s, 0));
    }
    straggler_text(text, sizeof text, &b.s, 2);
    assert_string_equal(
        text, "node(2) is slower than twice the median since step 4: 180 ms a step, the median 60 ms");
    list = stragglers_json(&b.s);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "since_step")), 4);
    json_decref(list);
}

TEST(the_only_worker_that_is_left_is_no_straggler)
{
    struct bench b;
    char text[160];

    open_bench(&b, 2);
    report(&b, 0, 10, 50);
    report(&b, 1, 10, 50);
    b.nodes[1].silent_since = 1;
    report(&b, 0, 10, 180);
    report(&b, 0, 10, 180);
    assert_false(straggler_text(text, sizeof text, &b.s, 0));
}

TEST(one_slow_report_and_occasional_slow_steps_make_no_straggler)
{
    struct bench b;
    char text[160];

    open_bench(&b, WORKERS);
    for (int i = 0; i < 40; i++)
        for (size_t w = 0; w < WORKERS; w++) {
            report(&b, w, 20, w == 2 && i % 2 ? 500 : 60);
            assert_false(straggler_text(text, sizeof text, &b.s, w));
        }
}

TEST(the_slower_of_two_workers_is_compared_with_the_faster_and_a_single_worker_with_none)
{
    struct bench b;
    char text[160];

    open_bench(&b, 2);
    for (int i = 0; i < 6; i++) {
        report(&b, 0, 10, 10);
        report(&b, 1, 10, 21);
    }
    assert_true(straggler_text(text, sizeof text, &b.s, 1));
    assert_false(straggler_text(text, sizeof text, &b.s, 0));
    open_bench(&b, 1);
    for (int i = 0; i < 6; i++)
        report(&b, 0, 10, 10);
    assert_false(straggler_text(text, sizeof text, &b.s, 0));
}

TEST(the_steps_before_the_first_report_are_not_counted_as_a_resumed_job_has_not_taken_them)
{
    struct bench b;
    char text[160];

    open_bench(&b, WORKERS);
    b.s.settings.starts_from = STARTS_FROM_CHECKPOINT;
    report(&b, 0, 18602, 1e-3);
    report(&b, 1, 18602, 1e-3);
    for (int i = 0; i < 10; i++) {
        report(&b, 0, 1, 50);
        report(&b, 1, 1, 60);
        report(&b, 2, 1, 60);
        for (size_t n = 0; n < WORKERS; n++)
            assert_false(straggler_text(text, sizeof text, &b.s, n));
    }
}

TEST(of_a_job_without_samples_of_progress_the_averages_are_compared)
{
    struct bench b;
    char text[160];

    open_bench(&b, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        struct progress_view *v = &b.nodes[i].view.progress;

        v->step = 100;
        v->comm.seconds[PHASE_COMPUTE] = i == 1 ? 9 : 4;
        v->comm.seconds[PHASE_WAIT] = 100;
    }
    stragglers_of_all(&b.s);
    assert_true(straggler_text(text, sizeof text, &b.s, 1));
    assert_string_equal(
        text, "node(1) is slower than twice the median since step 1: 90 ms a step, the median 40 ms");
    assert_false(straggler_text(text, sizeof text, &b.s, 0));
    assert_false(straggler_text(text, sizeof text, &b.s, 2));
}

TEST(no_straggler_is_reported_before_every_worker_has_reported)
{
    struct bench b;
    char text[160];

    open_bench(&b, WORKERS);
    for (int i = 0; i < 6; i++) {
        report(&b, 0, 10, 10);
        report(&b, 1, 10, 100);
    }
    assert_false(straggler_text(text, sizeof text, &b.s, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_is_slow_for_five_steps_is_a_straggler_since_the_first_of_them),
        cmocka_unit_test(the_only_worker_that_is_left_is_no_straggler),
        cmocka_unit_test(one_slow_report_and_occasional_slow_steps_make_no_straggler),
        cmocka_unit_test(the_slower_of_two_workers_is_compared_with_the_faster_and_a_single_worker_with_none),
        cmocka_unit_test(
            the_steps_before_the_first_report_are_not_counted_as_a_resumed_job_has_not_taken_them),
        cmocka_unit_test(of_a_job_without_samples_of_progress_the_averages_are_compared),
        cmocka_unit_test(no_straggler_is_reported_before_every_worker_has_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
