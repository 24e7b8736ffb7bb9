#include "submit/launch/tasks.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "submit/options/hosts.h"
#include "submit/terminal/interrupt.h"

enum { ANSWER_MAX = 64, LOG_MAX = 1 << 20 };

static const double ANSWER_S = 3, START_S = 60, STOP_S = 20;

static bool is_server(const struct listed_agent *w)
{
    return w->node < 0;
}

const char *tasks_name(char out[TASK_NAME], const struct listed_agent *w)
{
    snprintf(out, TASK_NAME, "/job:%s/task:%d", is_server(w) ? "ps" : "worker",
             is_server(w) ? -2 - w->node : w->node);
    return out;
}

size_t tasks_count(const struct tasks *t)
{
    return t->all.n_workers + t->all.n_servers;
}

const struct listed_agent *tasks_chief(const struct tasks *t)
{
    return &t->all.nodes[0];
}

bool tasks_is_chief(const struct tasks *t)
{
    return t->own == tasks_chief(t);
}

/* Refuses options that a task sets itself or cannot have. */
static int check_options(const struct options *o, struct err *e)
{
    const char *wrong = o->detach                        ? "detach"
                        : o->retrieve                    ? "retrieve"
                        : o->credentials.ca[0]           ? "ca"
                        : o->credentials.insecure_no_tls ? "insecure-no-tls"
                                                         : NULL;

    if (!o->worker_hosts[0])
        return err_set(e, ERR_USAGE, "launch needs --worker_hosts HOST:PORT,..., the same for every task");
    if (!o->job_name[0])
        return err_set(e, ERR_USAGE, "launch needs --job_name ps or worker: which task this is");
    if (wrong)
        return err_set(e, ERR_USAGE, "--%s: not with launch, because its agent and its job end with it",
                       wrong);
    if (o->settings.node_count != hosts_count(o->worker_hosts))
        return err_set(e, ERR_USAGE, "--node_count %d: all %d workers of --worker_hosts take part",
                       o->settings.node_count, hosts_count(o->worker_hosts));
    return 0;
}

static int find_own(struct tasks *t, const struct options *o, struct err *e)
{
    bool ps = strcmp(o->job_name, "ps") == 0;
    size_t n = ps ? t->all.n_servers : t->all.n_workers;

    if ((size_t)o->task_index >= n)
        return err_set(e, ERR_USAGE, "--task_index %d: --%s_hosts has %zu task%s, from 0 on", o->task_index,
                       o->job_name, n, n == 1 ? "" : "s");
    t->own = &t->all.nodes[(ps ? t->all.n_workers : 0) + (size_t)o->task_index];
    return 0;
}

/* Tasks on loopback addresses are agents of one user, whose tokens job_submit finds; tasks of several
 * machines share one token. */
static int find_token(struct tasks *t, const struct options *o, struct err *e)
{
    const char *named = o->credentials.token_file[0] ? o->credentials.token_file : getenv("PSGD_TOKEN_FILE");
    size_t n_local = 0;

    for (size_t i = 0; i < tasks_count(t); i++)
        n_local += listed_agent_is_loopback(&t->all.nodes[i]);
    t->token_file = named && named[0] ? named : NULL;
    if (n_local > 0 && n_local < tasks_count(t))
        return err_set(e, ERR_USAGE,
                       "%zu of the %zu hosts are loopback addresses, which no other machine reaches", n_local,
                       tasks_count(t));
    if (n_local > 0 || t->token_file)
        return 0;
    err_set(e, ERR_USAGE, "hosts beyond this machine need --token-file FILE, the same file for every task");
    return err_hint(e, "docs/two-machines.md, \"Many machines, one token\", says how to make it.");
}

int tasks_open(struct tasks *t, const struct options *o, struct err *e)
{
    *t = (struct tasks){0};
    if (check_options(o, e) < 0 || hosts_read(&t->all, o, e) < 0)
        return e->code;
    if (find_own(t, o, e) == 0 && find_token(t, o, e) == 0)
        return 0;
    tasks_clear(t);
    return e->code;
}

void tasks_clear(struct tasks *t)
{
    worker_list_clear(&t->all);
    *t = (struct tasks){0};
}

static int begin_question(struct http *h, struct http_request *r, const struct listed_agent *w, struct err *e)
{
    *r = (struct http_request){.method = "GET",
                               .peer = w->address,
                               .is_unproven = true,
                               .is_local = listed_agent_is_loopback(w),
                               .max_reply = ANSWER_MAX,
                               .timeout_s = ANSWER_S};
    snprintf(r->url, sizeof r->url, "https://%s/healthz", w->address);
    return http_start(h, r, e);
}

static enum answer answer_of(const struct http_request *r)
{
    if (r->is_refused)
        return ANSWERS_NEVER;
    return r->err.code == 0 && r->status == 200 ? ANSWERS : ANSWERS_NOT;
}

int tasks_ask(enum answer *out, const struct listed_agent *agents, size_t n, struct err *e)
{
    struct http_request *asked = calloc(n, sizeof *asked);
    struct http *h = http_new(e); /* separate, so that a connection without a token is not reused */
    int rc = !h ? e->code : !asked ? err_set(e, ERR_NOMEM, "no memory for %zu agents", n) : 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = begin_question(h, &asked[i], &agents[i], e);
    for (size_t i = 0; i < n && rc == 0; i++)
        while (rc == 0 && asked[i].busy) {
            http_poll(h, 1);
            rc = interrupt_check(e);
        }
    for (size_t i = 0; i < n && rc == 0; i++)
        out[i] = answer_of(&asked[i]);
    for (size_t i = 0; i < n && asked && h; i++)
        http_clear(h, &asked[i]);
    http_free(h);
    free(asked);
    return rc;
}

