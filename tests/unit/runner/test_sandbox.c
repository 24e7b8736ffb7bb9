#include "agent/runner/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/memory.h"
#include "tests/lib/old_kernel.h"
#include "tests/unit/unit.h"

static struct err e;

/* Runs `what` in a child, in a folder of its own; returns its exit status. */
static int in_child(int (*what)(int folder_fd))
{
    const char *folder = unit_folder();
    pid_t child = fork();
    int status;

    if (child == 0) {
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        _exit(fd < 0 || fchdir(fd) < 0 ? 99 : what(fd));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    unit_remove(folder);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

enum { NOT_HERE = 77 };

static bool can(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int work_inside(int folder_fd)
{
    struct sandbox s;
    double before;

    memory_keep_open();
    before = memory_shared();
    if (sandbox_enter(&s, folder_fd, ISOLATION_NONE, &e) < 0)
        return 1;
    if (s.level < ISOLATION_FILES)
        return NOT_HERE;
    if (!can("new", O_WRONLY | O_CREAT) || rename("new", "newer") < 0 || unlink("newer") < 0)
        return 2;
    if (can("/etc/passwd", O_RDONLY) || can("/proc/meminfo", O_RDONLY) || mkdir("folder", 0700) == 0)
        return 3;
    if (!(memory_shared() > before / 2 && memory_shared() < 2 * before)) /* from the files kept open */
        return 4;
    return fork() < 0 && errno == EPERM ? 0 : 5;
}

TEST(inside_the_sandbox_a_process_uses_its_folder_and_nothing_else)
{
    int rc = in_child(work_inside);

    if (rc == NOT_HERE)
        skip();
    assert_int_equal(rc, 0);
}

static int enter_on_old_kernel(int folder_fd)
{
    struct sandbox s;

    if (IS_SANITIZED || old_kernel_begin() < 0)
        return NOT_HERE;
    if (sandbox_enter(&s, folder_fd, ISOLATION_FILES, &e) != ERR_CODEC)
        return 1;
    return s.level == ISOLATION_PROCESS && s.landlock_abi == 0 &&
                   strstr(e.text, "this kernel has no Landlock") &&
                   strstr(e.text, "level process here, and files is required")
               ? 0
               : 2;
}

TEST(without_landlock_the_level_is_process_and_a_higher_one_is_refused)
{
    int rc = in_child(enter_on_old_kernel);

    if (rc == NOT_HERE)
        skip();
    assert_int_equal(rc, 0);
}

static void *wait_for_ever(void *arg)
{
    pause();
    return arg;
}

static int enter_with_two_threads(int folder_fd)
{
    struct sandbox s;
    pthread_t t;

    if (IS_SANITIZED)
        return NOT_HERE;
    if (pthread_create(&t, NULL, wait_for_ever, NULL) != 0)
        return 1;
    return sandbox_enter(&s, folder_fd, ISOLATION_NONE, &e) == ERR_INTERNAL ? 0 : 2;
}

TEST(a_process_with_a_second_thread_which_would_stay_outside_cannot_enter)
{
    int rc = in_child(enter_with_two_threads);

    if (rc == NOT_HERE)
        skip();
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_the_sandbox_a_process_uses_its_folder_and_nothing_else),
        cmocka_unit_test(without_landlock_the_level_is_process_and_a_higher_one_is_refused),
        cmocka_unit_test(a_process_with_a_second_thread_which_would_stay_outside_cannot_enter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
