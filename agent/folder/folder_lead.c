#include "agent/folder/folder_lead.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/folder/folder_state.h"
#include "agent/folder/member_gone.h"
#include "agent/folder/node_orders.h"
#include "agent/jobs/job_end.h"
#include "shared/base/clock.h"
#include "shared/job/reason.h"

static const double LEAD_S = 0.25;     /* from one look at the others' ends to the next */
static const double OWN_REASONS_S = 1; /* time for the other nodes to report their own reasons of a failure */
static const double OTHERS_S = 20;     /* time for the other nodes to end once they are told to */

static bool tolerates(const struct node_process *f, int n_failed)
{
    int left = f->set.node_count - n_failed;

    return f->set.on_node_loss == NODE_LOSS_CONTINUES && left >= f->set.min_nodes && left > 0;
}

/* A launcher may kill the other processes when one has ended: one that has reported a failure comes first. */
static int rank_of_end(const struct meeting_member *k)
{
    return k->has_vanished ? REASON_RANK_LOST : reason_rank(k->end, k->reason, k->message);
}

int folder_lead_cause(struct node_process *f)
{
    int cause = -1, n_failed = 0;

    for (int r = 0; r < f->n_nodes; r++) {
        const struct meeting_member *k = &f->meet.members[r];

        if (!k->is_ended || k->end == JOB_SUCCEEDED)
            continue;
        n_failed += k->node >= 0;
        if (k->node >= 0 && k->end == JOB_FAILED && tolerates(f, n_failed))
            continue;
        if (cause < 0 || rank_of_end(k) < rank_of_end(&f->meet.members[cause]))
            cause = r;
    }
    return cause;
}

void folder_lead_take_own(struct node_process *f)
{
    struct meeting_member *mine = &f->meet.members[f->rank];

    mine->is_ended = true;
    mine->end = f->task->job.state;
    snprintf(mine->reason, sizeof mine->reason, "%s", f->task->job.reason);
    snprintf(mine->message, sizeof mine->message, "%s", f->task->job.message);
}

void folder_lead(struct node_process *f)
{
    char reason[200];
    int cause;

    if (f->rank != 0 || f->has_told_stop || clock_now() - f->led_at < LEAD_S)
        return;
    f->led_at = clock_now();
    if (node_process_is_over(f))
        folder_lead_take_own(f);
    meeting_read_ends(&f->meet);
    cause = folder_lead_cause(f);
    if (cause < 0)
        return;
    if (f->failed_at == 0)
        f->failed_at = clock_now();
    if (clock_now() - f->failed_at < OWN_REASONS_S)
        return;
    snprintf(reason, sizeof reason, "node(%d): %.100s", f->meet.members[cause].node,
             f->meet.members[cause].reason);
    meeting_say_stop(&f->meet, reason, f->meet.members[cause].end == JOB_FAILED);
    f->has_told_stop = true;
    if (!node_process_is_over(f))
        job_stop(f->task,
                 f->meet.members[cause].end == JOB_FAILED ? REASON_JOB_FAILED : REASON_USER_CANCELLED, reason,
                 node_orders_grace(f));
}

/* The members that have ended without reporting an end get one. */
static void find_gone(struct node_process *f)
{
    for (int r = 1; r < f->n_nodes; r++) {
        struct meeting_member *k = &f->meet.members[r];

        if (k->is_ended || !member_is_gone(f, r, true))
            continue;
        meeting_read_ends(&f->meet); /* it may have reported just before it ended */
        if (k->is_ended)
            continue;
        k->is_ended = k->has_vanished = true;
        k->end = JOB_FAILED;
        snprintf(k->reason, sizeof k->reason, "%s", REASON_RUNNER_DIED);
        snprintf(k->message, sizeof k->message, "its process on %.200s was killed", k->machine);
    }
}

int folder_lead_running(const struct node_process *f)
{
    int n = 0;

    for (int r = 0; r < f->n_nodes; r++)
        n += !f->meet.members[r].is_ended;
    return n;
}

void folder_lead_await(struct node_process *f)
{
    double until = 0;

    while (folder_lead_running(f) > 0 && (until == 0 || clock_now() < until)) {
        folder_lead(f);
        find_gone(f);
        if (until == 0 && f->signal) {
            until = clock_now() + OWN_REASONS_S;
            if (!f->has_told_stop)
                meeting_say_stop(&f->meet, strsignal(f->signal), false);
        }
        if (until == 0 && folder_lead_cause(f) >= 0)
            until = clock_now() + OTHERS_S;
        loop_turn(&f->loop, LEAD_S / 2);
        folder_state_write(f);
    }
}