/* Deletes the jobs of earlier launches if is_free: no other agent uses the folder. */
static int prepare_folder(struct task_agent *a, const struct listed_agent *at, bool is_free, struct err *e)
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

/* In a process group of its own the agent does not get a terminal's Ctrl-C; this program gets it, and ends
 * the agent. */
static int leave_group(void *arg)
{
    (void)arg;
    return setpgid(0, 0);
}

static int start_agent(struct task_agent *a, const struct listed_agent *at, const char *token_file,
                       bool runs_trainers, struct err *e)
{
    char dir[PATH_MAX], program[PATH_MAX], port[16], bind[] = "--bind", with_port[] = "--port",
                                                     in[] = "--dir", token[] = "--cluster-token",
                                                     trainers[] = "--trainers", any[] = "any";
    char host[sizeof at->host], file[PATH_MAX];
    char *argv[12] = {program, bind, host, with_port, port, in, a->folder};
    size_t n = 7;
    struct child_how how = {.argv = argv, .confine = leave_group};
    int rc;

    snprintf(host, sizeof host, "%s", at->host);
    snprintf(port, sizeof port, "%d", at->port);
    snprintf(file, sizeof file, "%s", token_file ? token_file : "");
    if (token_file) {
        argv[n++] = token;
        argv[n++] = file;
    }
    if (runs_trainers) {
        argv[n++] = trainers;
        argv[n++] = any;
    }
    if (file_exe_dir(dir, sizeof dir, e) < 0 || file_join(program, sizeof program, dir, "agent", e) < 0)
        return e->code;
    how.out = how.err = open(a->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (how.out < 0)
        return err_errno(e, ERR_IO, "%s", a->log);
    rc = child_start(&a->child, &how, e);
    close(how.out);
    return rc;
}

/* ": TEXT" from the line "agent: TEXT" that an agent writes when it ends with an error; "" without one. */
static void read_reason(char *out, size_t size, const struct task_agent *a)
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

int task_agent_check(struct task_agent *a, struct err *e)
{
    struct pollfd p = {.fd = a->child.fd, .events = POLLIN};
    char why[512];

    if (a->child.pid > 0 && poll(&p, 1, 0) <= 0)
        return 0;
    if (a->child.pid > 0)
        child_wait(&a->child);
    read_reason(why, sizeof why, a);
    err_set(e, ERR_UNREACHABLE, "the agent of this task at %s has ended%s", a->node.at.address, why);
    return err_hint(e, "Its log is %.300s.", a->log);
}

static int await_answer(struct task_agent *a, struct err *e)
{
    double until = clock_now() + START_S;
    enum answer answer = ANSWERS_NOT;

    while (answer != ANSWERS) {
        if (task_agent_check(a, e) < 0 || tasks_ask(&answer, &a->node.at, 1, e) < 0)
            return e->code;
        if (answer != ANSWERS && clock_now() > until)
            return err_set(e, ERR_UNREACHABLE, "the agent of this task at %s has not answered for %g s",
                           a->node.at.address, START_S);
        if (answer != ANSWERS)
            poll(NULL, 0, 50);
    }
    return 0;
}

static int open_access(struct task_agent *a, struct err *e)
{
    static const struct credentials none = {0};

    snprintf(a->node.label, sizeof a->node.label, "agent %s", a->node.at.address);
    a->http = http_new(e);
    return a->http ? node_find_access(&a->node, &none, e) : e->code;
}

static int start_task_agent(struct task_agent *a, const struct listed_agent *at, const char *token_file,
                            bool runs_trainers, struct err *e)
{
    enum answer answer;

    if (tasks_ask(&answer, at, 1, e) < 0)
        return e->code;
    if (answer == ANSWERS) {
        err_set(e, ERR_CONFLICT, "an agent answers at %s already", at->address);
        return err_hint(e, "Stop it, or use it: job_submit with --worker_hosts and --ps_hosts runs a job on "
                           "agents that run.");
    }
    /* If another program listens there, the agent fails with that error, as for an address of another
     * machine. */
    if (prepare_folder(a, at, answer == ANSWERS_NEVER, e) < 0 ||
        start_agent(a, at, token_file, runs_trainers, e) < 0 || await_answer(a, e) < 0)
        return e->code;
    return open_access(a, e);
}

int task_agent_start(struct task_agent *a, const struct listed_agent *at, const char *token_file,
                     bool runs_trainers, struct err *e)
{
    *a = (struct task_agent){.node.at = *at};
    if (start_task_agent(a, at, token_file, runs_trainers, e) == 0)
        return 0;
    task_agent_stop(a);
    return e->code;
}

int task_agent_job(struct task_agent *a, char id[REPLY_ID], struct job_view *out, struct err *e)
{
    if (node_get(a->http, &a->node, REPLY_MAX, e, "/v1/jobs?limit=1") < 0)
        return e->code;
    return reply_newest_job(id, out, a->node.call.reply, a->node.call.reply_len, e);
}

void task_agent_stop(struct task_agent *a)
{
    if (a->child.pid > 0)
        child_end(&a->child, STOP_S);
    if (a->http)
        node_forget(a->http, &a->node);
    http_free(a->http);
    a->http = NULL;
}
