#include "submit/browse/live.h"

#include "submit/browse/documents.h"
#include "tests/unit/unit.h"

static json_t *answer_of(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);

    assert_non_null(o);
    return o;
}

static void assert_is(const json_t *o, const char *key, const char *expected)
{
    char *text = json_dumps(json_object_get(o, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));

    assert_string_equal(text ? text : "absent", expected);
    free(text);
}

#define JOB(node, state, more)                                                                               \
    "{\"id\": \"j-abcdef\", \"attempt\": 1, \"name\": \"mine\", \"codec\": \"fedavg\", \"node_count\": 2, "  \
    "\"node\": " node ", \"state\": \"" state "\"" more "}"

TEST(the_nodes_of_several_agents_are_one_job)
{
    json_t *a = answer_of(
        "{\"jobs\": [" JOB("1", "running",
                           ", \"progress\": {\"epoch\": 2, \"epochs\": 4, \"step\": 20, \"steps\": 40, "
                           "\"ratio\": 0.5}, \"metrics\": {\"loss\": 1, \"accuracy\": null}, "
                           "\"comm\": {\"sent_bytes\": 7, \"compute_s\": 1.5}, \"elapsed_s\": 8, "
                           "\"message\": \"epoch 2\"") "]}");
    json_t *b = answer_of("{\"jobs\": [" JOB(
        "0", "running",
        ", \"progress\": {\"epoch\": 3, \"epochs\": 4, \"step\": 30, \"steps\": 40, \"ratio\": 0.75}, "
        "\"metrics\": {\"loss\": 2}, \"comm\": {\"sent_bytes\": 5}, \"elapsed_s\": 9") "]}");
    struct live_jobs jobs = {0};
    const json_t *nodes;
    struct err e;
    json_t *run;
    json_t *line;

    assert_ok(live_add(&jobs, a, 0, "a:1", &e));
    assert_ok(live_add(&jobs, b, 1, "b:2", &e));
    assert_int_equal(jobs.n, 1);
    assert_false(jobs.jobs[0].is_ended);
    assert_int_equal(jobs.jobs[0].steps, 50);
    run = live_run(&jobs.jobs[0], NULL);
    nodes = json_object_get(run, "nodes");
    assert_int_equal(json_array_size(nodes), 2);
    assert_is(json_array_get(nodes, 0), "node", "0");
    assert_is(json_array_get(nodes, 1), "address", "\"a:1\"");
    assert_is(run, "state", "\"running\"");
    line = document_line(run, "j-abcdef", NULL, true);
    assert_is(line, "progress", "{\"epoch\":2,\"epochs\":4,\"step\":20,\"steps\":40,\"ratio\":0.5}");
    assert_is(line, "metrics", "{\"loss\":1.5,\"of\":\"training\"}");
    assert_is(line, "comm", "{\"sent_bytes\":12,\"recv_bytes\":0,\"raw_bytes\":0}");
    assert_is(line, "elapsed_s", "9.0");
    assert_is(line, "eta_s", "9.0");
    assert_is(line, "name", "\"mine\"");
    assert_is(line, "can_cancel", "true");
    json_decref(line);
    json_object_set_new(run, "settings", json_pack("{s:s, s:b}", "dataset", "digits", "executor", 1));
    line = document_line(run, "j-abcdef", NULL, true);
    assert_null(json_object_get(line, "dataset")); /* an executor uses none */
    json_decref(line);
    json_decref(run);
    live_clear(&jobs);
    json_decref(a);
    json_decref(b);
}

