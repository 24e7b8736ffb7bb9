#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/retention.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/reason.h"

enum { FOLDER_MAX = JOB_ID_MAX + 16 };

static const char *const job_folders[] = {"/run", "/packages"};

struct task *task_attempt(const struct agent *a, const char *id, int attempt)
{
    struct task *found = NULL;

    for (struct task *t = a->first; t; t = t->next) {
        int own = t->job.spec.attempt;

        if (strcmp(t->job.spec.id, id) == 0 &&
            (attempt > 0 ? own == attempt : !found || own > found->job.spec.attempt))
            found = t;
    }
    return found;
}

struct task *task_find(const struct agent *a, const char *id)
{
    return task_attempt(a, id, 0);
}

const char *task_folder(const struct task *t)
{
    return strrchr(t->dir, '/') + 1;
}

size_t task_count(const struct agent *a, bool (*is_it)(const struct job *))
{
    size_t n = 0;

    for (struct task *t = a->first; t; t = t->next)
        n += is_it(&t->job);
    return n;
}

/* Each attempt has a folder of its own: a runner of an earlier one that wakes late writes only there. */
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

static struct task *task_new(struct agent *a, const char *folder, struct err *e)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t) {
        err_set(e, ERR_NOMEM, "no memory for a job");
        return NULL;
    }
    t->agent = a;
    t->data_fd = -1;
    job_init(&t->job);
    snprintf(t->dir, sizeof t->dir, "%s/jobs/%s", a->opt.dir, folder);
    return t;
}

static void task_free(struct task *t)
{
    job_release(t);
    journal_close(&t->journal);
    job_clear(&t->job);
    free(t);
}

/* Keeps the list in order of reservation; the folder is read in any order. */
static void task_insert(struct agent *a, struct task *t)
{
    struct task *after = a->last;

    while (after && after->job.order > t->job.order)
        after = after->prev;
    t->prev = after;
    t->next = after ? after->next : a->first;
    *(after ? &after->next : &a->first) = t;
    *(t->next ? &t->next->prev : &a->last) = t;
    if (t->job.order > a->n_reserved)
        a->n_reserved = t->job.order;
}

static void task_unlink(struct task *t)
{
    struct agent *a = t->agent;

    *(t->prev ? &t->prev->next : &a->first) = t->next;
    *(t->next ? &t->next->prev : &a->last) = t->prev;
}

static int journal_path(char *out, size_t size, const struct task *t, struct err *e)
{
    return file_join(out, size, t->dir, "journal.jsonl", e);
}

/* The job of a journal whose first line is damaged: of the reservation only the id is known. If the job had
 * not ended before, it ends as soon as it is restored. */
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

    if (journal_path(path, sizeof path, t, e) < 0 || journal_open(&t->journal, path, &r, cut, e) < 0)
        return e->code;
    return 0;
}

int task_add(struct agent *a, const struct job_spec *spec, const char *owner, const char *key_sha256,
             struct task **out, struct err *e)
{
    char folder[FOLDER_MAX], path[PATH_MAX];
    struct task *t;
    struct event ev;
    off_t cut;

    name_folder(folder, spec);
    t = task_new(a, folder, e);
    if (!t)
        return e->code;
    /* An existing folder belongs to an earlier job that could not be restored: it must not be removed. */
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
    snprintf(path, sizeof path, "%s/jobs", a->opt.dir);
    if (open_journal(t, &cut, e) < 0 || file_sync_folder(t->dir, e) < 0 || file_sync_folder(path, e) < 0)
        goto fail;
    event_init(&ev, NOTE_RESERVE);
    ev.order = a->n_reserved + 1;
    ev.spec = *spec;
    snprintf(ev.owner, sizeof ev.owner, "%s", owner);
    snprintf(ev.key_sha256, sizeof ev.key_sha256, "%s", key_sha256);
    if (task_record(t, &ev, e) < 0)
        goto fail;
    task_insert(a, t);
    *out = t;
    return 0;
fail:
    snprintf(path, sizeof path, "%s", t->dir);
    task_free(t);
    file_remove_tree(path, &(struct err){0});
    return e->code;
}

int task_forget(struct task *t, const char *why, struct err *e)
{
    struct agent *a = t->agent;
    char dir[sizeof t->dir], path[PATH_MAX];
    struct err left;

    memcpy(dir, t->dir, sizeof dir);
    if (journal_path(path, sizeof path, t, e) < 0)
        return e->code;
    /* On a full disk a job must be removable, and only its reason is lost. */
    if (forgotten_add(&a->forgotten, a->opt.dir, &t->job.spec, t->job.key_sha256, why, &left) < 0)
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id,
                 "jobs: after a restart its removal is not explained any more: %s", left.text);
    /* Before the rest: what an interrupted removal leaves is no job, and the next start removes it. */
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    if (file_sync_name(path, e) < 0)
        return e->code;
    task_unlink(t);
    task_free(t);
    a->n_changes++;
    if (file_remove_tree(dir, &left) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: %s", left.text);
    return 0;
}

