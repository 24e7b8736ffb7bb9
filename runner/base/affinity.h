/* affinity -- may the nodes of a machine spin while they wait? */
#ifndef PSGD_AFFINITY_H
#define PSGD_AFFINITY_H

#include <stdint.h>

enum { AFFINITY_WORDS = 16 }; /* as many processors as in a cpu_set_t: 1024 */

/* The processors on which a process may run: bit i % 64 of word i / 64 is processor i. No bit is set where
 * the machine has more processors. */
struct affinity {
    uint64_t words[AFFINITY_WORDS];
};

/* What may be lost if a node of a job spins. */
enum affinity_crowding {
    AFFINITY_ALONE,  /* each node can have a processor of its own: nothing */
    AFFINITY_SHARED, /* a node that computes may have to wait for this one's processor: yield it */
    AFFINITY_CROWDED /* one of the nodes of a processor nearly always has something to compute: none spins */
};

void affinity_read(struct affinity *out); /* of this process */

/* The nodes (n) of a job on this machine, one of them `me`. A launcher may bind each node to a processor, so
 * the processors of all of them count together: those of the nodes that share any of them, directly or by
 * others, and those of `me` with the nodes that can run nowhere else. */
enum affinity_crowding affinity_crowding(const struct affinity *nodes, int n, int me);
/* The same where only the processors of this process are known: those of all n nodes. */
enum affinity_crowding affinity_crowding_alike(int n);

#endif
