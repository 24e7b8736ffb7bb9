#include "submit/queue/queue_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "submit/results/queue_folder.h"

enum { LOG_MAX = 1 << 20 };

/* In the child. `log`: a file of the queue for its messages. */
static void become(const char *word, const char *id, const char *log, int fd)
{
    char *argv[] = {(char[]){"job_submit"}, (char[]){"queue"}, (char *)(uintptr_t)word, (char *)(uintptr_t)id,
                    NULL};
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;
    sigset_t none;
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC), out = -1;

    if (queue_folder_path(path, id, log, &ignored) == 0)
        out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out >= 0 && fstat(out, &st) == 0 && st.st_size > LOG_MAX && ftruncate(out, 0) < 0)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (chdir("/") < 0 || dup2(nowhere, STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0 ||
        dup2(out >= 0 ? out : nowhere, STDERR_FILENO) < 0)
        _exit(1);
    if (fd >= 0 && fd != QUEUE_PROCESS_FD)
        dup2(fd, QUEUE_PROCESS_FD);
    else if (fd >= 0)
        fcntl(fd, F_SETFD, 0);
    execv("/proc/self/exe", argv);
    _exit(1);
}

static bool has_jobs(void)
{
    struct queued_job *jobs;
    struct err ignored;
    size_t n;

    if (queue_folder_list(&jobs, &n, &ignored) < 0)
        return false;
    free(jobs);
    return n > 0;
}

/* The first child ends at once, so that the watcher is no child of this process. */
int queue_process_watch(struct err *e)
{
    pid_t pid;

    if (queue_folder_watcher() != 0 || !has_jobs())
        return 0;
    pid = fork();
    if (pid < 0)
        return err_call(e, ERR_IO, CALL_FORK, "the queue watcher cannot be started");
    if (pid == 0) {
        if (fork() == 0)
            become("watch", NULL, "watcher.log", -1);
        _exit(0);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 1;
}

int queue_process_run(pid_t *pid, int *fd, const char *id, struct err *e)
{
    pid_t child;
    int pair[2];

    *pid = 0;
    *fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(e, ERR_IO, "the process of %s cannot be started", id);
    child = fork();
    if (child == 0)
        become("run", id, QUEUE_LOG, pair[1]);
    close(pair[1]);
    if (child < 0) {
        err_call(e, ERR_IO, CALL_FORK, "the process of %s cannot be started", id);
        close(pair[0]);
        return e->code;
    }
    *pid = child;
    *fd = pair[0];
    return 0;
}
