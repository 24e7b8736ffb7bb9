/* run: submits a job whose nodes run an executor instead of training. */
#include "submit/verbs/verbs.h"

int verb_run(const struct options *o, struct err *e)
{
    if (o->exec[0])
        return verb_submit_job(o, e);
    err_set(e, ERR_USAGE, "run needs an executor: --exec FILE.c");
    return err_hint(e, "docs/executors.md shows how one is written; job_submit without a verb trains.");
}
