#include "agent/jobs/retention.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/artifact.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

enum { DOCUMENT_MAX = 1 << 20 };

struct tombstones {
    size_t n; /* the oldest first */
    struct tombstone items[TOMBSTONES_MAX];
};

#define TEXT(member)                                                                                         \
    .key = #member, .kind = JSON_FIELD_TEXT, JSON_AT(struct tombstone, member), .required = true

static const struct json_field fields[] = {{TEXT(id)}, {TEXT(key_sha256)}, {TEXT(at)}, {TEXT(why)}, {0}};

static int list_path(char out[PATH_MAX], const char *dir, struct err *e)
{
    return file_join(out, PATH_MAX, dir, "forgotten.json", e);
}

/* Returns the place for one more tombstone, and drops the oldest if there is none. */
static struct tombstone *next_place(struct tombstones *removed)
{
    if (removed->n == TOMBSTONES_MAX)
        memmove(removed->items, removed->items + 1, --removed->n * sizeof *removed->items);
    return &removed->items[removed->n];
}

static int take_tombstones(struct tombstones *removed, const json_t *list, struct err *e)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_to_struct(next_place(removed), one, fields, "", e) < 0)
            return e->code;
        removed->n++;
    }
    return 0;
}

static int read_tombstones(struct tombstones *removed, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    json_t *list;
    int rc;

    if (list_path(path, dir, e) < 0)
        return e->code;
    if (json_read(&list, path, DOCUMENT_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    rc = take_tombstones(removed, list, e);
    json_decref(list);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

int retention_open(struct jobs *jobs, struct err *e)
{
    jobs->removed = calloc(1, sizeof *jobs->removed);
    if (!jobs->removed)
        return err_set(e, ERR_NOMEM, "no memory for the list of removed jobs");
    return read_tombstones(jobs->removed, jobs->opt->dir, e);
}

void retention_close(struct jobs *jobs)
{
    free(jobs->removed);
    jobs->removed = NULL;
}

static char *tombstones_document(const struct tombstones *removed)
{
    json_t *list = json_array();
    char *text = NULL;
    bool is_whole = list != NULL;

    for (size_t i = 0; i < removed->n && is_whole; i++)
        is_whole = json_array_append_new(list, json_from_struct(&removed->items[i], fields)) == 0;
    if (is_whole)
        text = json_dump(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static int write_tombstones(const struct tombstones *removed, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    char *text = tombstones_document(removed);
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the list of removed jobs");
    rc = list_path(path, dir, e) < 0 ? e->code : file_write(path, text, strlen(text), 0600, e);
    free(text);
    return rc;
}

static struct tombstone *find_tombstone(struct tombstones *removed, const char *id)
{
    for (size_t i = removed->n; i > 0; i--)
        if (strcmp(removed->items[i - 1].id, id) == 0)
            return &removed->items[i - 1];
    return NULL;
}

const struct tombstone *retention_tombstone(const struct jobs *jobs, const char *id)
{
    return find_tombstone(jobs->removed, id);
}

/* Durable when this returns 0; after a failure the tombstone is only in memory. */
static int add_tombstone(const struct task *t, const char *why, struct err *e)
{
    struct tombstones *removed = t->jobs->removed;
    const struct job *j = &t->job;
    struct tombstone *new = find_tombstone(removed, j->spec.id);

    if (!new) {
        new = next_place(removed);
        removed->n++;
    }
    *new = (struct tombstone){0};
    memcpy(new->id, j->spec.id, sizeof new->id);
    memcpy(new->key_sha256, j->key_sha256, sizeof new->key_sha256);
    clock_text(new->at, clock_wall());
    snprintf(new->why, sizeof new->why, "%s", why);
    return write_tombstones(removed, t->jobs->opt->dir, e);
}

int retention_remove(struct task *t, const char *why, struct err *e)
{
    struct jobs *jobs = t->jobs;
    char dir[sizeof t->dir], path[PATH_MAX];
    struct err left;

    memcpy(dir, t->dir, sizeof dir);
    if (task_journal_path(path, sizeof path, t, e) < 0)
        return e->code;
    /* A job must be removable on a full disk: then only its reason is lost. */
    if (add_tombstone(t, why, &left) < 0)
        log_line(LOG_LEVEL_WARN, "agent", t->job.spec.id,
                 "jobs: the reason why it is removed will be lost at a restart: %s", left.text);
    /* The journal goes first: a folder without a journal is no job, and the next start removes it. */
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    if (file_sync_name(path, e) < 0)
        return e->code;
    task_drop(t);
    jobs->n_changes++;
    if (file_remove_tree(dir, &left) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: %s", left.text);
    return 0;
}

static const double DAY_S = 86400, RETRY_S = 60;

/* The wall clock may have been set between two ends, so it orders only those before this agent's start. */
static bool ended_before(const struct task *t, const struct task *u)
{
    return t->n_ended != u->n_ended ? t->n_ended < u->n_ended : t->job.finished_at < u->job.finished_at;
}

/* Counts the journal and the runner's files, which do not change any more. Packages are links to blobs, which
 * have a limit of their own. */
static uint64_t kept_bytes_of(struct task *t)
{
    char path[sizeof t->dir + 8];

    if (t->kept_bytes == 0) {
        snprintf(path, sizeof path, "%s/run", t->dir);
        t->kept_bytes = 1 + artifact_folder_use(t->dir, SIZE_MAX).bytes +
                        artifact_folder_use(path, SIZE_MAX).bytes;
    }
    return t->kept_bytes;
}

/* The ended jobs, and which of them is removed first. */
struct kept_jobs {
    int n;
    uint64_t bytes;
    struct task *oldest;
};

static struct kept_jobs count_ended(struct jobs *jobs)
{
    struct kept_jobs k = {0};

    for (struct task *t = jobs->first; t; t = t->next) {
        if (!job_state_is_terminal(t->job.state))
            continue;
        k.n++;
        if (jobs->opt->keep_gib > 0)
            k.bytes += kept_bytes_of(t);
        if (!k.oldest || ended_before(t, k.oldest))
            k.oldest = t;
    }
    return k;
}

/* Returns whether the ended jobs exceed a limit, and writes which. */
static bool is_beyond(const struct jobs *jobs, const struct kept_jobs *k, char why[TOMBSTONE_WHY_MAX])
{
    const struct agent_options *o = jobs->opt;

    if (k->n > o->keep)
        snprintf(why, TOMBSTONE_WHY_MAX, "this agent keeps the last %d ended jobs (--keep)", o->keep);
    else if (o->keep_gib > 0 && k->n > 1 && k->bytes > (uint64_t)o->keep_gib << 30)
        snprintf(why, TOMBSTONE_WHY_MAX, "this agent keeps %d GiB of ended jobs (--keep-gib)", o->keep_gib);
    else if (o->keep_days > 0 && k->n > 0 && k->oldest->job.finished_at + o->keep_days * DAY_S < clock_wall())
        snprintf(why, TOMBSTONE_WHY_MAX, "this agent keeps ended jobs for %d days (--keep-days)",
                 o->keep_days);
    else
        return false;
    return true;
}

void retention_trim(struct jobs *jobs)
{
    char why[TOMBSTONE_WHY_MAX];
    struct err e;

    if (clock_now() < jobs->trim_at)
        return;
    for (struct kept_jobs k = count_ended(jobs); is_beyond(jobs, &k, why); k = count_ended(jobs))
        if (retention_remove(k.oldest, why, &e) < 0) {
            log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: %s", e.text);
            jobs->trim_at = clock_now() + RETRY_S;
            return;
        }
}
