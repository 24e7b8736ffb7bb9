#include "submit/net/reply.h"

#include <math.h>

#include "submit/terminal/text.h"
#include "tests/unit/unit.h"

static struct err e;

TEST(a_job_is_parsed_and_missing_fields_are_unknown)
{
    const char *text =
        "{\"state\":\"running\",\"reason\":null,\"message\":\"epoch "
        "2\",\"requirements\":[\"codec\",\"data\"],"
        "\"data_port\":40123,\"elapsed_s\":1.5,\"progress\":{\"epoch\":2,\"epochs\":10,\"step\":5,\"steps\":"
        "50},"
        "\"metrics\":{\"loss\":0.5,\"accuracy\":null},\"comm\":{\"sent_bytes\":7,\"raw_bytes\":-1,\"wait_s\":"
        "0.5,\"send_s\":-3},\"last_seq\":9,\"new\":1}";
    struct job_view v;

    assert_ok(reply_job(&v, text, strlen(text), &e));
    assert_int_equal(v.state, JOB_RUNNING);
    assert_string_equal(v.reason, "");
    assert_false(v.lacks[PACKAGE_SETTINGS]);
    assert_true(v.lacks[PACKAGE_CODEC] && v.lacks[PACKAGE_DATA]);
    assert_int_equal(v.data_port, 40123);
    assert_int_equal(v.progress.step, 5);
    assert_true(v.progress.loss == 0.5 && isnan(v.progress.accuracy) && isnan(v.progress.eval_loss));
    assert_int_equal(v.progress.comm.sent_bytes, 7);
    assert_int_equal(v.progress.comm.raw_bytes, 0);
    assert_true(v.progress.comm.seconds[PHASE_WAIT] == 0.5);
    assert_true(v.progress.comm.seconds[PHASE_SEND] == 0);
    assert_int_equal(v.last_seq, 9);
}

TEST(a_document_that_is_no_job_is_refused)
{
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"state\":\"dancing\"}",
                                        "{\"state\":7}",
                                        "{\"state\":\"ready\",\"data_port\":70000}",
                                        "{\"state\":\"ready\""};
    struct job_view v;

    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_int_equal(reply_job(&v, wrong[i], strlen(wrong[i]), &e), ERR_PROTOCOL);
}

TEST(text_of_an_agent_cannot_control_the_terminal)
{
    const char *text =
        "{\"seq\":1,\"event\":\"log\",\"level\":\"info\",\"text\":\"\\u001b[2J\\u009b31m\\u0007ok\"}";
    struct progress_view p;
    struct job_event ev;

    progress_view_init(&p);
    assert_ok(reply_event(&ev, &p, text, strlen(text), &e));
    assert_int_equal(ev.kind, EVENT_LOG);
    assert_string_equal(ev.message, "?[2J??31m?ok");
}

TEST(progress_keeps_fields_that_an_event_omits)
{
    const char *progress = "{\"seq\":2,\"event\":\"progress\",\"epoch\":1,\"step\":3,\"loss\":0.25}";
    const char *eval = "{\"seq\":3,\"event\":\"eval\",\"epoch\":1,\"loss\":0.5,\"accuracy\":0.75}";
    const char *stopped = "{\"seq\":4,\"event\":\"stopped\",\"reason\":\"codec\",\"step\":3}";
    struct progress_view p;
    struct job_event ev;

    progress_view_init(&p);
    assert_ok(reply_event(&ev, &p, progress, strlen(progress), &e));
    assert_ok(reply_event(&ev, &p, eval, strlen(eval), &e));
    assert_int_equal(ev.seq, 3);
    assert_int_equal(p.stopped.reason, STOP_NONE);
    assert_ok(reply_event(&ev, &p, stopped, strlen(stopped), &e));
    assert_true(p.stopped.reason == STOP_CODEC && p.stopped.step == 3);
    assert_int_equal(p.step, 3);
    assert_true(p.loss == 0.25 && p.eval_loss == 0.5 && p.eval_accuracy == 0.75);
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TEST(a_node_reports_on_which_node_it_waits_and_the_digest_of_its_final_weights)
{
    static const struct {
        const char *line;
        bool is_held_up;
        int waits_for;
        const char *params;
    } cases[] = {
        {"{\"seq\":1,\"event\":\"progress\",\"waits_for\":-2}", true, -2, ""},
        {"{\"seq\":2,\"event\":\"progress\",\"waits_for\":null}", false, 0, ""},
        {"{\"seq\":3,\"event\":\"progress\",\"waits_for\":1e9}", false, 0, ""},
        {"{\"seq\":4,\"event\":\"result\",\"params_sha256\":\"" HEX "\"}", false, 0, HEX},
        {"{\"seq\":5,\"event\":\"result\",\"params_sha256\":\"none\"}", false, 0, ""},
    };
    const char *job =
        "{\"state\":\"running\",\"waits_for\":{\"node\":1,\"since\":\"now\"},\"params_sha256\":null}";
    const char *nothing = "{\"state\":\"running\",\"params_sha256\":\"" HEX "\",\"combined_nothing\":true}";
    struct progress_view p;
    struct job_view v;
    struct job_event ev;

    progress_view_init(&p);
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_ok(reply_event(&ev, &p, cases[i].line, strlen(cases[i].line), &e));
        assert_int_equal(p.is_held_up, cases[i].is_held_up);
        assert_int_equal(p.waits_for, cases[i].waits_for);
        assert_string_equal(p.params_sha256, cases[i].params);
    }
    assert_ok(reply_job(&v, job, strlen(job), &e));
    assert_true(v.progress.is_held_up && v.progress.waits_for == 1);
    assert_string_equal(v.progress.params_sha256, "");
    assert_false(v.progress.combined_nothing);
    assert_ok(reply_job(&v, nothing, strlen(nothing), &e));
    assert_true(v.progress.combined_nothing);
}

