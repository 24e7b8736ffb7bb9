/* list: prints the jobs that this user has submitted, and the jobs of others that agents show. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/results/run.h"
#include "submit/stages/progress_bar.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

enum { LISTED = 20 };

static bool has_tag(const json_t *tags, const char *wanted)
{
    const json_t *tag;
    size_t i;

    json_array_foreach(tags, i, tag) if (json_is_string(tag) &&
                                         strcmp(json_string_value(tag), wanted) == 0) return true;
    return false;
}

static bool is_wanted(const struct submission *s, const struct options *o)
{
    if (s->is_queued && !queue_state_waits(s)) /* another process is writing it into the queue */
        return false;
    if (!o->all && (json_is_true(json_object_get(s->facts, "hidden")) ||
                    json_is_true(json_object_get(s->facts, "deleted"))))
        return false;
    for (const char *const *tag = o->tags; *tag; tag++)
        if (!has_tag(json_object_get(s->facts, "tags"), *tag))
            return false;
    return true;
}

static json_t *job_json(const struct submission *s, const char *state, const char *at)
{
    int node;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:O?, s:O?}", "id", s->id, "name", s->settings.name,
                     "codec", s->settings.codec, "state", state, "submitted_at", at, "folder", s->folder,
                     "waits_for", progress_bar_waits_for(&node, s) ? json_integer(node) : json_null(), "tags",
                     json_object_get(s->facts, "tags"), "note", json_object_get(s->facts, "note"));
}

static void put_job(struct text_table *t, const struct submission *s, const char *state, const char *at)
{
    char labels[RUN_LABELS_MAX];
    int node;

    run_labels(labels, sizeof labels, s->facts);
    text_table_cell(t, "%s", s->id);
    if (progress_bar_waits_for(&node, s))
        text_table_cell(t, "%s, waits for node(%d)", state, node);
    else
        text_table_cell(t, "%s", state);
    text_table_cell(t, "%.19s", at);
    text_table_cell(t, "%s", s->settings.codec);
    text_table_cell(t, "%s", s->settings.name);
    text_table_cell(t, "%s%s%s", s->folder, labels[0] ? "  " : "", labels);
}

/* A job that waits has no node yet; its results column says for what it waits. */
static void list_waiting(const struct options *o, const struct submission *s, const struct queue_state *q,
                         json_t *list, struct text_table *t)
{
    char at[CLOCK_TEXT], priority[32] = "";
    struct queue_view v;

    queue_state_view(&v, q, s->id);
    clock_text(at, s->submitted_at);
    if (o->json) {
        json_t *job = job_json(s, "queued", at);

        json_object_set_new(job, "place", json_integer((json_int_t)v.place));
        json_object_set_new(job, "priority", json_integer(v.priority));
        json_object_set_new(job, "waits_because", json_text(v.why, SIZE_MAX));
        json_array_append_new(list, job);
        return;
    }
    if (v.priority)
        snprintf(priority, sizeof priority, "priority %d: ", v.priority);
    text_table_cell(t, "%s", s->id);
    text_table_cell(t, "queued, place %zu", v.place);
    text_table_cell(t, "%.19s", at);
    text_table_cell(t, "%s", s->settings.codec);
    text_table_cell(t, "%s", s->settings.name);
    text_table_cell(t, "%s%s", priority, v.why);
}

static int list_one(const struct options *o, const char *id, const struct queue_state *q, json_t *list,
                    struct text_table *t, struct err *e)
{
    const char *state;
    struct submission s;
    int rc = submitted_job_load(&s, o, id, e);

    if (rc == 0 && is_wanted(&s, o) && o->quiet && !o->json) {
        printf("%s\n", s.id);
    } else if (rc == 0 && is_wanted(&s, o) && queue_state_waits(&s)) {
        list_waiting(o, &s, q, list, t);
    } else if (rc == 0 && is_wanted(&s, o)) {
        bool known = job_state_is_terminal(s.state) || submitted_job_ask_nodes(&s, SUBMITTED_ASK_S) > 0;
        char at[CLOCK_TEXT];

        submitted_job_update(&s);
        state = known ? job_state_name(s.state) : "unreachable";
        clock_text(at, s.submitted_at);
        if (o->json)
            json_array_append_new(list, job_json(&s, state, at));
        else
            put_job(t, &s, state, at);
    }
    submission_clear(&s);
    return rc;
}

/* A job of another user, of which agents say so much. `waits`: it waits outside of them. */
static void put_other(const struct options *o, json_t *list, struct text_table *t, const json_t *job,
                      const json_t *codec, const json_t *by, bool waits)
{
    json_t *state = waits ? json_string("queued") : json_incref(json_object_get(job, "state"));
    const char *user = json_is_string(by) ? json_string_value(by) : "";

    if (o->json) {
        json_array_append_new(list, json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:n, s:n, s:n, s:n, s:O?}",
                                              "id", json_object_get(job, "id"), "name",
                                              json_object_get(job, "name"), "codec", codec, "state", state,
                                              "submitted_at", json_object_get(job, "submitted_at"), "folder",
                                              "waits_for", "tags", "note", "submitted_by", by));
    } else if (o->quiet) {
        text_print("%s\n", json_text_at(job, "id"));
    } else {
        text_table_cell(t, "%s", json_text_at(job, "id"));
        text_table_cell(t, "%s", json_string_value(state));
        text_table_cell(t, "%.19s", json_text_at(job, "submitted_at"));
        text_table_cell(t, "%s", json_is_string(codec) ? json_string_value(codec) : "");
        text_table_cell(t, "%s", json_text_at(job, "name"));
        text_table_cell(t, "%s%s%s", waits ? "waits for the agents" : "on the agents", user[0] ? ", of " : "",
                        user);
    }
    json_decref(state);
}

