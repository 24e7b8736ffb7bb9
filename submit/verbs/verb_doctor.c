/* doctor: says what keeps this machine, or an agent of worker.json, from running a job, and what to do about
 * it. Without that file it checks this machine only. With --connect it also runs a small job, which shows
 * that all nodes reach each other. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/compile.h"
#include "submit/doctor/probed_host.h"
#include "submit/files/temp.h"
#include "submit/job/job_node.h"
#include "submit/job/outcome.h"
#include "submit/options/hosts.h"
#include "submit/queue/queue_process.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static const double DOCTOR_S = 8;   /* an agent that has not answered by then counts as unreachable */
static const double FURTHER_S = 12; /* an agent gives its interpreter of training programs 10 s */

/* A job of a few steps on all agents of the list. It shows that every node reaches every other at its data
 * port and exchanges what a job exchanges. An agent connects only to the peers of a job (docs/protocol.md),
 * so nothing less than a job can show it. */
struct test_job {
    int code;        /* err_code; 0: it has succeeded, or was not run */
    char text[1400]; /* one sentence; "": not run */
};

struct doctor {
    struct worker_list workers;
    struct probed_host *all; /* (n): this machine, then the nodes of worker.json */
    size_t n;
    struct test_job test_job; /* with --connect */
};

/* The jobs of the queue, and the process that starts them, which this starts if it has been killed. */
static void check_queue(struct probed_host *p)
{
    struct queue_state q = {0};
    struct err e = {0};
    bool is_started = false;

    if (queue_state_read(&q, &e) < 0) {
        probed_host_note(p, FINDING_WARNING, "queue", NULL, "the queue cannot be read: %s", e.text);
    } else if (q.n > 0) {
        is_started = !q.watcher && queue_process_watch(&e) > 0;
        if (q.watcher)
            probed_host_note(p, FINDING_OK, "queue", NULL, "process %ld starts the %zu jobs of the queue",
                             q.watcher, q.n);
        else
            probed_host_note(p, FINDING_WARNING, "queue", "job_submit list shows the jobs.",
                             is_started ? "the queue has %zu jobs, and no process started them: one does now"
                                        : "the queue has %zu jobs, and no process starts them",
                             q.n);
    }
    queue_state_clear(&q);
}

/* A user's codec is compiled on this machine, by $CC or else cc. */
static void check_own_compiler(struct probed_host *p)
{
    const char *cc = getenv("CC");
    char version[256];

    cc = cc && cc[0] ? cc : "cc";
    compile_version(version, sizeof version, cc);
    if (version[0])
        probed_host_note(p, FINDING_OK, "codecs", NULL, "codecs that are written here are compiled by %s",
                         version);
    else
        probed_host_note(p, FINDING_WARNING, "codecs", "Install gcc or clang, or set CC.",
                         "%s does not run, so a codec that is a .c file cannot be submitted from here", cc);
}

/* A missing list is an error only if the user names it. */
static int read_workers(struct doctor *d, const struct options *o, struct err *e)
{
    bool is_named = getenv("PSGD_WORKERS") || o->worker_hosts[0] || strcmp(o->workers, "worker.json") != 0;

    if (!is_named && access(o->workers, F_OK) < 0 && errno == ENOENT) {
        console_info("There is no %s, so only this machine is checked.", o->workers);
        return 0;
    }
    return hosts_read(&d->workers, o, e);
}

/* A spare gets the number of a further worker. */
static void open_host(struct probed_host *p, size_t i, const struct worker_list *w, const struct options *o)
{
    size_t n_listed = w->n_workers + w->n_servers;
    struct err e;

    p->role = i < w->n_workers ? "worker" : i < n_listed ? "server" : "spare";
    p->node.at = w->nodes[i];
    if (i >= n_listed)
        p->node.at.node = (int)(i - w->n_servers);
    snprintf(p->node.label, sizeof p->node.label, "agent %s", p->node.at.address);
    if (node_find_access(&p->node, &o->credentials, &e) < 0)
        probed_host_fail(p, "access", &e);
}