TEST(an_end_event_needs_an_end_state)
{
    const char *text = "{\"seq\":4,\"event\":\"end\",\"state\":\"running\"}";
    struct progress_view p;
    struct job_event ev;

    progress_view_init(&p);
    assert_int_equal(reply_event(&ev, &p, text, strlen(text), &e), ERR_PROTOCOL);
}

TEST(artifacts_are_counted_and_their_digests_checked)
{
    char text[8192] = "{\"artifacts\":[";
    struct artifact_list list;

    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s{\"name\":\"f%d\",\"sha256\":\"../%d\"}",
                 i ? "," : "", i, i);
    strcat(text, "]}");
    assert_ok(reply_artifacts(&list, text, strlen(text), &e));
    assert_int_equal(list.n, ARTIFACTS_MAX);
    assert_string_equal(list.items[0].sha256, "");
    assert_false(list.items[0].complete);
}

TEST(a_problem_becomes_a_message_and_a_code)
{
    const char *busy = "{\"code\":\"AGENT_BUSY\",\"detail\":\"runs j-abc.\",\"hint\":\"Wait.\"}";

    assert_int_equal(reply_problem(&e, 409, busy, strlen(busy)), ERR_BUSY);
    assert_error_has("runs j-abc (status 409, AGENT_BUSY)");
    assert_string_equal(e.hint, "Wait.");
    assert_int_equal(reply_problem(&e, 403, "{\"code\":\"CODEC_REFUSED\"}", 24), ERR_REFUSED);
    assert_int_equal(reply_problem(&e, 403, "{\"code\":\"FORBIDDEN\"}", 20), ERR_AUTH);
    assert_int_equal(reply_problem(&e, 401, NULL, 0), ERR_AUTH);
    assert_int_equal(reply_problem(&e, 404, NULL, 0), ERR_NOT_FOUND);
    assert_int_equal(reply_problem(&e, 404, "<html>", 6), ERR_PROTOCOL);
    assert_error_has("answered with status 404 and no JSON");
    assert_string_equal(e.hint, "Another program than an agent may use this port.");
    assert_int_equal(reply_problem(&e, 302, busy, strlen(busy)), ERR_PROTOCOL);
    assert_error_has("redirection");
}

TEST(another_api_version_is_reported)
{
    const char *text = "{\"id\":\"a-1\",\"version\":\"9.0\",\"api\":2}";
    struct agent_view v;

    assert_int_equal(reply_agent(&v, text, strlen(text), &e), ERR_PROTOCOL);
    assert_error_has("9.0 uses API 2");
}

TEST(the_place_in_a_queue_is_reported_and_bounded)
{
    const char *text = "{\"state\":\"pending\",\"queue\":{\"position\":2,\"length\":3,\"behind\":\"j-now\"}}";
    const char *odd = "{\"state\":\"pending\",\"queue\":{\"position\":-1,\"length\":9e99,\"behind\":7}}";
    struct job_view v;

    assert_ok(reply_job(&v, text, strlen(text), &e));
    assert_int_equal(v.queue_position, 2);
    assert_int_equal(v.queue_length, 3);
    assert_string_equal(v.queue_behind, "j-now");
    assert_ok(reply_job(&v, odd, strlen(odd), &e));
    assert_int_equal(v.queue_position, 0);
    assert_string_equal(v.queue_behind, "");
    odd = "{\"state\":\"running\",\"queue\":null}";
    assert_ok(reply_job(&v, odd, strlen(odd), &e));
    assert_int_equal(v.queue_position, 0);
}

