#include "submit/verbs/submitted_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/export/derived.h"
#include "submit/job/outcome.h"
#include "submit/results/job_index.h"
#include "submit/results/results.h"
#include "submit/stages/progress_bar.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/standard_output.h"
#include "submit/verbs/verbs.h"

const char *verb_operand(const struct options *o)
{
    return o->args.n_operands > 0 ? o->args.operands[0] : NULL;
}

int submitted_load(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (submission_init(s, o, e) < 0 || job_index_load(s, id, e) < 0)
        return e->code;
    if (o->has_csv_style)
        memcpy(s->csv_style, o->csv_style, sizeof s->csv_style);
    return 0;
}

size_t submitted_ask_nodes(struct submission *s, double timeout_s)
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

void submitted_update(struct submission *s)
{
    struct err ignored;

    if (outcome_update(s))
        job_index_save(s, &ignored);
}

void submitted_print_silent(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].silent_since > 0)
            console_error("%s", s->nodes[i].silence.text);
}

int submitted_ask(struct submission *s, const struct options *o, const char *id, struct err *e)
{
    if (submitted_load(s, o, id, e) < 0)
        return e->code;
    if (submitted_ask_nodes(s, SUBMITTED_ASK_S) > 0)
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
        printf("node(%d): %s\n", n->at.node, progress_text(text, sizeof text, n, NAN));
    else if (n->view.reason[0])
        printf("node(%d): %s: %s\n", n->at.node, n->view.reason, n->view.message);
}

void submitted_show(const struct submission *s)
{
    int node;

    verb_show_run(true, s);
    for (size_t i = 0; i < s->n_nodes && !s->opt->json; i++)
        print_node(s, &s->nodes[i]);
    if (!s->opt->json && progress_waits_for(&node, s))
        printf("the job waits for node(%d)\n", node);
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
    submitted_print_silent(s);
    console_info("All results of %s are in %s already; they are left unchanged.", s->id, s->folder);
    s->made_folder = s->made_parts = false;
    s->is_complete = true;
    derived_write(s, run);
    json_decref(s->files);
    s->files = json_incref(json_object_get(run, "files"));
    if (s->opt->json)
        output_json(true, json_incref(run), NULL, NULL);
    else
        submitted_show(s);
    json_decref(run);
    return true;
}

int submitted_load_for_results(struct submission *s, bool *is_kept, const struct options *o, const char *id,
                               struct err *e)
{
    struct err why;
    int rc = submitted_ask(s, o, id, e);
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