size_t task_count_unwritten(const struct agent *a)
{
    size_t n = 0;

    for (const struct task *t = a->first; t; t = t->next)
        n += t->unwritten.is_waiting;
    return n;
}

/* Where it is in the queue, which is in order of reservation: behind the job before it, or else the one that
 * has the slot. */
static void show_place(json_t *v, const struct task *t)
{
    const struct task *before = NULL, *holder = NULL;
    const char *behind;
    int position = 0, length = 0;
    bool is_past = false;

    for (const struct task *u = t->agent->first; u; u = u->next) {
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
                        json_sprintf("waits in the queue of %s, position %d of %d%s%s%s", t->agent->address,
                                     position, length, behind ? ", behind " : "", behind ? behind : "",
                                     t->agent->is_draining ? ", until the agent is resumed" : ""));
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

int task_record(struct task *t, struct event *ev, struct err *e)
{
    bool is_mass = ev->kind == EVENT_PROGRESS || ev->kind == EVENT_EVAL || ev->kind == EVENT_LOG ||
                   ev->kind == NOTE_SKIPPED;
    struct job before = t->job;

    ev->seq = event_is_note(ev) ? 0 : t->job.last_seq + 1;
    /* Applied first, as an invalid event must not be written. It becomes visible only when the journal has
     * it: nothing is shown that a crash could undo. */
    json_incref(before.nodes);
    if (job_apply(&t->job, ev, e) < 0) {
        json_decref(before.nodes);
        return e->code;
    }
    if (journal_append(&t->journal, ev, !is_mass, e) < 0) {
        json_decref(t->job.nodes);
        t->job = before;
        return e->code;
    }
    json_decref(before.nodes);
    t->agent->n_changes++;
    counts_event(&t->agent->counts, ev, &before, &t->job);
    if (ev->kind == EVENT_END)
        t->n_ended = ++t->agent->n_ended;
    if (ev->kind == EVENT_STATE || ev->kind == EVENT_END)
        log_line(ev->kind == EVENT_END && ev->state == JOB_FAILED ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "agent",
                 t->job.spec.id, "%s%s%s: %s", job_state_name(ev->state), ev->reason[0] ? " " : "",
                 ev->reason, ev->message);
    return 0;
}

static int restore(struct agent *a, const char *folder, struct err *e)
{
    struct task *t = task_new(a, folder, e);
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
        /* The agent ended before the reservation was written, so it was never confirmed. */
        memcpy(path, t->dir, sizeof t->dir);
        task_free(t);
        return file_remove_tree(path, e);
    }
    if (!t->job.spec.id[0])
        assume_reservation(t);
    file_sweep(t->dir);
    if (job_state_is_terminal(t->job.state)) {
        journal_rest(&t->journal);
        snprintf(path, sizeof path, "%s/run", t->dir);
        file_sweep(path); /* a power failure may have undone what was removed at its end */
    }
    task_insert(a, t);
    return 0;
}

int task_restore_all(struct agent *a, struct err *e)
{
    char path[PATH_MAX];
    struct job_spec named;
    struct dirent *d;
    DIR *jobs;

    if (file_join(path, sizeof path, a->opt.dir, "jobs", e) < 0 || file_mkdirs(path, 0700, e) < 0)
        return e->code;
    jobs = opendir(path);
    if (!jobs)
        return err_errno(e, ERR_IO, "%s", path);
    while ((d = readdir(jobs)) != NULL) {
        if (!parse_folder(&named, d->d_name) || restore(a, d->d_name, e) == 0)
            continue;
        log_line(LOG_LEVEL_ERROR, "agent", d->d_name, "journal: %s; the job is not restored", e->text);
        if (e->code == ERR_NOMEM) { /* rather no agent than one that does not know a job that runs */
            closedir(jobs);
            return e->code;
        }
    }
    closedir(jobs);
    a->is_stopping = true; /* no scheduling: a job ended here must not start one that is about to be ended */
    for (struct task *t = a->first; t; t = t->next)
        if (!job_state_is_terminal(t->job.state))
            job_restore(t);
    job_supersede(a);
    a->is_stopping = false;
    job_schedule(a);
    keep_trim(a);
    return 0;
}

void task_close_all(struct agent *a)
{
    while (a->first) {
        struct task *t = a->first;

        task_unlink(t);
        task_free(t);
    }
}
