#include "submit/browse/agents.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "shared/records/artifacts.h"
#include "submit/browse/documents.h"
#include "submit/browse/job_files.h"
#include "submit/browse/waiting_jobs.h"
#include "submit/job/job_keys.h"
#include "submit/job/job_node.h"
#include "submit/options/hosts.h"

enum {
    LIST_MAX = 16 << 20, /* bytes of an agent's list of jobs */
    JOBS_LISTED = 200,
    PART_BYTES = 4 << 20, /* of a file, in one answer */
    N_COPIED = N_RECORD_FILES + 1,
    N_ORDERS = 1024
};

static const double every_s = 1, every_silent_s = 5, silent_s = 10, prove_every_s = 15, machine_every_s = 5;

enum agent_call { CALL_NOTHING, CALL_AGENT, CALL_JOBS, CALL_QUEUE, CALL_ORDER };

/* A task's requests to the agent of one node: to cancel the node, or for the next parts of its files. */
struct order {
    bool is_used;
    struct agents_task task;
    size_t agent;
    int node, attempt;
    int file; /* the next file to fetch */
    struct err why;
    bool is_over; /* `why` is final */
};

struct watched_agent {
    struct job_node node;
    enum agent_call call; /* in progress */
    double called_at, due_at;
    bool is_up, is_known; /* known: it has listed its jobs, or failed to */
    uint64_t version;     /* of its answers and failures */
    char message[sizeof(struct err)];
    double slots;
    json_t *machine;   /* {"cpus", "load", "mem_bytes", "mem_available_bytes"}; NULL: not known */
    double machine_at; /* when it was asked for */
    bool has_answered; /* GET /v1/agent was answered or refused */
    bool is_read_only; /* the scope of the token is read */
    json_t *list;      /* its answer to GET /v1/jobs; NULL: none */
    json_t *waiting;   /* its answer to GET /v1/queue; NULL: none, or it has no such route */
    bool has_waiting;  /* GET /v1/queue was answered or refused */
    struct order *order;
    int fd; /* the file that a part is appended to; -1 */
    off_t had;
};

struct agents {
    struct http *http;
    struct worker_list workers;
    struct watched_agent *all;
    size_t n;
    double prove_at;
    struct order orders[N_ORDERS];
    uint8_t secret[SHA256_BYTES];
    bool has_secret;
    struct job_files copies;
};

/* Notes a failure of the agent. The message is without the number of a node, which only a job has. */
static void note_failure(struct watched_agent *g, const struct err *e)
{
    const char *after = strncmp(e->text, "node(", 5) == 0 ? strstr(e->text, "): ") : NULL;

    g->version++;
    g->is_known = true;
    g->is_up = false;
    snprintf(g->message, sizeof g->message, "%s%s%s", after ? after + 3 : e->text, e->hint[0] ? ". " : "",
             e->hint);
    g->due_at = clock_now() + every_silent_s;
}

static int read_list(struct worker_list *out, const struct options *o, struct err *e)
{
    if (strcmp(o->workers, OPTIONS_WORKERS) == 0 && !o->worker_hosts[0] && access(o->workers, F_OK) < 0)
        return 0;
    return hosts_read(out, o, e);
}

static void prepare_agent(struct watched_agent *g, const struct listed_agent *w, const struct options *o)
{
    struct err e;

    g->fd = -1;
    g->slots = NAN;
    g->node.at = *w;
    progress_view_init(&g->node.view.progress);
    snprintf(g->node.label, sizeof g->node.label, "agent %s", w->address);
    if (node_find_access(&g->node, &o->credentials, &e) < 0) {
        note_failure(g, &e);
        g->due_at = HUGE_VAL; /* no request would succeed */
    }
}

