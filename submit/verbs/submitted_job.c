#include "submit/verbs/submitted_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "submit/browse/agents.h"
#include "submit/export/export.h"
#include "submit/job/outcome.h"
#include "submit/launch/kubernetes.h"
#include "submit/launch/slurm.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_status.h"
#include "submit/results/results.h"
#include "submit/stages/progress_bar.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

const char *submitted_job_operand(const struct options *o)
{
    return o->args.n_operands > 0 ? o->args.operands[0] : NULL;
}

int submitted_job_load(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (submission_init(s, o, e) < 0 || job_index_load(s, id, e) < 0)
        return e->code;
    if (o->has_csv_style)
        memcpy(s->csv_style, o->csv_style, sizeof s->csv_style);
    return 0;
}

size_t submitted_job_ask_nodes(struct submission *s, double timeout_s)
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
        struct job_node *n = &s->nodes[i];

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

void submitted_job_update(struct submission *s)
{
    struct err ignored;

    if (outcome_update(s))
        job_index_save(s, &ignored);
}

void submitted_job_print_silent(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0)
            console_error("%s", s->nodes[i].silence.text);
}

int submitted_job_ask(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (submitted_job_load(s, o, id, e) < 0 || queue_state_refuse(s, e) < 0)
        return e->code;
    if (submitted_job_ask_nodes(s, SUBMITTED_ASK_S) > 0)
        return 0;
    if (interrupt_check(e) < 0)
        return e->code;
    *e = s->nodes[0].silence;
    return e->code;
}

/* Prints details of a node beyond its line in the table. */
static void print_node(const struct submission *s, const struct job_node *n)
{
    char text[256];

    if (n->silent_since > 0 && s->seen.reason[0] && s->seen.node == n->at.node)
        printf("node(%d): %s: %s\n", n->at.node, s->seen.reason, s->seen.message);
    else if (n->silent_since == 0 && !n->is_ended)
        printf("node(%d): %s\n", n->at.node, progress_bar_text(text, sizeof text, n, NAN));
    else if (n->view.reason[0])
        printf("node(%d): %s: %s\n", n->at.node, n->view.reason, n->view.message);
}

/* A process makes its node's folder as soon as it is there. */
bool submitted_job_is_unlaunched(const struct submission *s)
{
    char name[JOB_FOLDER_NODE_NAME], path[PATH_MAX], id[SLURM_ID];
    struct err ignored;

    if (!s->job_folder[0] || slurm_read_id(id, s->job_folder, &ignored) == 0)
        return false;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (file_join(path, sizeof path, s->job_folder, job_folder_node_name(name, s->nodes[i].at.node),
                      &ignored) == 0 &&
            access(path, F_OK) == 0)
            return false;
    return true;
}

const char *submitted_job_launch_command(char *out, size_t size, const struct submission *s)
{
    char path[PATH_MAX];
    struct err ignored;

    if (file_join(path, sizeof path, s->job_folder, KUBERNETES_FILE, &ignored) == 0 &&
        access(path, F_OK) == 0)
        snprintf(out, size, "kubectl apply -f %s", path);
    else
        snprintf(out, size, "mpirun -n %zu job_runner --job %s", s->n_nodes, s->job_folder);
    return out;
}

bool submitted_job_is_in_slurm(char id[SLURM_ID], struct slurm_state *state, const struct submission *s)
{
    struct err ignored;

    return s->job_folder[0] && slurm_read_id(id, s->job_folder, &ignored) == 0 &&
           slurm_find_id(id, s->job_folder, &ignored) == 0 && slurm_ask(state, id, &ignored) == 0 &&
           !state->is_over;
}

static void print_slurm(const struct submission *s)
{
    struct slurm_state state;
    char id[SLURM_ID], text[SLURM_TEXT];

    if (submitted_job_is_in_slurm(id, &state, s))
        printf("Slurm's job %s: %s%s\n", id, slurm_state_text(text, &state),
               state.never_starts ? "; it will not start unless its options, or the cluster, change" : "");
}

void submitted_job_show(const struct submission *s)
{
    char command[PATH_MAX + 64];
    int node;

    verb_show_run(true, s);
    for (size_t i = 0; i < s->n_nodes && !s->opt->json; i++)
        print_node(s, &s->nodes[i]);
    if (!s->opt->json)
        print_slurm(s);
    if (!s->opt->json && submitted_job_is_unlaunched(s))
        printf("no process of this job has been started. next: %s\n",
               submitted_job_launch_command(command, sizeof command, s));
    if (!s->opt->json && progress_bar_waits_for(&node, s))
        printf("the job waits for node(%d)\n", node);
}

static bool has_silent(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0)
            return true;
    return false;
}

bool submitted_job_show_kept(struct submission *s)
{
    json_t *run = results_kept(s);

    if (!run)
        return false;
    submitted_job_print_silent(s);
    console_info("All results of %s are in %s already; they are left unchanged.", s->id, s->folder);
    s->made_folder = s->made_parts = false;
    s->is_complete = true;
    export_write(s, run);
    json_decref(s->files);
    s->files = json_incref(json_object_get(run, "files"));
    if (s->opt->json)
        stdout_json(true, json_incref(run), NULL, NULL);
    else
        submitted_job_show(s);
    json_decref(run);
    return true;
}

