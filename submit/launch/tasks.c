#include "submit/launch/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/options/hosts.h"

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

/* What a task decides itself, or cannot have. */
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
        return err_set(e, ERR_USAGE, "--%s: not with launch, whose agent and job end with it", wrong);
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

/* On loopback addresses the tasks are agents of one user, whose tokens job_submit finds; beyond these all
 * share one. */
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
