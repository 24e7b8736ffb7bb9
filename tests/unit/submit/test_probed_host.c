/* The checks of `job_submit doctor` on given reports of agents. */
#include "tests/unit/unit.h"

#include <math.h>

#include "codecs/codec_events.h"
#include "submit/doctor/probed_host.h"

/* A host whose agent has answered with these keys besides its id, and the findings about it. */
static struct probed_host examined_at(const char *host, const char *keys, const struct probed_host *first)
{
    static const struct credentials none;
    static char text[2048];
    struct probed_host p = {.node = {.credentials = &none}};
    struct err e = {0};

    snprintf(text, sizeof text, "{\"id\":\"a-1\",\"version\":\"" PSGD_VERSION "\",\"api\":1%s}", keys);
    snprintf(p.node.at.host, sizeof p.node.at.host, "%s", host);
    assert_int_equal(probed_host_read(&p, text, strlen(text), &e), 0);
    probed_host_check(&p, first ? first : &p);
    return p;
}

static struct probed_host examined(const char *keys, const struct probed_host *first)
{
    return examined_at("192.0.2.7", keys, first);
}

static const struct finding *found(const struct probed_host *p, const char *check)
{
    for (size_t i = 0; i < p->n_findings; i++)
        if (strcmp(p->findings[i].check, check) == 0)
            return &p->findings[i];
    return NULL;
}

#define ASSERT_FOUND(p, check, of_level, part)                                                               \
    do {                                                                                                     \
        const struct finding *f_ = found(p, check);                                                          \
        assert_non_null(f_);                                                                                 \
        assert_int_equal(f_->level, of_level);                                                               \
        assert_non_null(strstr(f_->text, part));                                                             \
        assert_true((f_->fix[0] != 0) == (f_->level != FINDING_OK));                                         \
    } while (0)

TEST(an_agent_that_reports_little_can_be_used_and_gets_one_warning)
{
    struct probed_host p = examined("", NULL);

    assert_int_equal(p.code, 0);
    assert_int_equal(probed_host_level(&p), FINDING_WARNING);
    ASSERT_FOUND(&p, "age", FINDING_WARNING, "reports nothing about its machine");
    assert_null(found(&p, "memory"));
    assert_null(found(&p, "disk"));
}

TEST(other_kernels_are_a_warning_and_another_number_of_threads_is_none)
{
    struct probed_host a = examined(",\"runner\":{\"engine\":\"OpenBLAS 0.3.21 (Zen kernels), 1 thread\"}",
                                    NULL);
    struct probed_host b = examined(",\"runner\":{\"engine\":\"OpenBLAS 0.3.21 (Zen kernels), 8 threads\"}",
                                    &a);
    struct probed_host c = examined(
        ",\"runner\":{\"engine\":\"OpenBLAS 0.3.21 (Haswell kernels), 1 thread\"}", &a);

    ASSERT_FOUND(&a, "kernels", FINDING_OK, "Zen kernels");
    ASSERT_FOUND(&b, "kernels", FINDING_OK, "Zen kernels");
    ASSERT_FOUND(&c, "kernels", FINDING_WARNING, "their last bits differ");
    assert_int_equal(c.code, 0);
}

TEST(versions_with_which_no_job_can_run_are_errors)
{
    struct probed_host a = examined(",\"runner\":{\"frame_version\":4}", NULL);
    struct probed_host frames = examined(",\"runner\":{\"frame_version\":3}", &a);
    struct probed_host abi = examined(",\"runner\":{\"codec_abi\":1}", &a);
    struct probed_host dead = examined(",\"runner\":{\"error\":\"job_runner does not start\"}", &a);

    ASSERT_FOUND(&frames, "version", FINDING_ERROR, "so they cannot connect");
    ASSERT_FOUND(&abi, "version", FINDING_ERROR, "this job_submit makes codecs of ABI");
    ASSERT_FOUND(&dead, "runner", FINDING_ERROR, "does not start");
    assert_int_equal(frames.code, ERR_REFUSED);
    assert_int_equal(abi.code, ERR_REFUSED);
    assert_int_equal(dead.code, ERR_REFUSED);
}