int agents_open(struct agents **out, const struct options *o, struct err *e)
{
    struct agents *a = calloc(1, sizeof *a);
    struct err ignored;

    *out = a;
    if (!a)
        return err_set(e, ERR_NOMEM, "no memory for the agents");
    if (!(a->http = http_new(e)) || job_files_open(&a->copies, e) < 0 || read_list(&a->workers, o, e) < 0)
        return e->code;
    a->has_secret = job_keys_secret(a->secret, &ignored) == 0;
    a->n = a->workers.n_workers + a->workers.n_servers + a->workers.n_spares;
    a->all = calloc(a->n + 1, sizeof *a->all);
    if (!a->all) {
        a->n = 0;
        return err_set(e, ERR_NOMEM, "no memory for %zu agents", a->n);
    }
    for (size_t i = 0; i < a->n; i++)
        prepare_agent(&a->all[i], &a->workers.nodes[i], o);
    return 0;
}

/* Lets all agents that must prove that they know the token do so at once; seldom, because this call waits for
 * agents that do not answer. */
static void prove_agents(struct agents *a)
{
    struct err ignored;

    if (clock_now() < a->prove_at)
        return;
    node_prove_all(&a->all[0].node, a->n, sizeof *a->all, &ignored);
    a->prove_at = clock_now() + prove_every_s;
    for (size_t i = 0; i < a->n; i++) {
        struct watched_agent *g = &a->all[i];

        if (node_must_prove(&g->node) && g->node.call.err.code)
            note_failure(g, &g->node.call.err);
    }
}

void agents_close(struct agents *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n; i++) {
        if (a->all[i].fd >= 0)
            close(a->all[i].fd);
        node_forget(a->http, &a->all[i].node);
        json_decref(a->all[i].list);
        json_decref(a->all[i].waiting);
        json_decref(a->all[i].machine);
    }
    free(a->all);
    worker_list_clear(&a->workers);
    http_free(a->http);
    job_files_close(&a->copies);
    explicit_bzero(a->secret, sizeof a->secret);
    free(a);
}

/* The name of the copy of a node's file; the log comes after the records. */
static const char *file_name(int file)
{
    return file < N_RECORD_FILES ? artifacts[file].path : artifact_name(ARTIFACT_LOG);
}

/* Opens the copy of the next file, but skips copies that have their largest size. */
static int open_copy(struct agents *a, struct watched_agent *g, struct order *w, struct err *e)
{
    for (; w->file < N_COPIED; w->file++) {
        if (job_files_append(&g->fd, &g->had, &a->copies, w->task.id, w->node, w->attempt, file_name(w->file),
                             e) == 0)
            return 0;
        if (e->code != ERR_NOSPACE)
            return e->code;
        w->why = *e;
    }
    return e->code;
}

static void set_key(const struct agents *a, struct job_node *n, const struct order *w)
{
    n->attempt = w->attempt;
    n->job_key[0] = '\0';
    if (a->has_secret)
        job_keys_of_agent(n->job_key, a->secret, w->task.id, w->node);
}

static int call_order(struct agents *a, struct watched_agent *g, struct err *e)
{
    static const char reason[] = "{\"reason\":\"cancelled in the browser\"}";
    struct order *w = g->order;
    char path[200];

    set_key(a, &g->node, w);
    if (w->task.is_cancel)
        return node_ask(a->http, &g->node, "POST", reason, sizeof reason - 1, e, "/v1/jobs/%s/cancel",
                        w->task.id);
    if (open_copy(a, g, w, e) < 0)
        return e->code;
    if (w->file < N_RECORD_FILES)
        snprintf(path, sizeof path, "/v1/jobs/%s/records.csv?kind=%.*s&after=%lld", w->task.id,
                 (int)strcspn(artifacts[w->file].name, "."), artifacts[w->file].name, (long long)g->had);
    else
        snprintf(path, sizeof path, "/v1/jobs/%s/logs?after=%lld", w->task.id, (long long)g->had);
    return node_download(a->http, &g->node, g->fd, PART_BYTES, path, e);
}

static struct order *next_order(struct agents *a, size_t agent)
{
    for (size_t i = 0; i < N_ORDERS; i++)
        if (a->orders[i].is_used && !a->orders[i].is_over && a->orders[i].agent == agent)
            return &a->orders[i];
    return NULL;
}

static void end_order(struct watched_agent *g, const struct err *why)
{
    if (g->order && why)
        g->order->why = *why;
    if (g->order)
        g->order->is_over = true;
    g->order = NULL;
}

