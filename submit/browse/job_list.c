#include "submit/browse/job_list.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/json.h"
#include "submit/files/untrusted_folder.h"

enum { REQUESTS_MAX = 64 };

static const double fetch_s = 3, cancel_s = 20;

struct job_request {
    enum job_request_kind what;
    char id[LISTED_ID];
    enum { FREE, WAITS, TAKEN, DONE } state;
    size_t n_waiters;
    struct err why;
};

struct job_list {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any member has changed; on the monotonic clock */
    bool is_closed;
    struct listed_job *jobs;
    size_t n;
    json_t *agents;
    uint64_t version; /* of jobs and agents */
    uint64_t whole;   /* the version since which the list has had the same jobs in the same order */
    struct recorded {
        char id[LISTED_ID];
        uint64_t rows;
    } recorded[JOB_LIST_RECORDED]; /* the last of n_recorded */
    uint64_t n_recorded;
    struct job_request requests[REQUESTS_MAX];
    bool must_scan;
    struct deleted_job {
        char id[LISTED_ID];
        char *folder;
    } deleted[DELETED_MOST]; /* the last of n_deleted */
    size_t n_deleted;
};

struct job_list *job_list_new(void)
{
    struct job_list *s = calloc(1, sizeof *s);
    pthread_condattr_t how;

    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &how);
    pthread_condattr_destroy(&how);
    s->agents = json_array();
    if (s->agents)
        return s;
    job_list_free(s);
    return NULL;
}

void listed_jobs_free(struct listed_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(jobs[i].folder);
        free(jobs[i].run);
        free(jobs[i].text);
        json_decref(jobs[i].line);
    }
    free(jobs);
}

void job_list_free(struct job_list *s)
{
    if (!s)
        return;
    listed_jobs_free(s->jobs, s->n);
    json_decref(s->agents);
    for (size_t i = 0; i < DELETED_MOST; i++)
        free(s->deleted[i].folder);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static struct listed_job *find_listed(struct listed_job *jobs, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(jobs[i].id, id) == 0)
            return &jobs[i];
    return NULL;
}

static void put_json(FILE *out, const json_t *v)
{
    char *text = json_dump(v, JSON_COMPACT);

    fputs(text ? text : "null", out);
    free(text);
}

/* With the lock held: writes the list with the lines that have changed after a version; 0: all. It is written
 * as text, because no line may be shared with another thread: the counts of references are not atomic. */
static void write_list(FILE *out, const struct job_list *s, uint64_t after)
{
    const char *comma = "";

    fputs("{\"jobs\":[", out);
    for (size_t i = 0; i < s->n; i++) {
        if (s->jobs[i].version <= after)
            continue;
        fputs(comma, out);
        fputs(s->jobs[i].text ? s->jobs[i].text : "null", out);
        comma = ",";
    }
    fputs("],\"agents\":", out);
    put_json(out, s->agents);
    fputs("}", out);
}

static bool are_same_jobs(const struct job_list *s, const struct listed_job *jobs, size_t n)
{
    if (n != s->n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(s->jobs[i].id, jobs[i].id) != 0)
            return false;
    return true;
}

/* With the lock held: sets the versions and texts of the jobs that replace those of the list. */
static void set_versions(struct job_list *s, struct listed_job *jobs, size_t n, const json_t *agents)
{
    bool are_same = are_same_jobs(s, jobs, n);
    bool is_new = !are_same || !json_equal(s->agents, agents);

    for (size_t i = 0; i < n; i++) {
        bool is_old = are_same && json_equal(s->jobs[i].line, jobs[i].line);

        jobs[i].version = is_old ? s->jobs[i].version : s->version + 1;
        jobs[i].text = is_old ? s->jobs[i].text : json_dump(jobs[i].line, JSON_COMPACT);
        if (is_old)
            s->jobs[i].text = NULL; /* it has moved */
        is_new |= !is_old;
    }
    s->version += is_new;
    s->whole = are_same ? s->whole : s->version;
}

static void note_recorded(struct job_list *s, const struct listed_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct listed_job *before = jobs[i].rows > 0 ? find_listed(s->jobs, s->n, jobs[i].id) : NULL;
        struct recorded *g;

        if (!before || before->rows == jobs[i].rows)
            continue;
        g = &s->recorded[s->n_recorded++ % JOB_LIST_RECORDED];
        memcpy(g->id, jobs[i].id, sizeof g->id);
        g->rows = jobs[i].rows;
    }
}

void job_list_put(struct job_list *s, struct listed_job *jobs, size_t n, json_t *agents)
{
    struct listed_job *old;
    json_t *old_agents;
    size_t n_old;

    pthread_mutex_lock(&s->lock);
    if (!agents) /* no memory: the agents stay as they are */
        agents = json_incref(s->agents);
    note_recorded(s, jobs, n);
    set_versions(s, jobs, n, agents);
    old = s->jobs;
    n_old = s->n;
    old_agents = s->agents;
    s->jobs = jobs;
    s->n = n;
    s->agents = agents;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    listed_jobs_free(old, n_old);
    json_decref(old_agents);
}

