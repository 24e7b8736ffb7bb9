/* list, status, wait, cancel, fetch: commands for jobs submitted before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/export/derived.h"
#include "submit/job/outcome.h"
#include "submit/results/job_index.h"
#include "submit/results/labels.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/stages/progress_bar.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/standard_output.h"
#include "submit/terminal/text.h"
#include "submit/terminal/text_table.h"
#include "submit/verbs/seen_jobs.h"
#include "submit/verbs/verbs.h"

enum { LISTED = 20 };

static const double ask_s = 3, stop_s = 30;

static int load(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (submission_init(s, o, e) < 0 || job_index_load(s, id, e) < 0)
        return e->code;
    if (o->has_csv_style)
        memcpy(s->csv_style, o->csv_style, sizeof s->csv_style);
    return 0;
}

static const char *operand(const struct options *o)
{
    return o->args.n_operands > 0 ? o->args.operands[0] : NULL;
}

size_t verb_ask_nodes(struct submission *s, double timeout_s)
{
    double until = clock_now() + timeout_s;
    size_t n_answers = 0;
    bool busy = true;
    struct err e;

    if (node_prove_all(s->nodes, s->n_nodes, sizeof *s->nodes, &e) < 0)
        console_error("%s", e.text);
    for (size_t i = 0; i < s->n_nodes; i++)
        if (!node_must_prove(&s->nodes[i]))
            node_ask(s->http, &s->nodes[i], "GET", NULL, 0, &e, "/v1/jobs/%s", s->id);
    while (busy && clock_now() < until && !interrupt_signal()) {
        http_poll(s->http, 0.1);
        busy = false;
        for (size_t i = 0; i < s->n_nodes; i++)
            busy |= s->nodes[i].call.busy;
    }
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];

        if (n->call.busy)
            err_set(&n->silence, ERR_UNREACHABLE, "%s does not answer (for %g s)", n->label, timeout_s);
        else if (node_answer(n, &n->silence) == 0 && node_take_view(n, &n->silence) == 0) {
            n->last_seq = n->view.last_seq;
            n->has_state_change = false;
            n->silent_since = 0;
            n_answers++;
            continue;
        }
        n->silent_since = clock_now();
    }
    return n_answers;
}

/* A changed result is saved for later commands. */
static void judge(struct submission *s)
{
    struct err ignored;

    if (outcome_judge(s))
        job_index_save(s, &ignored);
}

static void print_silent(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0)
            console_error("%s", s->nodes[i].silence.text);
}

/* Loads the job from the index and asks its nodes. If none of them answers, fails with the first node's
 * error and `s` holds the contents of the index. The caller clears `s` in any case. */
static int load_and_ask(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (load(s, o, id, e) < 0)
        return e->code;
    if (verb_ask_nodes(s, ask_s) > 0)
        return 0;
    if (interrupt_check(e) < 0)
        return e->code;
    *e = s->nodes[0].silence;
    return e->code;
}

/* Prints details of a node beyond its line in the table. */
static void print_node(const struct submission *s, const struct node *n)
{
    char text[256];

    if (n->silent_since > 0 && s->seen.reason[0] && s->seen.node == n->at.node)
        printf("node(%d): %s: %s\n", n->at.node, s->seen.reason, s->seen.message);
    else if (n->silent_since == 0 && !n->is_ended)
        printf("node(%d): %s\n", n->at.node, progress_text(text, sizeof text, n, NAN));
    else if (n->view.reason[0])
        printf("node(%d): %s: %s\n", n->at.node, n->view.reason, n->view.message);
}

static void show(const struct submission *s)
{
    int node;

    verb_show_run(true, s);
    for (size_t i = 0; i < s->n_nodes && !s->opt->json; i++)
        print_node(s, &s->nodes[i]);
    if (!s->opt->json && progress_waits_for(&node, s))
        printf("the job waits for node(%d)\n", node);
}

static int print_seen(const struct options *o, const json_t *job, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 || seen_jobs_load(&s, job, e) < 0 ? e->code : 0;

    if (rc == 0)
        show(&s);
    if (rc == 0 && s.nodes[0].view.submitter[0])
        printf("submitted by %s\n", s.nodes[0].view.submitter);
    submission_clear(&s);
    return rc;
}

/* Of a job that is not in the index, which *e says, but which agents show to this user's token. */
static int show_seen(const struct options *o, struct err *e)
{
    json_t *jobs = seen_jobs_ask(o);
    json_t *job = json_copy((json_t *)(uintptr_t)seen_jobs_find(jobs, operand(o)));
    int rc = e->code;

    if (job && o->json) {
        json_object_del(job, "said"); /* in the form that agents have it */
        output_json(true, json_incref(job), NULL, NULL);
        rc = 0;
    } else if (job) {
        rc = print_seen(o, job, e);
    }
    json_decref(job);
    json_decref(jobs);
    return rc;
}

