#include "submit/browse/page_changes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/json.h"
#include "submit/browse/run_delete.h"
#include "submit/browse/run_label.h"
#include "submit/options/submit_options.h"

enum { TAGS = 64 };

/* Each change reads a file and writes it again, and requests are answered by several threads. */
static pthread_mutex_t one_change = PTHREAD_MUTEX_INITIALIZER;

/* Opens the results of a job that has ended. */
static int open_run(struct run *out, struct job_list *jobs, const char *id, struct err *e)
{
    struct shown s;
    struct stat st;
    json_t *line;
    int rc = 0;

    if (job_list_open_job(&s, &line, jobs, id, e) < 0)
        return e->code;
    json_decref(line);
    if (s.is_live || !s.path)
        rc = err_set(e, ERR_CONFLICT, "%.60s has no folder of results here", id);
    else if (snprintf(out->folder, sizeof out->folder, "%s", s.path) >= (int)sizeof out->folder)
        rc = err_set(e, ERR_CONFLICT, "the path of the results is too long");
    else if (lstat(s.path, &st) < 0 || !S_ISDIR(st.st_mode))
        rc = err_set(e, ERR_CONFLICT, "%s is no folder any more", s.path);
    else
        out->doc = json_incref(s.run);
    shown_clear(&s);
    return rc;
}

static int take_note(json_t *labels, const char *note, struct err *e)
{
    if (strlen(note) >= sizeof((struct options *)NULL)->note)
        return err_set(e, ERR_USAGE, "a note has at most %zu bytes",
                       sizeof((struct options *)NULL)->note - 1);
    json_object_set_new(labels, "note", note[0] ? json_text(note, SIZE_MAX) : json_null());
    return 0;
}

static int take_tags(json_t *labels, const char *tags, struct err *e)
{
    json_t *all = json_array();

    json_object_set_new(labels, "tags", all);
    for (const char *at = tags; *at; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ",");
        size_t used = len;

        while (used > 0 && at[used - 1] == ' ')
            used--;
        if (json_array_size(all) == TAGS)
            return err_set(e, ERR_USAGE, "more than %d tags", TAGS);
        if (used > 0)
            json_array_append_new(all, json_text(at, used));
        at += len;
    }
    return 0;
}

static int label(struct run *r, const struct target *t, struct err *e)
{
    const char *note = target_query(t, "note"), *tags = target_query(t, "tags");
    json_t *labels = json_object();
    int rc = note ? take_note(labels, note, e) : 0;

    if (rc == 0 && tags)
        rc = take_tags(labels, tags, e);
    if (rc == 0)
        rc = run_label_set(r, labels, e);
    json_decref(labels);
    return rc;
}

static int set_hidden(struct run *r, bool is_hidden, struct err *e)
{
    json_t *labels = json_pack("{s:o}", "hidden", is_hidden ? json_true() : json_null());
    int rc = labels ? run_label_set(r, labels, e) : err_set(e, ERR_NOMEM, "no memory for a label");

    json_decref(labels);
    return rc;
}

static int delete_run(struct job_list *jobs, const char *id, struct run *r, struct err *e)
{
    char to[PATH_MAX];

    if (run_delete(to, sizeof to, r, e) < 0)
        return e->code;
    job_list_note_deleted(jobs, id, r->folder);
    return 0;
}

static int undelete_run(struct job_list *jobs, const char *id, struct err *e)
{
    char folder[PATH_MAX], of_run[LISTED_ID];

    snprintf(of_run, sizeof of_run, "%.*s", (int)strcspn(id, "~"), id); /* copies in the list are ID~2, ... */
    if (!job_list_find_deleted(folder, sizeof folder, jobs, id))
        return err_set(e, ERR_NOT_FOUND, "this page has not deleted %.60s", id);
    return run_undelete(folder, of_run, e);
}

static int change_run(struct job_list *jobs, const char *id, const char *action, const struct target *t,
                      struct err *e)
{
    struct run r = {0};
    int rc;

    if (strcmp(action, "undelete") == 0)
        return undelete_run(jobs, id, e);
    rc = open_run(&r, jobs, id, e);
    if (rc == 0 && strcmp(action, "label") == 0)
        rc = label(&r, t, e);
    else if (rc == 0 && strcmp(action, "delete") == 0)
        rc = delete_run(jobs, id, &r, e);
    else if (rc == 0)
        rc = set_hidden(&r, strcmp(action, "hide") == 0, e);
    run_clear(&r);
    return rc;
}

bool page_change_is_known(const char *action)
{
    static const char *const all[] = {"cancel", "label", "hide", "unhide", "delete", "undelete"};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], action) == 0)
            return true;
    return false;
}

int page_change(struct job_list *jobs, const char *id, const char *action, const struct target *t,
                struct err *e)
{
    int rc;

    if (strcmp(action, "cancel") == 0)
        return job_list_cancel_job(jobs, id, e);
    pthread_mutex_lock(&one_change);
    rc = change_run(jobs, id, action, t, e);
    pthread_mutex_unlock(&one_change);
    job_list_ask_scan(jobs);
    return rc;
}
