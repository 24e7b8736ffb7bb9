#include "submit/results/job_index.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/choice.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "submit/files/job_id.h"
#include "submit/files/run_file.h"

enum { INDEX_MAX = 16 << 20, LISTED = 4, JOB_NAME_MAX = sizeof((struct settings *)NULL)->name };

static int index_dir(char *out, size_t size, struct err *e)
{
    char state[PATH_MAX];

    if (file_state_dir(state, sizeof state, e) < 0)
        return e->code;
    return file_join(out, size, state, "jobs", e);
}

static int index_path(char *out, size_t size, const char *id, struct err *e)
{
    char dir[PATH_MAX];
    char name[JOB_ID_MAX + 8];

    snprintf(name, sizeof name, "%s.json", id);
    if (index_dir(dir, sizeof dir, e) < 0)
        return e->code;
    return file_join(out, size, dir, name, e);
}

/* The absolute path of the token file, because later commands may run in another folder. */
static const char *token_file(char out[PATH_MAX], const struct submission *s, const struct job_node *n)
{
    const char *option = s->opt->credentials.token_file;
    const char *named = option[0] ? option : n->at.token_file;

    return named[0] && realpath(named, out) ? out : named;
}

/* Adds the cause of a failure: found by this command, or by an earlier one. */
static int put_reason(json_t *o, const struct submission *s)
{
    const struct job_node *cause = s->cause >= 0 ? &s->nodes[s->cause] : NULL;
    json_t *why = NULL;

    if (cause)
        why = json_pack("{s:i, s:o, s:o}", "cause_node", cause->at.node, "reason",
                        json_text(cause->view.reason, SIZE_MAX), "message",
                        json_text(cause->view.message, SIZE_MAX));
    else if (s->seen.reason[0])
        why = json_pack("{s:i, s:o, s:o}", "cause_node", s->seen.node, "reason",
                        json_text(s->seen.reason, SIZE_MAX), "message", json_text(s->seen.message, SIZE_MAX));
    else
        why = json_pack("{s:n, s:n, s:n}", "cause_node", "reason", "message");
    return json_object_update_new(o, why);
}

json_t *job_index_json(const struct submission *s)
{
    char path[PATH_MAX];
    char at[CLOCK_TEXT];
    json_t *nodes = json_array();
    json_t *o;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        json_array_append_new(nodes,
                              json_pack("{s:i, s:s, s:s, s:o, s:s}", "node", n->at.node, "role", node_role(n),
                                        "address", n->at.address, "token_file",
                                        json_text(token_file(path, s, n), SIZE_MAX), "pin", n->at.pin));
    }
    o = json_pack("{s:i, s:s, s:i, s:s, s:s, s:f, s:s, s:s, s:i, s:I, s:o, s:O, s:o}", "version", 1, "id",
                  s->id, "attempt", s->attempt, "name", s->settings.name, "submitted_at",
                  clock_text(at, s->submitted_at), "submitted_s", s->submitted_at, "folder", s->folder,
                  "csv_style", s->csv_style, "dense_layers", s->n_dense, "model_bytes_max",
                  (json_int_t)s->model_bytes, "settings", settings_json(&s->settings), "facts", s->facts,
                  "nodes", nodes);
    if (o && put_reason(o, s) < 0) {
        json_decref(o);
        return NULL;
    }
    if (o && job_state_is_terminal(s->state))
        json_object_set_new(o, "state", json_string(job_state_name(s->state)));
    if (o && s->is_queued)
        json_object_set_new(o, "queued", json_true());
    if (o && s->has_not_run)
        json_object_set_new(o, "has_not_run", json_true());
    return o;
}

static int write_record(const char *id, const json_t *o, struct err *e)
{
    char *text = o ? json_dump(o, JSON_INDENT(1)) : NULL;
    char path[PATH_MAX];
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the record of %s", id);
    rc = index_path(path, sizeof path, id, e);
    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0600, e);
    free(text);
    return rc;
}

int job_index_save(const struct submission *s, struct err *e)
{
    char dir[PATH_MAX];
    json_t *o;
    int rc;

    if (s->job_folder[0]) /* its nodes' states are in the folder */
        return 0;
    if (index_dir(dir, sizeof dir, e) < 0 || file_mkdirs(dir, 0700, e) < 0)
        return e->code;
    o = job_index_json(s);
    rc = write_record(s->id, o, e);
    json_decref(o);
    return rc;
}

