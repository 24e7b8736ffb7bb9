#include "agent/jobs/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/agent_fixture.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/emulated.h"
#include "tests/unit/unit.h"

struct scene {
    const char *folder;
    char exe[128];
    struct runner_plan plan;
    struct runner runner;
};

/* Starts a runner that is this shell script, with this memory limit. */
static void scene_open_with(struct scene *s, const char *script, uint64_t max_memory)
{
    struct err e;
    char text[512];

    *s = (struct scene){.folder = unit_folder()};
    snprintf(s->exe, sizeof s->exe, "%s/job_runner", s->folder);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    assert_ok(file_write(s->exe, text, strlen(text), 0700, &e));
    s->plan = (struct runner_plan){.exe = s->exe,
                                   .run_dir = s->folder,
                                   .data_fd = socket(AF_INET, SOCK_STREAM, 0),
                                   .max_memory = max_memory,
                                   .max_files = runner_files(2)};
    assert_ok(runner_fork(&s->runner, &s->plan, &e));
}

static void scene_open(struct scene *s, const char *script)
{
    scene_open_with(s, script, 0);
}

static void wait_for_end(const struct runner *r)
{
    struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, 60000), 1);
}

static void scene_close(struct scene *s)
{
    runner_clear(&s->runner);
    close(s->plan.data_fd);
    unit_remove(s->folder);
}

TEST(the_end_of_a_runner_is_described)
{
    static const struct {
        const char *script, *expected;
    } cases[] = {
        {"exit 0", "job_runner exited with status 0"},
        {"exit 7", "job_runner exited with status 7"},
        {"kill -SEGV $$", "job_runner was killed by signal 11 (Segmentation fault)"},
        {"kill -KILL $$", "job_runner was killed by signal 9 (Killed)"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct scene s;
        struct err e;
        char how[128];

        scene_open(&s, cases[i].script);
        assert_ok(runner_go(&s.runner, s.exe, &e));
        wait_for_end(&s.runner);
        runner_reap(&s.runner, how, sizeof how);
        assert_string_equal(how, cases[i].expected);
        assert_int_equal(s.runner.pid, 0);
        scene_close(&s);
    }
}

TEST(a_runner_that_cannot_be_executed_is_reported_with_the_reason)
{
    struct scene s;
    struct err e;

    scene_open(&s, "exit 0");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, (char[64]){0}, 64);
    assert_int_equal(unlink(s.exe), 0);
    assert_ok(runner_fork(&s.runner, &s.plan, &e));
    assert_int_equal(runner_go(&s.runner, s.exe, &e), ERR_IO);
    assert_error_has("No such file or directory");
    s.plan.run_dir = "/nowhere";
    assert_ok(runner_fork(&s.runner, &s.plan, &e));
    wait_for_end(&s.runner); /* before the go signal: the reason is read nevertheless */
    assert_int_equal(runner_go(&s.runner, s.exe, &e), ERR_IO);
    assert_error_has("No such file or directory");
    scene_close(&s);
}

TEST(before_the_go_signal_a_runner_does_nothing_and_ends_with_its_agent)
{
    struct scene s;
    char how[128], path[128];

    scene_open(&s, "touch started");
    assert_int_equal(kill(s.runner.pid, 0), 0);
    runner_reap(&s.runner, how, sizeof how); /* closes the gate, as the agent's end does */
    assert_true(strstr(how, "exited with status 0") || strstr(how, "killed by signal 9"));
    snprintf(path, sizeof path, "%s/started", s.folder);
    assert_int_not_equal(access(path, F_OK), 0);
    scene_close(&s);
}