TEST(a_job_is_as_far_as_its_last_node_and_ends_as_its_worst)
{
    static const struct {
        const char *first, *second, *whole;
    } cases[] = {{"running", "pending", "pending"},       {"succeeded", "running", "running"},
                 {"succeeded", "succeeded", "succeeded"}, {"cancelled", "failed", "failed"},
                 {"cancelled", "succeeded", "cancelled"}, {"weird", "succeeded", "pending"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct live_jobs jobs = {0};
        char text[512];
        struct err e;
        json_t *answer;
        json_t *run;

        snprintf(text, sizeof text,
                 "{\"jobs\": [{\"id\": \"j-abcdef\", \"node\": 0, \"state\": \"%s\", \"message\": \"first\"},"
                 " {\"id\": \"j-abcdef\", \"node\": 1, \"state\": \"%s\", \"message\": \"second\"}]}",
                 cases[i].first, cases[i].second);
        answer = answer_of(text);
        assert_ok(live_add(&jobs, answer, 0, "a:1", &e));
        run = live_run(&jobs.jobs[0], NULL);
        assert_string_equal(json_string_value(json_object_get(run, "state")), cases[i].whole);
        /* The failed node reports the reason. */
        assert_is(run, "message", strcmp(cases[i].second, "failed") == 0 ? "\"second\"" : "\"first\"");
        json_decref(run);
        live_clear(&jobs);
        json_decref(answer);
    }
}

TEST(the_last_attempt_counts)
{
    json_t *a = answer_of(
        "{\"jobs\": [{\"id\": \"j-abcdef\", \"node\": 0, \"attempt\": 2, \"state\": \"running\"},"
        " {\"id\": \"j-abcdef\", \"node\": 0, \"attempt\": 1, \"state\": \"failed\"},"
        " {\"id\": \"j-abcdef\", \"node\": 1, \"attempt\": 1, \"state\": \"failed\"}]}");
    struct live_jobs jobs = {0};
    struct err e;
    json_t *run;

    assert_ok(live_add(&jobs, a, 0, "a:1", &e));
    run = live_run(&jobs.jobs[0], NULL);
    assert_is(run, "state", "\"running\"");
    assert_int_equal(jobs.jobs[0].n, 1); /* node 1 has not begun the second attempt yet */
    assert_int_equal(jobs.jobs[0].nodes[0].attempt, 2);
    assert_is(json_array_get(json_object_get(run, "nodes"), 0), "attempt", "2");
    json_decref(run);
    live_clear(&jobs);
    json_decref(a);
}

TEST(local_records_are_kept_beside_the_reports_of_agents)
{
    json_t *a = answer_of("{\"jobs\": [" JOB("0", "running", "") "]}");
    json_t *known = answer_of(
        "{\"id\": \"j-abcdef\", \"name\": \"recorded\", \"settings\": {\"dataset\": \"digits\"},"
        " \"nodes\": [{\"node\": 0, \"token_file\": \"/secret\"}], \"tags\": [\"t\"]}");
    struct live_jobs jobs = {0};
    struct err e;
    char *text;
    json_t *run;

    assert_ok(live_add(&jobs, a, 0, "a:1", &e));
    run = live_run(&jobs.jobs[0], known);
    assert_is(run, "name", "\"recorded\"");
    assert_is(run, "settings", "{\"dataset\":\"digits\"}");
    text = json_dumps(run, 0);
    assert_null(strstr(text, "/secret"));
    free(text);
    json_decref(run);
    live_clear(&jobs);
    json_decref(known);
    json_decref(a);
}

TEST(no_answer_of_an_agent_is_trusted)
{
    static const char *const answers[] = {
        "[]",
        "{}",
        "{\"jobs\": 3}",
        "{\"jobs\": [1, null, {}, {\"id\": 7}, {\"id\": \"../../x\"}, {\"id\": \"j-\\u0000\"}, {\"id\": "
        "\"j-A\"}]}",
        "{\"jobs\": [{\"id\": "
        "\"j-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}",
        "{\"jobs\": [{\"id\": \"j-abcdef\", \"node\": 1e300, \"attempt\": -5, \"state\": [], \"progress\": 3,"
        " \"metrics\": {\"loss\": \"x\"}, \"comm\": {\"sent_bytes\": -1}, \"message\": {}, \"name\": 4}]}",
    };

    for (size_t i = 0; i < N_OF(answers); i++) {
        json_t *answer = json_loads(answers[i], JSON_ALLOW_NUL, NULL);
        struct live_jobs jobs = {0};
        struct err e;

        assert_non_null(answer);
        assert_ok(live_add(&jobs, answer, 0, "a:1", &e));
        assert_true(jobs.n <= 1);
        for (size_t k = 0; k < jobs.n; k++) {
            json_t *run = live_run(&jobs.jobs[k], NULL);
            json_t *line = document_line(run, jobs.jobs[k].id, NULL, false);

            assert_non_null(line);
            json_decref(line);
            json_decref(run);
        }
        live_clear(&jobs);
        json_decref(answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nodes_of_several_agents_are_one_job),
        cmocka_unit_test(a_job_is_as_far_as_its_last_node_and_ends_as_its_worst),
        cmocka_unit_test(the_last_attempt_counts),
        cmocka_unit_test(local_records_are_kept_beside_the_reports_of_agents),
        cmocka_unit_test(no_answer_of_an_agent_is_trusted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
