#include "submit/job/outcome.h"

#include <string.h>

#include "shared/job/reason.h"

/* Was the node cancelled because another had failed? */
static bool was_stopped(const struct job_node *n)
{
    return strcmp(n->view.reason, REASON_JOB_FAILED) == 0;
}

/* The smallest rank is the most likely cause. A launcher may kill all other processes when one has ended: one
 * that has reported a failure comes before those that have vanished. */
static int cause_rank(const struct job_node *n)
{
    return n->is_lost || n->folder.has_vanished ? REASON_RANK_LOST
                                                : reason_rank(n->view.state, n->view.reason, n->view.message);
}

static bool has_not_failed(const struct job_node *n)
{
    return !n->is_ended || n->view.state == JOB_SUCCEEDED;
}

bool outcome_tolerates(const struct submission *s, const struct job_node *n)
{
    int n_remaining = 0;

    if (s->settings.on_node_loss != NODE_LOSS_CONTINUES || node_is_server(n) || n->view.state != JOB_FAILED ||
        has_not_failed(n) || !n->has_started)
        return false;
    for (size_t i = 0; i < s->n_nodes; i++)
        n_remaining += !node_is_server(&s->nodes[i]) && has_not_failed(&s->nodes[i]);
    return n_remaining >= s->settings.min_nodes;
}

/* Compares the times that the agents report: those at which this process has learned of the ends are about
 * equal for a job that was not watched. Clocks of machines may differ, but only the choice of the cause
 * depends on them. */
static bool ended_before(const struct job_node *a, const struct job_node *b)
{
    const char *x = a->view.finished_at, *y = b->view.finished_at;

    return x[0] && y[0] ? strcmp(x, y) < 0 : a->ended_at < b->ended_at;
}

int outcome_cause(const struct submission *s)
{
    int cause = -1;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];
        const struct job_node *c = cause < 0 ? NULL : &s->nodes[cause];

        if (has_not_failed(n) || outcome_tolerates(s, n))
            continue;
        if (!c || cause_rank(n) < cause_rank(c) || (cause_rank(n) == cause_rank(c) && ended_before(n, c)))
            cause = (int)i;
    }
    return cause;
}

enum job_state outcome_state(const struct submission *s, enum job_state silent_state)
{
    int cause = outcome_cause(s);
    enum job_state least = JOB_SUCCEEDED;

    if (cause >= 0)
        return was_stopped(&s->nodes[cause]) ? JOB_FAILED : s->nodes[cause].view.state;
    for (size_t i = 0; i < s->n_nodes; i++) {
        enum job_state state = s->nodes[i].silent_since > 0 ? silent_state : s->nodes[i].view.state;

        if (!outcome_tolerates(s, &s->nodes[i]) && state < least)
            least = state;
    }
    return least;
}

bool outcome_update(struct submission *s)
{
    enum job_state before = s->state;
    int cause = outcome_cause(s);

    if (job_state_is_terminal(before) && (cause >= 0 || submission_count_ended(s) < s->n_nodes))
        return false;
    s->cause = cause;
    s->state = outcome_state(s, job_state_is_terminal(before) ? before : JOB_RUNNING);
    if (!job_state_is_terminal(before) || s->state == before)
        return false;
    s->seen.reason[0] = '\0';
    return true;
}
