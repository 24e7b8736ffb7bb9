#include "submit/results/why.h"

#include <string.h>

#include "shared/base/file.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "tests/unit/unit.h"

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static json_t *why(const char *run)
{
    json_t *doc = json_loads(run, 0, NULL), *out;
    struct err e;

    assert_non_null(doc);
    assert_int_equal(why_json(&out, doc, &e), 0);
    json_decref(doc);
    return out;
}

TEST(a_failure_is_printed_with_its_cause_and_the_meaning_of_that)
{
    json_t *o = why("{\"id\":\"j-000001\",\"state\":\"failed\",\"cause_node\":1,\"reason\":\"RunnerDied\","
                    "\"message\":\"killed by signal 9\",\"folder\":\"/r\",\"files\":[],\"nodes\":["
                    "{\"node\":0,\"address\":\"a:1\",\"state\":\"cancelled\",\"reason\":\"JobFailed\"},"
                    "{\"node\":1,\"address\":\"b:1\",\"state\":\"failed\",\"reason\":\"RunnerDied\"},"
                    "{\"node\":2,\"address\":\"c:1\",\"state\":\"succeeded\",\"reason\":null}]}");

    assert_string_equal(text_of(o, "why"),
                        "j-000001 failed because node(1) at b:1 ended with RunnerDied (the runner ended "
                        "without a reason: a crash, or killed): killed by signal 9; in consequence ended "
                        "node(0) (JobFailed)");
    assert_string_equal(text_of(o, "kept"), "its records are on its agents");
    assert_string_equal(text_of(o, "next"), "job_submit fetch j-000001");
    json_decref(o);
}

/* Of `n` nodes all but the last ended in consequence. */
static json_t *why_of_many(int n, const char *facts)
{
    json_t *nodes = json_array(), *out;
    char *text, *run;

    for (int i = 0; i < n; i++)
        json_array_append_new(nodes,
                              json_pack("{s:i, s:s, s:s, s:s}", "node", i, "address", "simulated", "state",
                                        "failed", "reason", i + 1 < n ? "NodeLost" : "RoundTimeout"));
    text = json_dumps(nodes, JSON_COMPACT);
    assert_true(
        asprintf(&run,
                 "{\"id\":\"j-000001\",\"state\":\"failed\",\"cause_node\":%d,\"reason\":\"RoundTimeout\","
                 "\"message\":\"late\",\"folder\":\"/r\",\"files\":[],\"facts\":%s,\"nodes\":%s}",
                 n - 1, facts, text) > 0);
    out = why(run);
    free(run);
    free(text);
    json_decref(nodes);
    return out;
}

TEST(of_a_thousand_nodes_a_few_are_named_and_the_rest_is_counted)
{
    json_t *o = why_of_many(1000, "{}");

    assert_non_null(strstr(text_of(o, "why"),
                           "; in consequence ended node(0) (NodeLost), node(1) (NodeLost), "
                           "node(2) (NodeLost) and 996 more"));
    assert_true(strlen(text_of(o, "why")) < 300);
    json_decref(o);
    o = why_of_many(5, "{}");
    assert_non_null(
        strstr(text_of(o, "why"), "(NodeLost), node(3) (NodeLost)")); /* "and 1 more" is no shorter */
    json_decref(o);
}

TEST(a_simulation_has_no_agents_to_ask)
{
    json_t *o = why_of_many(2, "{\"simulation\":{}}");

    assert_string_equal(text_of(o, "why"),
                        "simulation j-000001 failed because node(1) ended with RoundTimeout (a node "
                        "did not contribute within --round-timeout): late; in consequence ended "
                        "node(0) (NodeLost)");
    assert_string_equal(text_of(o, "kept"), "no records");
    assert_string_equal(text_of(o, "next"), "job_submit simulate --config /r/run.json");
    json_decref(o);
    o = why("{\"id\":\"j-000001\",\"state\":\"pending\",\"folder\":\"/"
            "r\",\"files\":[],\"facts\":{\"simulation\":{}},"
            "\"nodes\":[]}");
    assert_string_equal(text_of(o, "why"),
                        "simulation j-000001 has not ended: its simulator is running, or was killed");
    assert_string_equal(text_of(o, "next"), "job_submit simulate --config /r/run.json");
    json_decref(o);
}

