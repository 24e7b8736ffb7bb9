/* rerun: submits a job again with the parameters that its run.json, or the index of jobs, records. */
#include <stdio.h>
#include <unistd.h>

#include "submit/results/job_index.h"
#include "submit/results/results.h"
#include "submit/verbs/verbs.h"

int verb_rerun(const struct options *o, struct err *e)
{
    const char *job = o->args.n_operands > 0 ? o->args.operands[0] : NULL;
    static struct options again;
    const json_t *facts;
    json_t *doc;
    int rc;

    rc = job && access(job, F_OK) == 0 ? results_read(&doc, job, e) : job_index_read(&doc, job, e);
    if (rc < 0)
        return rc;
    facts = json_object_get(doc, "facts");
    rc = json_object_get(facts, "simulation")
             ? err_set(e, ERR_CONFIG, "a simulation is run again by job_submit simulate")
             : options_rerun(&again, o, json_object_get(facts, "options"), e);
    snprintf(again.rerun_of, sizeof again.rerun_of, "%s", json_string_value(json_object_get(doc, "id")));
    json_decref(doc);
    return rc < 0 ? rc : verb_submit(&again, e);
}
