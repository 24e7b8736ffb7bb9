/* test_job -- a job of a few steps on all agents of worker.json: it shows that every node reaches every other
 * at its data port, from where it runs, and that they exchange what a job exchanges. No agent connects to an
 * address that a request names unless it is a peer of a job (docs/protocol.md), so a job is the only way. */
#ifndef PSGD_SUBMIT_TEST_JOB_H
#define PSGD_SUBMIT_TEST_JOB_H

#include "submit/options/submit_options.h"

struct test_job {
    int code;        /* err_code; 0: it has succeeded, or was not run */
    char text[1400]; /* one sentence; "": not run */
};

/* Runs it on all n_agents agents of the list, each as a worker: 0, 1, ... are the workers, then come the
 * servers, then the spares. Leaves nothing on the agents. */
void test_job_run(struct test_job *t, const struct options *given, size_t n_agents);

#endif
