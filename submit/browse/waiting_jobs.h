/* waiting_jobs -- the jobs that wait outside of agents, in the queues of their users (docs/queue.md), merged
 * from what each agent says: a job waits for several agents, and is in the list once. */
#ifndef PSGD_SUBMIT_WAITING_JOBS_H
#define PSGD_SUBMIT_WAITING_JOBS_H

#include <jansson.h>

/* Adds an agent's answer to GET /v1/queue, NULL: it has given none, to the list of users: [{"user",
 * "waiting": number of jobs, "jobs": [{"id", "name", "codec", "nodes", "submitted_at"}]}]. There are fewer
 * jobs than the number where the agent does not show them to this user, or not all. */
void waiting_jobs_add(json_t *list, const json_t *answer);

#endif