int submitted_job_ask_results(struct submission *s, bool *is_kept, const struct options *o, const char *id,
                              struct err *e)
{
    struct err why;
    int rc = submitted_job_ask(s, o, id, e);
    bool may_be_kept = job_state_is_terminal(s->state) && has_silent(s) && !interrupt_signal() &&
                       !o->trace[0]; /* a trace needs the agents' data */

    *is_kept = false;
    if (rc < 0 && !may_be_kept)
        return rc;
    why = *e;
    if (export_prepare(s, e) < 0)
        return e->code;
    *is_kept = may_be_kept && submitted_job_show_kept(s);
    if (*is_kept || rc == 0)
        return 0;
    results_abandon(s);
    *e = why;
    return rc;
}

/* The job as its agents report it; NULL: an agent grants this user more than scope read, or no memory. */
static json_t *describe_job(const struct agents *a, const struct live_job *j)
{
    json_t *run = live_run(j, NULL), *said = json_array();

    for (size_t i = 0; run && i < j->n; i++) {
        const struct live_node *n = &j->nodes[i];

        if (!agents_is_read_only(a, n->agent))
            break;
        json_array_append_new(
            said, json_pack("{s:i, s:s, s:O}", "node", n->node, "address", n->address, "job", n->report));
    }
    if (!run || json_array_size(said) < j->n) {
        json_decref(run);
        json_decref(said);
        return NULL;
    }
    json_object_set_new(run, "said", said);
    json_object_set(run, "submitted_by", json_object_get(j->nodes[0].report, "submitter"));
    return run;
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(json_text_at(*(json_t *const *)b, "id"), json_text_at(*(json_t *const *)a, "id"));
}

/* Newest first: ids in alphabetical order are in the order of their times. */
static json_t *sort_jobs(json_t **all, size_t n)
{
    json_t *list = json_array();

    qsort(all, n, sizeof(json_t *), newest_first);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, all[i]);
    return list;
}

static json_t *jobs_of_agents(const struct agents *a)
{
    struct live_jobs jobs;
    struct err ignored;
    json_t **all, *list = NULL;
    size_t n = 0;

    if (agents_jobs(&jobs, a, &ignored) < 0)
        return NULL;
    all = calloc(jobs.n + 1, sizeof(json_t *));
    for (size_t i = 0; all && i < jobs.n; i++)
        if ((all[n] = describe_job(a, &jobs.jobs[i])) != NULL)
            n++;
    if (all)
        list = sort_jobs(all, n);
    free(all);
    live_clear(&jobs);
    return list;
}

json_t *submitted_jobs_of_others(const struct options *o, json_t **waiting)
{
    double until = clock_now() + SUBMITTED_ASK_S;
    struct agents *a;
    struct err ignored;
    json_t *list;

    if (waiting)
        *waiting = NULL;
    if (agents_open(&a, o, &ignored) < 0) {
        agents_close(a);
        return json_array(); /* a verb that needs the list of agents reports the error in it */
    }
    while (!agents_have_answered(a) && clock_now() < until && !interrupt_signal())
        agents_poll(a, 0.1);
    list = jobs_of_agents(a);
    if (waiting)
        *waiting = agents_waiting(a);
    agents_close(a);
    return list;
}

const json_t *submitted_job_of_others(const json_t *jobs, const char *which)
{
    const json_t *job, *found = NULL;
    size_t i;

    if (!which)
        return json_array_get(jobs, 0);
    json_array_foreach(jobs, i, job)
    {
        const char *id = json_text_at(job, "id");

        if (strcmp(id, which) == 0)
            return job;
        if (strncmp(id, which, strlen(which)) != 0 && strcmp(json_text_at(job, "name"), which) != 0)
            continue;
        if (found)
            return NULL;
        found = job;
    }
    return found;
}

static int load_node(struct job_node *n, const json_t *said, struct err *e)
{
    char *text = json_dumps(json_object_get(said, "job"), JSON_COMPACT);
    int rc = text ? reply_job(&n->view, text, strlen(text), e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    if (rc < 0)
        return rc;
    n->at.node = (int)json_integer_value(json_object_get(said, "node"));
    snprintf(n->at.address, sizeof n->at.address, "%s", json_text_at(said, "address"));
    snprintf(n->label, sizeof n->label, "agent %s", n->at.address);
    if (job_state_is_terminal(n->view.state))
        node_end(n, n->view.state, n->view.reason, n->view.message);
    return 0;
}

int submitted_job_load_other(struct submission *s, const json_t *job, struct err *e)
{
    const json_t *said = json_object_get(job, "said"), *set = json_object_get(job, "settings");
    size_t n = json_array_size(said);

    s->nodes = calloc(n ? n : 1, sizeof *s->nodes);
    if (!s->nodes)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);
    s->n_nodes = n;
    snprintf(s->id, sizeof s->id, "%s", json_text_at(job, "id"));
    snprintf(s->settings.name, sizeof s->settings.name, "%s", json_text_at(job, "name"));
    snprintf(s->settings.codec, sizeof s->settings.codec, "%s", json_text_at(set, "codec"));
    s->settings.executor = json_is_true(json_object_get(set, "executor"));
    for (size_t i = 0; i < n; i++)
        if (load_node(&s->nodes[i], json_array_get(said, i), e) < 0)
            return e->code;
    outcome_update(s);
    return 0;
}