/* Ends the download of a part of a file; the order goes on with the next part or the next file. An incomplete
 * part is removed from the copy; if that fails, its last row is malformed, and readers skip it. */
static void take_part(struct agents *a, struct watched_agent *g, bool is_good)
{
    struct order *w = g->order;
    struct stat st;
    bool is_more = false;

    if ((is_good || ftruncate(g->fd, g->had) < 0) && fstat(g->fd, &st) == 0) {
        is_more = is_good && st.st_size - g->had >= PART_BYTES;
        job_files_count(&a->copies, w->task.id, st.st_size - g->had);
    }
    close(g->fd);
    g->fd = -1;
    if (!is_more && ++w->file == N_COPIED)
        end_order(g, NULL);
    g->order = NULL;
}

/* The load and the memory that is free change all the time: rounded, they change the list seldom. */
static void take_machine(struct watched_agent *g, const json_t *o)
{
    const double part = 64 << 20;

    json_decref(g->machine);
    g->machine = json_pack(
        "{s:o, s:o, s:o, s:o}", "cpus", json_number_or_null(json_number_at(o, "cpus", NAN)), "load",
        json_real_or_null(round(json_number_at(o, "load", NAN) * 10) / 10), "mem_bytes",
        json_number_or_null(json_number_at(o, "mem_bytes", NAN)), "mem_available_bytes",
        json_number_or_null(round(json_number_at(o, "mem_available_bytes", NAN) / part) * part));
    g->machine_at = g->called_at;
}

static void take_agent(struct watched_agent *g)
{
    const struct http_request *r = &g->node.call;
    struct err ignored;
    json_t *o;

    if (json_parse(&o, r->reply ? r->reply : "", r->reply_len, "answer", &ignored) < 0)
        return;
    g->version++;
    take_machine(g, json_object_get(o, "machine"));
    g->slots = fmin(json_number_at(o, "slots", NAN), 1e6);
    g->is_read_only = strcmp(json_text_at(json_object_get(o, "you"), "scope"), "read") == 0;
    json_decref(o);
}

static int take_jobs(struct watched_agent *g, struct err *e)
{
    const struct http_request *r = &g->node.call;
    json_t *o;

    if (json_parse(&o, r->reply ? r->reply : "", r->reply_len, "answer", e) < 0)
        return err_at(e, "%s", g->node.label);
    g->version += !g->is_up || !json_equal(g->list, o);
    json_decref(g->list);
    g->list = o;
    g->is_known = g->is_up = true;
    g->message[0] = '\0';
    g->due_at = g->called_at + every_s;
    return 0;
}

/* `is_good`: it is no error. An agent of an earlier version has no such route. */
static void take_waiting(struct watched_agent *g, bool is_good)
{
    const struct http_request *r = &g->node.call;
    struct err ignored;
    json_t *o = NULL;

    if (is_good)
        json_parse(&o, r->reply ? r->reply : "", r->reply_len, "answer", &ignored);
    g->has_waiting = true;
    g->version += !json_equal(g->waiting, o);
    json_decref(g->waiting);
    g->waiting = o;
}

/* Does the failure concern only this request, not the agent? */
static bool is_about_request(const struct watched_agent *g)
{
    return (g->call == CALL_ORDER || g->call == CALL_QUEUE) && !g->node.call.err.code &&
           g->node.call.status < 500;
}

static void take_answer(struct agents *a, struct watched_agent *g)
{
    struct err e = {0};
    int rc = node_answer(&g->node, &e);

    g->has_answered |= g->call == CALL_AGENT;
    if (rc == 0 && g->call == CALL_AGENT)
        take_agent(g);
    else if (rc == 0 && g->call == CALL_JOBS)
        rc = take_jobs(g, &e);
    else if (g->call == CALL_QUEUE)
        take_waiting(g, rc == 0);
    else if (g->call == CALL_ORDER && g->fd >= 0)
        take_part(a, g, rc == 0);
    else if (g->call == CALL_ORDER)
        end_order(g, rc < 0 ? &e : NULL);
    if (rc < 0 && !is_about_request(g))
        note_failure(g, &e);
}

