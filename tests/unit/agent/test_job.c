#include "agent/jobs/job.h"

#include <math.h>

#include "shared/base/clock.h"
#include "tests/unit/unit.h"

static void reserve(struct job *j)
{
    struct event ev;
    struct err e;

    job_init(j);
    event_init(&ev, NOTE_RESERVE);
    ev.spec = (struct job_spec){
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 60};
    assert_ok(job_apply(j, &ev, &e));
}

static int enter(struct job *j, enum job_state s, struct err *e)
{
    struct event ev;

    event_state(&ev, job_state_is_terminal(s) ? EVENT_END : EVENT_STATE, s, "Internal", "why");
    ev.seq = j->last_seq + 1;
    return job_apply(j, &ev, e);
}

static void put_into(struct job *j, enum job_state s)
{
    static const enum job_state way[] = {JOB_PREPARING, JOB_READY, JOB_RUNNING, JOB_STOPPING};
    struct err e;

    reserve(j);
    for (size_t i = 0; i < N_OF(way) && j->state != s && way[i] <= s; i++)
        assert_ok(enter(j, way[i], &e));
    if (job_state_is_terminal(s))
        assert_ok(enter(j, s, &e));
    assert_int_equal(j->state, s);
}

TEST(only_transitions_of_the_table_are_allowed)
{
    for (int from = 0; from < N_JOB_STATES; from++)
        for (int to = 0; to < N_JOB_STATES; to++) {
            bool repeats = from == to && !job_state_is_terminal((enum job_state)from);
            bool may = repeats || job_state_may_follow((enum job_state)from, (enum job_state)to);
            struct job j, before;
            struct err e;
            int rc;

            put_into(&j, (enum job_state)from);
            before = j;
            rc = enter(&j, (enum job_state)to, &e);
            assert_int_equal(rc, may ? 0 : ERR_CONFLICT);
            if (!may)
                assert_memory_equal(&j, &before, sizeof j);
        }
}

TEST(every_state_that_is_not_terminal_can_be_canceled)
{
    for (int s = 0; s < N_JOB_STATES; s++) {
        struct job j;
        struct err e;

        put_into(&j, (enum job_state)s);
        assert_int_equal(enter(&j, JOB_CANCELLED, &e) == 0, !job_state_is_terminal((enum job_state)s));
        assert_true(j.finished_at > 0);
    }
}

TEST(the_isolation_of_a_job_is_known_once_before_its_codec_is_loaded)
{
    struct job j;
    struct event ev;
    struct err e;

    reserve(&j);
    assert_ok(enter(&j, JOB_PREPARING, &e));
    event_init(&ev, EVENT_ISOLATION);
    ev.isolation = ISOLATION_FILES;
    ev.seq = j.last_seq + 1;
    assert_ok(job_apply(&j, &ev, &e));
    assert_int_equal(j.isolation, ISOLATION_FILES);
    ev.isolation = ISOLATION_USER;
    ev.seq = j.last_seq + 1;
    assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
    assert_int_equal(j.isolation, ISOLATION_FILES);
}

TEST(no_event_follows_the_end)
{
    for (int kind = 0; kind < N_EVENT_KINDS; kind++) {
        struct event ev;
        struct job j;
        struct err e;

        put_into(&j, JOB_FAILED);
        event_init(&ev, (enum event_kind)kind);
        ev.seq = j.last_seq + 1;
        assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
    }
}

TEST(event_numbers_are_consecutive_and_unique)
{
    struct event ev;
    struct job j;
    struct err e;

    put_into(&j, JOB_RUNNING);
    event_init(&ev, EVENT_LOG);
    ev.seq = j.last_seq;
    assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
    ev.seq = j.last_seq + 2;
    assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
    ev.seq = j.last_seq + 1;
    assert_ok(job_apply(&j, &ev, &e));
    assert_int_equal(j.n_copied, 1);
}

TEST(no_event_precedes_the_reservation_and_there_is_only_one)
{
    struct event ev;
    struct job j;
    struct err e;

    job_init(&j);
    event_state(&ev, EVENT_STATE, JOB_PREPARING, "", "");
    ev.seq = 1;
    assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
    reserve(&j);
    event_init(&ev, NOTE_RESERVE);
    assert_int_equal(job_apply(&j, &ev, &e), ERR_CONFLICT);
}

TEST(a_start_needs_a_ready_job)
{
    for (int s = 0; s < N_JOB_STATES; s++) {
        struct event ev;
        struct job j;
        struct err e;

        put_into(&j, (enum job_state)s);
        event_init(&ev, NOTE_START);
        assert_int_equal(job_apply(&j, &ev, &e) == 0, s == JOB_READY);
    }
}

TEST(requirements_are_met_in_their_order_and_servers_need_no_data)
{
    struct event ev;
    struct job j;
    struct err e;
    json_t *o;
    char *text;

    put_into(&j, JOB_PREPARING);
    event_init(&ev, NOTE_PACKAGE);
    memcpy(ev.package, "codec", 6);
    assert_ok(job_apply(&j, &ev, &e));
    o = job_json(&j, 0);
    text = json_dumps(json_object_get(o, "requirements"), JSON_COMPACT);
    assert_string_equal(text, "[\"settings\",\"model\",\"data\"]");
    free(text);
    json_decref(o);
    assert_true(job_lacks(&j, PACKAGE_DATA));
    memcpy(j.spec.role, "server", 7);
    assert_false(job_lacks(&j, PACKAGE_DATA));
    assert_false(job_is_complete(&j));
}

