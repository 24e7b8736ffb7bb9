#include "shared/base/process.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/unit.h"

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
    int told[2];

    process_end_orphans(is_kept, &none); /* no child at all */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(told), 0);
    living = fork();
    if (living == 0) {
        grandchild = start(false);
        if (write(told[1], &grandchild, sizeof grandchild) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(told[0], &grandchild, sizeof grandchild), sizeof grandchild);
    ended = start(true);
    await_end(ended);
    process_end_orphans(is_kept, &none);
    assert_int_equal(kill(living, 0), -1);
    assert_int_equal(kill(grandchild, 0), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    close(told[0]);
    close(told[1]);
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
        cmocka_unit_test(running_and_ended_orphans_are_ended_and_reaped),
        cmocka_unit_test(children_that_are_kept_stay_whether_they_live_or_have_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
