#include "submit/browse/browse.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/browse/agents.h"
#include "submit/browse/documents.h"
#include "submit/browse/result_cache.h"
#include "submit/browse/result_list.h"
#include "submit/browse/server.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"

enum { FETCHED = 64 };

/* Seconds from one update of the list to the next, from one scan of folders to the next, in which fetched
 * files count as up to date, and in one wait for agents. */
static const double update_s = 1, scan_s = 2, fresh_s = 0.7, wait_s = 0.05;

struct browser {
    struct result_list results;
    struct agents *agents;
    struct job_list *job_list;
    struct server *server;
    struct live_jobs live; /* as of the last update */
    json_t *known;         /* {id: its record in the index of jobs} */
    struct {
        char id[LISTED_ID];
        double at;
        struct err why; /* code 0: all files were fetched */
    } fetched[FETCHED]; /* the last fetches of a job's files */
    size_t n_fetched;
    double update_at, scan_at;
    uint64_t agents_version, results_version; /* at the last update */
    bool must_update;
    bool had_queue; /* the list of the last update has jobs of the queue */
};

/* The record of a job in this user's index. NULL: another user submitted it, or job_submit has not written
 * the record yet: it does so after the agents have the job. */
static const json_t *known_of(struct browser *b, const char *id)
{
    json_t *known = json_object_get(b->known, id);
    struct err ignored;

    if (!known &&
        (job_index_read_id(&known, id, &ignored) < 0 || json_object_set_new(b->known, id, known) < 0))
        return NULL;
    return json_is_object(known) ? known : NULL;
}

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for the list of jobs");
}

static int put_live(struct listed_job *out, struct browser *b, const struct live_job *j,
                    const struct result_folder *result, struct err *e)
{
    const char *folder = result ? shown_text(result->line, "folder") : NULL;
    json_t *run = live_run(j, known_of(b, j->id));
    char copies[PATH_MAX];

    *out = (struct listed_job){.can_cancel = !j->is_ended, .rows = j->is_ended ? 0 : j->steps};
    snprintf(out->id, sizeof out->id, "%s", j->id);
    out->run = run ? json_dump(run, JSON_COMPACT) : NULL;
    out->line = run ? document_line(run, j->id, folder, out->can_cancel) : NULL;
    if (result && out->line)
        json_object_set(out->line, "sweep", json_object_get(result->line, "sweep"));
    out->folder = agents_folder(copies, sizeof copies, b->agents, j->id) ? strdup(copies) : NULL;
    json_decref(run);
    return out->run && out->line ? 0 : no_memory(e);
}

/* The line of a job that has not ended by its folder and that no agent lists, with a message that its state
 * may be old, and why. */
static json_t *explain_old_state(const struct browser *b, const json_t *line)
{
    json_t *out = json_deep_copy(line), *agents = agents_json(b->agents), *agent;
    const char *why = NULL;
    size_t i;

    json_array_foreach(agents, i, agent)
    {
        const char *state = shown_text(agent, "state");

        if (!why && state && strcmp(state, "unreachable") == 0)
            why = shown_text(agent, "message");
    }
    json_object_set_new(
        out, "message",
        json_sprintf("the last recorded state: %s", why ? why : "no agent of worker.json has the job"));
    json_decref(agents);
    return out;
}

static int put_result(struct listed_job *out, const struct browser *b, const struct result_folder *result,
                      struct err *e)
{
    *out = (struct listed_job){.folder = strdup(result->folder),
                               .line = result->is_settled ? json_incref(result->line)
                                                          : explain_old_state(b, result->line)};
    snprintf(out->id, sizeof out->id, "%s", result->id);
    return out->folder && out->line ? 0 : no_memory(e);
}

