/* pair_key -- the shared secret by which two nodes of a job authenticate each other. A node gets only the
 * keys of its own pairs, so it cannot impersonate another node. */
#ifndef PSGD_SUBMIT_PAIR_KEY_H
#define PSGD_SUBMIT_PAIR_KEY_H

#include <stdint.h>

#include "shared/base/crypto.h"

/* Derives the key of a pair from the job's key, which never leaves job_submit. `first` is the node that
 * comes earlier in the order 0, 1, ..., -2, -3, ... */
void pair_key(uint8_t out[SHA256_BYTES], const uint8_t job_key[SHA256_BYTES], const char *job, int attempt,
              int first, int second);

#endif
