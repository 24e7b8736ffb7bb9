#include "submit/files/temp.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* In a child: opens a folder, reports that, and waits to be killed. */
static pid_t hold_folder(char path[PATH_MAX])
{
    int told[2];
    pid_t pid;

    assert_int_equal(pipe(told), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct temp t;
        struct err e;

        if (temp_open(&t, &e) < 0 || write(told[1], t.path, sizeof t.path) != sizeof t.path)
            _exit(1);
        for (;;)
            pause();
    }
    close(told[1]);
    assert_int_equal(read(told[0], path, PATH_MAX), PATH_MAX);
    close(told[0]);
    return pid;
}

TEST(a_folder_of_a_killed_process_is_removed_and_one_in_use_is_not)
{
    char folder[64], dead[PATH_MAX], alive[PATH_MAX], other[128];
    pid_t killed, living;
    struct temp t;
    struct err e;

    snprintf(folder, sizeof folder, "%s", unit_folder());
    snprintf(other, sizeof other, "%s/psgd-temp-mine", folder); /* too short to be one of these */
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_int_equal(mkdir(other, 0700), 0);
    killed = hold_folder(dead);
    living = hold_folder(alive);
    assert_int_equal(access(dead, F_OK), 0);
    kill(killed, SIGKILL);
    waitpid(killed, NULL, 0);
    assert_ok(temp_open(&t, &e));
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(alive, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    temp_close(&t);
    assert_int_equal(access(t.path, F_OK), -1);
    kill(living, SIGKILL);
    waitpid(living, NULL, 0);
    unsetenv("TMPDIR");
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_of_a_killed_process_is_removed_and_one_in_use_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