TEST(the_holder_of_a_slot_is_reported)
{
    const char *text =
        "{\"jobs\":[{\"id\":\"j-q\",\"state\":\"pending\"},{\"id\":\"j-old\",\"state\":\"failed\"},"
        "{\"id\":\"j-now\",\"state\":\"running\",\"submitter\":\"ann@x\",\"progress\":{\"ratio\":0.63}}]}";
    char holder[128];

    assert_ok(reply_holder(holder, sizeof holder, text, strlen(text), &e));
    assert_string_equal(holder, "j-now of ann@x (running, 63 %)");
    assert_ok(reply_holder(holder, sizeof holder, "{}", 2, &e));
    assert_string_equal(holder, "");
}

TEST(overlong_durations_are_reported_as_beyond_the_limit)
{
    char out[TEXT_AMOUNT];

    assert_string_equal(text_result(out, 0.12344), "0.1234");
    assert_string_equal(text_result(out, 1.1601423956621e58), "1.16e+58");
    assert_string_equal(text_result(out, -15460627193.6), "-1.546e+10");
    assert_string_equal(text_result(out, NAN), "-");
    assert_string_equal(text_seconds(out, 3.41), "3.41 s");
    assert_string_equal(text_seconds(out, 125), "2 min 05 s");
    assert_string_equal(text_seconds(out, 9000), "2.5 h");
    assert_string_equal(text_seconds(out, 1e300), "over 1000000 h");
}

TEST(a_path_in_a_command_is_quoted_for_the_shell)
{
    char out[64], small[8];

    assert_string_equal(text_shell_quote(out, sizeof out, "build/codecs/my-1.so:rate=0.5,x@y_z%+"),
                        "build/codecs/my-1.so:rate=0.5,x@y_z%+");
    assert_string_equal(text_shell_quote(out, sizeof out, "é/日本.c"), "é/日本.c");
    assert_string_equal(text_shell_quote(out, sizeof out, "a b.c"), "'a b.c'");
    assert_string_equal(text_shell_quote(out, sizeof out, "$(x)`y`;z*"), "'$(x)`y`;z*'");
    assert_string_equal(text_shell_quote(out, sizeof out, "it's"), "'it'\\''s'");
    assert_string_equal(text_shell_quote(out, sizeof out, ""), "''");
    assert_string_equal(text_shell_quote(small, sizeof small, "a b c d e"), "'a '");
}

TEST(the_newest_job_of_an_agent_is_the_first_of_its_list)
{
    static const char text[] = "{\"jobs\":[{\"id\":\"j-new\",\"state\":\"failed\",\"reason\":\"NodeLost\"},"
                               "{\"id\":\"j-old\",\"state\":\"succeeded\"}]}";
    static const char *const wrong[] = {"[]", "{\"jobs\":[{\"state\":\"failed\"}]}",
                                        "{\"jobs\":[{\"id\":\"j-1\"}]}"};
    struct job_view v;
    char id[REPLY_ID];

    assert_ok(reply_newest_job(id, &v, text, strlen(text), &e));
    assert_string_equal(id, "j-new");
    assert_int_equal(v.state, JOB_FAILED);
    assert_string_equal(v.reason, "NodeLost");
    assert_ok(reply_newest_job(id, &v, "{\"jobs\":[]}", 11, &e));
    assert_string_equal(id, "");
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_int_equal(reply_newest_job(id, &v, wrong[i], strlen(wrong[i]), &e), ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_parsed_and_missing_fields_are_unknown),
        cmocka_unit_test(a_document_that_is_no_job_is_refused),
        cmocka_unit_test(text_of_an_agent_cannot_control_the_terminal),
        cmocka_unit_test(progress_keeps_fields_that_an_event_omits),
        cmocka_unit_test(a_node_reports_on_which_node_it_waits_and_the_digest_of_its_final_weights),
        cmocka_unit_test(an_end_event_needs_an_end_state),
        cmocka_unit_test(artifacts_are_counted_and_their_digests_checked),
        cmocka_unit_test(a_problem_becomes_a_message_and_a_code),
        cmocka_unit_test(another_api_version_is_reported),
        cmocka_unit_test(the_place_in_a_queue_is_reported_and_bounded),
        cmocka_unit_test(the_holder_of_a_slot_is_reported),
        cmocka_unit_test(overlong_durations_are_reported_as_beyond_the_limit),
        cmocka_unit_test(a_path_in_a_command_is_quoted_for_the_shell),
        cmocka_unit_test(the_newest_job_of_an_agent_is_the_first_of_its_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
