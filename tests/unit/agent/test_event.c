#include "agent/jobs/event.h"

#include <math.h>

#include "shared/job/settings.h"
#include "tests/unit/unit.h"

#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"

static int read_line(struct event *ev, const char *line, bool from_runner, struct err *e)
{
    char *copy = unit_copy(line, strlen(line));
    int rc = event_parse_line(ev, copy, strlen(line), from_runner, e);

    free(copy);
    return rc;
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TEST(runner_lines_are_parsed)
{
    struct event ev;
    struct err e;

    assert_ok(
        read_line(&ev,
                  "{\"event\":\"progress\",\"epoch\":1,\"epochs\":2,\"step\":40,\"steps\":936,\"loss\":0.4,"
                  "\"accuracy\":null,\"sent_bytes\":1,\"recv_bytes\":2}",
                  true, &e));
    assert_int_equal(ev.kind, EVENT_PROGRESS);
    assert_int_equal(ev.steps, 936);
    assert_true(ev.loss == 0.4);
    assert_true(isnan(ev.accuracy));
    assert_int_equal(ev.waits_for, EVENT_NO_NODE);
    assert_ok(read_line(&ev, "{\"event\":\"progress\",\"epoch\":1,\"step\":1,\"waits_for\":-2}", true, &e));
    assert_int_equal(ev.waits_for, -2);
    assert_ok(read_line(&ev, "{\"event\":\"result\",\"params_sha256\":\"" HEX "\"}", true, &e));
    assert_int_equal(ev.kind, EVENT_RESULT);
    assert_string_equal(ev.params_sha256, HEX);
    assert_false(ev.combined_nothing);
    assert_ok(read_line(&ev, "{\"event\":\"result\",\"params_sha256\":\"" HEX "\",\"combined_nothing\":true}",
                        true, &e));
    assert_true(ev.combined_nothing);
    assert_ok(read_line(
        &ev, "{\"event\":\"ready\",\"codec_sha256\":\"x\",\"n_params\":3,\"data_key\":\"" HEX64 "\"}", true,
        &e));
    assert_int_equal(ev.kind, EVENT_READY);
    assert_ok(read_line(&ev, "{\"event\":\"end\",\"state\":\"succeeded\",\"reason\":null,\"message\":\"\"}",
                        true, &e));
    assert_int_equal(ev.state, JOB_SUCCEEDED);
    assert_ok(read_line(&ev, "{\"event\":\"log\",\"level\":\"warn\",\"text\":\"\\u001b[2J\"}", true, &e));
    assert_string_equal(ev.text, "\033[2J");
}

TEST(runner_lines_that_are_not_allowed_are_refused)
{
    static const char *const lines[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"event\":\"state\",\"state\":\"running\"}",
        "{\"event\":\"end\"}",
        "{\"event\":\"end\",\"state\":\"running\"}",
        "{\"event\":\"end\",\"state\":\"gone\"}",
        "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"two words\"}",
        "{\"event\":\"end\",\"state\":\"failed\",\"reason\":7}",
        "{\"event\":\"progress\"}",
        "{\"event\":\"progress\",\"epoch\":-1,\"step\":1}",
        "{\"event\":\"progress\",\"epoch\":1,\"step\":1.5}",
        "{\"event\":\"progress\",\"epoch\":1,\"step\":1,\"seq\":1}",
        "{\"event\":\"progress\",\"epoch\":1,\"step\":1,\"at\":\"2026-11-21T07:31:22.123Z\"}",
        "{\"event\":\"progress\",\"epoch\":1,\"step\":1,\"step\":2}",
        "{\"event\":\"eval\",\"epoch\":1,\"step\":1,\"extra\":0}",
        "{\"event\":\"progress\",\"epoch\":1,\"step\":1,\"waits_for\":5000}",
        "{\"event\":\"result\",\"params_sha256\":\"0f\"}",
        "{\"event\":\"result\"}",
        "{\"event\":\"result\",\"params_sha256\":\"" HEX "\",\"combined_nothing\":1}",
        "{\"event\":\"log\",\"level\":\"shout\",\"text\":\"\"}",
        "{\"event\":\"log\",\"level\":\"info\",\"text\":\"a\\u0000b\"}",
        "{\"event\":\"reserve\"}",
        "{\"note\":\"runner\",\"pid\":1,\"start_ticks\":1}",
        "{\"note\":\"start\",\"event\":\"log\",\"level\":\"info\",\"text\":\"\"}",
    };
    struct event ev;
    struct err e;

    for (size_t i = 0; i < N_OF(lines); i++)
        if (read_line(&ev, lines[i], true, &e) == 0)
            fail_msg("taken: %s", lines[i]);
}

static void fill(struct event *ev, enum event_kind kind)
{
    event_init(ev, kind);
    ev->seq = kind < NOTE_RESERVE ? 7 : 0;
    ev->at = 1795246282.123;
    ev->state = kind == EVENT_END ? JOB_FAILED : JOB_READY;
    memcpy(ev->reason, "NodeLost", 9);
    memcpy(ev->message, "node 1 \"went\"\n away", 20);
    memcpy(ev->level, "info", 5);
    memcpy(ev->text, "text", 5);
    memcpy(ev->package, "codec", 6);
    ev->spec = (struct job_spec){
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 9};
    ev->data_port = 40123;
    ev->pid = 4711;
    ev->epoch = 3;
    ev->step = 4;
    ev->loss = 0.1;
    ev->accuracy = 1e-9;
    memcpy(ev->params_sha256, HEX, sizeof HEX);
}

TEST(every_journal_line_survives_serialization)
{
    for (int kind = 0; kind < N_EVENT_KINDS; kind++) {
        struct event ev, back;
        struct err e;
        char *line, *again;

        if (kind == EVENT_READY)
            continue;
        fill(&ev, (enum event_kind)kind);
        line = event_line(&ev);
        assert_non_null(line);
        assert_int_equal(strncmp(line, kind < NOTE_RESERVE ? "{\"seq\":" : "{\"note\":", 7), 0);
        assert_int_equal(line[strlen(line) - 1], '\n');
        if (event_parse_line(&back, line, strlen(line) - 1, false, &e) < 0)
            fail_msg("%s: %s", e.text, line);
        again = event_line(&back);
        assert_string_equal(line, again);
        free(line);
        free(again);
    }
}

TEST(a_reservation_contains_all_required_fields)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"server_"
         "count\":0}",
         ""},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":-2,\"role\":\"server\",\"node_count\":2,\"server_"
         "count\":1}",
         ""},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":-3,\"role\":\"server\",\"node_count\":2,\"server_"
         "count\":1}",
         "/node: -3 is not a server"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":-1,\"role\":\"server\",\"node_count\":2,\"server_"
         "count\":1}",
         "/node: -1"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":2,\"role\":\"worker\",\"node_count\":2}", "/node: 2"},
        {"{\"id\":\"j-abcdef\",\"attempt\":0,\"node\":0,\"role\":\"worker\",\"node_count\":2}",
         "/attempt: 0"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"boss\",\"node_count\":2}", "/role"},
        {"{\"id\":\"j-abcd\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2}", ""},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"name\":"
         "\"a\\u001b\"}",
         "/name"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"time_limit_"
         "s\":0}",
         "/time_limit_s"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"trainer\":"
         "\"train.py\"}",
         ""},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"trainer\":"
         "\"train.py\",\"trainer_sha256\":\"x\"}",
         "/trainer_sha256"},
        {"{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2,\"trainer\":"
         "\"train.py\",\"executor\":true}",
         "/trainer"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *doc = json_loads(cases[i].text, 0, NULL);
        struct err e = {0};
        struct job_spec s;
        int rc = job_spec_parse(&s, doc, &e);

        json_decref(doc);
        if (i == 7)
            assert_int_equal(rc, ERR_CONFIG);
        else if ((rc < 0) != (cases[i].expected[0] != '\0') || !strstr(e.text, cases[i].expected))
            fail_msg("%s: %s", cases[i].text, e.text);
    }
}

