/* pair_key -- the key by which two nodes of a job authenticate each other. A node gets the keys of its own
 * pairs, and so cannot impersonate another node to a third one. */
#ifndef PSGD_PAIR_KEY_H
#define PSGD_PAIR_KEY_H

#include <stdint.h>

#include "shared/base/crypto.h"

/* `data_key`: random, drawn for this attempt of the job, and known only to the program that starts the nodes:
 * job_submit, or job_runner --job. `first` is the node that comes earlier in the order
 * 0, 1, ..., -2, -3, ... */
void pair_key(uint8_t out[SHA256_BYTES], const uint8_t data_key[SHA256_BYTES], const char *job, int attempt,
              int first, int second);

#endif
