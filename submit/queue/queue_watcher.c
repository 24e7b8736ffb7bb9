#include "submit/queue/queue_watcher.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/queue/queue_agents.h"
#include "submit/queue/queue_process.h"
#include "submit/queue/watched_job.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/terminal/interrupt.h"

/* From one look at the folder to the next; the same where no change of it is reported; from the end of a
 * job's process until it is tried again, twice as long after each failure, and at most. */
static const double LOOK_S = 5, LOOK_BLIND_S = 0.5, AGAIN_S = 0.1, AGAIN_MOST_S = 5;

/* From one report of what the jobs wait for to the next. */
static const double SAY_S = 0.5;

struct queue_watcher {
    int lock_fd, inotify_fd, epoll_fd;
    struct queue_agents agents;
    struct watched_job *jobs; /* (n) in their order */
    size_t n;
    double look_at;
    const struct watched_job *first; /* of the waiting jobs */
    char first_id[JOB_ID_MAX];
    double first_since; /* clock_wall() when it became the first */
    json_t *said;       /* the last state that was written; NULL: none */
    double say_at;
};

/* Whether a process has the job's lock. */
static bool is_run_elsewhere(const struct watched_job *j)
{
    struct err e;
    int fd = queue_folder_lock(j->id, NULL, &e);

    if (fd >= 0)
        close(fd);
    return fd == ERR_CONFLICT;
}

static struct watched_job *find_job(struct queue_watcher *w, const char *id)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->jobs[i].id, id) == 0)
            return &w->jobs[i];
    return NULL;
}

/* The jobs of the new list, each with what is known of it. Those that are not in it are kept while their
 * process has not ended. */
static int merge_list(struct queue_watcher *w, const struct queued_job *list, size_t n, struct err *e)
{
    struct watched_job *jobs = calloc(n + w->n + 1, sizeof *jobs);
    size_t k = 0;

    if (!jobs)
        return err_set(e, ERR_NOMEM, "no memory for the waiting jobs");
    for (size_t i = 0; i < n; i++) {
        struct watched_job *known = find_job(w, list[i].id), *j = &jobs[k++];

        if (known) {
            *j = *known;
            known->is_seen = true;
            if (j->bad[0] && !j->pid)
                watched_job_read(j, &w->agents); /* it may be readable now */
        } else {
            *j = (struct watched_job){.fd = -1};
            memcpy(j->id, list[i].id, sizeof j->id);
            watched_job_read(j, &w->agents);
            j->is_elsewhere = is_run_elsewhere(j);
        }
        j->place = list[i].place;
        j->is_seen = false;
    }
    for (size_t i = 0; i < w->n; i++) {
        if (!w->jobs[i].is_seen && w->jobs[i].pid)
            jobs[k++] = w->jobs[i];
        else if (!w->jobs[i].is_seen)
            watched_job_forget(&w->jobs[i]);
    }
    free(w->jobs);
    w->jobs = jobs;
    w->n = k;
    return 0;
}

static int look_at_folder(struct queue_watcher *w, struct err *e)
{
    struct queued_job *list;
    size_t n;
    int rc;

    if (queue_folder_list(&list, &n, e) < 0)
        return e->code;
    rc = merge_list(w, list, n, e);
    free(list);
    for (size_t i = 0; i < w->n; i++)
        if (w->jobs[i].is_elsewhere)
            w->jobs[i].is_elsewhere = is_run_elsewhere(&w->jobs[i]);
    w->look_at = clock_now() + (w->inotify_fd >= 0 ? LOOK_S : LOOK_BLIND_S);
    return rc;
}

/* The agents' next answers count the nodes of a job that has been placed, or that has ended. */
static void release_promises(struct queue_watcher *w, struct watched_job *j)
{
    if (j->is_placed)
        return;
    j->is_placed = true;
    for (size_t i = 0; i < j->plan.n_workers + j->plan.n_servers; i++) {
        struct queue_agent *a = w->agents.list[j->chosen[i]];

        a->n_promised--;
        queue_agents_again(&w->agents, a);
    }
}

