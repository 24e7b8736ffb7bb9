#include "shared/trainer/trainer_command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/trainer/trainer_wire.h"

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

int trainer_command_init(struct trainer_command *c, const struct trainer_main *main, const char *folder,
                         const char *python, const char *arguments, struct err *e)
{
    size_t n = 0, room;
    char path[PATH_MAX];
    char *at;

    *c = (struct trainer_command){0};
    if (file_join(path, sizeof path, folder, main->file, e) < 0)
        return e->code;
    room = strlen(python) + strlen(path) + strlen(arguments) + 3;
    c->argv = calloc(count_lines(arguments) + 3, sizeof *c->argv);
    c->text = at = malloc(room);
    if (!c->argv || !c->text) {
        trainer_command_clear(c);
        return err_set(e, ERR_NOMEM, "no memory for the command of %s", main->file);
    }
    if (main->is_python) {
        c->argv[n++] = at;
        at += sprintf(at, "%s", python) + 1;
    }
    c->argv[n++] = at;
    at += sprintf(at, "%s", path) + 1;
    for (strcpy(at, arguments); *at; at++) {
        c->argv[n++] = at;
        at += strcspn(at, "\n");
        *at = '\0';
    }
    return 0;
}

void trainer_command_clear(struct trainer_command *c)
{
    free(c->argv);
    free(c->text);
    *c = (struct trainer_command){0};
}

/* python/ beside the executable, then what PYTHONPATH has named before. */
static int set_module_path(void)
{
    const char *others = getenv("PYTHONPATH");
    char dir[PATH_MAX], path[2 * PATH_MAX];
    struct err ignored;

    if (file_exe_dir(dir, sizeof dir, &ignored) < 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (snprintf(path, sizeof path, "%s/python%s%s", dir, others && others[0] ? ":" : "",
                 others ? others : "") >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return setenv("PYTHONPATH", path, 1);
}

/* mallopt(3). What a step frees, the next one needs again: by default glibc gives blocks of megabytes back to
 * the kernel, which then clears each page once more. 32 MiB is the largest limit that it takes. */
static int keep_freed_memory(void)
{
    return setenv("MALLOC_MMAP_THRESHOLD_", "33554432", 0) == 0 &&
                   setenv("MALLOC_TRIM_THRESHOLD_", "1073741824", 0) == 0
               ? 0
               : -1;
}

int trainer_command_set_environment(void *arg)
{
    char fd[16];

    (void)arg;
    snprintf(fd, sizeof fd, "%d", TRAINER_FD);
    if (setenv(TRAINER_ENV, fd, 1) < 0 || setenv("PYTHONUNBUFFERED", "1", 1) < 0 || keep_freed_memory() < 0)
        return -1;
    return set_module_path();
}

int trainer_command_start(struct child *child, const struct trainer_command *c, const char *folder,
                          int output, int (*confine)(void *arg), struct err *e)
{
    int sockets[2], rc;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return err_errno(e, ERR_IO, "a socket for %s", c->argv[0]);
    rc = child_start(child,
                     &(struct child_how){.argv = c->argv,
                                         .folder = folder,
                                         .out = output,
                                         .err = output,
                                         .extra = sockets[1],
                                         .is_foreign = true,
                                         .confine = confine},
                     e);
    close(sockets[1]);
    if (rc == 0)
        return sockets[0];
    close(sockets[0]);
    child->pid = 0;
    return rc == ERR_IO ? (e->code = ERR_TRAINER) : rc;
}
