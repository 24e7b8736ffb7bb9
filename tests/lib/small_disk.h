/* small_disk -- a disk of 64 KiB, for tests of what is reported when a disk is full. It is mounted by a
 * child of the test in its own mount namespace, and disappears with the child. */
#ifndef PSGD_SMALL_DISK_H
#define PSGD_SMALL_DISK_H

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/own_root.h"
#include "tests/unit/unit.h"

/* Returns the result of `test`, run in a child whose working directory is such a disk, empty. Skips the
 * calling test where it cannot be mounted. */
static inline bool on_small_disk(bool (*test)(void))
{
    enum { NO_DISK = 77 };
    const char *folder = unit_folder();
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (!own_root(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", folder, "tmpfs", 0, "size=64k") < 0 || chdir(folder) < 0)
            _exit(NO_DISK);
        _exit(test() ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unit_remove(folder);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_DISK)
        skip();
    return WEXITSTATUS(status) == EXIT_SUCCESS;
}

/* Another file takes all space that is left on the disk, the present folder. */
static inline void fill_small_disk(void)
{
    static const char bytes[4096];
    int fd = open("else", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    for (size_t len = sizeof bytes; fd >= 0 && len > 0; len /= 2)
        while (write(fd, bytes, len) > 0)
            continue;
    close(fd);
}

#endif
