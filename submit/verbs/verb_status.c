/* status: prints the state of each node of a job. */
#include <stdio.h>

#include "submit/results/queue_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/queued_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static int print_seen(const struct options *o, const json_t *job, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 || submitted_job_load_other(&s, job, e) < 0 ? e->code : 0;

    if (rc == 0)
        submitted_job_show(&s);
    if (rc == 0 && s.nodes[0].view.submitter[0])
        printf("submitted by %s\n", s.nodes[0].view.submitter);
    submission_clear(&s);
    return rc;
}

/* Shows a job that is not in the index (`e` is that error), if agents show it to this user's token. */
static int show_seen(const struct options *o, struct err *e)
{
    json_t *jobs = submitted_jobs_of_others(o, NULL);
    json_t *job = json_copy((json_t *)(uintptr_t)submitted_job_of_others(jobs, submitted_job_operand(o)));
    int rc = e->code;

    if (job && o->json) {
        json_object_del(job, "said"); /* the agents' own answers, which the rest of the document repeats */
        stdout_json(true, json_incref(job), NULL, NULL);
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
    int rc = submitted_job_ask(&s, o, submitted_job_operand(o), e);

    if (rc == ERR_CONFLICT && queue_state_waits(&s)) {
        rc = queued_job_show(o, &s, e);
        submission_clear(&s);
        return rc;
    }
    if (rc < 0 && job_state_is_terminal(s.state) && !interrupt_signal())
        rc = 0; /* its end is in the index, so unreachable agents are no failure */
    if (rc == 0) {
        submitted_job_print_silent(&s);
        submitted_job_update(&s);
        submitted_job_show(&s);
        if (!o->json && s.nodes[0].view.submitter[0])
            printf("submitted by %s, by the token that node(%d) got\n", s.nodes[0].view.submitter,
                   s.nodes[0].at.node);
    }
    submission_clear(&s);
    return rc == ERR_NOT_FOUND && !interrupt_signal() ? show_seen(o, e) : rc;
}
