#include "agent/jobs/counts.h"

#include "agent/api/api.h"
#include "shared/job/reason.h"
#include "tests/unit/unit.h"

static struct counts c;
static struct job before, now;

static void begin(void)
{
    memset(&c, 0, sizeof c);
    job_init(&before);
    snprintf(before.spec.codec, sizeof before.spec.codec, "fedavg");
    snprintf(before.spec.role, sizeof before.spec.role, "worker");
    now = before;
}

static void event(enum event_kind kind, double at)
{
    const struct event ev = {.kind = kind, .at = at};

    counts_event(&c, &ev, &before, &now);
    before = now;
}

TEST(a_job_counts_once_in_each_histogram_and_once_as_ended)
{
    const struct count_codec *k = &c.codecs[0];
    size_t reason = 0;

    begin();
    now.created_at = 100;
    event(NOTE_RESERVE, 100);
    now.state = JOB_PREPARING;
    event(EVENT_STATE, 107);
    event(EVENT_LOG, 108);
    now.state = JOB_RUNNING;
    now.started_at = 110;
    event(EVENT_STATE, 110);
    now.state = JOB_FAILED;
    now.finished_at = 510;
    snprintf(now.reason, sizeof now.reason, REASON_NODE_LOST);
    event(EVENT_END, 510);
    assert_string_equal(counts_codec(&c, 0), "fedavg");
    assert_null(counts_codec(&c, 1));
    assert_int_equal(histogram_count(&k->queued), 1);
    assert_true(k->queued.sum == 7 && k->queued.n[2] == 1); /* over 5, up to 15 */
    assert_int_equal(histogram_count(&k->duration), 1);
    assert_true(k->duration.sum == 400 && k->duration.n[5] == 1); /* over 300, up to 900 */
    while (strcmp(counts_reason(reason), REASON_NODE_LOST) != 0)
        reason++;
    assert_int_equal(k->ends[JOB_FAILED - JOB_SUCCEEDED][reason], 1);
}

TEST(progress_counts_by_its_growth_and_by_role)
{
    begin();
    now.step = 10;
    now.samples = 640;
    now.comm.sent_bytes = 7;
    now.comm.seconds[PHASE_WAIT] = 1.5;
    event(EVENT_PROGRESS, 1);
    now.step = 4; /* a codec has changed what its node reports */
    now.comm.seconds[PHASE_WAIT] = -3;
    event(EVENT_PROGRESS, 2);
    now.step = 6;
    event(EVENT_PROGRESS, 3);
    assert_int_equal(c.codecs[0].roles[0].steps, 12);
    assert_int_equal(c.codecs[0].roles[0].samples, 640);
    assert_int_equal(c.codecs[0].roles[0].sent_bytes, 7);
    assert_true(c.phase_s[PHASE_WAIT] == 1.5);
    snprintf(now.spec.role, sizeof now.spec.role, "server");
    now.step = 9;
    event(EVENT_PROGRESS, 4);
    assert_int_equal(c.codecs[0].roles[1].steps, 3);
    assert_int_equal(c.codecs[0].roles[0].steps, 12);
}

TEST(the_percentage_of_an_executor_is_no_step)
{
    begin();
    now.spec.executor = true;
    now.step = 50;
    event(EVENT_PROGRESS, 1);
    assert_int_equal(c.codecs[0].roles[0].steps, 0);
}

TEST(names_without_a_place_of_their_own_and_unknown_reasons_count_as_other)
{
    size_t other = 1, n = 0;

    begin();
    for (int i = -1; i < COUNTS_CODECS + 6; i++) {
        job_init(&now);
        before = now;
        snprintf(now.spec.codec, sizeof now.spec.codec, "codec%d", i);
        if (i < 0)
            snprintf(now.spec.codec, sizeof now.spec.codec, "other");
        snprintf(now.reason, sizeof now.reason, "NoSuchReason");
        now.state = JOB_CANCELLED;
        event(EVENT_END, 1);
    }
    assert_string_equal(counts_reason(other), "other");
    for (size_t k = 0; k <= COUNTS_CODECS; k++) {
        n += counts_codec(&c, k) && strcmp(counts_codec(&c, k), "other") == 0;
        assert_int_equal(c.codecs[k].ends[JOB_CANCELLED - JOB_SUCCEEDED][other], k == COUNTS_CODECS ? 7 : 1);
    }
    assert_int_equal(n, 1);
}

static uint64_t requests_with(int status)
{
    uint64_t n = 0;

    for (size_t r = 0; r < COUNTS_ROUTES; r++)
        for (size_t m = 0; m < COUNTS_METHODS; m++)
            for (size_t s = 0; s < COUNTS_STATUSES; s++)
                n += counts_status(s) == status ? c.requests[r][m][s] : 0;
    return n;
}

TEST(every_status_that_the_agent_answers_with_is_counted_as_itself)
{
    begin();
    for (int p = PROBLEM_NONE + 1; p < N_PROBLEMS; p++) {
        uint64_t n = requests_with(problem_status((enum problem)p));

        counts_request(&c, route_number(NULL), COUNTS_METHODS - 1, problem_status((enum problem)p), 0.002);
        assert_int_equal(requests_with(problem_status((enum problem)p)), n + 1);
    }
    counts_request(&c, route_number(&routes[n_routes - 1]), METHOD_PUT, 299, 100);
    assert_int_equal(requests_with(0), 1);
    assert_int_equal(c.request_s[n_routes][METHOD_PUT].n[COUNTS_BOUNDS], 1);
    assert_string_equal(route_label(n_routes), routes[n_routes - 1].pattern);
    assert_null(route_label(n_routes + 1));
    assert_string_equal(method_label(COUNTS_METHODS - 1), "other");
}

TEST(each_reason_has_an_index)
{
    assert_true(n_reasons + 2 <= COUNTS_REASONS);
    assert_string_equal(counts_reason((size_t)n_reasons + 1), reasons[n_reasons - 1].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_counts_once_in_each_histogram_and_once_as_ended),
        cmocka_unit_test(progress_counts_by_its_growth_and_by_role),
        cmocka_unit_test(the_percentage_of_an_executor_is_no_step),
        cmocka_unit_test(names_without_a_place_of_their_own_and_unknown_reasons_count_as_other),
        cmocka_unit_test(every_status_that_the_agent_answers_with_is_counted_as_itself),
        cmocka_unit_test(each_reason_has_an_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
