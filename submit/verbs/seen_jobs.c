#include "submit/verbs/seen_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/browse/agents.h"
#include "submit/job/outcome.h"
#include "submit/terminal/interrupt.h"

static const double ask_s = 3;

/* The job as its agents report it; NULL: one of them would let this user do more, or there is no memory. */
static json_t *describe_job(const struct agents *a, const struct live_job *j)
{
    json_t *run = live_run(j, NULL), *said = json_array();

    for (size_t i = 0; run && i < j->n; i++) {
        const struct live_node *n = &j->nodes[i];

        if (!agents_only_show(a, n->agent))
            break;
        json_array_append_new(
            said, json_pack("{s:i, s:s, s:O}", "node", n->node, "address", n->address, "job", n->said));
    }
    if (!run || json_array_size(said) < j->n) {
        json_decref(run);
        json_decref(said);
        return NULL;
    }
    json_object_set_new(run, "said", said);
    json_object_set(run, "submitted_by", json_object_get(j->nodes[0].said, "submitter"));
    return run;
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(json_text_at(*(json_t *const *)b, "id"), json_text_at(*(json_t *const *)a, "id"));
}

/* Ids sort by time. */
static json_t *sorted(json_t **all, size_t n)
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
        list = sorted(all, n);
    free(all);
    live_clear(&jobs);
    return list;
}

json_t *seen_jobs_ask(const struct options *o)
{
    double until = clock_now() + ask_s;
    struct agents *a;
    struct err ignored;
    json_t *list;

    if (agents_open(&a, o, &ignored) < 0) {
        agents_close(a);
        return json_array(); /* verbs that need the list report an error in it */
    }
    while (!agents_have_answered(a) && clock_now() < until && !interrupt_signal())
        agents_poll(a, 0.1);
    list = jobs_of_agents(a);
    agents_close(a);
    return list;
}

const json_t *seen_jobs_find(const json_t *jobs, const char *which)
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

int seen_jobs_load(struct submission *s, const json_t *job, struct err *e)
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