/* A job that waits in this user's queue: its record, with the place and what it waits for as message. */
static int put_queued(struct listed_job *out, const struct queue_state *q, const char *id, struct err *e)
{
    struct queue_view v;
    json_t *record;

    queue_state_view(&v, q, id);
    if (job_index_read_id(&record, id, e) < 0)
        return e->code;
    json_object_set_new(record, "state", json_string("queued"));
    json_object_set_new(
        record, "message",
        json_sprintf("place %zu of %zu%s%s", v.place, v.n_waiting, v.why[0] ? ": " : "", v.why));
    *out = (struct listed_job){.can_cancel = true};
    snprintf(out->id, sizeof out->id, "%s", id);
    out->run = json_dump(record, JSON_COMPACT);
    out->line = document_line(record, id, NULL, true);
    json_decref(record);
    return out->run && out->line ? 0 : no_memory(e);
}

/* A job that waits in the queue of another user, as an agent says; nothing else is known of it. */
static int put_waiting(struct listed_job *out, const json_t *job, const char *user, struct err *e)
{
    const char *id = shown_text(job, "id");
    json_t *run = json_pack("{s:s, s:O?, s:s, s:s, s:o, s:O?, s:{s:O?, s:O?}}", "id", id, "name",
                            json_object_get(job, "name"), "state", "queued", "submitted_by", user, "message",
                            json_sprintf("waits in the queue of %s", user), "submitted_at",
                            json_object_get(job, "submitted_at"), "settings", "codec",
                            json_object_get(job, "codec"), "node_count", json_object_get(job, "nodes"));

    *out = (struct listed_job){0};
    snprintf(out->id, sizeof out->id, "%s", id);
    out->run = run ? json_dump(run, JSON_COMPACT) : NULL;
    out->line = run ? document_line(run, id, NULL, false) : NULL;
    json_decref(run);
    return out->run && out->line ? 0 : no_memory(e);
}

static bool is_put(const struct listed_job *jobs, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(jobs[i].id, id) == 0)
            return true;
    return false;
}

static void put_queue(struct listed_job *jobs, size_t *n, const struct queue_state *q)
{
    struct err ignored; /* its record cannot be read; list says so */

    for (size_t i = 0; i < q->n; i++)
        if (!is_put(jobs, *n, q->jobs[i].id) && queue_state_has(q, q->jobs[i].id) &&
            put_queued(&jobs[*n], q, q->jobs[i].id, &ignored) == 0)
            ++*n;
}

static size_t count_waiting(const json_t *waiting)
{
    const json_t *user;
    size_t i, n = 0;

    json_array_foreach(waiting, i, user) n += json_array_size(json_object_get(user, "jobs"));
    return n;
}

/* The jobs of other users. Those of this user that have just left the queue are in the index. */
static int put_waiting_jobs(struct listed_job *jobs, size_t *n, struct browser *b, const json_t *waiting,
                            struct err *e)
{
    const json_t *user, *job;
    size_t i, k;

    json_array_foreach(waiting, i, user) json_array_foreach(json_object_get(user, "jobs"), k, job)
    {
        const char *id = shown_text(job, "id");

        if (!is_put(jobs, *n, id) && !known_of(b, id) &&
            put_waiting(&jobs[(*n)++], job, shown_text(user, "user"), e) < 0)
            return e->code;
    }
    return 0;
}

/* The newest job comes first. */
static int compare_jobs(const void *a, const void *b)
{
    const struct listed_job *x = a, *y = b;
    const char *at = shown_text(x->line, "created_at"), *other = shown_text(y->line, "created_at");
    int order = strcmp(other ? other : "", at ? at : "");

    return order ? order : strcmp(y->id, x->id);
}

/* Has its user deleted the results of a job that agents still have? */
static bool is_deleted(struct browser *b, const struct live_job *j)
{
    const json_t *known = j->is_ended ? known_of(b, j->id) : NULL;

    return json_is_true(json_object_get(json_object_get(known, "facts"), "deleted"));
}

/* A job in a folder and on agents is listed once: from the folder, if that has the job's end. */
static int put_jobs(struct listed_job *jobs, size_t *n, struct browser *b, struct err *e)
{
    for (size_t i = 0; i < b->live.n; i++) {
        const struct live_job *j = &b->live.jobs[i];
        const struct result_folder *result = result_list_find(&b->results, j->id);

        if ((result && result->is_settled && j->is_ended) || is_deleted(b, j))
            continue;
        if (put_live(&jobs[(*n)++], b, j, result, e) < 0)
            return e->code;
    }
    for (size_t i = 0; i < b->results.n; i++) {
        const struct result_folder *result = &b->results.folders[i];
        const struct live_job *j = live_find(&b->live, result->id);

        if (!result->line || (j && !(result->is_settled && j->is_ended)))
            continue;
        if (put_result(&jobs[(*n)++], b, result, e) < 0)
            return e->code;
    }
    return 0;
}