void job_index_remove(const char *id)
{
    char path[PATH_MAX];
    struct err ignored;

    if (index_path(path, sizeof path, id, &ignored) == 0)
        unlink(path);
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat of_a, of_b;

    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

int job_index_set_fact(const char *id, const char *folder, const char *key, json_t *value, struct err *e)
{
    const char *of_job;
    char path[PATH_MAX];
    json_t *o;
    int rc = 0;

    if (!job_id_is_valid(id))
        return 0;
    if (index_path(path, sizeof path, id, e) < 0)
        return e->code;
    if (access(path, F_OK) < 0)
        return 0;
    if (json_read(&o, path, INDEX_MAX, e) < 0)
        return e->code;
    of_job = json_string_value(json_object_get(o, "folder"));
    if (of_job && is_same_folder(of_job, folder)) {
        json_object_set(json_object_get(o, "facts"), key, value);
        rc = write_record(id, o, e);
    }
    json_decref(o);
    return rc;
}

static int is_record(const struct dirent *f)
{
    size_t n = strlen(f->d_name);

    return n > 7 && n < JOB_ID_MAX + 5 && strncmp(f->d_name, "j-", 2) == 0 &&
           strcmp(f->d_name + n - 5, ".json") == 0;
}

int job_index_list(char ***ids, size_t *n, struct err *e)
{
    struct dirent **names = NULL;
    char dir[PATH_MAX];
    int k;

    if (index_dir(dir, sizeof dir, e) < 0)
        return e->code;
    k = scandir(dir, &names, is_record, alphasort);
    *n = k > 0 ? (size_t)k : 0;
    *ids = calloc(*n + 1, sizeof **ids);
    for (size_t i = 0; i < *n; i++) {
        if (*ids)
            (*ids)[i] = strndup(names[i]->d_name, strlen(names[i]->d_name) - 5);
        free(names[i]);
    }
    free(names);
    return *ids ? 0 : err_set(e, ERR_NOMEM, "no memory for the list of jobs");
}

/* "" if it is null, as for a job that succeeded. */
static void take_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    snprintf(out, size, "%s", text ? text : "");
}

/* The ids of the jobs that match the user's text, the latest first. */
struct matches {
    size_t n;
    char ids[LISTED][JOB_ID_MAX];
};

static void add_match(struct matches *m, const char *id)
{
    memmove(m->ids[1], m->ids[0], sizeof m->ids - sizeof *m->ids);
    snprintf(m->ids[0], sizeof *m->ids, "%s", id);
    m->n++;
}

/* out: the name of a job; "": its record cannot be read. */
static void read_name(char *out, size_t size, const char *id)
{
    char path[PATH_MAX];
    struct err ignored;
    json_t *o = NULL;

    if (index_path(path, sizeof path, id, &ignored) == 0 && json_read(&o, path, INDEX_MAX, &ignored) < 0)
        o = NULL;
    take_text(out, size, o, "name");
    json_decref(o);
}

/* Adds the jobs of a name. near: a similar name of another job; "": there is none. */
static void match_names(struct matches *m, char near[JOB_NAME_MAX], const char *name, char *const *ids,
                        size_t n)
{
    near[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        char of_job[JOB_NAME_MAX];
        const char *choices[] = {of_job, NULL};

        if (!ids[i])
            continue;
        read_name(of_job, sizeof of_job, ids[i]);
        if (strcmp(of_job, name) == 0)
            add_match(m, ids[i]);
        else if (choice_near(name, choices))
            memcpy(near, of_job, sizeof of_job);
    }
}