/* Has the process neither run the job nor returned it for its agents? It would fail again at once. */
static bool has_failed(const struct watched_job *j, int status)
{
    if (!j->is_placed || !WIFEXITED(status))
        return true;
    return WEXITSTATUS(status) != QUEUE_JOB_ENDED &&
           (WEXITSTATUS(status) != QUEUE_JOB_WAITS || j->is_resumed);
}

static void take_end(struct queue_watcher *w, struct watched_job *j)
{
    bool was_placed = j->is_placed, is_failure;
    int status = 0;

    if (waitpid(j->pid, &status, WNOHANG) == 0)
        return;
    is_failure = has_failed(j, status);
    release_promises(w, j);
    close(j->fd);
    j->fd = -1;
    j->pid = 0;
    watched_job_read_attempt(j);
    j->n_failed = is_failure ? j->n_failed + 1 : 0;
    j->again_at = clock_now() + fmin(AGAIN_MOST_S, ldexp(AGAIN_S, j->n_failed < 10 ? j->n_failed : 10));
    /* Until it is tried again, the agents must not take the silence of this process for a pass. */
    for (size_t i = 0; !was_placed && i < j->plan.n_workers + j->plan.n_servers; i++)
        w->agents.list[j->chosen[i]]->ask_at = j->again_at;
    w->look_at = 0;
}

/* Reads what the processes of the jobs have written. */
static void follow_processes(struct queue_watcher *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct watched_job *j = &w->jobs[i];
        char byte;
        ssize_t n;

        if (!j->pid)
            continue;
        n = recv(j->fd, &byte, 1, MSG_DONTWAIT);
        if (n == 1 && byte == QUEUE_PLACED)
            release_promises(w, j);
        else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            take_end(w, j);
    }
}

static int note_attempt(const struct queue_watcher *w, struct watched_job *j, const size_t *chosen,
                        struct err *e)
{
    json_t *nodes = json_array(), *o;
    int rc;

    for (size_t i = 0; i < j->plan.n_workers + j->plan.n_servers; i++)
        json_array_append_new(nodes, json_string(w->agents.list[chosen[i]]->node.at.address));
    o = json_pack("{s:i, s:o}", "attempt", j->attempt + 1, "nodes", nodes);
    rc = queue_folder_put(j->id, QUEUE_ATTEMPT, o, e);
    json_decref(o);
    if (rc == 0)
        j->attempt++;
    return rc;
}

static int start_process(struct queue_watcher *w, struct watched_job *j, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN};

    if (queue_process_run(&j->pid, &j->fd, j->id, e) < 0)
        return e->code;
    epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, j->fd, &ev);
    return 0;
}

static int start_job(struct queue_watcher *w, struct watched_job *j, const size_t *chosen, struct err *e)
{
    size_t n = j->plan.n_workers + j->plan.n_servers;

    if (note_attempt(w, j, chosen, e) < 0 || start_process(w, j, e) < 0)
        return e->code;
    memcpy(j->chosen, chosen, n * sizeof *chosen);
    j->is_placed = j->is_resumed = false;
    for (size_t i = 0; i < n; i++)
        w->agents.list[chosen[i]]->n_promised++;
    return 0;
}

static bool has_record_of_start(const struct watched_job *j)
{
    struct err ignored;
    json_t *record;
    bool is_started;

    if (job_index_read_id(&record, j->id, &ignored) < 0)
        return false;
    is_started = !json_is_true(json_object_get(record, "queued"));
    json_decref(record);
    return is_started;
}

static bool is_cancelled(const struct watched_job *j)
{
    char path[PATH_MAX];
    struct err ignored;

    return queue_folder_path(path, j->id, QUEUE_CANCEL, &ignored) == 0 && access(path, F_OK) == 0;
}

