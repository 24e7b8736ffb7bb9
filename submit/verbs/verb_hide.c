/* hide, unhide: whether lists leave a run out. delete, undelete: whether its results are in their folder. */
#include <string.h>

#include "shared/base/json.h"
#include "submit/browse/run_delete.h"
#include "submit/browse/run_label.h"
#include "submit/results/job_index.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

/* Changes a run; *to: the path to print beside it, "": none. */
typedef int change_run(char to[PATH_MAX], struct run *r, struct err *e);

static int set_hidden(struct run *r, json_t *value, struct err *e)
{
    json_t *labels = json_pack("{s:o}", "hidden", value);
    int rc = labels ? run_label_set(r, labels, e) : err_set(e, ERR_NOMEM, "no memory for a label");

    json_decref(labels);
    return rc;
}

static int hide(char to[PATH_MAX], struct run *r, struct err *e)
{
    to[0] = '\0';
    return set_hidden(r, json_true(), e);
}

static int unhide(char to[PATH_MAX], struct run *r, struct err *e)
{
    to[0] = '\0';
    return set_hidden(r, json_null(), e);
}

static int move_away(char to[PATH_MAX], struct run *r, struct err *e)
{
    return run_delete(to, PATH_MAX, r, e);
}

static void print_changed(const struct options *o, json_t *done)
{
    const json_t *run;
    size_t i;

    if (o->json) {
        stdout_json(true, json_pack("{s:O}", "runs", done), NULL, NULL);
        return;
    }
    json_array_foreach(done, i, run)
    {
        const char *to = json_text_at(run, "to");

        text_print("%s  %s%s%s\n", json_text_at(run, "id"), json_text_at(run, "folder"), to[0] ? " -> " : "",
                   to);
    }
}

/* Finds all runs before the first one is changed, so that a wrong name changes none. */
static int change_runs(const struct options *o, const char *verb, change_run *change, struct err *e)
{
    json_t *done = json_array();
    char to[PATH_MAX];
    struct run *runs;
    size_t n;
    int rc = 0;

    if (o->args.n_operands == 0)
        rc = err_set(e, ERR_USAGE, "%s needs a run: a folder of results, or a job's id", verb);
    else
        rc = runs_find(&runs, &n, o->args.operands, (size_t)o->args.n_operands, e);
    if (rc < 0) {
        json_decref(done);
        return rc;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = change(to, &runs[i], e);
        if (rc == 0)
            json_array_append_new(done, json_pack("{s:s, s:o, s:o}", "id", json_text_at(runs[i].doc, "id"),
                                                  "folder", json_text(runs[i].folder, SIZE_MAX), "to",
                                                  to[0] ? json_text(to, SIZE_MAX) : json_null()));
    }
    runs_free(runs, n);
    print_changed(o, done); /* also of those before an error */
    json_decref(done);
    return rc;
}

int verb_hide(const struct options *o, struct err *e)
{
    return change_runs(o, "hide", hide, e);
}

int verb_unhide(const struct options *o, struct err *e)
{
    return change_runs(o, "unhide", unhide, e);
}

int verb_delete(const struct options *o, struct err *e)
{
    return change_runs(o, "delete", move_away, e);
}

/* The folder that a job's results had, by its id; else the name is the folder. */
static void folder_of(char out[PATH_MAX], const char *name)
{
    struct err ignored;
    json_t *record;

    snprintf(out, PATH_MAX, "%s", name);
    if (strchr(name, '/') || job_index_read_id(&record, name, &ignored) < 0)
        return;
    snprintf(out, PATH_MAX, "%s", json_text_at(record, "folder"));
    json_decref(record);
}

int verb_undelete(const struct options *o, struct err *e)
{
    char folder[PATH_MAX];

    if (o->args.n_operands == 0)
        return err_set(e, ERR_USAGE, "undelete needs the folder that the results had, or the job's id");
    for (int i = 0; i < o->args.n_operands; i++) {
        folder_of(folder, o->args.operands[i]);
        if (run_undelete(folder, NULL, e) < 0)
            return e->code;
        if (!o->json)
            text_print("%s\n", folder);
    }
    if (o->json)
        stdout_json(true, json_object(), NULL, NULL);
    return 0;
}