TEST(earlier_attempts_are_printed)
{
    json_t *o = why("{\"id\":\"j-000001\",\"state\":\"succeeded\",\"nodes\":[],\"facts\":{\"attempts\":["
                    "{\"attempt\":1,\"node\":1,\"reason\":\"NodeLost\"},"
                    "{\"attempt\":2,\"node\":0,\"reason\":\"Interrupted\"}]}}");

    assert_string_equal(text_of(o, "why"),
                        "j-000001 succeeded: all its nodes finished; it is attempt 3, after 1 "
                        "(node(1): NodeLost), 2 (node(0): Interrupted)");
    json_decref(o);
}

TEST(a_reason_of_a_newer_version_is_printed_without_a_meaning)
{
    json_t *o = why("{\"id\":\"j-000001\",\"state\":\"cancelled\",\"cause_node\":0,\"reason\":\"Newer\","
                    "\"message\":\"\",\"folder\":\"/r\",\"files\":[{\"name\":\"records/train.csv\"}],"
                    "\"nodes\":[{\"node\":0,\"address\":\"a:1\",\"state\":\"cancelled\"}]}");

    assert_string_equal(text_of(o, "why"), "j-000001 was cancelled because node(0) at a:1 ended with Newer");
    assert_null(text_of(o, "meaning"));
    assert_string_equal(text_of(o, "kept"), "its records are in /r");
    assert_string_equal(text_of(o, "next"), "job_submit logs j-000001"); /* its log is not here */
    json_decref(o);
}

TEST(the_progress_of_a_job_is_that_of_its_least_advanced_node)
{
    json_t *o = why("{\"id\":\"j-000001\",\"state\":\"pending\",\"cause_node\":null,\"reason\":null,"
                    "\"message\":null,\"folder\":\"/r\",\"files\":[],\"nodes\":["
                    "{\"node\":0,\"address\":\"a:1\",\"state\":\"preparing\",\"reason\":\"\"},"
                    "{\"node\":1,\"address\":\"b:1\",\"state\":\"pending\",\"reason\":\"AgentBusy\","
                    "\"message\":\"waits\"}]}");

    assert_string_equal(text_of(o, "why"), "j-000001 is pending: node(1) at b:1, AgentBusy, waits");
    assert_string_equal(text_of(o, "next"), "job_submit wait j-000001");
    json_decref(o);
}

TEST(a_job_that_waits_names_the_node_that_it_waits_for)
{
    json_t *o = why("{\"id\":\"j-000001\",\"state\":\"running\",\"folder\":\"/r\",\"files\":[],\"nodes\":["
                    "{\"node\":0,\"address\":\"a:1\",\"state\":\"running\",\"waits_for\":null},"
                    "{\"node\":1,\"address\":\"b:1\",\"state\":\"running\",\"waits_for\":0}]}");

    assert_string_equal(text_of(o, "why"), "j-000001 is running: node(0) at a:1; it waits for node(0)");
    json_decref(o);
}

TEST(a_success_is_printed_as_a_success)
{
    json_t *o = why(
        "{\"id\":\"j-000001\",\"state\":\"succeeded\",\"cause_node\":null,\"folder\":\"/r\",\"files\":["
        "{\"name\":\"records/train.csv\"},{\"name\":\"model/final.safetensors\"}],\"nodes\":[]}");

    assert_string_equal(text_of(o, "why"), "j-000001 succeeded: all its nodes finished");
    assert_string_equal(text_of(o, "kept"), "its records, its model are in /r");
    assert_string_equal(text_of(o, "next"), "job_submit rerun /r");
    json_decref(o);
    o = why("{\"id\":\"j-000001\",\"state\":\"succeeded\",\"folder\":\"/a b\",\"facts\":{\"simulation\":{}},"
            "\"files\":[{\"name\":\"records/train.csv\"}],\"nodes\":[]}");
    assert_string_equal(text_of(o, "next"), "job_submit simulate --config '/a b'/run.json");
    json_decref(o);
}