static void read_answer(struct probed_host *p, double sent_at, double sent_wall)
{
    struct err e;

    p->connect_s = p->node.call.received_at - sent_at;
    if (node_answer(&p->node, &e) < 0 ||
        probed_host_read(p, p->node.call.reply ? p->node.call.reply : "", p->node.call.reply_len, &e) < 0) {
        if (e.code == ERR_UNREACHABLE && !e.hint[0])
            err_hint(&e, "Start the agent there, or correct its address in worker.json.");
        probed_host_fail(p, "reached", &e);
        return;
    }
    p->clock_ahead_s -= sent_wall + p->connect_s; /* the answer was written just before it was received */
}

/* Polls until no call is under way, or the deadline. */
static int finish_calls(struct http *h, const struct probed_host *all, size_t n, double deadline,
                        struct err *e)
{
    bool busy = true;

    while (busy && clock_now() < deadline) {
        http_poll(h, 0.1);
        if (interrupt_check(e) < 0)
            return e->code;
        busy = false;
        for (size_t i = 0; i < n; i++)
            busy |= all[i].node.call.busy;
    }
    return 0;
}

static int ask_all(struct http *h, struct probed_host *all, size_t n, struct err *e)
{
    double sent_at, sent_wall;
    struct err why;

    if (n > 0 && node_prove_all(&all[0].node, n, sizeof *all, e) < 0)
        return e->code;
    sent_at = clock_now();
    sent_wall = clock_wall();
    for (size_t i = 0; i < n; i++)
        if (!all[i].code && !node_must_prove(&all[i].node) &&
            node_ask(h, &all[i].node, "GET", NULL, 0, &why, "/v1/agent") < 0)
            probed_host_fail(&all[i], "reached", &why);
    if (finish_calls(h, all, n, sent_at + DOCTOR_S, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++) {
        struct probed_host *p = &all[i];

        if (p->node.call.busy) {
            err_set(&why, ERR_UNREACHABLE, "node(%d): %s has not answered for %g s", p->node.at.node,
                    p->node.label, DOCTOR_S);
            err_hint(&why, "Is that machine on, and does its firewall let this one reach the port?");
            probed_host_fail(p, "reached", &why);
            http_clear(h, &p->node.call);
        } else if (!p->code)
            read_answer(p, sent_at, sent_wall);
    }
    return 0;
}

/* Measures a second request, on the connections of the first. */
static int measure_round_trips(struct http *h, struct probed_host *all, size_t n, struct err *e)
{
    double sent_at = clock_now();
    struct err ignored;

    for (size_t i = 0; i < n; i++)
        if (all[i].has_answered)
            node_ask(h, &all[i].node, "GET", NULL, 0, &ignored, "/healthz");
    if (finish_calls(h, all, n, sent_at + DOCTOR_S, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++)
        all[i].round_trip_s = all[i].has_answered && !all[i].node.call.busy && all[i].node.call.status == 200
                                  ? all[i].node.call.received_at - sent_at
                                  : NAN;
    return 0;
}

/* What an agent finds out only when it is asked. */
struct further_question {
    const char *path;
    bool (*is_for)(const struct probed_host *p);
    int (*read)(struct probed_host *p, const char *text, size_t len, struct err *e);
};

static bool has_answered(const struct probed_host *p)
{
    return p->has_answered;
}

/* An agent that does not answer it, as an older one does not, can be used. */
static int ask_further(struct http *h, struct probed_host *all, size_t n, const struct further_question *q,
                       struct err *e)
{
    struct err ignored;
    bool is_any = false;

    for (size_t i = 0; i < n; i++)
        if (q->is_for(&all[i]) && !all[i].node.call.busy)
            is_any |= node_ask(h, &all[i].node, "GET", NULL, 0, &ignored, "%s", q->path) == 0;
    if (is_any && finish_calls(h, all, n, clock_now() + FURTHER_S, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++) {
        const struct http_request *call = &all[i].node.call;

        if (q->is_for(&all[i]) && !call->busy && call->status == 200)
            q->read(&all[i], call->reply ? call->reply : "", call->reply_len, &ignored);
    }
    return 0;
}

static const struct further_question about_runner = {"/v1/agent/runner", has_answered,
                                                     probed_host_read_runner},
                                     about_trainers = {"/v1/agent/trainers", probed_host_runs_trainers,
                                                       probed_host_read_trainers};

/* Asks all agents at once, then for a round trip, then for their runners and what training programs find.
 * Agents with an error already are left out. Returns when all have answered or the time for it is over.
 * ERR_CANCELLED. */
static int ask_hosts(struct probed_host *all, size_t n, struct err *e)
{
    struct http *h = http_new(e);
    int rc;

    if (!h)
        return e->code;
    rc = ask_all(h, all, n, e);
    if (rc == 0)
        rc = measure_round_trips(h, all, n, e);
    if (rc == 0)
        rc = ask_further(h, all, n, &about_runner, e);
    if (rc == 0)
        rc = ask_further(h, all, n, &about_trainers, e);
    for (size_t i = 0; i < n; i++)
        node_forget(h, &all[i].node);
    http_free(h);
    return rc;
}

static const struct probed_host *first_answered(const struct doctor *d)
{
    for (size_t i = 1; i < d->n; i++)
        if (d->all[i].has_answered)
            return &d->all[i];
    return &d->all[0];
}

static int examine_hosts(struct doctor *d, const struct options *o, struct err *e)
{
    size_t n_listed = d->workers.n_workers + d->workers.n_servers + d->workers.n_spares;

    d->all = calloc(n_listed + 1, sizeof *d->all);
    if (!d->all)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n_listed);
    d->n = n_listed + 1;
    probed_host_read_here(&d->all[0]);
    for (size_t i = 1; i < d->n; i++)
        open_host(&d->all[i], i - 1, &d->workers, o);
    if (n_listed > 0)
        console_info("Asking %zu agent%s; an agent without an answer within %g s counts as unreachable.",
                     n_listed, n_listed == 1 ? "" : "s", DOCTOR_S);
    if (node_find_moved(&d->all[1].node, n_listed, sizeof *d->all, e) < 0)
        return e->code;
    for (size_t i = 1; i < d->n; i++)
        d->all[i].has_token = d->all[i].node.token[0];
    if (ask_hosts(d->all + 1, n_listed, e) < 0)
        return e->code;
    for (size_t i = 0; i < d->n; i++)
        if (d->all[i].has_answered)
            probed_host_check(&d->all[i], first_answered(d));
    check_own_compiler(&d->all[0]);
    check_queue(&d->all[0]);
    return 0;
}

/* A few steps of softmax regression on the built-in digits, whose gradients all workers sum over TCP. */
static int set_test_options(struct options *o, const struct options *given, size_t n_agents,
                            const char *folder, struct err *e)
{
    enum { BATCH = 1000, ROUND_TIMEOUT_S = 10, TIME_LIMIT_S = 60 };

    *o = *given;
    o->no_queue = o->quiet = o->all_are_workers = true;
    o->settings.node_count = (int)n_agents;
    o->settings.batch_size = BATCH;
    o->settings.epochs = 1;
    o->settings.local_path = LOCAL_PATH_OFF;
    o->settings.round_timeout_s = ROUND_TIMEOUT_S;
    o->settings.time_limit_s = TIME_LIMIT_S;
    snprintf(o->settings.name, sizeof o->settings.name, "doctor");
    snprintf(o->codec, sizeof o->codec, "plain");
    snprintf(o->model, sizeof o->model, "softmax");
    return file_join(o->output, sizeof o->output, folder, "results", e);
}

static int run_test_job(struct submission *s, struct err *e)
{
    if (stage_read(s, e) < 0 || stage_check(s, e) < 0 || stage_place(s, e) < 0 || stage_ship(s, e) < 0)
        return e->code;
    if (submission_count_ended(s) == 0 && stage_start(s, e) < 0)
        return e->code;
    return stage_watch(s, e);
}

/* Deletes the job on the agents and in the list of jobs. */
static void delete_test_job(struct submission *s)
{
    struct err ignored;

    for (size_t i = 0; i < s->n_nodes; i++)
        node_ask(s->http, &s->nodes[i], "DELETE", NULL, 0, &ignored, "/v1/jobs/%s", s->id);
    submission_finish_calls(s);
    job_index_remove(s->id);
}

static void describe_test_job(struct test_job *t, const struct submission *s, double seconds)
{
    int at = outcome_cause(s);
    const struct job_node *n = at >= 0 ? &s->nodes[at] : NULL;

    if (!n && outcome_state(s, JOB_FAILED) == JOB_SUCCEEDED) {
        snprintf(t->text, sizeof t->text, "All %zu nodes have connected and summed gradients, in %.1f s.",
                 s->n_nodes, seconds);
        return;
    }
    t->code = ERR_LOST;
    if (n)
        snprintf(t->text, sizeof t->text, "%s, node %d in the order above: %s: %s", n->at.address, n->at.node,
                 n->view.reason, n->view.message);
    else
        snprintf(t->text, sizeof t->text, "An agent has not answered until the end of the job.");
}

/* Runs it on all n_agents agents of the list, each as a worker: first the workers, then the servers, then the
 * spares. Leaves nothing on the agents. */
static void test_connections(struct test_job *t, const struct options *given, size_t n_agents)
{
    struct options *o = malloc(sizeof *o);
    struct submission s = {0};
    struct temp folder;
    struct err e = {0};
    double started = clock_now();

    if (!o || temp_open(&folder, &e) < 0) {
        t->code = o ? e.code : ERR_NOMEM;
        snprintf(t->text, sizeof t->text, "%s", o ? e.text : "no memory");
        free(o);
        return;
    }
    if (set_test_options(o, given, n_agents, folder.path, &e) < 0 || submission_init(&s, o, &e) < 0 ||
        run_test_job(&s, &e) < 0) {
        t->code = e.code;
        snprintf(t->text, sizeof t->text, "%s", e.text);
        if (s.n_nodes > 0)
            submission_release(&s, e.text);
    } else
        describe_test_job(t, &s, clock_now() - started);
    if (s.http)
        delete_test_job(&s);
    submission_clear(&s);
    temp_close(&folder);
    free(o);
}

/* The exit status of the first error. Agents come first, because this machine can submit in any case. */
static int status_of(const struct doctor *d)
{
    for (size_t i = 1; i < d->n; i++)
        if (d->all[i].code)
            return exit_status_of(d->all[i].code);
    if (d->all[0].code || d->test_job.code)
        return exit_status_of(d->all[0].code ? d->all[0].code : d->test_job.code);
    return 0;
}

static json_t *findings_json(const struct probed_host *p)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_findings; i++) {
        const struct finding *f = &p->findings[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:o?}", "check", f->check, "level",
                                        finding_level_name(f->level), "text", json_text(f->text, SIZE_MAX),
                                        "fix", f->fix[0] ? json_text(f->fix, SIZE_MAX) : NULL));
    }
    return list;
}