static int update_list(struct browser *b, struct err *e)
{
    struct queue_state queue = {0};
    struct listed_job *jobs;
    json_t *waiting;
    size_t n = 0;
    int rc;

    live_clear(&b->live);
    if (agents_jobs(&b->live, b->agents, e) < 0)
        return e->code;
    if (queue_state_read(&queue, e) < 0) {
        queue_state_clear(&queue);
        return e->code;
    }
    waiting = agents_waiting(b->agents);
    jobs = calloc(b->live.n + b->results.n + queue.n + count_waiting(waiting) + 1, sizeof *jobs);
    rc = jobs ? put_jobs(jobs, &n, b, e) : no_memory(e);
    if (rc == 0) {
        put_queue(jobs, &n, &queue);
        rc = put_waiting_jobs(jobs, &n, b, waiting, e);
    }
    b->had_queue = queue.n > 0;
    json_decref(waiting);
    queue_state_clear(&queue);
    if (rc < 0) {
        listed_jobs_free(jobs, n);
        return e->code; /* the list stays as it was */
    }
    qsort(jobs, n, sizeof *jobs, compare_jobs);
    job_list_put(b->job_list, jobs, n, agents_json(b->agents));
    return 0;
}

/* Were a job's files fetched within fresh_s? The browser requests several documents of one job at once. `e`:
 * the result of that fetch. */
static bool is_fresh(const struct browser *b, const char *id, struct err *e)
{
    for (size_t i = 0; i < FETCHED; i++) {
        if (strcmp(b->fetched[i].id, id) != 0 || clock_now() >= b->fetched[i].at + fresh_s)
            continue;
        *e = b->fetched[i].why;
        return true;
    }
    return false;
}

static void take_requests(struct browser *b)
{
    enum job_request_kind what;
    char id[LISTED_ID];

    while (job_list_take_request(b->job_list, &what, id)) {
        const struct live_job *j = live_find(&b->live, id);
        struct err e = {0};

        if (what == JOB_REQUEST_CANCEL && queue_folder_has(id) && !j)
            queue_folder_cancel(id, "cancelled on the page", &e);
        else if (!j)
            err_set(&e, ERR_CONFLICT, "no agent that answers has %s", id);
        b->must_update |= what == JOB_REQUEST_CANCEL;
        if (!j || (what == JOB_REQUEST_FETCH && is_fresh(b, id, &e)) ||
            agents_begin(b->agents, j, what == JOB_REQUEST_CANCEL, &e) < 0)
            job_list_request_done(b->job_list, what, id, &e);
    }
}

static void take_done(struct browser *b)
{
    struct agents_task task;
    struct err why;

    while (agents_next_done(b->agents, &task, &why)) {
        if (!task.is_cancel) {
            size_t i = b->n_fetched++ % FETCHED;

            memcpy(b->fetched[i].id, task.id, sizeof task.id);
            b->fetched[i].at = clock_now();
            b->fetched[i].why = why;
        }
        b->must_update = true; /* the job has a folder now, or another state */
        job_list_request_done(b->job_list, task.is_cancel ? JOB_REQUEST_CANCEL : JOB_REQUEST_FETCH, task.id,
                              &why);
    }
}

/* The time of the next run of work that began at `since`: after `pause_s`, and late enough that the work
 * takes at most a twentieth of a processor's time. */
static double next_start(double since, double pause_s)
{
    double now = clock_now();

    return now + fmax(pause_s, 19 * (now - since));
}

/* Is an update due? */
static bool is_due(struct browser *b)
{
    uint64_t agents = agents_version(b->agents);
    bool is_new = b->must_update || b->agents_version != agents || b->results_version != b->results.version;

    if (!is_new || (!b->must_update && clock_now() < b->update_at))
        return false;
    b->must_update = false;
    b->agents_version = agents;
    b->results_version = b->results.version;
    return true;
}