/* A job that was started before, and whose process has ended before it, or that is cancelled, needs no agents
 * that are free. */
static void resume_jobs(struct queue_watcher *w)
{
    struct err e;

    for (size_t i = 0; i < w->n; i++) {
        struct watched_job *j = &w->jobs[i];

        if (j->pid || j->is_elsewhere || clock_now() < j->again_at ||
            !(j->bad[0] || is_cancelled(j) || has_record_of_start(j)))
            continue;
        j->is_placed = j->is_resumed = true; /* no promises */
        j->again_at = clock_now() + AGAIN_S;
        if (start_process(w, j, &e) < 0)
            fprintf(stderr, "%s\n", e.text);
    }
}

static void count_free(struct plan_agent *out, const struct queue_agents *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct queue_agent *q = a->list[i];

        out[i] = (struct plan_agent){.is_usable = q->is_answering && !q->is_draining,
                                     .n_free = queue_agent_free(q)};
    }
}

/* The agent is told of a job that waits for it. The first one still does while it is tried. */
static void tell_agent(const struct queue_watcher *w, struct queue_agent *q, const struct watched_job *j)
{
    if (j == w->first) {
        memcpy(q->first, j->id, sizeof q->first);
        q->first_since = w->first_since;
        q->first_is_possible = j->plan.is_possible;
    }
    if (q->n_waiting++ == 0) {
        json_decref(q->jobs);
        q->jobs = json_array();
    }
    if (json_array_size(q->jobs) < QUEUE_JOBS_SHOWN)
        json_array_append(q->jobs, j->shown);
}

/* Whether its process tries to get the chosen agents. */
static bool is_tried(const struct watched_job *j)
{
    return j->pid && !j->is_placed;
}

/* Remembers since when the first of the waiting jobs is the first; it still is while it is tried, because its
 * agents may refuse. */
static void find_first(struct queue_watcher *w)
{
    w->first = NULL;
    for (size_t i = 0; i < w->n && !w->first; i++)
        if (w->jobs[i].plan.is_waiting || is_tried(&w->jobs[i]))
            w->first = &w->jobs[i];
    if (w->first && strcmp(w->first_id, w->first->id) != 0) {
        memcpy(w->first_id, w->first->id, sizeof w->first_id);
        w->first_since = clock_wall();
    }
}

/* A job is kept from when the agents keep their slots for it. */
static bool is_kept(const struct queue_watcher *w, const struct watched_job *j)
{
    double aging_s = 0;

    for (size_t i = 0; i < j->plan.n_listed + j->plan.n_servers; i++)
        aging_s = fmax(aging_s, w->agents.list[j->agents[i]]->aging_s);
    return j == w->first && j->plan.is_possible && clock_wall() - w->first_since >= aging_s;
}

/* Which jobs wait, and what the agents are told of them. */
static int choose_waiting(struct queue_watcher *w, struct err *e)
{
    struct plan_agent *agents = calloc(w->agents.n + 1, sizeof *agents);

    if (!agents)
        return err_set(e, ERR_NOMEM, "no memory for the agents");
    count_free(agents, &w->agents);
    for (size_t i = 0; i < w->agents.n; i++)
        queue_agent_tell_none(w->agents.list[i]);
    for (size_t i = 0; i < w->n; i++) {
        struct watched_job *j = &w->jobs[i];

        j->plan.is_waiting = !j->pid && !j->is_elsewhere && !j->bad[0];
        j->plan.is_possible = (j->plan.is_waiting || is_tried(j)) && queue_plan_is_possible(&j->plan, agents);
    }
    free(agents);
    find_first(w);
    for (size_t i = 0; i < w->n; i++) {
        struct watched_job *j = &w->jobs[i];

        j->plan.is_kept = j->plan.is_waiting && is_kept(w, j);
        for (size_t k = 0; (j->plan.is_waiting || j == w->first) && k < j->plan.n_listed + j->plan.n_servers;
             k++)
            tell_agent(w, w->agents.list[j->agents[k]], j);
        j->plan.is_waiting &= clock_now() >= j->again_at;
    }
    return 0;
}