static json_t *host_json(const struct probed_host *p)
{
    json_t *o = json_pack("{s:s, s:o}", "level", finding_level_name(probed_host_level(p)), "findings",
                          findings_json(p));

    if (p->is_here)
        return o;
    json_object_set_new(o, "node", json_integer(p->node.at.node));
    json_object_set_new(o, "role", json_string(p->role));
    json_object_set_new(o, "address", json_string(p->node.at.address));
    json_object_set_new(o, "connect_s", json_real_or_null(p->has_answered ? p->connect_s : NAN));
    json_object_set_new(o, "round_trip_s", json_real_or_null(p->has_answered ? p->round_trip_s : NAN));
    json_object_set_new(o, "clock_ahead_s", json_real_or_null(p->has_answered ? p->clock_ahead_s : NAN));
    return o;
}

static void print_json(const struct doctor *d, int status)
{
    json_t *nodes = json_array();
    json_t *o = json_pack("{s:f, s:o, s:O}", "deadline_s", DOCTOR_S, "here", host_json(&d->all[0]), "nodes",
                          nodes);

    for (size_t i = 1; i < d->n; i++)
        json_array_append_new(nodes, host_json(&d->all[i]));
    json_decref(nodes);
    if (d->test_job.text[0])
        json_object_set_new(o, "connect",
                            json_pack("{s:s, s:o}", "level", d->test_job.code ? "error" : "ok", "text",
                                      json_text(d->test_job.text, SIZE_MAX)));
    stdout_json(status == 0, o, NULL, NULL);
}

