#include "agent/access/isolation_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/json.h"

enum { ANSWER_MAX = 1024, CPU_MAX_S = 10 };

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

    if (json_parse(&doc, text, len, "its answer", e) < 0)
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

/* The runner must have one thread, and OpenBLAS starts its own while it is loaded. */
static int begin_with_one_thread(void *unused)
{
    (void)unused;
    return setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* *len: bytes of the answer. ERR_IO. */
static int ask_runner(char answer[ANSWER_MAX], size_t *len, const char *exe, struct err *e)
{
    char option[] = "--isolation";
    char *argv[] = {(char *)(uintptr_t)exe, option, NULL};
    struct child_how how = {
        .argv = argv, .err = STDERR_FILENO, .cpu_s = CPU_MAX_S, .confine = begin_with_one_thread};
    struct child c;
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    how.out = fds[1];
    rc = child_start(&c, &how, e);
    close(fds[1]);
    *len = rc < 0 ? 0 : read_all(fds[0], answer, ANSWER_MAX);
    close(fds[0]);
    if (rc < 0)
        return rc;
    return child_wait(&c) == 0 ? 0 : err_set(e, ERR_IO, "%s cannot state its isolation", exe);
}

int isolation_ask(struct agent_isolation *out, const char *runner_exe, int required, struct err *e)
{
    struct agent_isolation is = {.is_required = required >= 0,
                                 .required = required >= 0 ? (enum isolation)required : ISOLATION_DEFAULT};
    char answer[ANSWER_MAX];
    struct err why;
    size_t len = 0;

    if (ask_runner(answer, &len, runner_exe, &why) < 0 || parse_isolation(&is, answer, len, &why) < 0) {
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

static enum isolation greater(enum isolation a, enum isolation b)
{
    return a > b ? a : b;
}

enum isolation isolation_for(const struct agent_isolation *is, bool is_builtin, enum isolation wanted)
{
    return greater(wanted, is_builtin && !is->is_required ? ISOLATION_NONE : is->required);
}

int isolation_admit(const struct agent_isolation *is, const char *codec, bool is_builtin,
                    enum isolation wanted, struct err *e)
{
    enum isolation needed = isolation_for(is, is_builtin, wanted);

    if (is->level >= needed)
        return 0;
    err_set(e, ERR_REFUSED, "codec %s needs isolation %s, and this machine has %s: %s", codec,
            isolation_name(needed), isolation_name(is->level), is->lacks[0] ? is->lacks : "it was not asked");
    if (wanted == needed)
        return err_hint(e, "Choose other agents, or a lower --require-isolation.");
    return err_hint(e, "That agent's --require-isolation %s allows it; built-in codecs run as it is.",
                    isolation_name(is->level));
}
