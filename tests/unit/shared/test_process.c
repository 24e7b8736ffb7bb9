#include "shared/base/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* No process has such a pid: the kernel's highest is 1 << 22. */
enum { NO_PROCESS = 1 << 29 };

TEST(a_name_with_parentheses_does_not_hide_the_start_time)
{
    struct process before, after;
    FILE *comm = fopen("/proc/self/comm", "r+");

    assert_true(process_look(&before, getpid()));
    assert_false(before.has_ended);
    assert_non_null(comm);
    fputs(") Z 1 (", comm);
    fclose(comm);
    assert_true(process_look(&after, getpid()));
    assert_true(before.start_ticks == after.start_ticks);
    assert_false(after.has_ended);
    assert_false(process_look(&after, NO_PROCESS));
}

TEST(a_process_has_ended_before_it_is_reaped_and_is_gone_afterwards)
{
    struct process p;
    siginfo_t info;
    pid_t pid = fork();
    int fd;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process */
        for (;;)
            pause();
    }
    fd = process_open(pid);
    assert_true(fd >= 0);
    assert_true(process_read(&p, fd));
    assert_false(p.has_ended);
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_read(&p, fd));
    assert_true(p.has_ended);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(process_read(&p, fd));
    assert_int_equal(errno, ESRCH);
    close(fd);
    assert_int_equal(process_open(NO_PROCESS), -1);
    assert_int_equal(errno, ENOENT);
}

static int ready[2];

/* Reports when the first thread has ended. */
static void *outlive(void *arg)
{
    char path[64], state = 'R';

    (void)arg;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    while (state != 'Z') {
        FILE *stat = fopen(path, "re");

        if (stat && fscanf(stat, "%*d %*s %c", &state) != 1)
            state = 'R';
        if (stat)
            fclose(stat);
        poll(NULL, 0, 1);
    }
    if (write(ready[1], "r", 1) == 1)
        for (;;)
            pause();
    return NULL;
}

TEST(a_process_whose_first_thread_has_ended_is_still_alive)
{
    struct process_memory m;
    struct process p;
    char byte;
    int status;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&thread, NULL, outlive, NULL) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(process_look(&p, pid));
    assert_false(p.has_ended);
    status = process_open_status(pid);
    assert_true(status >= 0);
    assert_true(process_memory(&m, status, pid)); /* of the thread that still runs */
    assert_true(m.private_bytes > 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(process_memory(&m, status, pid));
    assert_int_equal(errno, ESRCH);
    close(status);
    close(ready[0]);
}

TEST(the_memory_of_a_process_includes_written_pages_that_are_read_only)
{
    enum { BYTES = 32 << 20 };
    int status = process_open_status(getpid());
    struct process_memory before, after;
    char *part = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(status >= 0 && part != MAP_FAILED);
    assert_true(process_memory(&before, status, getpid()));
    assert_true(before.n_threads >= 1 && before.table_bytes > 0);
    memset(part, 1, BYTES);
    assert_true(before.data_bytes >= BYTES); /* it could be written to then */
    assert_int_equal(mprotect(part, BYTES, PROT_READ), 0);
    assert_true(process_memory(&after, status, getpid()));
    assert_true(after.private_bytes > before.private_bytes + BYTES / 8 * 7);
    assert_true(after.data_bytes < before.data_bytes);
    if (!IS_SANITIZED) /* which keeps pages of its own beside the written ones */
        assert_true(after.private_bytes < before.private_bytes + BYTES / 8 * 9);
    munmap(part, BYTES);
    close(status);
}

/* A status as it could be: a line of groups that no buffer holds, and figures after it. */
TEST(figures_are_found_after_a_line_of_any_length)
{
    int fd = memfd_create("status", 0);
    struct process_memory m;

    dprintf(fd, "Name:\tx\nGroups:\t");
    for (int i = 0; i < 20000; i++)
        dprintf(fd, "%d ", 100000 + i);
    dprintf(fd, "\nRssAnon:\t    1148 kB\nRssFile:\t 4000 kB\nVmPTE:\t 48 kB\nVmSwap:\t 2 kB\nThreads:\t3\n");
    assert_true(process_memory(&m, fd, getpid()));
    assert_int_equal(m.private_bytes, 1150 << 10);
    assert_int_equal(m.table_bytes, 48 << 10);
    assert_int_equal(m.n_threads, 3);
    close(fd);
}

static bool is_kept(void *arg, pid_t child)
{
    const pid_t *kept = arg;

    return child == *kept;
}

static pid_t start(bool ends)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process */
        for (;;) {
            if (ends)
                _exit(7);
            pause();
        }
    }
    return pid;
}

static void await_end(pid_t child)
{
    siginfo_t info;

    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
}

static bool is_child(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

TEST(running_and_ended_orphans_are_ended_and_reaped)
{
    pid_t none = -1, living, ended, grandchild;
    int pids[2];

    process_end_orphans(is_kept, &none); /* no child at all */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(pids), 0);
    living = fork();
    if (living == 0) {
        grandchild = start(false);
        if (write(pids[1], &grandchild, sizeof grandchild) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(pids[0], &grandchild, sizeof grandchild), sizeof grandchild);
    ended = start(true);
    await_end(ended);
    process_end_orphans(is_kept, &none);
    assert_int_equal(kill(living, 0), -1);
    assert_int_equal(kill(grandchild, 0), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    close(pids[0]);
    close(pids[1]);
}

/* One that has ended, too, is waited for by the caller, and hides no other. */
TEST(children_that_are_kept_stay_whether_they_live_or_have_ended)
{
    for (int ends = 0; ends < 2; ends++) {
        pid_t kept = start(ends), before, after, living;
        int status;

        if (ends)
            await_end(kept);
        before = start(true);
        after = start(true);
        living = start(false);
        await_end(before);
        await_end(after);
        process_end_orphans(is_kept, &kept);
        assert_false(is_child(living));
        assert_false(is_child(before));
        assert_false(is_child(after));
        if (!ends)
            kill(kept, SIGKILL);
        assert_int_equal(waitpid(kept, &status, 0), kept);
        assert_true(ends ? WIFEXITED(status) && WEXITSTATUS(status) == 7 : WIFSIGNALED(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_with_parentheses_does_not_hide_the_start_time),
        cmocka_unit_test(a_process_has_ended_before_it_is_reaped_and_is_gone_afterwards),
        cmocka_unit_test(a_process_whose_first_thread_has_ended_is_still_alive),
        cmocka_unit_test(the_memory_of_a_process_includes_written_pages_that_are_read_only),
        cmocka_unit_test(figures_are_found_after_a_line_of_any_length),
        cmocka_unit_test(running_and_ended_orphans_are_ended_and_reaped),
        cmocka_unit_test(children_that_are_kept_stay_whether_they_live_or_have_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