bool job_list_take_request(struct job_list *s, enum job_request_kind *what, char id[LISTED_ID])
{
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < REQUESTS_MAX && !found; i++) {
        struct job_request *w = &s->requests[i];

        if (w->state != WAITS)
            continue;
        w->state = TAKEN;
        *what = w->what;
        memcpy(id, w->id, LISTED_ID);
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

void job_list_request_done(struct job_list *s, enum job_request_kind what, const char *id,
                           const struct err *e)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        struct job_request *w = &s->requests[i];

        if (w->state != TAKEN || w->what != what || strcmp(w->id, id) != 0)
            continue;
        w->state = w->n_waiters > 0 ? DONE : FREE;
        w->why = *e;
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void job_list_close(struct job_list *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_closed = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

char *job_list_json(struct job_list *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool is_whole;

    if (!out)
        return NULL;
    pthread_mutex_lock(&s->lock);
    write_list(out, s, 0);
    pthread_mutex_unlock(&s->lock);
    is_whole = !ferror(out);
    if (fclose(out) == 0 && is_whole)
        return text;
    free(text);
    return NULL;
}

static struct timespec in_seconds(double timeout_s)
{
    struct timespec t;
    long ns;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = t.tv_nsec + (long)((timeout_s - (double)(long)timeout_s) * 1e9);
    t.tv_sec += (time_t)timeout_s + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

/* With the lock held. Hands a request to the main thread and waits for its end. After ERR_TIMEOUT the main
 * thread goes on with it. */
static int await_request(struct job_list *s, enum job_request_kind what, const char *id, double timeout_s,
                         struct err *e)
{
    const struct timespec until = in_seconds(timeout_s);
    struct job_request *w = NULL;
    int rc = 0;

    for (size_t i = 0; i < REQUESTS_MAX && !w; i++)
        if (s->requests[i].state == WAITS && s->requests[i].what == what &&
            strcmp(s->requests[i].id, id) == 0)
            w = &s->requests[i]; /* shared with another thread, because it is not taken yet */
    for (size_t i = 0; i < REQUESTS_MAX && !w; i++)
        if (s->requests[i].state == FREE)
            w = &s->requests[i];
    if (!w)
        return err_set(e, ERR_REFUSED, "too many requests wait for agents; try again");
    if (w->state == FREE)
        *w = (struct job_request){.what = what, .state = WAITS};
    snprintf(w->id, sizeof w->id, "%s", id);
    w->n_waiters++;
    while (w->state != DONE && !s->is_closed && rc == 0)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    w->n_waiters--;
    rc = w->state == DONE ? 0 : err_set(e, ERR_TIMEOUT, "the agents have not answered in %g s", timeout_s);
    if (rc == 0 && w->why.code < 0) {
        *e = w->why;
        rc = e->code;
    }
    if (w->n_waiters == 0 && w->state == DONE)
        w->state = FREE;
    return rc;
}

static int no_job(const char *id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no job %.60s", id);
}

/* With the lock held: copies the members of a job that are used without the lock. */
static int copy_job(char **folder, char **run, json_t **line, struct err *stale, struct job_list *s,
                    const char *id, struct err *e)
{
    struct listed_job *j = find_listed(s->jobs, s->n, id);

    if (j && j->run) {
        await_request(s, JOB_REQUEST_FETCH, id, fetch_s, stale);
        j = find_listed(s->jobs, s->n, id);
    }
    if (!j)
        return no_job(id, e);
    *folder = j->folder ? strdup(j->folder) : NULL;
    *run = j->run ? strdup(j->run) : NULL;
    *line = json_deep_copy(j->line);
    if (*line && (*folder || !j->folder) && (*run || !j->run))
        return 0;
    free(*folder);
    free(*run);
    json_decref(*line);
    return err_set(e, ERR_NOMEM, "no memory for a job");
}

static int open_live(struct shown *out, const char *folder, const char *run, struct err *e)
{
    struct err ignored;

    *out = (struct shown){.dir = -1, .is_live = true};
    if (folder && untrusted_open(&out->dir, folder, &ignored) == 0)
        out->path = strdup(folder);
    else
        out->dir = -1;
    return json_parse(&out->run, run, strlen(run), "the job", e);
}

int job_list_open_job(struct shown *out, json_t **line, struct job_list *s, const char *id, struct err *e)
{
    char *folder = NULL;
    char *run = NULL;
    struct err stale = {0};
    int rc;

    *out = (struct shown){.dir = -1};
    pthread_mutex_lock(&s->lock);
    rc = copy_job(&folder, &run, line, &stale, s, id, e);
    pthread_mutex_unlock(&s->lock);
    if (rc < 0)
        return rc;
    rc = run ? open_live(out, folder, run, e) : shown_open(out, folder, e);
    out->stale = stale;
    if (rc < 0) {
        json_decref(*line);
        shown_clear(out);
    }
    free(folder);
    free(run);
    return rc;
}

static bool is_run_of(const struct listed_job *j, const char *folder)
{
    const char *at = shown_text(j->line, "folder");
    size_t len = strlen(folder);

    return at && shown_text(j->line, "sweep") && strncmp(at, folder, len) == 0 &&
           strncmp(at + len, "/runs/", 6) == 0;
}

int job_list_find_sweep(char (**ids)[LISTED_ID], size_t *n, struct job_list *s, const char *folder,
                        struct err *e)
{
    *n = 0;
    pthread_mutex_lock(&s->lock);
    *ids = calloc(s->n + 1, sizeof **ids);
    for (size_t i = s->n; *ids && i-- > 0;) /* the oldest first */
        if (is_run_of(&s->jobs[i], folder))
            memcpy((*ids)[(*n)++], s->jobs[i].id, sizeof **ids);
    pthread_mutex_unlock(&s->lock);
    if (!*ids)
        return err_set(e, ERR_NOMEM, "no memory for the runs of a sweep");
    return *n > 0 ? 0 : err_set(e, ERR_NOT_FOUND, "no run of a sweep is in %.200s/runs", folder);
}

void job_list_ask_scan(struct job_list *s)
{
    pthread_mutex_lock(&s->lock);
    s->must_scan = true;
    pthread_mutex_unlock(&s->lock);
}

bool job_list_take_scan(struct job_list *s)
{
    bool must;

    pthread_mutex_lock(&s->lock);
    must = s->must_scan;
    s->must_scan = false;
    pthread_mutex_unlock(&s->lock);
    return must;
}

void job_list_note_deleted(struct job_list *s, const char *id, const char *folder)
{
    struct deleted_job *d;

    pthread_mutex_lock(&s->lock);
    d = &s->deleted[s->n_deleted++ % DELETED_MOST];
    free(d->folder);
    d->folder = strdup(folder);
    snprintf(d->id, sizeof d->id, "%s", id);
    pthread_mutex_unlock(&s->lock);
}

bool job_list_find_deleted(char *out, size_t size, struct job_list *s, const char *id)
{
    bool is_found = false;

    pthread_mutex_lock(&s->lock);
    for (size_t k = 0; k < DELETED_MOST && k < s->n_deleted && !is_found; k++) { /* the last one first */
        const struct deleted_job *d = &s->deleted[(s->n_deleted - 1 - k) % DELETED_MOST];

        is_found = d->folder && strcmp(d->id, id) == 0 && snprintf(out, size, "%s", d->folder) < (int)size;
    }
    pthread_mutex_unlock(&s->lock);
    return is_found;
}

int job_list_cancel_job(struct job_list *s, const char *id, struct err *e)
{
    const struct listed_job *j;
    int rc;

    pthread_mutex_lock(&s->lock);
    j = find_listed(s->jobs, s->n, id);
    rc = !j               ? no_job(id, e)
         : !j->can_cancel ? err_set(e, ERR_CONFLICT, "no agent of worker.json runs %s", id)
                          : await_request(s, JOB_REQUEST_CANCEL, id, cancel_s, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void put_events(FILE *out, struct job_list *s, struct job_list_reader *r)
{
    bool is_first = r->list == 0;

    if (is_first)
        r->recorded = s->n_recorded;
    if (r->list != s->version + 1) {
        bool is_whole = is_first || r->list - 1 < s->whole;

        fprintf(out, "event: %s\ndata: ", is_whole ? "jobs" : "changed");
        write_list(out, s, is_whole ? 0 : r->list - 1);
        fputs("\n\n", out);
        r->list = s->version + 1;
    }
    if (s->n_recorded - r->recorded > JOB_LIST_RECORDED)
        r->recorded = s->n_recorded - JOB_LIST_RECORDED;
    for (; r->recorded < s->n_recorded; r->recorded++) {
        const struct recorded *g = &s->recorded[r->recorded % JOB_LIST_RECORDED];

        fprintf(out, "event: recorded\ndata: {\"id\":\"%s\",\"rows\":%llu}\n\n", g->id,
                (unsigned long long)g->rows);
    }
}

int job_list_events(FILE *out, struct job_list *s, struct job_list_reader *r, double timeout_s)
{
    const struct timespec until = in_seconds(timeout_s);
    bool is_closed;
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    while (!s->is_closed && rc == 0 && r->list == s->version + 1 && r->recorded == s->n_recorded)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    is_closed = s->is_closed;
    if (!is_closed)
        put_events(out, s, r);
    pthread_mutex_unlock(&s->lock);
    return is_closed ? -1 : 0;
}
