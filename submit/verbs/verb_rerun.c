/* rerun: submits a job again with the parameters that its run.json, or the index of jobs, records. */
#include <stdio.h>
#include <unistd.h>

#include "submit/files/run_file.h"
#include "submit/options/options_table.h"
#include "submit/results/job_index.h"
#include "submit/verbs/verbs.h"

int verb_rerun(const struct options *o, struct err *e)
{
    const char *job = o->args.n_operands > 0 ? o->args.operands[0] : NULL, *folder;
    bool is_folder = job && access(job, F_OK) == 0;
    static struct options again;
    const json_t *facts;
    json_t *doc;
    int rc;

    rc = is_folder ? run_file_read(&doc, job, e) : job_index_read(&doc, job, e);
    if (rc < 0)
        return rc;
    facts = json_object_get(doc, "facts");
    folder = json_string_value(json_object_get(doc, "folder"));
    rc = json_object_get(facts, "simulation")
             ? err_set(e, ERR_CONFIG, "a simulation is run again by job_submit simulate --config run.json")
             : options_rerun(&again, o, doc, is_folder || !folder ? job : folder, e);
    snprintf(again.rerun_of, sizeof again.rerun_of, "%s", json_string_value(json_object_get(doc, "id")));
    options_take_arguments(&again, doc);
    if (rc == 0)
        rc = again.exec[0] ? verb_run(&again, e) : verb_submit(&again, e);
    json_decref(doc);
    return rc;
}