static int not_unique(const struct matches *m, const char *text, bool is_name, struct err *e)
{
    char list[LISTED * (JOB_ID_MAX + 2)] = "";

    for (size_t i = 0; i < m->n && i < LISTED; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", m->ids[i]);
    err_set(e, ERR_USAGE, is_name ? "%s is the name of %zu jobs" : "%s is a prefix of %zu jobs", text, m->n);
    return err_hint(e, "Give the id; the latest first: %s%s.", list, m->n > LISTED ? " and more" : "");
}

static int no_match(const char *text, const char *near, struct err *e)
{
    struct stat st;
    json_t *doc;

    /* A folder of which no job submitted here has its results. */
    if (stat(text, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (run_file_read(&doc, text, e) < 0)
            return job_folder_read(&doc, text, e);
        json_decref(doc);
    }
    err_set(e, ERR_NOT_FOUND, "no job %s was submitted from here", text);
    return near[0] ? err_hint(e, "Did you mean %s?", near)
                   : err_hint(e, "job_submit list shows the submitted jobs.");
}

/* Adds the job whose results are in a folder, which may be a copy, if this user submitted it. */
static void match_folder(struct matches *m, const char *folder, char *const *ids, size_t n)
{
    struct err ignored;
    json_t *doc;

    if (run_file_read(&doc, folder, &ignored) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (ids[i] && strcmp(ids[i], json_text_at(doc, "id")) == 0)
            add_match(m, ids[i]);
    json_decref(doc);
}

static int match_text(char out[JOB_ID_MAX], const char *text, char *const *ids, size_t n, struct err *e)
{
    char near[JOB_NAME_MAX] = "";
    struct matches m = {0};
    bool is_name;

    for (size_t i = 0; i < n; i++)
        if (ids[i] && (!text || strncmp(ids[i], text, strlen(text)) == 0))
            add_match(&m, ids[i]);
    if (m.n == 0 && !text)
        return err_set(e, ERR_NOT_FOUND, "no job has been submitted from here yet");
    is_name = m.n == 0;
    if (is_name)
        match_names(&m, near, text, ids, n);
    if (m.n == 0)
        match_folder(&m, text, ids, n);
    if (m.n == 0)
        return no_match(text, near, e);
    if (text && m.n > 1)
        return not_unique(&m, text, is_name, e);
    memcpy(out, m.ids[0], sizeof *m.ids);
    return 0;
}

static int resolve_id(char out[JOB_ID_MAX], const char *text, struct err *e)
{
    char **ids;
    size_t n;
    int rc;

    if (text && !text[0]) /* for example of an unset variable; "" would be a prefix of every id */
        return err_set(e, ERR_USAGE, "the job's id is empty");
    if (job_index_list(&ids, &n, e) < 0)
        return e->code;
    rc = match_text(out, text, ids, n, e);
    for (size_t i = 0; i < n; i++)
        free(ids[i]);
    free(ids);
    return rc;
}

int job_index_in_folder(char out[JOB_ID_MAX], const char *folder, struct err *e)
{
    bool is_found = false;
    char **ids;
    size_t n;

    out[0] = '\0';
    if (job_index_list(&ids, &n, e) < 0)
        return e->code;
    for (size_t i = n; i-- > 0;) {
        char path[PATH_MAX];
        const char *of_job;
        struct err ignored;
        json_t *o = NULL;

        if (!is_found && ids[i] && index_path(path, sizeof path, ids[i], &ignored) == 0 &&
            json_read(&o, path, INDEX_MAX, &ignored) == 0) {
            of_job = json_string_value(json_object_get(o, "folder"));
            is_found = of_job && strcmp(of_job, folder) == 0;
            if (is_found && !json_object_get(o, "state"))
                snprintf(out, JOB_ID_MAX, "%s", ids[i]);
            json_decref(o);
        }
        free(ids[i]);
    }
    free(ids);
    return 0;
}

static int read_nodes(struct submission *s, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);
    json_t *o;
    size_t i;

    if (n == 0 || n > NODES_MAX)
        return err_set(e, ERR_CONFIG, "/nodes: missing");
    s->workers.nodes = calloc(n, sizeof *s->workers.nodes);
    if (!s->workers.nodes)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);
    json_array_foreach(list, i, o)
    {
        struct listed_agent *w = &s->workers.nodes[i];
        char at[32];

        snprintf(at, sizeof at, "/nodes/%zu", i);
        if (json_get_int(&w->node, o, "node", -NODES_MAX - 1, NODES_MAX, at, e) < 0 ||
            json_get_text(w->address, sizeof w->address, o, "address", at, e) < 0 ||
            json_get_text(w->token_file, sizeof w->token_file, o, "token_file", at, e) < 0 ||
            address_parse(w->host, sizeof w->host, &w->port, w->address, e) < 0)
            return e->code;
        take_text(w->pin, sizeof w->pin, o, "pin"); /* missing in records of earlier versions */
        if (w->node >= 0)
            s->workers.n_workers++;
        else
            s->workers.n_servers++;
    }
    return submission_set_nodes(s, s->workers.n_workers, s->workers.n_servers, e);
}

int job_index_take(struct submission *s, const json_t *o, struct err *e)
{
    const json_t *facts = json_object_get(o, "facts");
    const json_t *state = json_object_get(o, "state");

    if (json_get_text(s->id, sizeof s->id, o, "id", "", e) < 0 ||
        json_get_text(s->folder, sizeof s->folder, o, "folder", "", e) < 0 ||
        json_get_text(s->csv_style, sizeof s->csv_style, o, "csv_style", "", e) < 0 ||
        json_get_int(&s->attempt, o, "attempt", 1, ATTEMPTS_MAX, "", e) < 0 ||
        json_get_int(&s->n_dense, o, "dense_layers", 0, MODEL_LAYERS_MAX, "", e) < 0 ||
        settings_parse(&s->settings, json_object_get(o, "settings"), e) < 0)
        return e->code;
    s->submitted_at = json_number_value(json_object_get(o, "submitted_s"));
    s->model_bytes = (uint64_t)json_integer_value(json_object_get(o, "model_bytes_max"));
    if (json_is_object(facts))
        json_object_update(s->facts, (json_t *)(uintptr_t)facts);
    if (json_is_string(state))
        job_state_parse(&s->state, json_string_value(state));
    if (job_state_is_terminal(s->state)) {
        s->seen.node = (int)json_integer_value(json_object_get(o, "cause_node"));
        take_text(s->seen.reason, sizeof s->seen.reason, o, "reason");
        take_text(s->seen.message, sizeof s->seen.message, o, "message");
    }
    if (s->job_folder[0] && !s->trace[0]) /* pack has ended when there is a trace */
        s->trace = json_text_at(json_object_get(s->facts, "options"), "trace");
    s->is_queued = json_is_true(json_object_get(o, "queued"));
    s->has_not_run = json_is_true(json_object_get(o, "has_not_run"));
    s->is_started = !s->is_queued && !s->has_not_run;
    return read_nodes(s, json_object_get(o, "nodes"), e);
}

int job_index_read_id(json_t **out, const char *id, struct err *e)
{
    char path[PATH_MAX];

    return index_path(path, sizeof path, id, e) < 0 ? e->code : json_read(out, path, INDEX_MAX, e);
}

int job_index_read(json_t **out, const char *id, struct err *e)
{
    char whole[JOB_ID_MAX];

    return resolve_id(whole, id, e) < 0 ? e->code : job_index_read_id(out, whole, e);
}

/* The record of a job without agents is in its folder, which may be at another path than where it was
 * written. */
static int load_folder(struct submission *s, const char *path, struct err *e)
{
    json_t *o;
    int rc;

    if (!realpath(path, s->job_folder))
        return err_errno(e, ERR_IO, "%s", path);
    if (job_folder_read(&o, s->job_folder, e) < 0)
        return e->code;
    rc = job_index_take(s, json_object_get(o, "record"), e);
    if (rc == 0 && !job_id_is_valid(s->id)) /* it is part of paths */
        rc = err_set(e, ERR_CONFIG, "/record/id: \"%s\" is not the id of a job", s->id);
    if (rc == 0)
        rc = file_join(s->folder, sizeof s->folder, s->job_folder, "results", e);
    json_decref(o);
    return rc < 0 ? err_at(e, "%s/" JOB_FOLDER_DOCUMENT, path) : 0;
}

int job_index_load(struct submission *s, const char *id, struct err *e)
{
    json_t *o;
    int rc;

    if (id && job_folder_is(id))
        return load_folder(s, id, e);
    if (job_index_read(&o, id, e) < 0)
        return e->code;
    rc = job_index_take(s, o, e);
    json_decref(o);
    return rc < 0 ? err_at(e, "the record of %s", id ? id : "the latest job") : 0;
}
