/* shm_source -- makes the memory that nodes of one machine share, and the sockets by which they connect to
 * each other. A node with a monitor gets both from it (monitor/monitor.h), because the codec's process may
 * make neither. */
#ifndef PSGD_SHM_SOURCE_H
#define PSGD_SHM_SOURCE_H

#include <stddef.h>
#include <stdint.h>

enum { SHM_NAME_BYTES = 16 };

/* Each returns a descriptor, or -1 and sets errno. */
struct shm_source {
    /* A non-blocking SOCK_SEQPACKET socket that listens at this name on this machine, or, with connect, one
     * that is connected to it. */
    int (*listen)(void *owner, const uint8_t name[SHM_NAME_BYTES]);
    int (*connect)(void *owner, const uint8_t name[SHM_NAME_BYTES]);
    /* Memory of this size, a multiple of the page size: zeros, with all pages allocated, sealed against
     * growing and shrinking. ENOMEM: it would exceed this node's limit. */
    int (*memory)(void *owner, size_t bytes);
    void *owner; /* their first argument */
};

/* This process's own. */
extern const struct shm_source shm_own;

#endif
