#include "agent/jobs/runner_about.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/child.h"
#include "shared/base/json.h"

enum { ANSWER_MAX = 2048, CPU_MAX_S = 10 };

/* OpenBLAS starts threads while it is loaded, and the runner must have one only. */
static int begin_with_one_thread(void *unused)
{
    (void)unused;
    return setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* Starts `job_runner --isolation`; *out is the end of a pipe with its standard output. */
static int start_runner(struct child *c, int *out, char *exe, struct err *e)
{
    char option[] = "--isolation", *argv[] = {exe, option, NULL};
    struct child_how how = {
        .argv = argv, .err = STDERR_FILENO, .cpu_s = CPU_MAX_S, .confine = begin_with_one_thread};
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "job_runner: pipe");
    how.out = fds[1];
    rc = child_start(c, &how, e);
    close(fds[1]);
    if (rc < 0)
        close(fds[0]);
    else
        *out = fds[0];
    return rc;
}

void runner_about_clear(struct runner_about *r)
{
    json_decref(r->facts);
    *r = (struct runner_about){0};
}

json_t *runner_about_json(const struct runner_about *r)
{
    if (r->broken.code)
        return json_pack("{s:o}", "error", json_text(r->broken.text, sizeof r->broken.text));
    return r->facts ? json_incref(r->facts) : json_null();
}

/* Unchanged on failure. */
static int parse_answer(struct runner_about *r, struct agent_isolation *out, const char *text, size_t len,
                        struct err *e)
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
    json_t *doc, *facts;
    int rc;

    if (json_parse(&doc, text, len, "job_runner --isolation", e) < 0)
        return e->code;
    facts = json_incref(json_object_get(doc, "runner"));
    json_object_del(doc, "runner");
    rc = json_to_struct(out, doc, fields, "", e);
    if (rc == 0)
        r->facts = json_incref(facts);
    json_decref(facts);
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

static int explain_end(const char *exe, int status, struct err *e)
{
    if (WIFSIGNALED(status))
        return err_set(e, ERR_IO, "%s was killed by signal %d (%s)", exe, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    return err_set(e, ERR_IO, "%s cannot state its isolation (status %d); is a library missing?", exe,
                   WEXITSTATUS(status));
}

/* *len: bytes of the answer. ERR_IO. */
static int ask_runner(char answer[ANSWER_MAX], size_t *len, char *exe, struct err *e)
{
    struct child c;
    int out, status;

    if (start_runner(&c, &out, exe, e) < 0)
        return e->code;
    *len = read_all(out, answer, ANSWER_MAX);
    close(out);
    status = child_wait(&c);
    return status == 0 ? 0 : explain_end(exe, status, e);
}

int runner_about_ask(struct runner_about *r, struct agent_isolation *out, char *runner_exe, int required,
                     struct err *e)
{
    struct agent_isolation is = {.is_required = required >= 0,
                                 .required = required >= 0 ? (enum isolation)required : ISOLATION_DEFAULT};
    char answer[ANSWER_MAX];
    size_t len = 0;

    *r = (struct runner_about){0};
    if (ask_runner(answer, &len, runner_exe, &r->broken) < 0 ||
        parse_answer(r, &is, answer, len, &r->broken) < 0) {
        is.level = ISOLATION_NONE;
        snprintf(is.lacks, sizeof is.lacks, "%.*s", (int)sizeof is.lacks - 1, r->broken.text);
        log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", r->broken.text);
    }
    *out = is;
    if (!is.is_required || is.level >= is.required)
        return 0;
    err_set(e, ERR_AUTH, "codecs can be isolated at level %s here, less than --require-isolation %s: %s",
            isolation_name(is.level), isolation_name(is.required), is.lacks);
    return err_hint(e, "--require-isolation %s accepts that.", isolation_name(is.level));
}
