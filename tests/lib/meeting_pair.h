/* meeting_pair -- two nodes of a meeting in one thread of a test, which nobody keeps from doing what a runner
 * would not. Whatever fails here fails the test. */
#ifndef PSGD_TEST_MEETING_PAIR_H
#define PSGD_TEST_MEETING_PAIR_H

#include "agent/runner/shm/meeting.h"

struct meeting_pair {
    struct meeting *m[2];
};

extern const int meeting_pair_nodes[2]; /* 4 and 7 */
extern const uint8_t meeting_pair_secret[MEETING_SECRET_BYTES];

/* The first expects the second, which has not come yet. */
void meeting_pair_open(struct meeting_pair *p, size_t bytes_0, size_t bytes_1);
void meeting_pair_meet(struct meeting_pair *p); /* it comes, and both are there */
/* Both nodes as far as they get; what the last call of each said. */
void meeting_pair_hear(struct meeting_pair *p, int rc[2], struct err e[2]);
void meeting_pair_close(struct meeting_pair *p);

#endif
