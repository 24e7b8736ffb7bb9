#include "agent/jobs/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/artifact.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/reason.h"

enum { FOLDER_MAX = JOB_ID_MAX + 16 };

static const char *const job_folders[] = {"/run", "/packages"};

struct task *task_attempt(const struct jobs *jobs, const char *id, int attempt)
{
    struct task *found = NULL;

    for (struct task *t = jobs->first; t; t = t->next) {
        int own = t->job.spec.attempt;

        if (strcmp(t->job.spec.id, id) == 0 &&
            (attempt > 0 ? own == attempt : !found || own > found->job.spec.attempt))
            found = t;
    }
    return found;
}

struct task *task_find(const struct jobs *jobs, const char *id)
{
    return task_attempt(jobs, id, 0);
}

const char *task_folder(const struct task *t)
{
    return strrchr(t->dir, '/') + 1;
}

uint64_t jobs_disk_free(const struct jobs *jobs)
{
    struct statvfs v;
    const uint64_t reserve = ((uint64_t)DISK_RESERVE_MIB << 20) + jobs->blobs.announced;
    uint64_t free_bytes;

    if (fstatvfs(jobs->dir_fd, &v) < 0)
        return 0;
    free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return free_bytes > reserve ? free_bytes - reserve : 0;
}

size_t task_count(const struct jobs *jobs, bool (*is_it)(const struct job *))
{
    size_t n = 0;

    for (struct task *t = jobs->first; t; t = t->next)
        n += is_it(&t->job);
    return n;
}

int jobs_free_slot(const struct jobs *jobs)
{
    /* Jobs that an agent with more slots has left may have a higher slot. */
    if (task_count(jobs, job_is_active) >= (size_t)jobs->opt->slots)
        return -1;
    for (int slot = 0; slot < jobs->opt->slots; slot++) {
        bool is_free = true;

        for (const struct task *t = jobs->first; t; t = t->next)
            is_free &= !job_is_active(&t->job) || t->job.slot != slot;
        if (is_free)
            return slot;
    }
    return -1;
}

bool jobs_slot_processors(cpu_set_t *out, const struct jobs *jobs, int slot)
{
    int n_slots = jobs->opt->slots, n, from, to, seen = 0;
    cpu_set_t all;

    CPU_ZERO(out);
    if (n_slots == 1 || sched_getaffinity(0, sizeof all, &all) < 0)
        return false;
    n = CPU_COUNT(&all);
    from = n >= n_slots ? slot * n / n_slots : slot % n;
    to = n >= n_slots ? (slot + 1) * n / n_slots : from + 1;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        if (seen >= from && seen < to)
            CPU_SET(cpu, out);
        seen++;
    }
    return true;
}

uint64_t jobs_slot_memory(const struct jobs *jobs)
{
    return jobs->job_memory / (uint64_t)jobs->opt->slots;
}

/* Each attempt has a folder of its own: a runner of an earlier attempt that wakes late writes only there. */
static void name_folder(char out[FOLDER_MAX], const struct job_spec *s)
{
    if (s->attempt > 1)
        snprintf(out, FOLDER_MAX, "%s.%d", s->id, s->attempt);
    else
        snprintf(out, FOLDER_MAX, "%s", s->id);
}

/* Sets id and attempt; false: no job has a folder of this name. */
static bool parse_folder(struct job_spec *out, const char *name)
{
    char again[FOLDER_MAX];
    size_t n = strcspn(name, ".");

    if (n > JOB_ID_MAX)
        return false;
    snprintf(out->id, sizeof out->id, "%.*s", (int)n, name);
    out->attempt = name[n] ? atoi(name + n + 1) : 1;
    name_folder(again, out);
    return is_job_id(out->id) && strcmp(again, name) == 0;
}

static struct task *task_new(struct jobs *jobs, const char *folder, struct err *e)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t) {
        err_set(e, ERR_NOMEM, "no memory for a job");
        return NULL;
    }
    t->jobs = jobs;
    t->data_fd = -1;
    job_init(&t->job);
    snprintf(t->dir, sizeof t->dir, "%s/jobs/%s", jobs->opt->dir, folder);
    return t;
}

void task_release(struct task *t)
{
    struct loop *l = t->jobs->loop;

    timer_cancel(l, &t->tick);
    loop_unwatch(l, &t->runner_watch);
    loop_unwatch(l, &t->order_watch);
    notify_remove(&t->jobs->notify, &t->events_file);
    tail_close(&t->tail);
    runner_clear(&t->runner);
    if (t->data_fd >= 0)
        close(t->data_fd);
    t->data_fd = -1;
    free(t->end);
    t->end = NULL;
}

static void task_free(struct task *t)
{
    task_release(t);
    journal_close(&t->journal);
    free(t);
}

