#include "submit/browse/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/job/comm.h"
#include "shared/job/job_state.h"
#include "submit/browse/documents.h"
#include "submit/files/job_id.h"
#include "submit/job/job_node.h"

void live_clear(struct live_jobs *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->jobs[i].nodes);
    free(l->jobs);
    *l = (struct live_jobs){0};
}

struct live_job *live_find(const struct live_jobs *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->jobs[i].id, id) == 0)
            return &l->jobs[i];
    return NULL;
}

static struct live_job *add_job(struct live_jobs *l, const char *id)
{
    struct live_job *moved = realloc(l->jobs, (l->n + 1) * sizeof *moved);

    if (!moved)
        return NULL;
    l->jobs = moved;
    l->jobs[l->n] = (struct live_job){.is_ended = true};
    snprintf(l->jobs[l->n].id, LISTED_ID, "%s", id);
    return &l->jobs[l->n++];
}

/* The element of a node, which a later attempt replaces. NULL: no memory. */
static struct live_node *place_of(struct live_job *j, int node)
{
    struct live_node *moved;

    for (size_t i = 0; i < j->n; i++)
        if (j->nodes[i].node == node)
            return &j->nodes[i];
    moved = realloc(j->nodes, (j->n + 1) * sizeof *moved);
    if (!moved)
        return NULL;
    j->nodes = moved;
    j->nodes[j->n] = (struct live_node){.node = node};
    return &j->nodes[j->n++];
}

static enum job_state state_of(const json_t *report)
{
    enum job_state s;

    return shown_text(report, "state") && job_state_parse(&s, shown_text(report, "state")) ? s : JOB_PENDING;
}

/* All nodes of a job are in one attempt, so reports of earlier attempts are dropped. */
static void drop_earlier_attempts(struct live_job *j)
{
    int last = 0;
    size_t kept = 0;

    for (size_t i = 0; i < j->n; i++)
        last = j->nodes[i].attempt > last ? j->nodes[i].attempt : last;
    for (size_t i = 0; i < j->n; i++)
        if (j->nodes[i].attempt == last)
            j->nodes[kept++] = j->nodes[i];
    j->n = kept;
}

static void sum_up(struct live_job *j)
{
    j->is_ended = true;
    j->steps = 0;
    for (size_t i = 0; i < j->n; i++) {
        double step = json_number_at(json_object_get(j->nodes[i].report, "progress"), "step", 0);

        j->is_ended &= job_state_is_terminal(state_of(j->nodes[i].report));
        j->steps += step > 0 && step < 0x1p53 ? (uint64_t)step : 0;
    }
}

int live_add(struct live_jobs *l, const json_t *answer, size_t agent, const char *address, struct err *e)
{
    json_t *report;
    size_t i;

    json_array_foreach(json_object_get(answer, "jobs"), i, report)
    {
        const char *id = shown_text(report, "id");
        int node = (int)fmax(fmin(json_number_at(report, "node", 0), LIVE_NODES), -LIVE_NODES);
        int attempt = (int)fmax(fmin(json_number_at(report, "attempt", 1), 1000), 1);
        struct live_job *j;
        struct live_node *n;

        if (!job_id_is_valid(id))
            continue;
        j = live_find(l, id);
        j = j ? j : add_job(l, id);
        n = j ? place_of(j, node) : NULL;
        if (!n)
            return err_set(e, ERR_NOMEM, "no memory for the agents' jobs");
        if (n->attempt < attempt)
            *n = (struct live_node){node, attempt, agent, report, address};
    }
    for (i = 0; i < l->n; i++) {
        drop_earlier_attempts(&l->jobs[i]);
        sum_up(&l->jobs[i]);
    }
    return 0;
}

/* The state of the job: the earliest of its nodes' states; when all have ended, the worst end. */
static enum job_state state_of_all(const struct live_job *j)
{
    enum job_state going = N_JOB_STATES;
    enum job_state end = JOB_SUCCEEDED;

    for (size_t i = 0; i < j->n; i++) {
        enum job_state s = state_of(j->nodes[i].report);

        if (!job_state_is_terminal(s))
            going = s < going ? s : going;
        else if (s == JOB_FAILED || (s == JOB_CANCELLED && end == JOB_SUCCEEDED))
            end = s;
    }
    return going < N_JOB_STATES ? going : end;
}

static double number_in(const json_t *report, const char *object, const char *key)
{
    return json_number_at(json_object_get(report, object), key, NAN);
}

static json_t *text_or_null(const json_t *report, const char *key)
{
    const char *text = shown_text(report, key);

    return text ? json_text(text, 1024) : json_null();
}

