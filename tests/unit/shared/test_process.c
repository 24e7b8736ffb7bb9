#include "shared/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
    struct process p;
    char byte;
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
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ready[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_with_parentheses_does_not_hide_the_start_time),
        cmocka_unit_test(a_process_has_ended_before_it_is_reaped_and_is_gone_afterwards),
        cmocka_unit_test(a_process_whose_first_thread_has_ended_is_still_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
