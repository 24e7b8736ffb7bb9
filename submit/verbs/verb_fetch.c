/* fetch: fetches the results of a job, as far as they exist. */
#include "submit/stages/folder_attempts.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

int verb_fetch(const struct options *o, struct err *e)
{
    struct submission s;
    bool is_kept;
    int rc = submitted_job_ask_results(&s, &is_kept, o, submitted_job_operand(o), e);

    if (rc == 0 && !is_kept) {
        submitted_job_print_silent(&s);
        submitted_job_update(&s);
        for (size_t i = 0; i < s.n_nodes; i++)
            s.nodes[i].is_lost = s.nodes[i].silent_since > 0;
        rc = folder_attempts_collect(&s, e) < 0 ? e->code : stage_collect(&s, e);
        if (rc == 0) {
            s.made_folder = s.made_parts = false;
            verb_show_run(true, &s);
            if (!job_state_is_terminal(s.state))
                console_info("The job is %s: these are its records so far.", job_state_name(s.state));
        }
    }
    if (rc == 0)
        rc = job_state_is_terminal(s.state) && !s.is_complete ? EXIT_INCOMPLETE : 0;
    submission_clear(&s);
    return rc;
}