static int start_jobs(struct queue_watcher *w, struct err *e)
{
    struct plan_agent *agents = calloc(w->agents.n + 1, sizeof *agents);
    struct plan_job *plans = calloc(w->n + 1, sizeof *plans);
    size_t *chosen = calloc(w->agents.n + 1, sizeof *chosen);
    int k;

    if (!agents || !plans || !chosen)
        err_set(e, ERR_NOMEM, "no memory to place the jobs");
    while (e->code == 0 && choose_waiting(w, e) == 0) {
        count_free(agents, &w->agents);
        for (size_t i = 0; i < w->n; i++)
            plans[i] = w->jobs[i].plan;
        k = queue_plan_next(chosen, plans, w->n, agents, w->agents.n);
        if (k < 0)
            break;
        if (start_job(w, &w->jobs[k], chosen, e) < 0) {
            fprintf(stderr, "%s\n", e->text);
            w->jobs[k].again_at = clock_now() + AGAIN_S;
            e->code = 0;
        }
    }
    free(agents);
    free(plans);
    free(chosen);
    return e->code;
}

/* The first agent of the job's list that cannot be used; NULL: all can. */
static const struct queue_agent *find_unusable(const struct queue_watcher *w, const struct watched_job *j)
{
    for (size_t i = 0; i < j->plan.n_listed + j->plan.n_servers; i++)
        if (w->agents.list[j->agents[i]]->why[0])
            return w->agents.list[j->agents[i]];
    return NULL;
}

static void say_why(char *out, size_t size, const struct queue_watcher *w, const struct watched_job *j)
{
    const struct queue_agent *unusable = find_unusable(w, j);
    size_t n = j->plan.n_listed + j->plan.n_servers, n_needed = j->plan.n_workers + j->plan.n_servers;
    size_t n_free = 0;

    if (j->bad[0]) {
        snprintf(out, size, "its files in the queue cannot be read: %s", j->bad);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct queue_agent *q = w->agents.list[j->agents[i]];

        n_free += queue_agent_free(q) > 0;
    }
    snprintf(out, size, "%zu of %zu agents that it may use are free, it needs %zu%s%s%s%s", n_free, n,
             n_needed, unusable ? "; " : "", unusable ? unusable->node.at.address : "", unusable ? ": " : "",
             unusable ? unusable->why : "");
}

/* Writes what the waiting jobs wait for, if it has changed. */
static void say_state(struct queue_watcher *w)
{
    json_t *waiting = json_array(), *o;
    struct err ignored;
    char why[720];

    if (clock_now() < w->say_at) {
        json_decref(waiting);
        return;
    }
    w->say_at = clock_now() + SAY_S;
    for (size_t i = 0; i < w->n; i++) {
        const struct watched_job *j = &w->jobs[i];

        if (j->pid || j->is_elsewhere)
            continue;
        say_why(why, sizeof why, w, j);
        json_array_append_new(waiting, json_pack("{s:s, s:o}", "id", j->id, "why", json_text(why, SIZE_MAX)));
    }
    o = json_pack("{s:o}", "waiting", waiting);
    if (o && !json_equal(o, w->said) && queue_status_write(o, &ignored) == 0) {
        json_decref(w->said);
        w->said = json_incref(o);
    }
    json_decref(o);
}

static void read_changes(struct queue_watcher *w)
{
    char events[4096];

    while (w->inotify_fd >= 0 && read(w->inotify_fd, events, sizeof events) > 0)
        w->look_at = 0;
}

