#include "submit/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/codec_load.h"

enum { PATIENCE_MS = 10000 };

struct report {
    struct codec_facts facts;
    struct err e; /* code 0: the facts hold */
};

static void look(struct report *r, const char *path)
{
    struct codec_library l;
    const struct codec_plugin *p;

    if (codec_library_open(&l, path, &r->e) < 0)
        return;
    p = l.plugin;
    r->e.code = 0;
    r->facts.has_events = p->events != NULL;
    snprintf(r->facts.name, sizeof r->facts.name, "%s", p->name);
    snprintf(r->facts.source, sizeof r->facts.source, "%s", p->source ? p->source : "");
    if (p->round) {
        r->facts.has_reply = p->round->reply != NULL;
        r->facts.has_adopt = p->round->adopt != NULL;
        r->facts.sends_grads = p->round->before_update;
        r->facts.sends_params = !p->round->before_update;
    } else {
        r->facts.sends_grads = p->events->on_grad != NULL;
        r->facts.sends_params = p->events->on_step != NULL;
    }
}

static void be_the_probe(int fd, const char *path)
{
    struct report r = {.e.code = ERR_INTERNAL};

    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    look(&r, path);
    if (write(fd, &r, sizeof r) != (ssize_t)sizeof r)
        _exit(1);
    _exit(0); /* and not exit(): what job_submit has open is not this process's to flush or clean */
}

/* The whole report, or false: the process ended or the time is over before it came. */
static bool await(struct report *r, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc;

    do
        rc = poll(&p, 1, PATIENCE_MS);
    while (rc < 0 && errno == EINTR);
    /* One write of less than PIPE_BUF bytes comes whole. */
    _Static_assert(sizeof *r <= 4096, "a report fits a pipe's atomic write");
    return rc > 0 && read(fd, r, sizeof *r) == (ssize_t)sizeof *r;
}

static int failed(pid_t pid, const char *path, struct err *e)
{
    int status = 0;

    if (waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd nothing = {.fd = -1};

        poll(&nothing, 1, 100); /* its pipe closes a moment before it has ended */
        if (waitpid(pid, &status, WNOHANG) == 0) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return err_set(e, ERR_CODEC, "%s: loading it takes more than %d s: something in it blocks", path,
                           PATIENCE_MS / 1000);
        }
    }
    if (WIFSIGNALED(status))
        return err_set(e, ERR_CODEC, "%s: loading it killed the process (signal %d, %s)", path,
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    return err_set(e, ERR_CODEC, "%s: loading it ended the process (status %d)", path, WEXITSTATUS(status));
}

int codec_probe(struct codec_facts *out, const char *path, struct err *e)
{
    struct report r;
    int fds[2];
    pid_t pid;
    int rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(e, ERR_IO, "pipe");
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        err_errno(e, ERR_IO, "fork");
        close(fds[0]);
        close(fds[1]);
        return e->code;
    }
    if (pid == 0)
        be_the_probe(fds[1], path);
    close(fds[1]);
    if (!await(&r, fds[0])) {
        rc = failed(pid, path, e);
    } else {
        waitpid(pid, NULL, 0);
        *out = r.facts;
        *e = r.e;
        rc = r.e.code;
    }
    close(fds[0]);
    return rc;
}
