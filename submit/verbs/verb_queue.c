/* queue: the processes of the queue, which other commands start (submit/queue/queue_process.h). */
#include <string.h>

#include "submit/queue/queue_process.h"
#include "submit/queue/queue_watcher.h"
#include "submit/terminal/interrupt.h"
#include "submit/verbs/queued_job.h"
#include "submit/verbs/verbs.h"

int verb_queue(const struct options *o, struct err *e)
{
    const char *what = o->args.n_operands > 0 ? o->args.operands[0] : "";

    if (strcmp(what, "watch") == 0 && o->args.n_operands == 1)
        return queue_watcher_run(e) == ERR_CONFLICT ? 0 : e->code; /* two commands have started it */
    if (strcmp(what, "run") == 0 && o->args.n_operands == 2)
        return queued_job_run(o->args.operands[1], e);
    return err_set(e, ERR_USAGE, "queue takes watch, or run JOB: they are started by other commands");
}