TEST(a_runner_that_is_killed_before_the_go_signal_has_started_and_died)
{
    struct scene s;
    struct err e;
    char how[128];

    for (int i = 0; i < 2; i++) {
        scene_open(&s, "touch started");
        if (i == 1) { /* it has not read all that was sent to it, which resets the connection */
            assert_int_equal(kill(s.runner.pid, SIGSTOP), 0);
            assert_int_equal(send(s.runner.gate_fd, "", 1, MSG_NOSIGNAL), 1);
        }
        assert_int_equal(kill(s.runner.pid, SIGKILL), 0);
        wait_for_end(&s.runner);
        assert_ok(runner_go(&s.runner, s.exe, &e));
        runner_reap(&s.runner, how, sizeof how);
        assert_non_null(strstr(how, "killed by signal 9"));
        scene_close(&s);
    }
}

TEST(the_whole_process_group_is_signaled_and_the_rest_of_it_killed)
{
    struct scene s;
    struct err e;
    char how[128], path[128], *text;
    size_t len;
    int child;

    scene_open(&s, "(trap '' TERM; echo $$ >x; sleep 100) & echo $! >child; wait");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    snprintf(path, sizeof path, "%s/child", s.folder);
    while (file_read(&text, &len, path, 64, &e) < 0)
        usleep(1000);
    while (len < 2) {
        free(text);
        usleep(1000);
        assert_ok(file_read(&text, &len, path, 64, &e));
    }
    child = atoi(text);
    free(text);
    assert_true(process_is_running(child));
    runner_signal(&s.runner, SIGTERM);
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    for (int i = 0; i < 6000 && process_is_running(child); i++)
        usleep(10000);
    assert_false(process_is_running(child));
    scene_close(&s);
}

TEST(lines_of_up_to_1_mib_reach_the_runner_without_blocking)
{
    static char line[700 << 10];
    struct scene s;
    struct err e;
    char how[128];

    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    scene_open(&s, "read -r first <&3; [ ${#first} -gt 600000 ] && exit 5");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    assert_ok(runner_order(&s.runner, line, sizeof line, &e));
    assert_true(s.runner.n_unsent > 0);
    while (!runner_flush(&s.runner))
        poll(&(struct pollfd){.fd = s.runner.control_fd, .events = POLLOUT}, 1, 1000);
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_string_equal(how, "job_runner exited with status 5");
    scene_close(&s);
}

TEST(orders_are_kept_until_the_runner_reads_or_ends)
{
    static char line[64 << 10];
    struct scene s;
    struct err e;

    memset(line, 'x', sizeof line);
    scene_open(&s, "exec sleep 100");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    assert_true(fcntl(s.runner.control_fd, F_SETPIPE_SZ, 4096) >= 4096);
    assert_ok(runner_order(&s.runner, line, sizeof line, &e));
    assert_in_range(s.runner.n_unsent, 1, sizeof line - 4096);
    assert_ok(runner_order(&s.runner, line, sizeof line, &e));
    assert_in_range(s.runner.n_unsent, sizeof line + 1, 2 * sizeof line - 4096);
    assert_false(runner_flush(&s.runner));
    signal(SIGPIPE, SIG_IGN);
    runner_signal(&s.runner, SIGKILL);
    wait_for_end(&s.runner);
    assert_true(runner_flush(&s.runner));
    assert_int_equal(s.runner.n_unsent, 0);
    assert_int_equal(runner_order(&s.runner, line, sizeof line, &e), ERR_NOT_FOUND);
    runner_reap(&s.runner, (char[64]){0}, 64);
    scene_close(&s);
}

TEST(a_runner_may_open_one_connection_more_than_it_has_peers)
{
    struct scene s;
    struct err e;
    char how[128];

    assert_int_equal(runner_files(1), runner_files(384));
    assert_true(runner_files(4096) >= 2 * 4096);
    scene_open(&s, "[ $(ulimit -n) = 1256 ] && exit 6");
    runner_reap(&s.runner, how, sizeof how);
    s.plan.max_files = runner_files(500);
    assert_ok(runner_fork(&s.runner, &s.plan, &e));
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_string_equal(how, "job_runner exited with status 6");
    scene_close(&s);
}

TEST(files_of_a_runner_have_a_size_limit)
{
    struct scene s;
    struct err e;
    char how[128];

    scene_open(&s, "trap '' XFSZ; truncate -s 4G a && ! truncate -s 4294967297 b 2>/dev/null && exit 3");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_string_equal(how, "job_runner exited with status 3");
    scene_close(&s);
}