static int call_jobs(struct agents *a, struct job_node *n, struct err *e)
{
    if (node_ask(a->http, n, "GET", NULL, 0, e, "/v1/jobs?limit=%d", JOBS_LISTED) < 0)
        return e->code;
    n->call.max_reply = LIST_MAX; /* each job has the list of its nodes */
    return 0;
}

static void start_call(struct agents *a, struct watched_agent *g, enum agent_call what)
{
    struct job_node *n = &g->node;
    struct err e = {0};
    int rc;

    g->call = what;
    g->called_at = clock_now();
    n->attempt = 0;
    n->job_key[0] = '\0';
    if (what == CALL_AGENT)
        rc = node_ask(a->http, n, "GET", NULL, 0, &e, "/v1/agent");
    else if (what == CALL_JOBS)
        rc = call_jobs(a, n, &e);
    else if (what == CALL_QUEUE)
        rc = node_ask(a->http, n, "GET", NULL, 0, &e, "/v1/queue");
    else
        rc = call_order(a, g, &e);
    if (rc == 0)
        return;
    g->call = CALL_NOTHING;
    end_order(g, &e);
    if (what != CALL_ORDER) /* an order may fail for a full disk here */
        note_failure(g, &e);
}

/* Ends all orders for an agent that does not answer. */
static void refuse_orders(struct agents *a, size_t agent)
{
    struct order *w;
    struct err e;

    while ((w = next_order(a, agent)) != NULL) {
        err_set(&e, ERR_UNREACHABLE, "%.500s", a->all[agent].message);
        w->why = e;
        w->is_over = true;
    }
}

/* A look at an agent is a request for its jobs, for what it is if that is not known yet or of some seconds
 * ago, and for the jobs that wait outside of it. CALL_NOTHING: it is over. */
static enum agent_call call_after(const struct watched_agent *g)
{
    if (!g->is_up)
        return CALL_NOTHING;
    if (g->call == CALL_JOBS && (isnan(g->slots) || clock_now() >= g->machine_at + machine_every_s))
        return CALL_AGENT;
    return g->call == CALL_JOBS || g->call == CALL_AGENT ? CALL_QUEUE : CALL_NOTHING;
}

static void drive_agent(struct agents *a, size_t i)
{
    struct watched_agent *g = &a->all[i];
    double now = clock_now();
    struct err e;

    if (node_must_prove(&g->node))
        return; /* no request is sent to an agent that has not proved itself */
    if (g->call != CALL_NOTHING && g->node.call.busy && now < g->called_at + silent_s)
        return;
    if (g->call != CALL_NOTHING && g->node.call.busy) {
        err_set(&e, ERR_UNREACHABLE, "%s does not answer (for %g s)", g->node.label, silent_s);
        http_clear(a->http, &g->node.call);
        if (g->fd >= 0)
            take_part(a, g, false);
        end_order(g, &e);
        note_failure(g, &e);
        g->call = CALL_NOTHING;
    } else if (g->call != CALL_NOTHING) {
        take_answer(a, g);
        g->call = call_after(g);
        if (g->call != CALL_NOTHING) {
            start_call(a, g, g->call);
            return;
        }
    }
    if (g->is_known && !g->is_up)
        refuse_orders(a, i);
    g->order = g->is_up ? next_order(a, i) : NULL;
    if (g->order)
        start_call(a, g, CALL_ORDER);
    else if (now >= g->due_at)
        start_call(a, g, CALL_JOBS);
}

void agents_poll(struct agents *a, double timeout_s)
{
    prove_agents(a);
    job_files_drop_unused(&a->copies, clock_now());
    for (size_t i = 0; i < a->n; i++)
        drive_agent(a, i);
    http_poll(a->http, timeout_s);
}

uint64_t agents_version(const struct agents *a)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < a->n; i++)
        sum += a->all[i].version;
    return sum;
}

static size_t slots_used(const struct watched_agent *g)
{
    enum job_state state;
    size_t used = 0;
    json_t *job;
    size_t i;

    json_array_foreach(json_object_get(g->list, "jobs"), i, job)
    {
        const char *name = shown_text(job, "state");

        used += name && job_state_parse(&state, name) && state != JOB_PENDING &&
                !job_state_is_terminal(state);
    }
    return used;
}

