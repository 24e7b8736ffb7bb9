/* data_key -- a node's own key of the data plane, and the keys of its pairs that follow from it: only the two
 * nodes of a pair can know its key, not job_submit, an agent, or a third node, which so cannot impersonate
 * one of the two (docs/protocol.md, 1.4). */
#ifndef PSGD_DATA_KEY_H
#define PSGD_DATA_KEY_H

#include <stdint.h>

#include "shared/base/crypto.h"

enum { DATA_KEY_BYTES = 32 };

/* X25519, RFC 7748. */
struct data_key {
    uint8_t secret[DATA_KEY_BYTES];    /* never leaves the node's process */
    uint8_t published[DATA_KEY_BYTES]; /* what the peers get */
};

/* What the keys of all pairs of one attempt of a job have in common. */
struct data_key_job {
    const char *job;
    int attempt;
    uint8_t secret[SHA256_BYTES]; /* random, known to the nodes of the job and to what starts them */
};

void data_key_make(struct data_key *k);

/* The key of the pair of `mine`, node `me`, and node `peer`, which has published `theirs`. ERR_AUTH: `theirs`
 * is no key; with some values every secret gives the same result. */
int data_key_pair(uint8_t out[SHA256_BYTES], const struct data_key *mine, int me,
                  const uint8_t theirs[DATA_KEY_BYTES], int peer, const struct data_key_job *job,
                  struct err *e);

/* Whether node a precedes b in the order 0, 1, ..., -2, -3, ... */
bool node_comes_earlier(int a, int b);

#endif