TEST(weights_are_required_if_the_reservation_says_so)
{
    struct event ev;
    struct job j;
    struct err e;

    put_into(&j, JOB_PREPARING);
    assert_false(job_lacks(&j, PACKAGE_WEIGHTS));
    j.spec.weights = true;
    assert_true(job_lacks(&j, PACKAGE_WEIGHTS));
    memcpy(j.spec.role, "server", 7);
    assert_true(job_lacks(&j, PACKAGE_WEIGHTS));
    event_init(&ev, NOTE_PACKAGE);
    memcpy(ev.package, "weights", 8);
    assert_ok(job_apply(&j, &ev, &e));
    assert_false(job_lacks(&j, PACKAGE_WEIGHTS));
}

TEST(an_executor_has_no_model_to_wait_for)
{
    struct job j;

    put_into(&j, JOB_PREPARING);
    assert_true(job_lacks(&j, PACKAGE_MODEL));
    j.spec.executor = true;
    assert_false(job_lacks(&j, PACKAGE_MODEL));
    assert_true(job_lacks(&j, PACKAGE_CODEC) && job_lacks(&j, PACKAGE_DATA));
}

TEST(a_worker_needs_the_training_program_of_its_job_and_no_data)
{
    struct job j;

    put_into(&j, JOB_PREPARING);
    assert_false(job_lacks(&j, PACKAGE_TRAINER));
    strcpy(j.spec.trainer, "train.py");
    assert_true(job_lacks(&j, PACKAGE_TRAINER) && job_lacks(&j, PACKAGE_MODEL));
    assert_false(job_lacks(&j, PACKAGE_DATA));
    memcpy(j.spec.role, "server", 7);
    assert_false(job_lacks(&j, PACKAGE_TRAINER));
    assert_true(job_lacks(&j, PACKAGE_MODEL));
}

TEST(the_resource_shows_known_fields_and_null_for_others)
{
    struct event ev;
    struct job j;
    struct err e;
    json_t *o, *metrics;

    put_into(&j, JOB_RUNNING);
    event_init(&ev, EVENT_PROGRESS);
    ev.seq = j.last_seq + 1;
    ev.epoch = 2;
    ev.epochs = 10;
    ev.step = 25;
    ev.steps = 100;
    ev.loss = 0.5;
    assert_ok(job_apply(&j, &ev, &e));
    o = job_json(&j, j.started_at + 12.5);
    metrics = json_object_get(o, "metrics");
    assert_string_equal(json_string_value(json_object_get(o, "state")), "running");
    assert_string_equal(json_string_value(json_object_get(o, "message")), "epoch 2 of 10");
    assert_true(fabs(json_real_value(json_object_get(o, "elapsed_s")) - 12.5) < 0.01);
    assert_true(json_real_value(json_object_get(json_object_get(o, "progress"), "ratio")) == 0.25);
    assert_true(json_real_value(json_object_get(metrics, "loss")) == 0.5);
    assert_true(json_is_null(json_object_get(metrics, "accuracy")));
    assert_true(json_is_null(json_object_get(o, "finished_at")));
    json_decref(o);
}

/* Sets the document of the job, which the caller releases. */
static const json_t *waits_for(json_t **o, const struct job *j)
{
    *o = job_json(j, j->started_at + 1);
    return json_object_get(*o, "waits_for");
}

static void assert_waits_for_none(const struct job *j)
{
    json_t *o;
    const json_t *w = waits_for(&o, j);

    assert_true(json_is_null(w));
    json_decref(o);
}

TEST(a_job_reports_on_which_node_it_waits_and_since_when)
{
    struct event ev;
    struct job j;
    struct err e;
    char at[CLOCK_TEXT];
    json_t *o;

    put_into(&j, JOB_RUNNING);
    assert_waits_for_none(&j);
    for (int i = 0; i < 3; i++) { /* since the first line that says so */
        event_init(&ev, EVENT_PROGRESS);
        ev.seq = j.last_seq + 1;
        ev.at = 1795246282 + i;
        ev.waits_for = i < 2 ? 2 : EVENT_NO_NODE;
        assert_ok(job_apply(&j, &ev, &e));
        if (i == 2)
            break;
        assert_int_equal(json_integer_value(json_object_get(waits_for(&o, &j), "node")), 2);
        assert_string_equal(json_string_value(json_object_get(json_object_get(o, "waits_for"), "since")),
                            clock_text(at, 1795246282));
        json_decref(o);
    }
    assert_waits_for_none(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_transitions_of_the_table_are_allowed),
        cmocka_unit_test(every_state_that_is_not_terminal_can_be_canceled),
        cmocka_unit_test(the_isolation_of_a_job_is_known_once_before_its_codec_is_loaded),
        cmocka_unit_test(no_event_follows_the_end),
        cmocka_unit_test(event_numbers_are_consecutive_and_unique),
        cmocka_unit_test(no_event_precedes_the_reservation_and_there_is_only_one),
        cmocka_unit_test(a_start_needs_a_ready_job),
        cmocka_unit_test(requirements_are_met_in_their_order_and_servers_need_no_data),
        cmocka_unit_test(weights_are_required_if_the_reservation_says_so),
        cmocka_unit_test(an_executor_has_no_model_to_wait_for),
        cmocka_unit_test(a_worker_needs_the_training_program_of_its_job_and_no_data),
        cmocka_unit_test(the_resource_shows_known_fields_and_null_for_others),
        cmocka_unit_test(a_job_reports_on_which_node_it_waits_and_since_when),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