TEST(limits_of_the_kernel_are_warnings_with_the_command_that_raises_them)
{
    struct probed_host p = examined(
        ",\"machine\":{\"system\":\"Linux\",\"cpus\":4,\"load\":0,\"mem_bytes\":8e9,\"mem_available_bytes\":"
        "4e9,"
        "\"open_files\":256,\"file_max\":-1,\"processes\":-1,\"inotify_instances\":8,\"inotify_watches\":"
        "65536,"
        "\"pipe_pages\":0,\"listen_backlog\":5,\"syn_backlog\":4096,\"overcommit\":2,\"shares_memory\":0,"
        "\"has_compiler\":0}",
        NULL);

    ASSERT_FOUND(&p, "files", FINDING_WARNING, "256 open files");
    ASSERT_FOUND(&p, "processes", FINDING_OK, "no limit of processes");
    ASSERT_FOUND(&p, "inotify", FINDING_WARNING, "8 inotify instances");
    ASSERT_FOUND(&p, "pipes", FINDING_OK, "no limit");
    ASSERT_FOUND(&p, "backlog", FINDING_WARNING, "5 connections");
    ASSERT_FOUND(&p, "overcommit", FINDING_WARNING, "may not be reserved");
    ASSERT_FOUND(&p, "shared memory", FINDING_WARNING, "use TCP");
    ASSERT_FOUND(&p, "compiler", FINDING_WARNING, "no cc");
    ASSERT_FOUND(&p, "memory", FINDING_OK, "4 processors");
    assert_non_null(strstr(found(&p, "inotify")->fix, "sysctl -w fs.inotify.max_user_instances"));
    assert_int_equal(p.code, 0);
}

TEST(a_node_that_listens_where_no_other_machine_reaches_it_is_an_error)
{
    struct probed_host p = examined(",\"data_host\":\"127.0.0.1\",\"disk_free_bytes\":1000,\"slots_free\":0",
                                    NULL);

    ASSERT_FOUND(&p, "data plane", FINDING_ERROR, "listen at 127.0.0.1, and others connect to 192.0.2.7");
    ASSERT_FOUND(&p, "disk", FINDING_ERROR, "are left");
    ASSERT_FOUND(&p, "slot", FINDING_WARNING, "runs another job");
}

/* A host with this policy, whose answer about training programs is `answer`; "": it has not answered. */
static struct probed_host with_trainers(const char *policy, const char *answer)
{
    static const struct credentials none;
    struct probed_host p = {.node = {.credentials = &none}};
    char text[256];
    struct err e = {0};

    snprintf(
        text, sizeof text,
        "{\"id\":\"a-1\",\"version\":\"1\",\"api\":1,\"trainers\":\"%s\",\"trainer_isolation\":\"files\"}",
        policy);
    assert_ok(probed_host_read(&p, text, strlen(text), &e));
    if (answer[0])
        assert_ok(probed_host_read_trainers(&p, answer, strlen(answer), &e));
    probed_host_check(&p, &p);
    return p;
}

#define PYTHON "\"trainer_python\":\"/usr/bin/python3\",\"python\":\"3.11.2\""

