/* job_key -- the key by which the submitter of a job, and nobody else with a token to submit, reaches the job
 * again: X-Job-Key of docs/protocol.md 1.1. It is derived for each node from a secret of this user, so later
 * commands have it without keeping it, and the agent of one node has no other node's. */
#ifndef PSGD_SUBMIT_JOB_KEY_H
#define PSGD_SUBMIT_JOB_KEY_H

#include "shared/base/crypto.h"
#include "shared/base/err.h"

/* Reads $XDG_STATE_HOME/psgd/job.secret, or creates it (0600). ERR_AUTH: others can read it; ERR_CONFIG,
 * ERR_IO. */
int job_key_secret(uint8_t out[SHA256_BYTES], struct err *e);

void job_key_derive(char out[BASE64_TEXT], const uint8_t secret[SHA256_BYTES], const char *job, int node);

#endif
