/* tasks -- the tasks of a cluster, given as in TensorFlow by their hosts, and which of them this process is:
 * --job_name ps|worker, --task_index. Worker 0 is the chief: it submits the job. */
#ifndef PSGD_SUBMIT_TASKS_H
#define PSGD_SUBMIT_TASKS_H

#include <stdbool.h>

#include "shared/job/worker_list.h"
#include "submit/options/submit_options.h"

enum { TASK_NAME = 48 };

struct tasks {
    struct worker_list all;         /* workers, then servers */
    const struct listed_agent *own; /* in `all` */
    const char *token_file;         /* that all tasks share; NULL: this user's agents on this machine */
};

/* ERR_USAGE: no such task; options that a task cannot have; hosts of which only some are loopback addresses,
 * or that need a token that all tasks share. After an error nothing is to be cleared. */
int tasks_open(struct tasks *t, const struct options *o, struct err *e);
void tasks_clear(struct tasks *t);

bool tasks_is_chief(const struct tasks *t);
const struct listed_agent *tasks_chief(const struct tasks *t);
size_t tasks_count(const struct tasks *t);
/* "/job:worker/task:1", as TensorFlow names it. */
const char *tasks_name(char out[TASK_NAME], const struct listed_agent *w);

#endif