TEST(what_training_programs_find_on_a_machine_is_one_line)
{
    struct probed_host none = with_trainers("none", "");
    struct probed_host silent = with_trainers("any", "");
    struct probed_host plain = with_trainers("any", "{" PYTHON ",\"numpy\":null,\"torch\":null,\"gpus\":[]}");
    struct probed_host full = with_trainers(
        "allowlist",
        "{" PYTHON ",\"numpy\":\"1.24.2\",\"torch\":\"2.6.0\",\"gpus\":[\"H100\",\"H\\u001b\"]}");
    struct probed_host broken = with_trainers(
        "any",
        "{\"python\":null,\"gpus\":null,\"trainer_error\":\"there is no python3 in the agent's $PATH\"}");
    struct probed_host old = examined("", NULL);

    ASSERT_FOUND(&none, "trainers", FINDING_OK,
                 "no training programs (--trainer); agent --trainers allowlist, or any");
    assert_false(probed_host_runs_trainers(&none));
    ASSERT_FOUND(&silent, "trainers", FINDING_OK, "it runs any training program at isolation level files");
    assert_true(probed_host_runs_trainers(&silent));
    ASSERT_FOUND(&plain, "trainers", FINDING_OK,
                 "any training program at isolation level files, with Python 3.11.2 (/usr/bin/python3), no "
                 "numpy, no torch, no GPU");
    ASSERT_FOUND(&full, "trainers", FINDING_OK,
                 "the training programs on its list at isolation level files, with Python 3.11.2 "
                 "(/usr/bin/python3), numpy 1.24.2, "
                 "torch 2.6.0, GPUs: H100, H?");
    ASSERT_FOUND(&broken, "trainers", FINDING_WARNING, "none in Python: there is no python3");
    assert_non_null(strstr(found(&broken, "trainers")->fix, "--trainer-python"));
    assert_null(found(&old, "trainers"));
}

TEST(the_addresses_of_a_name_are_compared_with_the_one_where_nodes_listen)
{
    static const struct {
        const char *data_host, *name, *text;
        enum finding_level level;
    } cases[] = {
        {"127.0.0.1", "127.0.0.1", "others connect to 127.0.0.1", FINDING_OK},
        {"127.0.0.1", "127.0.0.2", "connect to 127.0.0.2, where its nodes do not listen", FINDING_ERROR},
        {"::1", "127.0.0.1", "where its nodes do not listen", FINDING_ERROR},
        {"0.0.0.0", "192.0.2.7", "others connect to 192.0.2.7", FINDING_OK},
        {"0.0.0.0", "2001:db8::7", "where its nodes do not listen", FINDING_WARNING},
        {"::", "192.0.2.7", "others connect to 192.0.2.7", FINDING_OK},
        {"10.0.0.3", "192.0.2.7", "where its nodes do not listen", FINDING_WARNING}, /* address translation */
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        char keys[128];
        struct probed_host p;

        snprintf(keys, sizeof keys, ",\"data_host\":\"%s\"", cases[i].data_host);
        p = examined_at(cases[i].name, keys, NULL);
        ASSERT_FOUND(&p, "data plane", cases[i].level, cases[i].text);
    }
}

TEST(values_of_other_types_count_as_not_reported)
{
    struct probed_host p = examined(
        ",\"machine\":{\"load\":\"x\",\"cpus\":[],\"system\":\"a\\u001bb\",\"inotify_watches\":{}},"
        "\"runner\":[],\"slots_free\":\"1\",\"wall_s\":null,\"data_host\":7",
        NULL);

    assert_true(p.has_machine);
    assert_true(isnan(p.machine.load));
    assert_string_equal(p.machine.system, "a?b");
    assert_null(found(&p, "slot"));
    assert_null(found(&p, "clock"));
    assert_null(found(&p, "inotify"));
    assert_int_equal(p.code, 0);
}

TEST(an_answer_of_another_program_is_refused)
{
    struct probed_host p = {0};
    struct err e = {0};

    assert_int_equal(probed_host_read(&p, "[]", 2, &e), ERR_PROTOCOL);
    assert_int_equal(probed_host_read(&p, "{\"id\":\"a\",\"api\":2}", 18, &e), ERR_PROTOCOL);
    assert_false(p.has_answered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_reports_little_can_be_used_and_gets_one_warning),
        cmocka_unit_test(other_kernels_are_a_warning_and_another_number_of_threads_is_none),
        cmocka_unit_test(versions_with_which_no_job_can_run_are_errors),
        cmocka_unit_test(limits_of_the_kernel_are_warnings_with_the_command_that_raises_them),
        cmocka_unit_test(a_node_that_listens_where_no_other_machine_reaches_it_is_an_error),
        cmocka_unit_test(what_training_programs_find_on_a_machine_is_one_line),
        cmocka_unit_test(the_addresses_of_a_name_are_compared_with_the_one_where_nodes_listen),
        cmocka_unit_test(values_of_other_types_count_as_not_reported),
        cmocka_unit_test(an_answer_of_another_program_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