static json_t *node_json(const struct live_node *n)
{
    static const char *const metrics[] = {"loss", "accuracy", "eval_loss", "eval_accuracy"};
    json_t *o = json_pack("{s:i, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "node", n->node, "attempt",
                          n->attempt, "role", n->node < 0 ? "server" : "worker", "address", n->address,
                          "state", job_state_name(state_of(n->report)), "reason",
                          text_or_null(n->report, "reason"), "message", text_or_null(n->report, "message"),
                          "elapsed_s", json_real_or_null(json_number_at(n->report, "elapsed_s", NAN)),
                          "steps", json_real_or_null(number_in(n->report, "progress", "step")));

    for (size_t i = 0; o && i < sizeof metrics / sizeof *metrics; i++)
        json_object_set_new(o, metrics[i], json_real_or_null(number_in(n->report, "metrics", metrics[i])));
    json_object_set_new(
        o, "comm", json_pack("{s:o}", "wait_s", json_real_or_null(number_in(n->report, "comm", "wait_s"))));
    return o;
}

/* Means as in run.json (mean_of() in run_json.c): a number of a batch is weighted by its samples. `ratio`:
 * the job's --block-ratio, or "". */
static json_t *mean_over_workers(const struct live_job *j, const char *ratio)
{
    static const char *const keys[] = {"loss", "accuracy", "eval_loss", "eval_accuracy"};
    json_t *o = json_object();

    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        bool of_batch = strncmp(keys[k], "eval_", 5) != 0;
        double sum = 0, n = 0;

        for (size_t i = 0; i < j->n; i++) {
            double v = number_in(j->nodes[i].report, "metrics", keys[k]), weight;

            if (j->nodes[i].node < 0 || !isfinite(v))
                continue;
            weight = of_batch ? blocks_in_ratio(ratio, j->nodes[i].node) : 1;
            sum += weight * v;
            n += weight;
        }
        json_object_set_new(o, keys[k], json_real_or_null(n > 0 ? sum / n : NAN));
    }
    return o;
}

static json_t *comm_of_all(const struct live_job *j)
{
    struct comm sum = {0};

    for (size_t i = 0; i < j->n; i++) {
        struct comm c = {0};

        comm_update(&c, json_object_get(j->nodes[i].report, "comm"));
        if (j->nodes[i].node < 0) /* a server's times are waiting */
            memset(c.seconds, 0, sizeof c.seconds);
        comm_add(&sum, &c);
    }
    return comm_json(&sum);
}

/* The progress of a job is that of its slowest worker. */
static json_t *progress_of_all(const struct live_job *j)
{
    static const char *const keys[] = {"epoch", "epochs", "step", "steps", "ratio"};
    const json_t *least = NULL;
    json_t *o = json_object();

    for (size_t i = 0; i < j->n; i++) {
        const json_t *p = json_object_get(j->nodes[i].report, "progress");

        if (j->nodes[i].node >= 0 &&
            (!least || json_number_at(p, "step", 0) < json_number_at(least, "step", 0)))
            least = p;
    }
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        json_object_set_new(o, keys[k], json_real_or_null(json_number_at(least, keys[k], NAN)));
    return o;
}

/* Reason and message of the first node that failed, else of the first node with a message. */
static void put_reason(json_t *o, const struct live_job *j)
{
    const json_t *from = NULL;

    for (size_t i = 0; i < j->n; i++) {
        const json_t *report = j->nodes[i].report;
        bool is_cause = state_of(report) == JOB_FAILED && from && state_of(from) != JOB_FAILED;

        if (shown_text(report, "message") && (!from || is_cause))
            from = report;
    }
    json_object_set_new(o, "reason", text_or_null(from, "reason"));
    json_object_set_new(o, "message", text_or_null(from, "message"));
}

/* A run.json of a job that another user submitted, from the agents' reports. */
static json_t *unknown_job(const struct live_job *j)
{
    const json_t *report = j->nodes[0].report;

    return json_pack("{s:s, s:o, s:o, s:{s:o, s:o, s:b}}", "id", j->id, "name", text_or_null(report, "name"),
                     "submitted_at", text_or_null(report, "created_at"), "settings", "codec",
                     text_or_null(report, "codec"), "node_count",
                     json_real_or_null(json_number_at(report, "node_count", (double)j->n)), "executor",
                     json_is_true(json_object_get(report, "executor")));
}

static int compare_nodes(const void *a, const void *b)
{
    const struct live_node *x = a, *y = b;

    if ((x->node < 0) != (y->node < 0))
        return x->node < 0 ? 1 : -1;
    return x->node < 0 ? y->node - x->node : x->node - y->node;
}

json_t *live_run(const struct live_job *j, const json_t *known)
{
    json_t *o = known ? json_deep_copy(known) : unknown_job(j);
    json_t *nodes = json_array();

    qsort(j->nodes, j->n, sizeof *j->nodes, compare_nodes);
    for (size_t i = 0; i < j->n; i++)
        json_array_append_new(nodes, node_json(&j->nodes[i]));
    if (!o || !nodes) {
        json_decref(o);
        json_decref(nodes);
        return NULL;
    }
    json_object_set_new(o, "state", json_string(job_state_name(state_of_all(j))));
    put_reason(o, j);
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "progress", progress_of_all(j));
    json_object_set_new(o, "mean_over_workers",
                        mean_over_workers(j, json_text_at(json_object_get(o, "settings"), "block_ratio")));
    json_object_set_new(o, "comm", comm_of_all(j));
    return o;
}