/* Keeps the list in order of reservation, as folders are read in any order. */
static void task_insert(struct jobs *jobs, struct task *t)
{
    struct task *after = jobs->last;

    while (after && after->job.order > t->job.order)
        after = after->prev;
    t->prev = after;
    t->next = after ? after->next : jobs->first;
    *(after ? &after->next : &jobs->first) = t;
    *(t->next ? &t->next->prev : &jobs->last) = t;
    if (t->job.order > jobs->n_reserved)
        jobs->n_reserved = t->job.order;
}

void task_drop(struct task *t)
{
    struct jobs *jobs = t->jobs;

    *(t->prev ? &t->prev->next : &jobs->first) = t->next;
    *(t->next ? &t->next->prev : &jobs->last) = t->prev;
    task_free(t);
}

int task_journal_path(char *out, size_t size, const struct task *t, struct err *e)
{
    return file_join(out, size, t->dir, "journal.jsonl", e);
}

/* For a journal whose first line is damaged: the folder's name has the job's id, and nothing else of the
 * reservation is known. If the job has not ended, it ends as soon as it is restored. */
static void assume_reservation(struct task *t)
{
    struct job_spec *s = &t->job.spec;

    *s = (struct job_spec){.role = "worker", .node_count = 1};
    parse_folder(s, task_folder(t));
    snprintf(s->name, sizeof s->name, "(its reservation is damaged)");
}

static int replay(void *arg, const struct event *ev, struct err *e)
{
    struct task *t = arg;

    if (t->job.has_gap && !t->job.spec.id[0] && ev->kind != NOTE_RESERVE)
        assume_reservation(t);
    return job_apply(&t->job, ev, e);
}

static void note_damage(void *arg, size_t line, const char *why)
{
    struct task *t = arg;
    struct job *j = &t->job;

    if (why)
        log_line(LOG_LEVEL_WARN, "agent", task_folder(t),
                 "journal: line %zu is damaged and left out: %s; the file as it was is "
                 "%s/journal.jsonl" JOURNAL_DAMAGED,
                 line, why, t->dir);
    j->has_gap = true;
}

static int open_journal(struct task *t, off_t *cut, struct err *e)
{
    const struct journal_replay r = {.event = replay, .damage = note_damage, .arg = t};
    char path[PATH_MAX];

    if (task_journal_path(path, sizeof path, t, e) < 0 || journal_open(&t->journal, path, &r, cut, e) < 0)
        return e->code;
    return 0;
}

int task_add(struct jobs *jobs, const struct job_spec *spec, const char *owner, const char *key_sha256,
             struct task **out, struct err *e)
{
    char folder[FOLDER_MAX], path[PATH_MAX];
    struct task *t;
    struct event ev;
    off_t cut;

    name_folder(folder, spec);
    t = task_new(jobs, folder, e);
    if (!t)
        return e->code;
    /* An existing folder belongs to an earlier job that could not be restored, and must not be removed. */
    if (mkdir(t->dir, 0700) < 0) {
        if (errno == EEXIST)
            err_set(e, ERR_CONFLICT, "%s: its folder exists, with a job that could not be restored", folder);
        else
            err_errno(e, ERR_IO, "jobs/%s", folder);
        task_free(t);
        return e->code;
    }
    for (size_t i = 0; i < sizeof job_folders / sizeof job_folders[0]; i++) {
        snprintf(path, sizeof path, "%s%s", t->dir, job_folders[i]);
        if (file_mkdirs(path, 0700, e) < 0)
            goto fail;
    }
    snprintf(path, sizeof path, "%s/jobs", jobs->opt->dir);
    if (open_journal(t, &cut, e) < 0 || file_sync_folder(t->dir, e) < 0 || file_sync_folder(path, e) < 0)
        goto fail;
    event_init(&ev, NOTE_RESERVE);
    ev.order = jobs->n_reserved + 1;
    ev.spec = *spec;
    snprintf(ev.owner, sizeof ev.owner, "%s", owner);
    snprintf(ev.key_sha256, sizeof ev.key_sha256, "%s", key_sha256);
    if (task_record(t, &ev, e) < 0)
        goto fail;
    task_insert(jobs, t);
    *out = t;
    return 0;
fail:
    snprintf(path, sizeof path, "%s", t->dir);
    task_free(t);
    file_remove_tree(path, &(struct err){0});
    return e->code;
}

size_t task_count_unwritten(const struct jobs *jobs)
{
    size_t n = 0;

    for (const struct task *t = jobs->first; t; t = t->next)
        n += t->unwritten.is_waiting;
    return n;
}

/* Adds the job's place in the queue, which is in order of reservation, and the job before it. Before the
 * first job in the queue is the job that has the slot. */
