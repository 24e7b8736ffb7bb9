/* shm_nodes -- a shm group between child processes of a test, as between the runners of one machine. A page
 * of shared memory replaces their authenticated connections. */
#ifndef PSGD_TEST_SHM_NODES_H
#define PSGD_TEST_SHM_NODES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/shm/shm_group.h"

enum { SHM_NODES_MAX = RENDEZVOUS_MAX };

struct shm_nodes_page { /* shared by all child processes */
    uint8_t names[SHM_NODES_MAX][RENDEZVOUS_NAME_BYTES];
    uint8_t secrets[SHM_NODES_MAX][SHM_NODES_MAX][RENDEZVOUS_SECRET_BYTES]; /* [earlier][later] */
    _Atomic int n_named;
    _Atomic int marks[4]; /* for use by a test */
};

struct shm_nodes {
    int n;
    pid_t pids[SHM_NODES_MAX];
    struct shm_nodes_page *page;
};

/* Main function of a node, called once all have joined. Returns its exit status, 0: passed. */
typedef int shm_node_main(struct shm_nodes *c, struct shm_group *a, int me, void *arg);

/* Starts n nodes, which join the group and call `node_main`. A node that leaks a descriptor or a mapping of
 * the group fails, and so does one that takes longer than five minutes. */
void shm_nodes_start(struct shm_nodes *c, int n, size_t n_floats, shm_node_main *node_main, void *arg);
/* Waits for all nodes to end. Returns how many have a nonzero exit status. */
int shm_nodes_wait(struct shm_nodes *c);

/* Joins the other nodes. On failure prints the error and exits with status 1. */
void shm_nodes_join(struct shm_nodes *c, struct rendezvous *m, int me);

/* Calls shm_group_poll until it returns 1 or fails, sleeping in between. ERR_TIMEOUT at the deadline
 * (clock_now). */
int shm_nodes_poll(struct shm_group *a, double deadline, struct err *e);

int count_open_fds(void);        /* open descriptors of this process */
int count_shared_mappings(void); /* mappings of psgd's shared memory in this process */

#endif
