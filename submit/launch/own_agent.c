#include "submit/launch/own_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "submit/launch/answering.h"
#include "submit/terminal/interrupt.h"

enum { LOG_MAX = 1 << 20 };

static const double START_S = 60, STOP_S = 20;

/* Removes the jobs of earlier launches, unless another agent may use the folder. */
static int prepare_folder(struct own_agent *a, const struct listed_agent *at, bool is_free, struct err *e)
{
    char state[PATH_MAX], name[ADDRESS_MAX + 16], jobs[PATH_MAX];

    snprintf(name, sizeof name, "launch/%s-%d", at->host, at->port);
    if (file_state_dir(state, sizeof state, e) < 0 ||
        file_join(a->folder, sizeof a->folder, state, name, e) < 0 ||
        file_join(jobs, sizeof jobs, a->folder, "jobs", e) < 0 ||
        file_join(a->log, sizeof a->log, a->folder, "agent.log", e) < 0 ||
        file_join(a->node.at.token_file, sizeof a->node.at.token_file, a->folder, "token", e) < 0 ||
        file_mkdirs(a->folder, 0700, e) < 0)
        return e->code;
    return is_free ? file_remove_tree(jobs, e) : 0;
}

/* Ctrl-C in a terminal is for this program, which then ends the agent. */
static int leave_group(void *arg)
{
    (void)arg;
    return setpgid(0, 0);
}

static int start_agent(struct own_agent *a, const struct listed_agent *at, const char *token_file,
                       struct err *e)
{
    char dir[PATH_MAX], program[PATH_MAX], port[16], bind[] = "--bind", with_port[] = "--port",
                                                     in[] = "--dir", token[] = "--cluster-token";
    char host[sizeof at->host], file[PATH_MAX];
    char *argv[] = {program, bind, host, with_port, port, in, a->folder, token_file ? token : NULL,
                    file,    NULL};
    struct child_how how = {.argv = argv, .confine = leave_group};
    int rc;

    snprintf(host, sizeof host, "%s", at->host);
    snprintf(port, sizeof port, "%d", at->port);
    snprintf(file, sizeof file, "%s", token_file ? token_file : "");
    if (file_exe_dir(dir, sizeof dir, e) < 0 || file_join(program, sizeof program, dir, "agent", e) < 0)
        return e->code;
    how.out = how.err = open(a->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (how.out < 0)
        return err_errno(e, ERR_IO, "%s", a->log);
    rc = child_start(&a->child, &how, e);
    close(how.out);
    return rc;
}

/* What the agent has said about its end: "agent: TEXT". */
static void take_reason(char *out, size_t size, const struct own_agent *a)
{
    static const char mark[] = "agent: ";
    struct err ignored;
    char *text, *at;
    size_t len;

    out[0] = '\0';
    if (file_read(&text, &len, a->log, LOG_MAX, &ignored) < 0)
        return;
    at = strncmp(text, mark, strlen(mark)) == 0 ? text : strstr(text, "\nagent: ");
    if (at) {
        at = strstr(at, mark) + strlen(mark);
        snprintf(out, size, ": %.*s", (int)strcspn(at, "\n"), at);
        utf8_clean(out, strlen(out), false);
    }
    free(text);
}

int own_agent_check(struct own_agent *a, struct err *e)
{
    struct pollfd p = {.fd = a->child.fd, .events = POLLIN};
    char why[512];

    if (a->child.pid > 0 && poll(&p, 1, 0) <= 0)
        return 0;
    if (a->child.pid > 0)
        child_wait(&a->child);
    take_reason(why, sizeof why, a);
    err_set(e, ERR_UNREACHABLE, "the agent of this task at %s has ended%s", a->node.at.address, why);
    return err_hint(e, "Its log is %.300s.", a->log);
}

static int await_answer(struct own_agent *a, struct err *e)
{
    double until = clock_now() + START_S;
    enum answer answer = ANSWERS_NOT;

    while (answer != ANSWERS) {
        if (own_agent_check(a, e) < 0 || answering_ask(&answer, &a->node.at, 1, e) < 0)
            return e->code;
        if (answer != ANSWERS && clock_now() > until)
            return err_set(e, ERR_UNREACHABLE, "the agent of this task at %s has not answered for %g s",
                           a->node.at.address, START_S);
        if (answer != ANSWERS)
            poll(NULL, 0, 50);
    }
    return 0;
}

static int open_access(struct own_agent *a, struct err *e)
{
    static const struct credentials none = {0};

    snprintf(a->node.label, sizeof a->node.label, "agent %s", a->node.at.address);
    a->http = http_new(e);
    return a->http ? node_find_access(&a->node, &none, e) : e->code;
}

static int start_free(struct own_agent *a, const struct listed_agent *at, const char *token_file,
                      struct err *e)
{
    enum answer answer;

    if (answering_ask(&answer, at, 1, e) < 0)
        return e->code;
    if (answer == ANSWERS) {
        err_set(e, ERR_CONFLICT, "an agent answers at %s already", at->address);
        return err_hint(e, "Stop it, or use it: job_submit with --worker_hosts and --ps_hosts runs a job on "
                           "agents that run.");
    }
    /* If another program listens there, the agent says so, as for an address that is none of this machine. */
    if (prepare_folder(a, at, answer == ANSWERS_NEVER, e) < 0 || start_agent(a, at, token_file, e) < 0 ||
        await_answer(a, e) < 0)
        return e->code;
    return open_access(a, e);
}

int own_agent_start(struct own_agent *a, const struct listed_agent *at, const char *token_file, struct err *e)
{
    *a = (struct own_agent){.node.at = *at};
    if (start_free(a, at, token_file, e) == 0)
        return 0;
    own_agent_stop(a);
    return e->code;
}

int own_agent_job(struct own_agent *a, char id[REPLY_ID], struct job_view *out, struct err *e)
{
    if (node_get(a->http, &a->node, REPLY_MAX, e, "/v1/jobs?limit=1") < 0)
        return e->code;
    return reply_newest_job(id, out, a->node.call.reply, a->node.call.reply_len, e);
}

void own_agent_stop(struct own_agent *a)
{
    if (a->child.pid > 0)
        child_end(&a->child, STOP_S);
    if (a->http)
        node_forget(a->http, &a->node);
    http_free(a->http);
    a->http = NULL;
}
