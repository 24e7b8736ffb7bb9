/* tasks -- the tasks of a cluster, as in TensorFlow: starts the agent of a task, waits until it answers, and
 * ends it. All tasks get the same lists of hosts, and each its own --job_name ps|worker and --task_index.
 * Worker 0 is the chief: it submits the job. */
#ifndef PSGD_SUBMIT_TASKS_H
#define PSGD_SUBMIT_TASKS_H

#include <limits.h>
#include <stdbool.h>

#include "shared/base/child.h"
#include "shared/job/worker_list.h"
#include "submit/job/job_node.h"
#include "submit/options/submit_options.h"

enum { TASK_NAME = 48 };

struct tasks {
    struct worker_list all;         /* workers, then servers; owned */
    const struct listed_agent *own; /* the task of this process, in `all` */
    const char *token_file;         /* of the token that all tasks share; NULL: each agent's own token */
};

/* ERR_USAGE: no such task; options that a task cannot have; hosts of which only some are loopback addresses,
 * or that need a token that all tasks share. After an error there is nothing to clear. */
int tasks_open(struct tasks *t, const struct options *o, struct err *e);
void tasks_clear(struct tasks *t);

bool tasks_is_chief(const struct tasks *t);
const struct listed_agent *tasks_chief(const struct tasks *t);
size_t tasks_count(const struct tasks *t);
/* "/job:worker/task:1", as TensorFlow names it. */
const char *tasks_name(char out[TASK_NAME], const struct listed_agent *w);

enum answer {
    ANSWERS,
    ANSWERS_NOT,
    ANSWERS_NEVER /* no program listens there: the connection was refused */
};

/* Asks n agents at once whether they run, without a token: GET /healthz over TLS, whatever their keys are.
 * Returns within 3 seconds. ERR_NOMEM, ERR_CANCELLED. */
int tasks_ask(enum answer *out, const struct listed_agent *agents, size_t n, struct err *e);

/* The agent of a task, in the folder psgd/launch/HOST-PORT of the state folder. It ends with this process,
 * even if that is killed. */
struct task_agent {
    struct child child; /* pid 0: it has ended */
    char folder[PATH_MAX], log[PATH_MAX];
    struct http *http;
    struct job_node node; /* this agent, with its own token */
};

/* Deletes the jobs of earlier launches of this task, starts the agent and waits until it answers.
 * `token_file`: of the token that all tasks share, or NULL. `runs_trainers`: the agent runs training
 * programs, which it otherwise does at a loopback address only. ERR_UNREACHABLE: the agent does not start;
 * ERR_CONFLICT: an agent already answers at that address. */
int task_agent_start(struct task_agent *a, const struct listed_agent *at, const char *token_file,
                     bool runs_trainers, struct err *e);
/* ERR_UNREACHABLE: the agent has ended. */
int task_agent_check(struct task_agent *a, struct err *e);
/* The agent's newest job: its id, "" if there is none, and the state of its node here. */
int task_agent_job(struct task_agent *a, char id[REPLY_ID], struct job_view *out, struct err *e);
void task_agent_stop(struct task_agent *a);

#endif