static void show_place(json_t *v, const struct task *t)
{
    const struct task *before = NULL, *holder = NULL;
    const char *behind;
    int position = 0, length = 0;
    bool is_past = false;

    for (const struct task *u = t->jobs->first; u; u = u->next) {
        if (job_is_active(&u->job))
            holder = u;
        if (!job_is_pending(&u->job))
            continue;
        length++;
        is_past |= u == t;
        if (!is_past)
            before = u;
        if (u == t)
            position = length;
    }
    if (!before)
        before = holder;
    behind = before ? before->job.spec.id : NULL;
    json_object_set_new(
        v, "queue", json_pack("{s:i,s:i,s:s?}", "position", position, "length", length, "behind", behind));
    if (behind && strcmp(behind, t->job.spec.id) == 0)
        behind = "its earlier attempt";
    json_object_set_new(v, "message",
                        json_sprintf("waits in the queue of %s, position %d of %d%s%s%s", t->jobs->address,
                                     position, length, behind ? ", behind " : "", behind ? behind : "",
                                     t->jobs->is_draining ? ", until the agent is resumed" : ""));
}

json_t *task_json(const struct task *t)
{
    const struct outcome *o = &t->unwritten;
    json_t *v = job_json(&t->job, clock_wall());

    json_object_set_new(v, "queue", json_null());
    if (job_is_pending(&t->job))
        show_place(v, t);
    if (o->is_waiting) {
        json_object_set_new(v, "reason", json_string(REASON_JOURNAL_FAILED));
        json_object_set_new(v, "message",
                            json_sprintf("%s%s%s, which this agent cannot write yet: %.200s",
                                         job_state_name(o->state), o->reason[0] ? ", " : "", o->reason,
                                         o->why.text));
    }
    return v;
}

/* Each sync takes milliseconds, and hundreds of agents may share a disk. So a note is not synced by itself:
 * no client sees it, a state follows it in the same file, or task_sync, before a client has an answer, and
 * after a power failure no runner is left that is only known from one. */
static bool is_synced(const struct event *ev)
{
    return ev->kind == EVENT_STATE || ev->kind == EVENT_END;
}

int task_sync(struct task *t, struct err *e)
{
    return journal_sync(&t->journal, e);
}

int task_record(struct task *t, struct event *ev, struct err *e)
{
    struct job before = t->job;

    ev->seq = event_is_note(ev) ? 0 : t->job.last_seq + 1;
    /* Applies the event first, as an invalid one must not be written. Clients see it only when the journal
     * has it, so that a crash undoes nothing that they have seen. */
    if (job_apply(&t->job, ev, e) < 0)
        return e->code;
    if (journal_append(&t->journal, ev, is_synced(ev), e) < 0) {
        t->job = before;
        return e->code;
    }
    t->jobs->n_changes++;
    counts_event(&t->jobs->counts, ev, &before, &t->job);
    if (ev->kind == EVENT_END)
        t->n_ended = ++t->jobs->n_ended;
    if (ev->kind == EVENT_STATE || ev->kind == EVENT_END)
        log_line(ev->kind == EVENT_END && ev->state == JOB_FAILED ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "agent",
                 t->job.spec.id, "%s%s%s: %s", job_state_name(ev->state), ev->reason[0] ? " " : "",
                 ev->reason, ev->message);
    return 0;
}

static int read_job(struct jobs *jobs, const char *folder, struct err *e)
{
    struct task *t = task_new(jobs, folder, e);
    char path[sizeof t->dir + 8];
    off_t cut;

    if (!t)
        return e->code;
    if (open_journal(t, &cut, e) < 0) {
        task_free(t);
        return e->code;
    }
    if (cut > 0)
        log_line(LOG_LEVEL_WARN, "agent", folder, "journal: %lld bytes of a torn end were cut off",
                 (long long)cut);
    if (!t->job.spec.id[0] && !t->job.has_gap) {
        /* The agent ended before the reservation was written, so no client has an answer to it. */
        memcpy(path, t->dir, sizeof t->dir);
        task_free(t);
        return file_remove_tree(path, e);
    }
    if (!t->job.spec.id[0])
        assume_reservation(t);
    file_remove_temporary(t->dir);
    if (job_state_is_terminal(t->job.state)) {
        journal_rest(&t->journal);
        artifact_clean_run(t->dir, t->job.reason); /* again, as a power failure may have undone it */
    }
    task_insert(jobs, t);
    return 0;
}

int task_read_all(struct jobs *jobs, struct err *e)
{
    char path[PATH_MAX];
    struct job_spec named;
    struct dirent *d;
    DIR *folders;

    if (file_join(path, sizeof path, jobs->opt->dir, "jobs", e) < 0 || file_mkdirs(path, 0700, e) < 0)
        return e->code;
    folders = opendir(path);
    if (!folders)
        return err_errno(e, ERR_IO, "%s", path);
    while ((d = readdir(folders)) != NULL) {
        if (!parse_folder(&named, d->d_name) || read_job(jobs, d->d_name, e) == 0)
            continue;
        log_line(LOG_LEVEL_ERROR, "agent", d->d_name, "journal: %s; the job is not restored", e->text);
        if (e->code == ERR_NOMEM) { /* an agent that does not know a running job is worse than none */
            closedir(folders);
            return e->code;
        }
    }
    closedir(folders);
    return 0;
}

void task_close_all(struct jobs *jobs)
{
    while (jobs->first)
        task_drop(jobs->first);
}
