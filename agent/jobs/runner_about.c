#include "agent/jobs/runner_about.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/json.h"

enum { LINE_MAX_BYTES = 512 };

static int read_answer(struct runner_about *r, int status, struct err *e)
{
    char text[LINE_MAX_BYTES];
    ssize_t n = read(r->out, text, sizeof text);

    if (WIFSIGNALED(status))
        return err_set(e, ERR_IO, "job_runner was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0 || n <= 0)
        return err_set(e, ERR_IO, "job_runner does not start (status %d); is a library missing?",
                       WEXITSTATUS(status));
    return json_parse(&r->facts, text, (size_t)n, "job_runner --about", e);
}

static void runner_has_ended(void *arg, uint32_t events)
{
    struct runner_about *r = arg;
    int status;

    (void)events;
    loop_unwatch(r->loop, &r->watch); /* before child_wait closes the descriptor */
    status = child_wait(&r->child);
    if (read_answer(r, status, &r->broken) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", r->broken.text);
    close(r->out);
}

void runner_about_ask(struct runner_about *r, struct loop *l, char *runner_exe)
{
    char about[] = "--about";
    char *argv[] = {runner_exe, about, NULL};
    int fds[2];
    struct child_how how = {.argv = argv, .folder = "/", .err = -1};
    int rc;

    *r = (struct runner_about){.loop = l};
    if (pipe2(fds, O_CLOEXEC) < 0) {
        err_call(&r->broken, ERR_IO, CALL_PIPE, "job_runner: pipe");
        return;
    }
    how.out = fds[1];
    r->out = fds[0];
    rc = child_start(&r->child, &how, &r->broken);
    close(fds[1]);
    r->watch = (struct watch){.fd = r->child.fd, .ready = runner_has_ended, .arg = r};
    if (rc == 0 && loop_watch(l, &r->watch, EPOLLIN, &r->broken) < 0)
        child_end(&r->child, 0);
    if (r->broken.code) {
        close(r->out);
        log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", r->broken.text);
    }
}

void runner_about_clear(struct runner_about *r)
{
    if (r->watch.on) {
        loop_unwatch(r->loop, &r->watch);
        close(r->out);
        child_end(&r->child, 0);
    }
    json_decref(r->facts);
    *r = (struct runner_about){0};
}

json_t *runner_about_json(const struct runner_about *r)
{
    if (r->broken.code)
        return json_pack("{s:o}", "error", json_text(r->broken.text, sizeof r->broken.text));
    return r->facts ? json_incref(r->facts) : json_null();
}