/* Does this user's list have one of the jobs? */
static bool has_own_job(const json_t *jobs)
{
    const json_t *job;
    bool is_own = false;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        struct err ignored;
        json_t *record = NULL;

        is_own |= job_index_read_id(&record, json_text_at(job, "id"), &ignored) == 0;
        json_decref(record);
    }
    return is_own;
}

/* The jobs of other users that wait for the agents. Removes this user's from `waiting`. */
static size_t list_waiting_others(const struct options *o, json_t *waiting, json_t *list,
                                  struct text_table *t)
{
    json_t *user, *job;
    size_t i, k, n = 0;

    for (i = json_array_size(waiting); i-- > 0;)
        if (has_own_job(json_object_get(json_array_get(waiting, i), "jobs")))
            json_array_remove(waiting, i);
    json_array_foreach(waiting, i, user) json_array_foreach(json_object_get(user, "jobs"), k, job)
    {
        put_other(o, list, t, job, json_object_get(job, "codec"), json_object_get(user, "user"), true);
        n++;
    }
    return n;
}

/* The jobs of others that the agents show. */
static size_t list_seen(const struct options *o, json_t *list, struct text_table *t, size_t most,
                        size_t *n_more, json_t **waiting)
{
    json_t *jobs, *job;
    size_t i, n, n_waiting;

    *waiting = NULL;
    if (o->tags[0]) /* agents do not store tags */
        return 0;
    jobs = submitted_jobs_of_others(o, waiting);
    n = json_array_size(jobs);
    n_waiting = list_waiting_others(o, *waiting, list, t);

    json_array_foreach(jobs, i, job)
    {
        if (i >= most)
            ++*n_more;
        else
            put_other(o, list, t, job, json_object_get(json_object_get(job, "settings"), "codec"),
                      json_object_get(job, "submitted_by"), false);
    }
    json_decref(jobs);
    return n + n_waiting;
}

/* How many jobs of each other user wait for the agents. */
static void print_waiting_others(const json_t *waiting)
{
    const json_t *user;
    size_t i;

    json_array_foreach(waiting, i, user)
        text_print("Jobs of %s that wait for these agents: %.0f\n", json_text_at(user, "user"),
                   json_number_at(user, "waiting", 0));
}

static json_t *waiting_others_json(const json_t *waiting)
{
    const json_t *user;
    json_t *list = json_array();
    size_t i;

    json_array_foreach(waiting, i, user)
        json_array_append_new(list, json_pack("{s:O, s:O}", "user", json_object_get(user, "user"), "waiting",
                                              json_object_get(user, "waiting")));
    return list;
}

static int print_list(const struct options *o, const struct text_table *t, json_t *list,
                      const json_t *waiting, size_t n, size_t n_more, struct err *e)
{
    if (o->json) {
        stdout_json(true,
                    json_pack("{s:O, s:o}", "jobs", list, "waiting_of_others", waiting_others_json(waiting)),
                    NULL, NULL);
        return 0;
    }
    if (o->quiet) /* their ids have been printed, for scripts */
        return 0;
    if (n == 0) {
        console_plain("No job has been submitted from here yet.");
        return 0;
    }
    if (text_table_print(t, e) < 0)
        return e->code;
    if (n_more > 0)
        printf("%zu more: job_submit list --all\n", n_more);
    return 0;
}

static void print_watcher(const struct queue_state *q)
{
    if (q->n > 0 && q->watcher)
        printf("Jobs of the queue: %zu, started by process %ld, job_submit queue watch\n", q->n, q->watcher);
    else if (q->n > 0)
        printf("Jobs of the queue: %zu; no process starts them\n", q->n);
}

/* Newest first. */
int verb_list(const struct options *o, struct err *e)
{
    static const char *const heads[] = {"job", "state", "submitted (UTC)", "codec", "name", "results"};
    size_t most = o->all || o->json || o->quiet || o->tags[0] ? SIZE_MAX : LISTED, n_more;
    json_t *list = json_array(), *waiting;
    struct text_table t = {0};
    struct queue_state queue = {0};
    char **ids;
    size_t n;
    int rc;

    if (queue_state_read(&queue, e) < 0 || job_index_list(&ids, &n, e) < 0) {
        queue_state_clear(&queue);
        json_decref(list);
        return e->code;
    }
    n_more = n > most ? n - most : 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        text_table_column(&t, false, "%s", heads[i]);
    for (size_t i = n; i-- > n_more && !interrupt_signal();)
        if (ids[i] && list_one(o, ids[i], &queue, list, &t, e) < 0)
            console_error("%s: %s", ids[i], e->text);
    for (size_t i = 0; i < n; i++)
        free(ids[i]);
    free(ids);
    n += list_seen(o, list, &t, most, &n_more, &waiting);
    rc = print_list(o, &t, list, waiting, n, n_more, e);
    if (rc == 0 && !o->json && !o->quiet) {
        print_watcher(&queue);
        print_waiting_others(waiting);
    }
    queue_state_clear(&queue);
    text_table_clear(&t);
    json_decref(list);
    json_decref(waiting);
    return rc < 0 ? rc : interrupt_check(e);
}
