#include "submit/job/stragglers.h"

#include <stdio.h>
#include <stdlib.h>

#include "submit/job/outcome.h"
#include "submit/job/submission.h"
#include "submit/terminal/console.h"

static const double FACTOR = 2;

static double busy_s(const struct comm *c)
{
    return c->seconds[PHASE_COMPUTE] + c->seconds[PHASE_ENCODE] + c->seconds[PHASE_DECODE] +
           c->seconds[PHASE_APPLY];
}

/* Returns whether the node has taken steps since the last report. */
static bool take_report(struct job_node *n, bool is_resumed)
{
    const struct progress_view *v = &n->view.progress;
    struct pace *p = &n->pace;
    int64_t steps = v->step - p->step;
    double busy = busy_s(&v->comm);

    if (steps <= 0)
        return false;
    if (is_resumed &&
        !p->is_known) { /* the first report counts steps of the earlier run, but not their time */
        *p = (struct pace){.is_known = true, .step = v->step, .busy_s = busy};
        return false;
    }
    if (p->n_slow == 0) /* if this report is slow, too, it is the first one */
        p->slow_from = p->step + 1;
    p->step_s = (busy - p->busy_s) / (double)steps;
    p->step = v->step;
    p->busy_s = busy;
    return p->step_s > 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Is it a worker that the job has not lost, and whose agent answers? */
static bool is_present(const struct submission *s, const struct job_node *n)
{
    return !node_is_server(n) && !n->is_lost && n->silent_since == 0 && !outcome_tolerates(s, n);
}

/* 0: not every worker has reported steps, or there is one worker only. */
static double median(const struct submission *s)
{
    double *all = calloc(s->n_nodes + 1, sizeof *all), m = 0;
    size_t n = 0, n_known = 0;

    for (size_t i = 0; all && i < s->n_nodes; i++) {
        const struct job_node *node = &s->nodes[i];

        if (!is_present(s, node))
            continue;
        n++;
        if (node->pace.step_s > 0)
            all[n_known++] = node->pace.step_s;
    }
    if (n_known == n && n > 1) {
        qsort(all, n, sizeof *all, ascending);
        m = all[(n - 1) / 2];
    }
    free(all);
    return m;
}

static void mark_straggler(struct pace *p, double median_s)
{
    if (median_s == 0 || p->step_s <= FACTOR * median_s) {
        p->n_slow = 0;
        return;
    }
    if (++p->n_slow < STRAGGLER_REPORTS || p->step - p->slow_from + 1 < STRAGGLER_STEPS)
        return;
    if (p->since == 0)
        p->since = p->slow_from;
    p->found_s = p->step_s;
    p->median_s = median_s;
}

/* Seconds per step since the beginning. */
static double average(const struct job_node *n)
{
    const struct progress_view *v = &n->view.progress;

    return v->step > 0 ? busy_s(&v->comm) / (double)v->step : 0;
}

void stragglers_of_all(struct submission *s)
{
    double m;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->settings.executor || s->nodes[i].pace.step_s > 0)
            return;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (!node_is_server(&s->nodes[i]))
            s->nodes[i].pace.step_s = average(&s->nodes[i]);
    m = median(s);
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct pace *p = &s->nodes[i].pace;

        if (m > 0 && p->step_s > FACTOR * m && s->nodes[i].view.progress.step >= STRAGGLER_AVERAGED)
            *p = (struct pace){
                .is_known = true, .step_s = p->step_s, .since = 1, .found_s = p->step_s, .median_s = m};
    }
}

void stragglers_find(struct submission *s)
{
    char text[160];

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];
        bool was_slow = n->pace.since > 0;

        if (node_is_server(n) || s->settings.executor ||
            !take_report(n, s->settings.starts_from == STARTS_FROM_CHECKPOINT))
            continue;
        mark_straggler(&n->pace, median(s));
        if (!was_slow && straggler_text(text, sizeof text, s, i))
            console_info("%s.", text);
    }
}

bool straggler_text(char *out, size_t size, const struct submission *s, size_t node)
{
    const struct pace *p = &s->nodes[node].pace;

    if (p->since == 0)
        return false;
    snprintf(out, size,
             "node(%d) is slower than twice the median since step %lld: %.3g ms a step, the median %.3g ms",
             s->nodes[node].at.node, (long long)p->since, 1e3 * p->found_s, 1e3 * p->median_s);
    return true;
}

json_t *stragglers_json(const struct submission *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct pace *p = &s->nodes[i].pace;

        if (p->since > 0)
            json_array_append_new(list, json_pack("{s:i, s:I, s:f, s:f}", "node", s->nodes[i].at.node,
                                                  "since_step", (json_int_t)p->since, "step_s", p->found_s,
                                                  "median_s", p->median_s));
    }
    return list;
}
