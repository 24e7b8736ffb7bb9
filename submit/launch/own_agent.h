/* own_agent -- the agent that `job_submit launch` runs for its task, in the folder psgd/launch/HOST-PORT of
 * the state folder. It ends with this process, however that ends. */
#ifndef PSGD_SUBMIT_OWN_AGENT_H
#define PSGD_SUBMIT_OWN_AGENT_H

#include <limits.h>

#include "shared/base/child.h"
#include "shared/job/worker_list.h"
#include "submit/job/job_node.h"

struct own_agent {
    struct child child; /* pid 0: it has ended */
    char folder[PATH_MAX], log[PATH_MAX];
    struct http *http;
    struct job_node node; /* this agent, by its own token */
};

/* Starts it, without the jobs of earlier launches of this task, and waits until it answers. `token_file`:
 * that of all tasks, or NULL. ERR_UNREACHABLE: it does not start; ERR_CONFLICT: an agent answers there
 * already. */
int own_agent_start(struct own_agent *a, const struct listed_agent *at, const char *token_file,
                    struct err *e);
/* ERR_UNREACHABLE: it has ended. */
int own_agent_check(struct own_agent *a, struct err *e);
/* The job that came last: its id, "" if none has come, and its state here. */
int own_agent_job(struct own_agent *a, char id[REPLY_ID], struct job_view *out, struct err *e);
void own_agent_stop(struct own_agent *a);

#endif
