/* cancel: cancels jobs, and waits for their end. */
#include <stdio.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/job_folder.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/queued_job.h"
#include "submit/verbs/slurm_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static const double STOP_S = 30; /* most time until all nodes have ended */

/* A node with a silent agent keeps its reservation and is cancelled once the agent answers. */
static void cancel_nodes(struct submission *s, const char *reason)
{
    submission_cancel(s, reason, false);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_reserved &= s->nodes[i].silent_since > 0;
}

static void print_end(const struct options *o, const char *id, enum job_state state)
{
    if (o->json)
        stdout_json(true, json_pack("{s:s, s:s}", "id", id, "state", job_state_name(state)), NULL, NULL);
    else
        printf("%s: %s\n", id, job_state_name(state));
}

static bool has_process(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].folder.is_running)
            return true;
    return false;
}

/* A cancellation that no process reads would be waited for in vain. */
static int check_processes(const struct submission *s, struct err *e)
{
    char path[PATH_MAX];

    if (job_state_is_terminal(s->state))
        return 0;
    if (!has_process(s))
        return err_set(e, ERR_CONFLICT, "%s: no process of the job runs, so there is nothing to cancel",
                       s->id);
    if (file_join(path, sizeof path, s->job_folder, JOB_FOLDER_MEET, e) < 0)
        return e->code;
    return access(path, W_OK) < 0 ? err_errno(e, ERR_IO, "%s", path) : 0;
}

/* Processes that run read the folder, whether or not Slurm answers. */
static int begin_in_folder(bool *is_cancelled, const struct submission *s, struct err *e)
{
    struct err slurm = {0};
    int rc;

    if (slurm_job_is(s->job_folder) &&
        slurm_job_cancel(is_cancelled, s->job_folder, has_process(s), &slurm) == 0 && *is_cancelled)
        return 0;
    rc = check_processes(s, e);
    return rc < 0 && slurm.code
               ? err_hint(e, "Whether it waits in Slurm's queue is not known: %.400s.", slurm.text)
               : rc;
}

/* *is_cancelled: the job waited in the queue, and has left it. */
static int leave_queue(bool *is_cancelled, const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    int rc = submitted_job_load(&s, o, id, e);

    if (rc == 0 && queue_state_waits(&s))
        rc = queued_job_cancel(is_cancelled, o, s.id, e);
    if (rc == 0 && *is_cancelled)
        print_end(o, s.id, JOB_CANCELLED);
    submission_clear(&s);
    return rc;
}

/* An agent answers 202 before its node has ended, so this waits until every node has ended, even if the end
 * of the first one decides the job's state. */
static int cancel_one(const struct options *o, const char *id, struct err *e)
{
    double until = clock_now() + STOP_S;
    struct submission s;
    bool is_cancelled = false;
    int rc = leave_queue(&is_cancelled, o, id, e);

    if (rc < 0 || is_cancelled)
        return rc;
    rc = submitted_job_ask(&s, o, id, e);
    if (rc == 0 && s.job_folder[0])
        rc = begin_in_folder(&is_cancelled, &s, e);
    if (rc == 0 && is_cancelled) {
        print_end(o, s.id, JOB_CANCELLED);
    } else if (rc == 0) {
        if (job_state_is_terminal(s.state))
            until = 0; /* its end is in the index: no waiting */
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_reserved = true;
        do {
            cancel_nodes(&s, o->reason);
            http_poll(s.http, 0.1);
            submitted_job_ask_nodes(&s, SUBMITTED_ASK_S);
            submitted_job_update(&s);
        } while (submission_count_ended(&s) < s.n_nodes && clock_now() < until && !interrupt_signal());
        submitted_job_print_silent(&s);
        if (!job_state_is_terminal(s.state) && interrupt_check(e) < 0)
            rc = e->code;
        else if (!job_state_is_terminal(s.state))
            rc = err_set(e, ERR_TIMEOUT, "%s: not every node ended within %g s", s.id, STOP_S);
        else
            print_end(o, s.id, s.state);
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