/* A job with one node, whose records are in /r; `files`: the other files there. */
static json_t *why_failed(const char *reason, const char *message, const char *options, const char *files)
{
    char run[1024];

    snprintf(
        run, sizeof run,
        "{\"id\":\"j-000001\",\"state\":\"failed\",\"cause_node\":1,\"reason\":\"%s\",\"message\":\"%s\","
        "\"folder\":\"/r\",\"files\":[{\"name\":\"records/train.csv\"}%s],\"facts\":{\"codec\":{\"file\":"
        "\"./mine.c\",\"name\":\"mine\"},\"options\":{\"codec\":\"%s\"}},\"nodes\":[{\"node\":1,"
        "\"address\":\"b:1\",\"state\":\"failed\",\"reason\":\"%s\"}]}",
        reason, message, files, options, reason);
    return why(run);
}

TEST(the_next_command_is_one_that_helps)
{
    static const struct {
        const char *reason, *message, *options, *files, *next;
    } cases[] = {
        {"RunnerDied", "job_runner was killed by signal 11 (Segmentation fault)", "/x/mine.c:every=20", "",
         "job_submit codecs test ./mine.c"},
        {"RunnerDied", "job_runner was killed by signal 8 (...)", "mine", "", "job_submit codecs test mine"},
        {"RunnerDied", "job_runner was killed by signal 9 (Killed)", "/x/mine.c", "",
         "job_submit logs j-000001"},
        {"CodecFailed", "no", "mine", ",{\"name\":\"logs/worker-1.log\"}", "tail /r/logs/worker-1.log"},
        {"NodeLost", "agent b:1 does not answer", "mine", "", "job_submit doctor"},
        {"TrainerFailed",
         "train.py ended with status 1: ModuleNotFoundError: No module named 'torch.nn' (/usr/bin/python3)",
         "fedavg", ",{\"name\":\"logs/worker-1.log\"}",
         "install torch for /usr/bin/python3 at b:1, or start its agent with --trainer-python"},
        {"TrainerFailed", "train.py: ModuleNotFoundError: No module named 'torch'", "fedavg", "",
         "install torch for Python at b:1, or start its agent with --trainer-python"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *o = why_failed(cases[i].reason, cases[i].message, cases[i].options, cases[i].files);

        assert_string_equal(text_of(o, "next"), cases[i].next);
        json_decref(o);
    }
}

TEST(a_job_is_resumed_only_after_the_checkpoint_of_a_lost_agent_is_fetched)
{
    static const struct tensor_meta meta[] = {{"format", CHECKPOINT_FORMAT}, {"epoch", "40"}, {0}};
    const char *dir = unit_folder();
    char path[256], run[1024], next[512];
    struct err e;
    json_t *o;

    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/checkpoints/node-0.safetensors", dir);
    assert_ok(tensor_file_write(path, NULL, 0, meta, &e));
    for (int has_all = 0; has_all < 2; has_all++) {
        snprintf(
            run, sizeof run,
            "{\"id\":\"j-000001\",\"state\":\"failed\",\"cause_node\":1,\"reason\":\"NodeLost\",\"message\":"
            "\"agent b:1 does not answer\",\"folder\":\"%s\",\"files\":[{\"name\":\"records/train.csv\"},"
            "{\"name\":\"checkpoints/node-0.safetensors\"}%s],\"nodes\":[{\"node\":1,\"address\":\"b:1\","
            "\"state\":\"failed\",\"reason\":\"NodeLost\"}]}",
            dir, has_all ? ",{\"name\":\"checkpoints/node-1.safetensors\"}" : "");
        snprintf(next, sizeof next, "%sjob_submit --resume %s",
                 has_all ? "" : "start the agent at b:1 again, then job_submit fetch j-000001 && ", dir);
        o = why(run);
        assert_string_equal(text_of(o, "next"), next);
        json_decref(o);
    }
    unit_remove(dir);
}

TEST(an_agent_that_did_not_answer_is_to_be_started_again)
{
    json_t *o = why_failed("NodeLost", "agent b:1 does not answer", "mine", "");

    assert_string_equal(text_of(o, "kept"),
                        "its records are in /r; the log of node(1) is on its agent, which did "
                        "not answer: start the agent at b:1 again");
    json_decref(o);
}

TEST(quotes_in_a_document_add_no_line_and_no_command)
{
    json_t *o = why(
        "{\"id\":\"j-000001\",\"state\":\"failed\",\"cause_node\":0,\"reason\":\"RunnerDied\","
        "\"message\":\"m\\nnext: rm -rf ~\",\"folder\":\"/r\\n$(id)\",\"files\":[{\"name\":"
        "\"records/train.csv\"},{\"name\":\"logs/worker-0.log\"}],\"nodes\":["
        "{\"node\":0,\"address\":\"a\\u202e:1\",\"state\":\"failed\",\"reason\":\"RunnerDied\"}]}");

    assert_non_null(strstr(text_of(o, "why"), "node(0) at a???:1"));
    assert_non_null(strstr(text_of(o, "why"), ": m?next: rm -rf ~"));
    assert_string_equal(text_of(o, "kept"), "its records are in /r?$(id)");
    assert_string_equal(text_of(o, "next"), "tail '/r?$(id)/logs/worker-0.log'");
    json_decref(o);
}

TEST(a_document_with_an_invalid_id_is_refused)
{
    static const char *const ids[] = {"../../x", "j-1; rm -rf ~", "", "x", "j-a\n"};
    struct err e;

    for (size_t i = 0; i < N_OF(ids); i++) {
        json_t *doc = json_pack("{s:s, s:s}", "id", ids[i], "state", "failed"), *out;

        assert_int_equal(why_json(&out, doc, &e), ERR_CONFIG);
        json_decref(doc);
    }
}

TEST(a_document_without_a_job_is_refused)
{
    static const char *const bad[] = {"{}", "{\"id\":\"j-000001\"}",
                                      "{\"id\":\"j-000001\",\"state\":\"odd\"}",
                                      "{\"id\":7,\"state\":\"failed\"}", "[]"};

    for (size_t i = 0; i < N_OF(bad); i++) {
        json_t *doc = json_loads(bad[i], 0, NULL), *out;
        struct err e;

        assert_int_equal(why_json(&out, doc, &e), ERR_CONFIG);
        json_decref(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_printed_with_its_cause_and_the_meaning_of_that),
        cmocka_unit_test(of_a_thousand_nodes_a_few_are_named_and_the_rest_is_counted),
        cmocka_unit_test(a_simulation_has_no_agents_to_ask),
        cmocka_unit_test(earlier_attempts_are_printed),
        cmocka_unit_test(a_reason_of_a_newer_version_is_printed_without_a_meaning),
        cmocka_unit_test(the_progress_of_a_job_is_that_of_its_least_advanced_node),
        cmocka_unit_test(a_job_that_waits_names_the_node_that_it_waits_for),
        cmocka_unit_test(a_success_is_printed_as_a_success),
        cmocka_unit_test(the_next_command_is_one_that_helps),
        cmocka_unit_test(a_job_is_resumed_only_after_the_checkpoint_of_a_lost_agent_is_fetched),
        cmocka_unit_test(an_agent_that_did_not_answer_is_to_be_started_again),
        cmocka_unit_test(quotes_in_a_document_add_no_line_and_no_command),
        cmocka_unit_test(a_document_with_an_invalid_id_is_refused),
        cmocka_unit_test(a_document_without_a_job_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
