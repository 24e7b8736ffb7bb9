/* job_keys -- the keys of a job. With the key of an agent the submitter has access to the job on that agent,
 * which other users with a token to submit have not: X-Job-Key of docs/protocol.md 1.1. It is derived from a
 * secret of this user, so later commands derive it again instead of storing it. An agent gets the key of its
 * own node only, with which it cannot access the job on another agent. */
#ifndef PSGD_SUBMIT_JOB_KEYS_H
#define PSGD_SUBMIT_JOB_KEYS_H

#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

/* Reads this user's secret, $XDG_STATE_HOME/psgd/job.secret, or creates it (0600). ERR_AUTH: other users can
 * read it; ERR_CONFIG: it is damaged; ERR_IO. */
int job_keys_secret(uint8_t out[SHA256_BYTES], struct err *e);

/* The key of job `job` on the agent of node `node`. */
void job_keys_of_agent(char out[BASE64_TEXT], const uint8_t secret[SHA256_BYTES], const char *job, int node);

#endif
