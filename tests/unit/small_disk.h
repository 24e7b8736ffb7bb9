/* small_disk -- a disk of a few pages, for what is to be told when it is full. It belongs to a child of the
 * test, in a mount namespace of its own, and goes with it. */
#ifndef PSGD_SMALL_DISK_H
#define PSGD_SMALL_DISK_H

#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/own_root.h"
#include "tests/unit/unit.h"

/* What `test` says in a child whose working directory is such a disk, and empty. The calling test is skipped
 * where that may not be mounted. */
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

#endif