/* Scans folders and updates the list when these are due. */
static int scan_and_update(struct browser *b, struct err *e)
{
    double since = clock_now();

    if (job_list_take_scan(b->job_list)) {
        json_object_clear(b->known);
        b->scan_at = b->update_at = since;
    }
    if (since >= b->scan_at) {
        if (result_list_scan(&b->results, e) < 0)
            return e->code;
        /* The places of waiting jobs change, and the watcher ends with the last job. */
        b->must_update |= b->had_queue || queue_folder_watcher() != 0;
        b->scan_at = next_start(since, scan_s);
    }
    if (!is_due(b))
        return 0;
    since = clock_now();
    if (update_list(b, e) < 0)
        return e->code;
    b->update_at = next_start(since, update_s);
    return 0;
}

static int serve(struct browser *b, struct err *e)
{
    while (!interrupt_signal()) {
        if (scan_and_update(b, e) < 0)
            return e->code;
        take_requests(b);
        agents_poll(b->agents, wait_s);
        take_done(b);
    }
    return 0;
}

/* Starts the desktop's browser, in a session of its own, so that Ctrl-C does not end it too. */
static void open_browser(const struct server *s)
{
    const char *named = getenv("BROWSER");
    const char *program = named && named[0] ? named : "xdg-open";
    char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)server_url(s), NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    pid_t pid;
    int rc;

    if (!(named && named[0]) && !getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
        return;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    rc = posix_spawnp(&pid, program, &files, &how, argv, environ);
    if (rc != 0)
        console_info("No browser was started (%s: %s): open the address above.", program, strerror(rc));
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
}

static int open_all(struct browser *b, const struct options *o, const char *const *dirs, size_t n,
                    struct err *e)
{
    b->results.roots = dirs;
    b->results.n_roots = n;
    result_cache_load(&b->results);
    b->known = json_object();
    b->job_list = job_list_new();
    b->must_update = true;
    if (!b->known || !b->job_list)
        return no_memory(e);
    if (agents_open(&b->agents, o, e) < 0 || server_open(&b->server, b->job_list, o->port, e) < 0)
        return e->code;
    return 0;
}

static void print_url(const struct options *o, const char *url)
{
    if (o->json)
        stdout_json(true, json_pack("{s:s}", "url", url), NULL, NULL);
    else
        printf("%s\n", url);
    fflush(stdout);
}

static void say_what_is_shown(const struct browser *b, const struct options *o)
{
    const char *first = b->results.roots[0];
    char more[32] = "";

    if (b->results.n_roots > 1)
        snprintf(more, sizeof more, " and %zu more", b->results.n_roots - 1);
    console_info("The page shows the jobs of %s%s and of the agents in %s. Ctrl-C ends it.", first, more,
                 o->worker_hosts[0] ? "the list of hosts" : o->workers);
    if (b->results.n == 0 && b->live.n == 0)
        console_info("There are no results in %s%s yet, so the page is empty at first. job_submit writes "
                     "results to the "
                     "folder of -o, else below logs/; job_submit browse DIR shows the results in DIR.",
                     first, more);
}

int browse(const struct options *o, const char *const *dirs, size_t n, struct err *e)
{
    struct browser *b = calloc(1, sizeof *b);
    int rc = b ? open_all(b, o, dirs, n, e) : no_memory(e);

    if (rc == 0)
        rc = scan_and_update(b, e); /* so that the first page has all jobs in folders */
    if (rc == 0) {
        print_url(o, server_url(b->server));
        say_what_is_shown(b, o);
        result_cache_save(&b->results);
        if (!o->no_open)
            open_browser(b->server);
        rc = serve(b, e);
    }
    if (b && b->job_list)
        job_list_close(b->job_list);
    if (b) {
        server_close(b->server);
        result_cache_save(&b->results);
        live_clear(&b->live);
        result_list_clear(&b->results);
        agents_close(b->agents);
        job_list_free(b->job_list);
        json_decref(b->known);
    }
    free(b);
    return rc;
}
