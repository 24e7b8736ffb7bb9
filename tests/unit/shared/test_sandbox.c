#include "shared/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/memory.h"
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
    struct stat st;
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
    if (s.has_own_tree && (stat("/etc/passwd", &st) == 0 || fstatat(folder_fd, "..", &st, 0) < 0 ||
                           fstatat(folder_fd, "/etc", &st, 0) == 0 || chdir("/etc") == 0))
        return 6;
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

static int refused; /* a call that the kernel or a container does not allow */

static int work_in_the_common_tree(int folder_fd)
{
    struct sandbox s;

    if (IS_SANITIZED || old_kernel_refuse(refused, EPERM) < 0)
        return NOT_HERE;
    if (sandbox_enter(&s, folder_fd, ISOLATION_NONE, &e) < 0)
        return 1;
    if (s.level < ISOLATION_FILES)
        return NOT_HERE;
    if (!strstr(s.no_tree, strerror(EPERM)))
        return 4;
    if (s.has_own_tree || !can("new", O_WRONLY | O_CREAT) || unlink("new") < 0)
        return 2;
    return can("/etc/passwd", O_RDONLY) || can("../new", O_WRONLY | O_CREAT) ? 3 : 0;
}

TEST(without_a_tree_of_its_own_a_process_uses_its_folder_and_nothing_else)
{
    /* In the order in which they are made: each leaves more to undo. */
    static const int calls[] = {SYS_unshare,          SYS_mount,   428 /* open_tree */,     430 /* fsopen */,
                                429 /* move_mount */, SYS_mkdirat, 442 /* mount_setattr */, SYS_pivot_root};

    for (size_t i = 0; i < N_OF(calls); i++) {
        int rc;

        refused = calls[i];
        rc = in_child(work_in_the_common_tree);
        if (rc == NOT_HERE)
            skip();
        assert_int_equal(rc, 0);
    }
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
        cmocka_unit_test(without_a_tree_of_its_own_a_process_uses_its_folder_and_nothing_else),
        cmocka_unit_test(without_landlock_the_level_is_process_and_a_higher_one_is_refused),
        cmocka_unit_test(a_process_with_a_second_thread_which_would_stay_outside_cannot_enter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