static void print_heading(const struct probed_host *p)
{
    static const char *const usable[] = {"can be used", "can be used", "cannot be used"};

    if (p->is_here)
        text_print("this machine: %s\n", finding_level_name(probed_host_level(p)));
    else
        text_print("node(%d)%s %s: %s\n", p->node.at.node, strcmp(p->role, "spare") == 0 ? ", a spare," : "",
                   p->node.at.address, usable[probed_host_level(p)]);
}

/* True if the finding is ok and has the text of this machine's, which is printed first. */
static bool is_as_here(const struct finding *f, const struct probed_host *here)
{
    if (f->level != FINDING_OK)
        return false;
    for (size_t i = 0; i < here->n_findings; i++)
        if (strcmp(f->check, here->findings[i].check) == 0)
            return strcmp(f->text, here->findings[i].text) == 0;
    return false;
}

static void print_host(const struct probed_host *p, const struct probed_host *here, bool only_bad)
{
    char same[FINDINGS_MAX * 20] = "";

    print_heading(p);
    for (size_t i = 0; i < p->n_findings; i++) {
        const struct finding *f = &p->findings[i];

        if (only_bad && f->level == FINDING_OK)
            continue;
        if (!p->is_here && is_as_here(f, here)) {
            size_t len = strlen(same);

            snprintf(same + len, sizeof same - len, "%s%s", len ? ", " : "", f->check);
            continue;
        }
        text_print("  %-8s %-14s %s%s\n", finding_level_name(f->level), f->check, f->text,
                   text_stop(f->text));
        if (f->fix[0])
            text_print("  %-8s %-14s to do: %s\n", "", "", f->fix);
    }
    if (same[0])
        text_print("  %-8s %-14s %s.\n", finding_level_name(FINDING_OK), "as here", same);
}

static void print_all(const struct doctor *d, bool only_bad)
{
    for (size_t i = 0; i < d->n; i++)
        print_host(&d->all[i], &d->all[0], only_bad);
    if (d->test_job.text[0])
        text_print("connections between nodes: %s\n  %s\n", d->test_job.code ? "error" : "ok",
                   d->test_job.text);
}

int verb_doctor(const struct options *o, struct err *e)
{
    struct doctor d = {0};
    int status = read_workers(&d, o, e) < 0 || examine_hosts(&d, o, e) < 0 ? e->code : status_of(&d);

    if (status == 0 && o->connect && d.n > 1) {
        test_connections(&d.test_job, o, d.n - 1);
        status = status_of(&d);
    }
    if (status >= 0 && o->json)
        print_json(&d, status);
    else if (status >= 0)
        print_all(&d, o->quiet);
    free(d.all);
    worker_list_clear(&d.workers);
    return status;
}
