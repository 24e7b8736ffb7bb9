#include "agent/jobs/trainer_about.h"

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

static struct err e;

struct asked {
    const char *folder;
    char python[128];
    struct loop loop;
    uint64_t n_changes;
    struct trainer_about about;
};

/* An interpreter that does what the shell's script says, and counts how often it is started. */
static void ask_open(struct asked *a, const char *script)
{
    char text[1024];

    *a = (struct asked){.folder = unit_folder()};
    assert_ok(loop_open(&a->loop, &e));
    snprintf(a->python, sizeof a->python, "%s/python3", a->folder);
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$1 $PYTHONPATH\" = '-c ' ] || exit 99\necho >>%s/started\n%s\n", a->folder,
             script);
    assert_ok(file_write(a->python, text, strlen(text), 0700, &e));
    a->about = (struct trainer_about){.inquiry = {.loop = &a->loop, .n_changes = &a->n_changes},
                                      .python = a->python};
}

static void ask_close(struct asked *a)
{
    trainer_about_clear(&a->about);
    loop_close(&a->loop);
    unit_remove(a->folder);
}

/* What is said of it once it has answered, as JSON. */
static const char *answer_of(struct asked *a)
{
    static char text[1024];
    json_t *o = json_object();
    char *line;

    while (inquiry_is_open(&a->about.inquiry))
        loop_turn(&a->loop, 0.05);
    trainer_about_add(o, &a->about);
    line = json_dump(o, JSON_COMPACT);
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

#define UNKNOWN "{\"python\":null,\"numpy\":null,\"torch\":null,\"gpus\":null,\"trainer_error\":"

TEST(versions_and_gpus_are_known_after_the_first_question_only)
{
    struct asked a;

    setenv("PYTHONPATH", "/none", 1);
    ask_open(&a, "echo '{\"python\":\"3.11.2\",\"numpy\":\"1.24.2\",\"torch\":\"\",\"gpus\":[\"H100\",7]}'");
    assert_string_equal(answer_of(&a), UNKNOWN "null}");
    trainer_about_ask(&a.about);
    assert_true(inquiry_is_open(&a.about.inquiry));
    assert_true(inquiry_is_own(&a.about.inquiry, a.about.inquiry.child.pid));
    assert_string_equal(answer_of(&a), "{\"python\":\"3.11.2\",\"numpy\":\"1.24.2\",\"torch\":null,\"gpus\":["
                                       "\"H100\"],\"trainer_error\":null}");
    assert_int_equal(a.n_changes, 1);
    assert_false(inquiry_is_own(&a.about.inquiry, getpid()));
    ask_close(&a);
}

TEST(a_fresh_answer_is_given_again_and_an_old_one_is_asked_anew)
{
    struct asked a;

    ask_open(&a, "echo '{\"python\":\"3.9\"}'");
    trainer_about_ask(&a.about);
    trainer_about_ask(&a.about);
    answer_of(&a);
    trainer_about_ask(&a.about);
    assert_false(inquiry_is_open(&a.about.inquiry));
    assert_int_equal(count_starts(&a), 1);
    a.about.inquiry.answered_at -= 60;
    trainer_about_ask(&a.about);
    assert_non_null(strstr(answer_of(&a), "\"python\":\"3.9\",\"numpy\":null"));
    assert_int_equal(count_starts(&a), 2);
    ask_close(&a);
}

TEST(an_interpreter_that_does_not_answer_is_reported_with_the_reason)
{
    static const struct {
        const char *script, *reason;
    } cases[] = {
        {"exit 3", "/python3: ended with status 3; is it Python 3?"},
        {"kill -SEGV $$", "/python3: killed by signal 11 (Segmentation fault)"},
        {"echo Python 2.7", "/python3: its answer:1:"},
        {"echo '{\"numpy\":\"1\"}'", "/python3: /python: missing"},
        {"", "is it Python 3?"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct asked a;
        const char *text;

        ask_open(&a, cases[i].script);
        trainer_about_ask(&a.about);
        text = answer_of(&a);
        assert_memory_equal(text, UNKNOWN, strlen(UNKNOWN));
        if (!strstr(text, cases[i].reason))
            fail_msg("%s: %s", cases[i].script, text);
        ask_close(&a);
    }
}

/* Without a text, and in a session of its own, so that it does not end with the interpreter. */
TEST(a_process_that_the_interpreter_leaves_is_not_waited_for)
{
    struct asked a;
    char path[128];
    size_t n;
    char *pid;

    ask_open(&a, "cd \"${0%/*}\" && setsid sh -c 'echo $$ >left.new; mv left.new left; exec sleep 1000' &\n"
                 "while ! [ -e \"${0%/*}/left\" ]; do :; done; exit 3");
    trainer_about_ask(&a.about);
    assert_non_null(strstr(answer_of(&a), "ended with status 3"));
    snprintf(path, sizeof path, "%s/left", a.folder);
    assert_ok(file_read(&pid, &n, path, 64, &e));
    assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), SIGKILL), 0);
    free(pid);
    ask_close(&a);
}

TEST(without_an_interpreter_there_is_nothing_to_ask)
{
    struct asked a;

    ask_open(&a, "");
    a.about.python[0] = '\0';
    trainer_about_ask(&a.about);
    assert_false(inquiry_is_open(&a.about.inquiry));
    assert_string_equal(answer_of(&a), UNKNOWN "\"there is no python3 in the agent's $PATH\"}");
    ask_close(&a);
}

TEST(an_interpreter_that_hangs_is_killed_with_what_it_has_started)
{
    struct asked a;

    ask_open(&a, "sleep 600 & sleep 600");
    trainer_about_ask(&a.about);
    timer_set(&a.loop, &a.about.inquiry.deadline, clock_now()); /* the limit is over */
    assert_non_null(strstr(answer_of(&a), "no answer within 10 s"));
    a.about.inquiry.answered_at -= 60;
    trainer_about_ask(&a.about);
    ask_close(&a); /* and when the agent ends */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_gpus_are_known_after_the_first_question_only),
        cmocka_unit_test(a_fresh_answer_is_given_again_and_an_old_one_is_asked_anew),
        cmocka_unit_test(an_interpreter_that_does_not_answer_is_reported_with_the_reason),
        cmocka_unit_test(a_process_that_the_interpreter_leaves_is_not_waited_for),
        cmocka_unit_test(without_an_interpreter_there_is_nothing_to_ask),
        cmocka_unit_test(an_interpreter_that_hangs_is_killed_with_what_it_has_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
