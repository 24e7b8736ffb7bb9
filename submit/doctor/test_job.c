#include "submit/doctor/test_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "submit/files/temp.h"
#include "submit/job/outcome.h"
#include "submit/job/submission.h"
#include "submit/results/job_index.h"
#include "submit/stages/stages.h"

/* A few steps of softmax regression on the built-in digits, whose gradients all workers sum over TCP. */
static int set_options(struct options *o, const struct options *given, size_t n_agents, const char *folder,
                       struct err *e)
{
    enum { BATCH = 1000, ROUND_TIMEOUT_S = 10, TIME_LIMIT_S = 60 };

    *o = *given;
    o->no_queue = o->quiet = o->all_are_workers = true;
    o->settings.node_count = (int)n_agents;
    o->settings.batch_size = BATCH;
    o->settings.epochs = 1;
    o->settings.local_path = LOCAL_PATH_OFF;
    o->settings.round_timeout_s = ROUND_TIMEOUT_S;
    o->settings.time_limit_s = TIME_LIMIT_S;
    snprintf(o->settings.name, sizeof o->settings.name, "doctor");
    snprintf(o->codec, sizeof o->codec, "plain");
    snprintf(o->model, sizeof o->model, "softmax");
    return file_join(o->output, sizeof o->output, folder, "results", e);
}

static int run_job(struct submission *s, struct err *e)
{
    if (stage_read(s, e) < 0 || stage_check(s, e) < 0 || stage_place(s, e) < 0 || stage_ship(s, e) < 0)
        return e->code;
    if (submission_count_ended(s) == 0 && stage_start(s, e) < 0)
        return e->code;
    return stage_watch(s, e);
}

/* The agents and the list of jobs forget it. */
static void forget(struct submission *s)
{
    struct err ignored;

    for (size_t i = 0; i < s->n_nodes; i++)
        node_ask(s->http, &s->nodes[i], "DELETE", NULL, 0, &ignored, "/v1/jobs/%s", s->id);
    submission_finish_calls(s);
    job_index_forget(s->id);
}

static void describe_result(struct test_job *t, const struct submission *s, double seconds)
{
    int at = outcome_cause(s);
    const struct job_node *n = at >= 0 ? &s->nodes[at] : NULL;

    if (!n && outcome_state(s, JOB_FAILED) == JOB_SUCCEEDED) {
        snprintf(t->text, sizeof t->text, "All %zu nodes have connected and summed gradients, in %.1f s.",
                 s->n_nodes, seconds);
        return;
    }
    t->code = ERR_LOST;
    if (n)
        snprintf(t->text, sizeof t->text, "%s, node %d in the order above: %s: %s", n->at.address, n->at.node,
                 n->view.reason, n->view.message);
    else
        snprintf(t->text, sizeof t->text, "An agent has not answered until the end of the job.");
}

void test_job_run(struct test_job *t, const struct options *given, size_t n_agents)
{
    struct options *o = malloc(sizeof *o);
    struct submission s = {0};
    struct temp folder;
    struct err e = {0};
    double started = clock_now();

    if (!o || temp_open(&folder, &e) < 0) {
        t->code = o ? e.code : ERR_NOMEM;
        snprintf(t->text, sizeof t->text, "%s", o ? e.text : "no memory");
        free(o);
        return;
    }
    if (set_options(o, given, n_agents, folder.path, &e) < 0 || submission_init(&s, o, &e) < 0 ||
        run_job(&s, &e) < 0) {
        t->code = e.code;
        snprintf(t->text, sizeof t->text, "%s", e.text);
        if (s.n_nodes > 0)
            submission_release(&s, e.text);
    } else
        describe_result(t, &s, clock_now() - started);
    if (s.http)
        forget(&s);
    submission_clear(&s);
    temp_close(&folder);
    free(o);
}