/* The jobs that wait at the agent, and outside of it for it. */
static size_t count_waiting(const struct watched_agent *g)
{
    json_t *queues = json_array(), *user, *job;
    size_t i, n = 0;

    waiting_jobs_add(queues, g->waiting);
    json_array_foreach(queues, i, user) n += (size_t)json_number_at(user, "waiting", 0);
    json_array_foreach(json_object_get(g->list, "jobs"), i, job)
        n += strcmp(json_text_at(job, "state"), job_state_name(JOB_PENDING)) == 0;
    json_decref(queues);
    return n;
}

json_t *agents_json(const struct agents *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->n; i++) {
        const struct watched_agent *g = &a->all[i];

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:O?, s:i}", "address", g->node.at.address, "state",
                            g->is_up ? "up" : "unreachable", "message",
                            json_text(g->is_known ? g->message : "no request was sent to it yet", 1024),
                            "slots", isnan(g->slots) ? json_null() : json_integer((json_int_t)g->slots),
                            "slots_used", g->is_up ? json_integer((json_int_t)slots_used(g)) : json_null(),
                            "machine", g->is_up ? g->machine : NULL, "waiting", (int)count_waiting(g)));
    }
    return list;
}

bool agents_have_answered(const struct agents *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (!a->all[i].is_known || (a->all[i].is_up && !(a->all[i].has_answered && a->all[i].has_waiting)))
            return false;
    return true;
}

bool agents_is_read_only(const struct agents *a, size_t agent)
{
    return a->all[agent].is_read_only;
}

json_t *agents_waiting(const struct agents *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->n; i++)
        waiting_jobs_add(list, a->all[i].waiting);
    return list;
}

int agents_jobs(struct live_jobs *out, const struct agents *a, struct err *e)
{
    *out = (struct live_jobs){0};
    for (size_t i = 0; i < a->n; i++)
        if (a->all[i].list && live_add(out, a->all[i].list, i, a->all[i].node.at.address, e) < 0)
            return e->code;
    return 0;
}

int agents_begin(struct agents *a, const struct live_job *j, bool is_cancel, struct err *e)
{
    size_t free = 0;
    size_t at = 0;

    for (size_t i = 0; i < N_ORDERS; i++)
        free += !a->orders[i].is_used;
    if (free < j->n) /* a part of the nodes would be left out silently */
        return err_set(e, ERR_REFUSED,
                       "%zu nodes are too many at once: %zu requests wait for agents, of at most %d", j->n,
                       N_ORDERS - free, N_ORDERS);
    for (size_t i = 0; at < j->n; i++) {
        struct order *w = &a->orders[i];

        if (w->is_used)
            continue;
        *w = (struct order){.is_used = true,
                            .task = {.is_cancel = is_cancel},
                            .agent = j->nodes[at].agent,
                            .node = j->nodes[at].node,
                            .attempt = j->nodes[at].attempt};
        memcpy(w->task.id, j->id, sizeof w->task.id);
        at++;
    }
    return 0;
}

static bool is_same(const struct agents_task *x, const struct agents_task *y)
{
    return x->is_cancel == y->is_cancel && strcmp(x->id, y->id) == 0;
}

/* Frees the orders of the task. */
bool agents_next_done(struct agents *a, struct agents_task *out, struct err *why)
{
    for (size_t i = 0; i < N_ORDERS; i++) {
        struct order *w = &a->orders[i];
        bool is_done = w->is_used && w->is_over;

        for (size_t k = 0; k < N_ORDERS && is_done; k++)
            is_done = !a->orders[k].is_used || a->orders[k].is_over || !is_same(&a->orders[k].task, &w->task);
        if (!is_done)
            continue;
        *out = w->task;
        *why = (struct err){0};
        for (size_t k = 0; k < N_ORDERS; k++) {
            if (!a->orders[k].is_used || !is_same(&a->orders[k].task, out))
                continue;
            if (why->code == 0)
                *why = a->orders[k].why;
            a->orders[k].is_used = false;
        }
        return true;
    }
    return false;
}

bool agents_folder(char *out, size_t size, const struct agents *a, const char *id)
{
    return job_files_folder(out, size, &a->copies, id);
}
