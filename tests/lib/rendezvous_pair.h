/* rendezvous_pair -- two nodes of a rendezvous in one thread of a test, which may also misuse it as no
 * runner would. Any failure here fails the test. */
#ifndef PSGD_TEST_RENDEZVOUS_PAIR_H
#define PSGD_TEST_RENDEZVOUS_PAIR_H

#include "runner/shm/rendezvous.h"

struct rendezvous_pair {
    struct rendezvous *m[2];
};

extern const int rendezvous_pair_nodes[2]; /* 4 and 7 */
extern const uint8_t rendezvous_pair_secret[RENDEZVOUS_SECRET_BYTES];

/* The first node expects the second, which has not connected yet. */
void rendezvous_pair_open(struct rendezvous_pair *p, size_t bytes_0, size_t bytes_1);
void rendezvous_pair_open_as(struct rendezvous_pair *p, const int nodes[2], size_t bytes_0, size_t bytes_1);
void rendezvous_pair_join(struct rendezvous_pair *p); /* connects the second; both have joined */
/* Advances both nodes as far as possible; rc and e: results of the last call of each. */
void rendezvous_pair_advance(struct rendezvous_pair *p, int rc[2], struct err e[2]);
void rendezvous_pair_close(struct rendezvous_pair *p);

#endif