int verb_status(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = load_and_ask(&s, o, operand(o), e);

    if (rc < 0 && job_state_is_terminal(s.state) && !interrupt_signal())
        rc = 0; /* its end is in the index, so unreachable agents are no failure */
    if (rc == 0) {
        print_silent(&s);
        judge(&s);
        show(&s);
        if (!o->json && s.nodes[0].view.submitter[0])
            printf("submitted by %s, by the token that node(%d) got\n", s.nodes[0].view.submitter,
                   s.nodes[0].at.node);
    }
    submission_clear(&s);
    return rc == ERR_NOT_FOUND && !interrupt_signal() ? show_seen(o, e) : rc;
}

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
                     "waits_for", progress_waits_for(&node, s) ? json_integer(node) : json_null(), "tags",
                     json_object_get(s->facts, "tags"), "note", json_object_get(s->facts, "note"));
}

static void put_job(struct text_table *t, const struct submission *s, const char *state, const char *at)
{
    char labels[LABELS_MAX];
    int node;

    labels_text(labels, sizeof labels, s->facts);
    text_table_cell(t, "%s", s->id);
    if (progress_waits_for(&node, s))
        text_table_cell(t, "%s, waits for node(%d)", state, node);
    else
        text_table_cell(t, "%s", state);
    text_table_cell(t, "%.19s", at);
    text_table_cell(t, "%s", s->settings.codec);
    text_table_cell(t, "%s", s->settings.name);
    text_table_cell(t, "%s%s%s", s->folder, labels[0] ? "  " : "", labels);
}

static int list_one(const struct options *o, const char *id, json_t *list, struct text_table *t,
                    struct err *e)
{
    const char *state;
    struct submission s;
    int rc = load(&s, o, id, e);