/* A training program that the runner starts lifts some limits again, and uses GPUs. */
TEST(a_runner_has_the_agents_hard_limits_and_the_variables_that_it_needs)
{
    struct rlimit size;
    char how[128];
    struct scene s;
    struct err e;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &size), 0);
    if (size.rlim_max != RLIM_INFINITY)
        skip();
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("PSGD_OTHER", "1", 1);
    scene_open(&s, "[ $(ulimit -H -f) = unlimited ] && [ $CUDA_VISIBLE_DEVICES = 1 ] && [ -z \"$PSGD_OTHER\" "
                   "] && exit 4");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_string_equal(how, "job_runner exited with status 4");
    scene_close(&s);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("PSGD_OTHER");
}

/* Doubles a text until the shell has no memory for it. */
#define HOARD "x=0123456789abcdef; while :; do x=$x$x; done"

TEST(a_runner_that_exhausts_its_memory_is_reported)
{
    struct scene s;
    struct err e;
    char how[256];

    if (IS_SANITIZED || is_emulated())
        skip();
    scene_open_with(&s, HOARD, 64 << 20);
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_non_null(strstr(how, "; it used 0."));
    assert_non_null(strstr(how, " GiB of memory, of the 0.1 GiB that a job may use here"));
    scene_close(&s);
}

TEST(a_runner_below_its_memory_limit_is_not_reported)
{
    struct scene s;
    struct err e;
    char how[256];

    scene_open_with(&s, "exit 4", 1 << 30);
    assert_ok(runner_go(&s.runner, s.exe, &e));
    wait_for_end(&s.runner);
    runner_reap(&s.runner, how, sizeof how);
    assert_string_equal(how, "job_runner exited with status 4");
    scene_close(&s);
}

TEST(a_process_is_adopted_by_pid_and_start_time)
{
    struct scene s;
    struct runner other;
    struct err e;
    char how[128];

    scene_open(&s, "sleep 100");
    assert_ok(runner_go(&s.runner, s.exe, &e));
    assert_int_equal(runner_adopt(&other, s.runner.pid, s.runner.start_ticks + 1, &e), ERR_NOT_FOUND);
    assert_ok(runner_adopt(&other, s.runner.pid, s.runner.start_ticks, &e));
    runner_signal(&other, SIGKILL);
    wait_for_end(&other);
    runner_reap(&other, how, sizeof how);
    assert_non_null(strstr(how, "its exit status is unknown"));
    assert_int_equal(runner_adopt(&other, s.runner.pid, s.runner.start_ticks, &e),
                     ERR_NOT_FOUND); /* a zombie */
    runner_reap(&s.runner, how, sizeof how);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_runner_is_described),
        cmocka_unit_test(a_runner_that_cannot_be_executed_is_reported_with_the_reason),
        cmocka_unit_test(before_the_go_signal_a_runner_does_nothing_and_ends_with_its_agent),
        cmocka_unit_test(a_runner_that_is_killed_before_the_go_signal_has_started_and_died),
        cmocka_unit_test(the_whole_process_group_is_signaled_and_the_rest_of_it_killed),
        cmocka_unit_test(lines_of_up_to_1_mib_reach_the_runner_without_blocking),
        cmocka_unit_test(orders_are_kept_until_the_runner_reads_or_ends),
        cmocka_unit_test(a_runner_may_open_one_connection_more_than_it_has_peers),
        cmocka_unit_test(files_of_a_runner_have_a_size_limit),
        cmocka_unit_test(a_runner_has_the_agents_hard_limits_and_the_variables_that_it_needs),
        cmocka_unit_test(a_runner_that_exhausts_its_memory_is_reported),
        cmocka_unit_test(a_runner_below_its_memory_limit_is_not_reported),
        cmocka_unit_test(a_process_is_adopted_by_pid_and_start_time),
    };

    return run_on_both_kernels(tests);
}
