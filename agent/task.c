#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/job_action.h"
#include "agent/log.h"
#include "shared/clock.h"
#include "shared/file.h"

static const char *const job_folders[] = {"/run", "/packages"};

struct task *task_find(const struct agent *a, const char *id)
{
    for (struct task *t = a->first; t; t = t->next)
        if (strcmp(t->job.spec.id, id) == 0)
            return t;
    return NULL;
}

size_t task_count(const struct agent *a, bool (*is_it)(const struct job *))
{
    size_t n = 0;

    for (struct task *t = a->first; t; t = t->next)
        n += is_it(&t->job);
    return n;
}

static struct task *task_new(struct agent *a, const char *id, struct err *e)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t) {
        err_set(e, ERR_NOMEM, "no memory for a job");
        return NULL;
    }
    t->agent = a;
    t->data_fd = -1;
    job_init(&t->job);
    snprintf(t->dir, sizeof t->dir, "%s/jobs/%s", a->opt.dir, id);
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

    while (after && after->job.created_at > t->job.created_at)
        after = after->prev;
    t->prev = after;
    t->next = after ? after->next : a->first;
    *(after ? &after->next : &a->first) = t;
    *(t->next ? &t->next->prev : &a->last) = t;
}

static void task_unlink(struct task *t)
{
    struct agent *a = t->agent;

    *(t->prev ? &t->prev->next : &a->first) = t->next;
    *(t->next ? &t->next->prev : &a->last) = t->prev;
}