static void open_inotify(struct queue_watcher *w)
{
    struct epoll_event ev = {.events = EPOLLIN};
    char path[PATH_MAX];
    struct err ignored;

    w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->inotify_fd < 0)
        return;
    if (queue_folder_path(path, NULL, NULL, &ignored) == 0 &&
        inotify_add_watch(w->inotify_fd, path, IN_ATTRIB | IN_CREATE | IN_MOVED_TO) >= 0 &&
        epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->inotify_fd, &ev) == 0)
        return;
    close(w->inotify_fd);
    w->inotify_fd = -1;
}

/* A command that looks whether the queue is watched has the lock for a moment, too. */
static int lock_queue(struct err *e)
{
    int fd;

    do
        fd = queue_folder_lock(NULL, QUEUE_WATCHER, e);
    while (fd == ERR_CONFLICT && !queue_folder_watcher());
    return fd;
}

static int open_watcher(struct queue_watcher *w, struct err *e)
{
    char pid[24];

    *w = (struct queue_watcher){.lock_fd = -1, .inotify_fd = -1, .epoll_fd = -1};
    if (queue_folder_make(e) < 0 || (w->lock_fd = lock_queue(e)) < 0)
        return e->code;
    snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(w->lock_fd, 0) < 0 || pwrite(w->lock_fd, pid, strlen(pid), 0) < 0)
        return err_errno(e, ERR_IO, "the lock of the queue");
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll_fd < 0)
        return err_errno(e, ERR_IO, "epoll");
    open_inotify(w);
    queue_folder_sweep();
    return queue_agents_open(&w->agents, e) < 0 ? e->code : http_wake_by(w->agents.http, w->epoll_fd, e);
}

static void close_watcher(struct queue_watcher *w)
{
    for (size_t i = 0; i < w->n; i++)
        watched_job_forget(&w->jobs[i]);
    free(w->jobs);
    json_decref(w->said);
    if (w->agents.http)
        queue_agents_close(&w->agents);
    if (w->inotify_fd >= 0)
        close(w->inotify_fd);
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    if (w->lock_fd >= 0)
        close(w->lock_fd);
}

static double pause_s(const struct queue_watcher *w)
{
    double now = clock_now(), at = fmin(w->look_at, w->say_at < now ? INFINITY : w->say_at);

    for (size_t i = 0; i < w->n; i++)
        if (!w->jobs[i].pid && w->jobs[i].again_at > now)
            at = fmin(at, w->jobs[i].again_at);
    for (size_t i = 0; i < w->agents.n; i++)
        if (w->agents.list[i]->n_waiting > 0 && !w->agents.list[i]->is_asked &&
            w->agents.list[i]->n_promised == 0)
            at = fmin(at, w->agents.list[i]->ask_at);
    return fmax(0, at - now);
}

static int watch_queue(struct queue_watcher *w, struct err *e)
{
    *e = (struct err){0};
    for (;;) {
        read_changes(w);
        follow_processes(w);
        if (clock_now() >= w->look_at && look_at_folder(w, e) < 0)
            return e->code;
        *e = (struct err){0};
        if (w->n == 0) {
            queue_agents_leave(&w->agents);
            return 0;
        }
        resume_jobs(w);
        queue_agents_take(&w->agents);
        if (start_jobs(w, e) < 0)
            return e->code;
        queue_agents_ask(&w->agents);
        say_state(w);
        http_poll(w->agents.http, pause_s(w));
        if (interrupt_check(e) < 0) {
            queue_agents_leave(&w->agents);
            return e->code;
        }
    }
}

static bool is_empty_queue(void)
{
    struct queued_job *list;
    struct err ignored;
    size_t n;

    if (queue_folder_list(&list, &n, &ignored) < 0)
        return true;
    free(list);
    return n == 0;
}

/* A command that submits a job starts no watcher while one has the lock: so this looks once more after it has
 * released it. */
int queue_watcher_run(struct err *e)
{
    struct queue_watcher w;
    int rc;

    do {
        rc = open_watcher(&w, e);
        if (rc == 0)
            rc = watch_queue(&w, e);
        close_watcher(&w);
    } while (rc == 0 && !is_empty_queue());
    return rc;
}
