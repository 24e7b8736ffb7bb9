#include "shared/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/emulated.h"
#include "tests/unit/unit.h"

static struct err e;

/* Starts a shell that runs `script` with its output in a pipe; *output is the read end. */
static void start(struct child *c, struct child_how how, char *script, int *output)
{
    char sh[] = "sh", option[] = "-c";
    char *argv[] = {sh, option, script, NULL};
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    how.argv = argv;
    how.out = fds[1];
    assert_ok(child_start(c, &how, &e));
    close(fds[1]);
    *output = fds[0];
}

/* Returns all output until no process holds the write end. */
static const char *receive(int fd)
{
    static char text[512];
    double until = clock_now() + UNIT_WAIT_S;
    size_t len = 0;
    ssize_t n = 1;

    while (n > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        assert_true(clock_now() < until && len < sizeof text - 1);
        if (poll(&p, 1, 1000) <= 0)
            continue;
        n = read(fd, text + len, sizeof text - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    text[len] = '\0';
    return text;
}

TEST(a_child_gets_the_folder_and_the_descriptors_it_is_given)
{
    char script[] =
        "pwd; readlink /proc/$$/fd/0; readlink /proc/$$/fd/2; cat <&3; [ -e /proc/$$/fd/20 ] || echo closed";
    const char *folder = unit_folder();
    int ours = fcntl(STDERR_FILENO, F_DUPFD, 20), output, page[2]; /* without O_CLOEXEC */
    struct child c;
    char expected[512];

    assert_int_equal(ours, 20);
    assert_int_equal(pipe2(page, O_CLOEXEC), 0);
    assert_int_equal(write(page[1], "a page\n", 7), 7);
    close(page[1]);
    start(&c, (struct child_how){.folder = folder, .err = -1, .extra = page[0]}, script, &output);
    snprintf(expected, sizeof expected, "%s\n/dev/null\n/dev/null\na page\nclosed\n", folder);
    assert_string_equal(receive(output), expected);
    assert_int_equal(child_wait(&c), 0);
    close(page[0]);
    close(ours);
    unit_remove(folder);
}

TEST(descriptors_may_have_the_numbers_of_their_targets)
{
    char script[] = "cat <&3; echo error >&2";
    int high = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 20), page[2], output[2];
    char sh[] = "sh", option[] = "-c";
    char *argv[] = {sh, option, script, NULL};
    struct child c;
    const char *text;

    assert_int_equal(pipe2(page, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    assert_int_equal(write(page[1], "a page\n", 7), 7);
    close(page[1]);
    assert_int_equal(dup2(page[0], STDERR_FILENO), STDERR_FILENO); /* the case where 2 was closed before */
    assert_ok(child_start(
        &c, &(struct child_how){.argv = argv, .out = output[1], .err = output[1], .extra = STDERR_FILENO},
        &e));
    dup2(high, STDERR_FILENO);
    close(high);
    close(page[0]);
    close(output[1]);
    text = receive(output[0]);
    assert_string_equal(text, "a page\nerror\n");
    assert_int_equal(child_wait(&c), 0);
}

TEST(a_program_that_cannot_be_executed_is_reported_and_leaves_no_process)
{
    char name[] = "/nowhere/program", sh[] = "sh";
    char *argv[] = {name, NULL};
    struct child c;

    assert_int_equal(child_start(&c, &(struct child_how){.argv = argv, .out = 1, .err = 2}, &e), ERR_IO);
    assert_error_has("cannot run /nowhere/program: No such file or directory");
    argv[0] = sh;
    assert_int_equal(
        child_start(&c, &(struct child_how){.argv = argv, .folder = "/nowhere", .out = 1, .err = 2}, &e),
        ERR_IO);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void handler(int sig)
{
    (void)sig;
}

static bool is(int sig, void (*what)(int))
{
    struct sigaction a;

    return sigaction(sig, NULL, &a) == 0 && a.sa_handler == what;
}

TEST(a_child_inherits_no_signal_handlers_but_keeps_ignored_signals)
{
    struct child c;
    int rc;

    signal(SIGUSR1, handler);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    rc = child_fork(&c, true, &e);
    if (rc > 0)
        _exit(is(SIGUSR1, SIG_DFL) && is(SIGPIPE, SIG_DFL) && is(SIGHUP, SIG_IGN) && is(SIGTTOU, SIG_IGN)
                  ? 7
                  : 8);
    assert_ok(rc);
    assert_int_equal(WEXITSTATUS(child_wait(&c)), 7);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

TEST(limits_apply_to_the_child_only)
{
    char script[] = "ulimit -t; ulimit -v";
    struct child c;
    int output;

    if (is_emulated())
        skip();
    start(&c, (struct child_how){.err = -1, .cpu_s = 77, .memory_size = (uint64_t)3 << 30}, script, &output);
    assert_string_equal(receive(output), "77\n3145728\n");
    assert_int_equal(child_wait(&c), 0);
}

TEST(a_foreign_child_kills_only_its_own_group)
{
    char script[] = "kill -9 0";
    struct child c;
    int output, status;

    start(&c, (struct child_how){.err = -1, .is_foreign = true}, script, &output);
    assert_string_equal(receive(output), "");
    status = child_wait(&c);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_child_that_ends_on_request_keeps_its_status)
{
    char script[] = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    struct child c;
    int output, status;
    char byte;

    start(&c, (struct child_how){.err = -1, .is_foreign = true}, script, &output);
    assert_int_equal(read(output, &byte, 1), 1);
    status = child_end(&c, 60);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(output);
}

TEST(a_child_that_ignores_sigterm_is_killed_after_the_grace_time_with_its_descendants)
{
    char script[] = "trap '' TERM; echo ready; sleep 1000 & sleep 1000";
    double start_s;
    struct child c;
    int output, status;
    char byte;

    start(&c, (struct child_how){.err = -1, .is_foreign = true}, script, &output);
    assert_int_equal(read(output, &byte, 1), 1);
    start_s = clock_now();
    status = child_end(&c, 0.3);
    assert_true(clock_now() - start_s >= 0.3);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_string_equal(receive(output), "eady\n");
}

TEST(processes_left_by_a_foreign_child_are_ended)
{
    char script[] = "sleep 1000 & exit 3";
    struct child c;
    int output;

    start(&c, (struct child_how){.err = -1, .is_foreign = true}, script, &output);
    assert_int_equal(WEXITSTATUS(child_wait(&c)), 3);
    assert_string_equal(receive(output), "");
}

TEST(a_child_ends_with_the_process_that_started_it)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        char script[] = "trap '' INT HUP; echo ready; exec sleep 1000";
        int output[2];
        pid_t between;

        assert_int_equal(pipe2(output, O_CLOEXEC), 0);
        between = fork();
        if (between == 0) {
            char sh[] = "sh", option[] = "-c";
            char *argv[] = {sh, option, script, NULL};
            struct child c;

            child_start(
                &c,
                &(struct child_how){.argv = argv, .out = output[1], .err = -1, .is_foreign = foreign == 1},
                &e);
            poll(NULL, 0, -1);
        }
        close(output[1]);
        assert_int_equal(read(output[0], (char[8]){0}, 6), 6);
        kill(between, SIGKILL);
        assert_int_equal(waitpid(between, NULL, 0), between);
        assert_string_equal(receive(output[0]), "");
    }
}

TEST(the_process_that_has_made_a_pair_of_sockets_is_watched_by_either_end)
{
    int pair[2], pipes[2];
    struct child c;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        struct pollfd p = {.events = POLLIN};

        assert_int_equal(child_adopt(&c, pair[i]), 0);
        assert_int_equal(c.pid, getpid());
        p.fd = c.fd;
        assert_int_equal(poll(&p, 1, 0), 0);
        close(c.fd);
        close(pair[i]);
    }
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(child_adopt(&c, pipes[0]), -1);
    assert_int_equal(errno, ENOTSOCK);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_gets_the_folder_and_the_descriptors_it_is_given),
        cmocka_unit_test(descriptors_may_have_the_numbers_of_their_targets),
        cmocka_unit_test(a_program_that_cannot_be_executed_is_reported_and_leaves_no_process),
        cmocka_unit_test(a_child_inherits_no_signal_handlers_but_keeps_ignored_signals),
        cmocka_unit_test(limits_apply_to_the_child_only),
        cmocka_unit_test(a_foreign_child_kills_only_its_own_group),
        cmocka_unit_test(a_child_that_ends_on_request_keeps_its_status),
        cmocka_unit_test(a_child_that_ignores_sigterm_is_killed_after_the_grace_time_with_its_descendants),
        cmocka_unit_test(processes_left_by_a_foreign_child_are_ended),
        cmocka_unit_test(a_child_ends_with_the_process_that_started_it),
        cmocka_unit_test(the_process_that_has_made_a_pair_of_sockets_is_watched_by_either_end),
    };

    return run_on_both_kernels(tests);
}
