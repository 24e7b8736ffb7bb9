#include "agent/access/own_isolation.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/sandbox/sandbox.h"

/* What the child writes: from this program to itself. */
struct sandbox_answer {
    struct sandbox sandbox;
    struct err why; /* code 0: the sandbox was entered */
};

static _Noreturn void enter_sandbox(int out)
{
    struct sandbox_answer f = {0};

    sandbox_enter(&f.sandbox, -1, ISOLATION_NONE, &f.why);
    _exit(write(out, &f, sizeof f) == sizeof f ? 0 : 1);
}

static int ask_child(struct sandbox *out, struct err *e)
{
    struct sandbox_answer f;
    struct child c;
    int fds[2], rc;
    ssize_t n = 0;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    rc = child_fork(&c, false, e);
    if (rc > 0)
        enter_sandbox(fds[1]);
    close(fds[1]);
    if (rc == 0) {
        n = read(fds[0], &f, sizeof f); /* shorter than PIPE_BUF: in one piece, or not at all */
        child_wait(&c);
    }
    close(fds[0]);
    if (rc < 0)
        return rc;
    if (n != sizeof f)
        return err_set(e, ERR_IO, "the process that entered the sandbox has not answered");
    *e = f.why;
    *out = f.sandbox;
    return e->code;
}

int own_isolation_find(struct agent_isolation *out, int required, struct err *e)
{
    struct sandbox s = {.level = ISOLATION_NONE};
    struct err why = {0};

    if (ask_child(&s, &why) < 0)
        s = (struct sandbox){.level = ISOLATION_NONE};
    *out = (struct agent_isolation){.level = s.level,
                                    .landlock_abi = s.landlock_abi,
                                    .has_seccomp = s.has_seccomp,
                                    .has_own_user = s.has_own_user,
                                    .has_own_tree = s.has_own_tree,
                                    .is_required = required >= 0,
                                    .required = required >= 0 ? (enum isolation)required : ISOLATION_DEFAULT};
    snprintf(out->lacks, sizeof out->lacks, "%.255s", why.code ? why.text : s.lacks);
    if (!out->is_required || out->level >= out->required)
        return 0;
    err_set(e, ERR_AUTH, "codecs can be isolated at level %s here, less than --require-isolation %s: %s",
            isolation_name(out->level), isolation_name(out->required), out->lacks);
    return err_hint(e, "--require-isolation %s accepts that.", isolation_name(out->level));
}