TEST(a_job_with_the_maximum_number_of_nodes_is_reserved)
{
    static const struct {
        const char *role;
        int node, n_workers, n_servers;
        bool fits;
    } cases[] = {
        {"worker", NODES_MAX - 1, NODES_MAX, NODES_MAX, true},
        {"server", -NODES_MAX - 1, NODES_MAX, NODES_MAX, true},
        {"worker", 0, NODES_MAX + 1, 0, false},
        {"worker", 0, 1, NODES_MAX + 1, false},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *doc = json_pack("{s:s,s:i,s:i,s:s,s:i,s:i}", "id", "j-abcdef", "attempt", 1, "node",
                                cases[i].node, "role", cases[i].role, "node_count", cases[i].n_workers,
                                "server_count", cases[i].n_servers);
        struct err e = {0};
        struct job_spec s;

        assert_int_equal(job_spec_parse(&s, doc, &e), cases[i].fits ? 0 : ERR_CONFIG);
        json_decref(doc);
    }
}

TEST(only_well_formed_ids_name_a_job)
{
    assert_true(is_job_id("j-1kq8x7m3qfab"));
    assert_true(is_job_id("j-abcdef"));
    assert_true(is_job_id("j-0123456789012345678901234567890123456789"));
    assert_false(is_job_id("j-01234567890123456789012345678901234567890"));
    assert_false(is_job_id("j-abcde"));
    assert_false(is_job_id("x-abcdef"));
    assert_false(is_job_id("j-abc/ef"));
    assert_false(is_job_id("j-abc.ef"));
    assert_false(is_job_id(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runner_lines_are_parsed),
        cmocka_unit_test(runner_lines_that_are_not_allowed_are_refused),
        cmocka_unit_test(every_journal_line_survives_serialization),
        cmocka_unit_test(a_reservation_contains_all_required_fields),
        cmocka_unit_test(a_job_with_the_maximum_number_of_nodes_is_reserved),
        cmocka_unit_test(only_well_formed_ids_name_a_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
