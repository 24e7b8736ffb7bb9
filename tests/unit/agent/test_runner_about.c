#include "agent/jobs/runner_about.h"

#include "tests/unit/unit.h"

static struct err e;

struct asked {
    const char *folder;
    char exe[128];
    struct loop loop;
    uint64_t n_changes;
    struct runner_about about;
};

/* A runner that does what the shell's script says, and counts how often it is started. */
static void ask_open(struct asked *a, const char *script)
{
    char text[512];

    *a = (struct asked){.folder = unit_folder()};
    assert_ok(loop_open(&a->loop, &e));
    snprintf(a->exe, sizeof a->exe, "%s/runner", a->folder);
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$1 $OPENBLAS_NUM_THREADS\" = '--about 1' ] || exit 99\necho >>%s/started\n%s\n",
             a->folder, script);
    assert_ok(file_write(a->exe, text, strlen(text), 0700, &e));
    a->about = (struct runner_about){.inquiry = {.loop = &a->loop, .n_changes = &a->n_changes},
                                     .exe = a->exe};
}

static void ask_close(struct asked *a)
{
    runner_about_clear(&a->about);
    loop_close(&a->loop);
    unit_remove(a->folder);
}

/* What is said of it once it has answered, as JSON. */
static const char *answer_of(struct asked *a)
{
    static char text[1024];
    json_t *o;
    char *line;

    while (inquiry_is_open(&a->about.inquiry))
        loop_turn(&a->loop, 0.05);
    o = runner_about_json(&a->about);
    line = json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(o);
    assert_non_null(line);
    snprintf(text, sizeof text, "%s", line);
    free(line);
    return text;
}

static size_t count_starts(const struct asked *a)
{
    char path[160], *text;
    size_t n;

    snprintf(path, sizeof path, "%s/started", a->folder);
    assert_ok(file_read(&text, &n, path, 64, &e));
    free(text);
    return n;
}

TEST(a_runner_is_asked_once_and_its_answer_kept)
{
    struct asked a;

    ask_open(&a, "echo '{\"engine\":\"an abacus\",\"codec_abi\":11}'");
    assert_string_equal(answer_of(&a), "null");
    runner_about_ask(&a.about);
    assert_true(inquiry_is_own(&a.about.inquiry, a.about.inquiry.child.pid));
    runner_about_ask(&a.about);
    assert_string_equal(answer_of(&a), "{\"engine\":\"an abacus\",\"codec_abi\":11}");
    assert_int_equal(a.n_changes, 1);
    a.about.inquiry.answered_at -= 60;
    runner_about_ask(&a.about);
    assert_false(inquiry_is_open(&a.about.inquiry));
    assert_int_equal(count_starts(&a), 1);
    ask_close(&a);
}

TEST(a_runner_that_does_not_answer_is_reported_with_the_reason_and_asked_again_later)
{
    static const struct {
        const char *script, *reason;
    } cases[] = {
        {"exit 3", "/runner: ended with status 3; is a library missing?"},
        {"kill -SEGV $$", "/runner: killed by signal 11 (Segmentation fault)"},
        {"echo no JSON", "/runner: its answer:1:"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct asked a;
        const char *text;

        ask_open(&a, cases[i].script);
        runner_about_ask(&a.about);
        text = answer_of(&a);
        if (strncmp(text, "{\"error\":", 9) != 0 || !strstr(text, cases[i].reason))
            fail_msg("%s: %s", cases[i].script, text);
        runner_about_ask(&a.about);
        assert_false(inquiry_is_open(&a.about.inquiry));
        a.about.inquiry.answered_at -= 60;
        runner_about_ask(&a.about);
        answer_of(&a);
        assert_int_equal(count_starts(&a), 2);
        ask_close(&a);
    }
}

TEST(a_runner_that_is_not_there_is_an_error_at_once)
{
    struct asked a;

    ask_open(&a, "");
    snprintf(a.exe, sizeof a.exe, "/nowhere/runner");
    runner_about_ask(&a.about);
    assert_false(inquiry_is_open(&a.about.inquiry));
    assert_non_null(strstr(answer_of(&a), "cannot run /nowhere/runner"));
    ask_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runner_is_asked_once_and_its_answer_kept),
        cmocka_unit_test(a_runner_that_does_not_answer_is_reported_with_the_reason_and_asked_again_later),
        cmocka_unit_test(a_runner_that_is_not_there_is_an_error_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