static int sync_folder(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fsync(fd) < 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int journal_path(char *out, size_t size, const struct task *t, struct err *e)
{
    return file_join(out, size, t->dir, "journal.jsonl", e);
}

/* A journal that cannot be read is kept under this name, with the job's folder, for inspection. */
static int bad_journal_path(char *out, size_t size, const struct task *t, struct err *e)
{
    return file_join(out, size, t->dir, "journal.bad", e);
}

static bool is_set_aside(const struct task *t)
{
    char path[PATH_MAX];

    return bad_journal_path(path, sizeof path, t, &(struct err){0}) == 0 && access(path, F_OK) == 0;
}

static int replay(void *arg, const struct event *ev, struct err *e)
{
    struct job *j = arg;

    return job_apply(j, ev, e);
}

int task_add(struct agent *a, const struct job_spec *spec, struct task **out, struct err *e)
{
    struct task *t = task_new(a, spec->id, e);
    char path[PATH_MAX];
    struct event ev;
    off_t cut;

    if (!t)
        return e->code;
    /* An existing folder belongs to an earlier job that could not be restored: it must not be removed. */
    if (mkdir(t->dir, 0700) < 0) {
        if (errno == EEXIST)
            err_set(e, ERR_CONFLICT, "%s: its folder exists, with a job that could not be restored",
                    spec->id);
        else
            err_errno(e, ERR_IO, "jobs/%s", spec->id);
        task_free(t);
        return e->code;
    }
    for (size_t i = 0; i < sizeof job_folders / sizeof job_folders[0]; i++) {
        snprintf(path, sizeof path, "%s%s", t->dir, job_folders[i]);
        if (file_mkdirs(path, 0700, e) < 0)
            goto fail;
    }
    if (journal_path(path, sizeof path, t, e) < 0 ||
        journal_open(&t->journal, path, replay, &t->job, &cut, e) < 0 || sync_folder(t->dir, e) < 0)
        goto fail;
    snprintf(path, sizeof path, "%s/jobs", a->opt.dir);
    if (sync_folder(path, e) < 0)
        goto fail;
    event_init(&ev, NOTE_RESERVE);
    ev.spec = *spec;
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

void task_forget(struct task *t)
{
    struct agent *a = t->agent;
    struct err e;
    char dir[sizeof t->dir];

    memcpy(dir, t->dir, sizeof dir);
    task_unlink(t);
    task_free(t);
    a->n_changes++;
    if (file_remove_tree(dir, &e) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: %s", e.text);
}

void task_trim(struct agent *a)
{
    for (;;) {
        struct task *oldest = NULL;
        int n = 0;

        for (struct task *t = a->first; t; t = t->next) {
            if (!job_state_is_terminal(t->job.state))
                continue;
            n++;
            if (!oldest || t->job.finished_at < oldest->job.finished_at)
                oldest = t;
        }
        if (n <= a->opt.keep)
            return;
        task_forget(oldest);
    }
}

int task_record(struct task *t, struct event *ev, struct err *e)
{
    bool is_mass = ev->kind == EVENT_PROGRESS || ev->kind == EVENT_EVAL || ev->kind == EVENT_LOG;
    struct job before = t->job;

    ev->seq = event_is_note(ev) ? 0 : t->job.last_seq + 1;
    /* Applied first, as an invalid event must not be written. It becomes visible only when the journal has
     * it. */
    json_incref(before.nodes);
    if (job_apply(&t->job, ev, e) < 0) {
        json_decref(before.nodes);
        return e->code;
    }
    if (journal_append(&t->journal, ev, !is_mass, e) < 0) {
        log_line(LOG_LEVEL_ERROR, "agent", before.spec.id, "journal: %s", e->text);
        /* A job ends even on a full disk; after a restart it is found without an end event and ended
         * again. */
        if (ev->kind != EVENT_END) {
            json_decref(t->job.nodes);
            t->job = before;
            return e->code;
        }
    }
    json_decref(before.nodes);
    t->agent->n_changes++;
    if (ev->kind == EVENT_STATE || ev->kind == EVENT_END)
        log_line(ev->kind == EVENT_END && ev->state == JOB_FAILED ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "agent",
                 t->job.spec.id, "%s%s%s: %s", job_state_name(ev->state), ev->reason[0] ? " " : "",
                 ev->reason, ev->message);
    return 0;
}

/* `e` describes the error, and on return also where the journal is now. */
static void set_aside(const struct task *t, struct err *e)
{
    char path[PATH_MAX], bad[PATH_MAX];
    struct err why;

    if (journal_path(path, sizeof path, t, &why) < 0 || bad_journal_path(bad, sizeof bad, t, &why) < 0)
        return;
    if (rename(path, bad) == 0 && sync_folder(t->dir, &why) == 0)
        err_at(e, "the job is not restored, its history is kept in %s", bad);
}

static int restore(struct agent *a, const char *id, struct err *e)
{
    struct task *t = task_new(a, id, e);
    char path[PATH_MAX];
    off_t cut;

    if (!t)
        return e->code;
    if (is_set_aside(t)) {
        err_set(e, ERR_CONFIG, "journal.bad exists, the job is not restored");
        goto fail;
    }
    if (journal_path(path, sizeof path, t, e) < 0)
        goto fail;
    if (journal_open(&t->journal, path, replay, &t->job, &cut, e) < 0) {
        if (e->code == ERR_CONFIG)
            set_aside(t, e);
        goto fail;
    }
    if (cut > 0)
        log_line(LOG_LEVEL_WARN, "agent", id, "journal: %lld bytes of a torn end were cut off",
                 (long long)cut);
    if (strcmp(t->job.spec.id, id) != 0) {
        /* The agent ended before the reservation was written, so it was never confirmed. */
        snprintf(path, sizeof path, "%s", t->dir);
        task_free(t);
        return file_remove_tree(path, e);
    }
    if (job_state_is_terminal(t->job.state))
        journal_rest(&t->journal);
    task_insert(a, t);
    return 0;
fail:
    task_free(t);
    return e->code;
}

int task_restore_all(struct agent *a, struct err *e)
{
    char path[PATH_MAX];
    struct dirent *d;
    DIR *jobs;

    if (file_join(path, sizeof path, a->opt.dir, "jobs", e) < 0 || file_mkdirs(path, 0700, e) < 0)
        return e->code;
    jobs = opendir(path);
    if (!jobs)
        return err_errno(e, ERR_IO, "%s", path);
    while ((d = readdir(jobs)) != NULL)
        if (is_job_id(d->d_name) && restore(a, d->d_name, e) < 0)
            log_line(LOG_LEVEL_ERROR, "agent", d->d_name, "journal: %s", e->text);
    closedir(jobs);
    a->is_draining = true; /* no scheduling: a job ended here must not start one that is about to be ended */
    for (struct task *t = a->first; t; t = t->next)
        if (!job_state_is_terminal(t->job.state))
            job_restore(t);
    a->is_draining = false;
    job_schedule(a);
    task_trim(a);
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
