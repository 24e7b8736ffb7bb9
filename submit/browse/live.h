/* live -- jobs on agents: the reports of all agents on one job, as the run.json that it would have now.
 * Agents are not trusted: of their reports only texts, numbers and known states are taken, each if it has the
 * right type. */
#ifndef PSGD_BROWSE_LIVE_H
#define PSGD_BROWSE_LIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "submit/browse/job_list.h"

enum { LIVE_NODES = 4096 };

/* A node of a job on an agent. */
struct live_node {
    int node, attempt;
    size_t agent;   /* its index */
    json_t *report; /* an element of `jobs` in the agent's answer; borrowed */
    const char *address;
};

struct live_job {
    char id[LISTED_ID];
    struct live_node *nodes;
    size_t n;
    bool is_ended;
    uint64_t steps; /* of all nodes together */
};

struct live_jobs {
    struct live_job *jobs;
    size_t n;
};

/* Adds the jobs in an agent's answer to GET /v1/jobs, which must outlive them. Of several attempts of a job
 * only the last is kept. ERR_NOMEM. */
int live_add(struct live_jobs *l, const json_t *answer, size_t agent, const char *address, struct err *e);
void live_clear(struct live_jobs *l);
struct live_job *live_find(const struct live_jobs *l, const char *id);

/* A document in the form of run.json. `known`: the record in this user's index of jobs; NULL: there is none.
 * Returns NULL: no memory. */
json_t *live_run(const struct live_job *j, const json_t *known);

#endif
