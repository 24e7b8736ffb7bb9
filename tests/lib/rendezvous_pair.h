/* rendezvous_pair -- two nodes of a meeting in one thread of a test, which nobody keeps from doing what a
 * runner would not. Whatever fails here fails the test. */
#ifndef PSGD_TEST_RENDEZVOUS_PAIR_H
#define PSGD_TEST_RENDEZVOUS_PAIR_H

#include "agent/runner/shm/rendezvous.h"

struct rendezvous_pair {
    struct rendezvous *m[2];
};

extern const int rendezvous_pair_nodes[2]; /* 4 and 7 */
extern const uint8_t rendezvous_pair_secret[RENDEZVOUS_SECRET_BYTES];

/* The first expects the second, which has not come yet. */
void rendezvous_pair_open(struct rendezvous_pair *p, size_t bytes_0, size_t bytes_1);
void rendezvous_pair_join(struct rendezvous_pair *p); /* it comes, and both are there */
/* Both nodes as far as they get; what the last call of each said. */
void rendezvous_pair_advance(struct rendezvous_pair *p, int rc[2], struct err e[2]);
void rendezvous_pair_close(struct rendezvous_pair *p);

#endif