    if (rc == 0 && is_wanted(&s, o) && o->quiet && !o->json) {
        printf("%s\n", s.id);
    } else if (rc == 0 && is_wanted(&s, o)) {
        bool known = job_state_is_terminal(s.state) || verb_ask_nodes(&s, ask_s) > 0;
        char at[CLOCK_TEXT];

        judge(&s);
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

/* The jobs of others that the agents show. */
static size_t list_seen(const struct options *o, json_t *list, struct text_table *t, size_t most,
                        size_t *n_more)
{
    json_t *jobs = o->tags[0] ? NULL : seen_jobs_ask(o), *job; /* agents do not know of tags */
    size_t i, n = json_array_size(jobs);

    json_array_foreach(jobs, i, job)
    {
        const char *by = json_text_at(job, "submitted_by");

        if (i >= most) {
            ++*n_more;
        } else if (o->json) {
            json_array_append_new(
                list, json_pack("{s:O, s:O, s:O, s:O, s:O, s:n, s:n, s:n, s:n, s:O?}", "id",
                                json_object_get(job, "id"), "name", json_object_get(job, "name"), "codec",
                                json_object_get(json_object_get(job, "settings"), "codec"), "state",
                                json_object_get(job, "state"), "submitted_at",
                                json_object_get(job, "submitted_at"), "folder", "waits_for", "tags", "note",
                                "submitted_by", json_object_get(job, "submitted_by")));
        } else if (o->quiet) {
            text_print("%s\n", json_text_at(job, "id"));
        } else {
            text_table_cell(t, "%s", json_text_at(job, "id"));
            text_table_cell(t, "%s", json_text_at(job, "state"));
            text_table_cell(t, "%.19s", json_text_at(job, "submitted_at"));
            text_table_cell(t, "%s", json_text_at(json_object_get(job, "settings"), "codec"));
            text_table_cell(t, "%s", json_text_at(job, "name"));
            text_table_cell(t, "on the agents%s%s", by[0] ? ", of " : "", by);
        }
    }
    json_decref(jobs);
    return n;
}

static int print_list(const struct options *o, const struct text_table *t, json_t *list, size_t n,
                      size_t n_more, struct err *e)
{
    if (o->json) {
        output_json(true, json_pack("{s:O}", "jobs", list), NULL, NULL);
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

/* Newest first. */
int verb_list(const struct options *o, struct err *e)
{
    static const char *const heads[] = {"job", "state", "submitted (UTC)", "codec", "name", "results"};
    size_t most = o->all || o->json || o->quiet || o->tags[0] ? SIZE_MAX : LISTED, n_more;
    json_t *list = json_array();
    struct text_table t = {0};
    char **ids;
    size_t n;
    int rc;

    if (job_index_list(&ids, &n, e) < 0) {
        json_decref(list);
        return e->code;
    }
    n_more = n > most ? n - most : 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        text_table_column(&t, false, "%s", heads[i]);
    for (size_t i = n; i-- > n_more && !interrupt_signal();)
        if (ids[i] && list_one(o, ids[i], list, &t, e) < 0)
            console_error("%s: %s", ids[i], e->text);
    for (size_t i = 0; i < n; i++)
        free(ids[i]);
    free(ids);
    n += list_seen(o, list, &t, most, &n_more);
    rc = print_list(o, &t, list, n, n_more, e);
    text_table_clear(&t);
    json_decref(list);
    return rc < 0 ? rc : interrupt_check(e);
}

static bool has_silent(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0)
            return true;
    return false;
}

/* Shows the results that an earlier command fetched of an ended job; false: some of them are missing. */
static bool show_kept(struct submission *s)
{
    json_t *run = results_kept(s);

    if (!run)
        return false;
    print_silent(s);
    console_info("All results of %s are in %s already; they are left unchanged.", s->id, s->folder);
    s->made_folder = s->made_parts = false;
    s->is_complete = true;
    derived_write(s, run);
    json_decref(s->files);
    s->files = json_incref(json_object_get(run, "files"));
    if (s->opt->json)
        output_json(true, json_incref(run), NULL, NULL);
    else
        show(s);
    json_decref(run);
    return true;
}

/* Loads the job and prepares its result folder. *is_kept: nothing is left to do, because the job had ended,
 * all its results are already here and were shown, and some of its agents are gone, so that a new fetch
 * would get less. */
static int load_for_results(struct submission *s, bool *is_kept, const struct options *o, const char *id,
                            struct err *e)
{
    struct err why;
    int rc = load_and_ask(s, o, id, e);
    bool may_be_kept = job_state_is_terminal(s->state) && has_silent(s) && !interrupt_signal() &&
                       !o->trace[0]; /* a trace needs the agents' data */

    *is_kept = false;
    if (rc < 0 && !may_be_kept)
        return rc;
    why = *e;
    if (derived_prepare(s, e) < 0)
        return e->code;
    *is_kept = may_be_kept && show_kept(s);
    if (*is_kept || rc == 0)
        return 0;
    results_abandon(s);
    *e = why;
    return rc;
}

static int wait_one(const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    bool is_kept;
    int rc = load_for_results(&s, &is_kept, o, id, e);

    if (rc == 0 && is_kept) {
        rc = verb_exit_status(&s);
    } else if (rc == 0) {
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_reserved = true;
        if (results_begin(&s, e) < 0 || run_json_save(&s, e) < 0)
            console_error("%s", e->text);
        console_info("Waiting for %s (%s).", s.id, s.settings.name);
        rc = verb_finish(&s, e);
    }
    submission_clear(&s);
    return rc;
}

int verb_wait(const struct options *o, struct err *e)
{
    int worst = 0;

    for (int i = 0; i < (o->args.n_operands ? o->args.n_operands : 1); i++) {
        int rc = wait_one(o, o->args.n_operands ? o->args.operands[i] : NULL, e);

        if (rc < 0 || interrupt_signal())
            return rc;
        if (rc > worst)
            worst = rc;
    }
    return worst;
}

/* A node with a silent agent keeps its reservation and is cancelled once the agent answers. */
static void cancel_nodes(struct submission *s, const char *reason)
{
    submission_cancel(s, reason, false);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_reserved &= s->nodes[i].silent_since > 0;
}

/* 202 means that the node will end: waits until every node has ended, even if the first one's end decides
 * the job. */
static int cancel_one(const struct options *o, const char *id, struct err *e)
{
    double until = clock_now() + stop_s;
    struct submission s;
    int rc = load_and_ask(&s, o, id, e);

    if (rc == 0) {
        if (job_state_is_terminal(s.state))
            until = 0; /* its end is in the index: no waiting */
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_reserved = true;
        do {
            cancel_nodes(&s, o->reason);
            http_poll(s.http, 0.1);
            verb_ask_nodes(&s, ask_s);
            judge(&s);
        } while (submission_count_ended(&s) < s.n_nodes && clock_now() < until && !interrupt_signal());
        print_silent(&s);
        if (!job_state_is_terminal(s.state) && interrupt_check(e) < 0)
            rc = e->code;
        else if (!job_state_is_terminal(s.state))
            rc = err_set(e, ERR_TIMEOUT, "%s: not every node ended within %g s", s.id, stop_s);
        else if (o->json)
            output_json(true, json_pack("{s:s, s:s}", "id", s.id, "state", job_state_name(s.state)), NULL,
                        NULL);
        else
            printf("%s: %s\n", s.id, job_state_name(s.state));
    }
    if (rc == 0) {
        struct err ignored;

        job_index_save(&s, &ignored);
    }
    submission_clear(&s);
    return rc;
}

int verb_cancel(const struct options *o, struct err *e)
{
    if (o->args.n_operands == 0)
        return err_set(e, ERR_USAGE, "cancel needs a job: job_submit list shows them");
    for (int i = 0; i < o->args.n_operands; i++)
        if (cancel_one(o, o->args.operands[i], e) < 0)
            return e->code;
    return 0;
}

int verb_fetch(const struct options *o, struct err *e)
{
    struct submission s;
    bool is_kept;
    int rc = load_for_results(&s, &is_kept, o, operand(o), e);

    if (rc == 0 && !is_kept) {
        print_silent(&s);
        judge(&s);
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_lost = s.nodes[i].silent_since > 0;
        rc = stage_collect(&s, e);
        if (rc == 0) {
            s.made_folder = s.made_parts = false;
            verb_show_run(true, &s);
            if (!job_state_is_terminal(s.state))
                console_info("The job is %s: these are its records so far.", job_state_name(s.state));
        }
    }
    if (rc == 0)
        rc = job_state_is_terminal(s.state) && !s.is_complete ? EXIT_INCOMPLETE : 0;
    submission_clear(&s);
    return rc;
}
