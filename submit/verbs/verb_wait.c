/* wait: watches a job to its end and fetches its results. */
#include <limits.h>

#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/verbs/queued_job.h"
#include "submit/verbs/slurm_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static int wait_one(const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    char command[PATH_MAX + 64];
    bool is_kept;
    int rc;

    if (id && slurm_job_is(id))
        return slurm_job_wait(o, id, e);
    rc = queued_job_wait(&is_kept, o, id, e);
    if (rc < 0 || is_kept)
        return rc;
    rc = submitted_job_ask_results(&s, &is_kept, o, id, e);
    if (rc == 0 && is_kept) {
        rc = verb_exit_status(&s);
    } else if (rc == 0) {
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_reserved = true;
        if (results_begin(&s, e) < 0 || run_json_save(&s, e) < 0)
            console_error("%s", e->text);
        console_info("Waiting for %s (%s).", s.id, s.settings.name);
        if (submitted_job_is_unlaunched(&s))
            console_info("No process of this job has been started. next: %s",
                         submitted_job_launch_command(command, sizeof command, &s));
        rc = verb_finish(&s, e);
    }
    submission_clear(&s);
    return rc;
}

int verb_wait(const struct options *o, struct err *e)
{
    int worst = 0;

    for (int i = 0; i < (o->args.n_operands ? o->args.n_operands : 1); i++) {
        int rc = wait_one(o, o->args.n_operands ? o->args.operands[i] : NULL, e);

        if (rc < 0 || interrupt_signal())
            return rc;
        if (rc > worst)
            worst = rc;
    }
    return worst;
}
