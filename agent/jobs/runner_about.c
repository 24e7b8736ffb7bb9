#include "agent/jobs/runner_about.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/json.h"

enum { LINE_MAX_BYTES = 512, ANSWER_MAX = 1024, CPU_MAX_S = 10 };

/* Starts `job_runner OPTION`; *out is the end of a pipe with its standard output. */
static int start_runner(struct child *c, int *out, char *exe, char *option, struct child_how how,
                        struct err *e)
{
    char *argv[] = {exe, option, NULL};
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "job_runner: pipe");
    how.argv = argv;
    how.out = fds[1];
    rc = child_start(c, &how, e);
    close(fds[1]);
    if (rc < 0)
        close(fds[0]);
    else
        *out = fds[0];
    return rc;
}

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
    const struct child_how how = {.folder = "/", .err = -1};
    char option[] = "--about";

    *r = (struct runner_about){.loop = l};
    if (start_runner(&r->child, &r->out, runner_exe, option, how, &r->broken) == 0) {
        r->watch = (struct watch){.fd = r->child.fd, .ready = runner_has_ended, .arg = r};
        if (loop_watch(l, &r->watch, EPOLLIN, &r->broken) == 0)
            return;
        child_end(&r->child, 0);
        close(r->out);
    }
    log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", r->broken.text);
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

static int parse_isolation(struct agent_isolation *out, const char *text, size_t len, struct err *e)
{
    static const struct json_field fields[] = {
        {.key = "level",
         .kind = JSON_FIELD_CHOICE,
         JSON_AT(struct agent_isolation, level),
         .required = true,
         .choices = ISOLATION_CHOICES},
        {.key = "landlock_abi",
         .kind = JSON_FIELD_INT,
         JSON_AT(struct agent_isolation, landlock_abi),
         .max = 1e6},
        {.key = "seccomp", .kind = JSON_FIELD_BOOL, JSON_AT(struct agent_isolation, has_seccomp)},
        {.key = "own_user", .kind = JSON_FIELD_BOOL, JSON_AT(struct agent_isolation, has_own_user)},
        {.key = "own_tree", .kind = JSON_FIELD_BOOL, JSON_AT(struct agent_isolation, has_own_tree)},
        {.key = "lacks", .kind = JSON_FIELD_TEXT, JSON_AT(struct agent_isolation, lacks)},
        {0},
    };
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, len, "job_runner --isolation", e) < 0)
        return e->code;
    rc = json_to_struct(out, doc, fields, "", e);
    json_decref(doc);
    return rc;
}

static size_t read_all(int fd, char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;

    while (len < size && ((n = read(fd, out + len, size - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    return len;
}

/* OpenBLAS starts threads while it is loaded, and the runner must have one only. */
static int begin_with_one_thread(void *unused)
{
    (void)unused;
    return setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* Runs `job_runner --isolation`; *len: bytes of its answer. ERR_IO. */
static int ask_isolation(char answer[ANSWER_MAX], size_t *len, char *exe, struct err *e)
{
    const struct child_how how = {.err = STDERR_FILENO, .cpu_s = CPU_MAX_S, .confine = begin_with_one_thread};
    char option[] = "--isolation";
    struct child c;
    int out;

    if (start_runner(&c, &out, exe, option, how, e) < 0)
        return e->code;
    *len = read_all(out, answer, ANSWER_MAX);
    close(out);
    return child_wait(&c) == 0 ? 0 : err_set(e, ERR_IO, "%s cannot state its isolation", exe);
}

int runner_about_isolation(struct agent_isolation *out, char *runner_exe, int required, struct err *e)
{
    struct agent_isolation is = {.is_required = required >= 0,
                                 .required = required >= 0 ? (enum isolation)required : ISOLATION_DEFAULT};
    char answer[ANSWER_MAX];
    struct err why;
    size_t len = 0;

    if (ask_isolation(answer, &len, runner_exe, &why) < 0 || parse_isolation(&is, answer, len, &why) < 0) {
        is.level = ISOLATION_NONE;
        snprintf(is.lacks, sizeof is.lacks, "%.*s", (int)sizeof is.lacks - 1, why.text);
    }
    *out = is;
    if (!is.is_required || is.level >= is.required)
        return 0;
    err_set(e, ERR_AUTH, "codecs can be isolated at level %s here, less than --require-isolation %s: %s",
            isolation_name(is.level), isolation_name(is.required), is.lacks);
    return err_hint(e, "--require-isolation %s accepts that.", isolation_name(is.level));
}
