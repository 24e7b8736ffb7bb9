/* sealed -- memory that a process shows to others: a memfd of fixed size that only its owner can write.
 *
 * The owner maps it for writing and then seals it (memfd_create(2), F_ADD_SEALS in fcntl(2)): nobody can
 * change its size any more, and no new mapping can be writable, whoever holds the descriptor. The others
 * look at the seals and the size before they map it for reading, so that no owner can make a load of theirs
 * fault, and believe no length that is written in it. */
#ifndef PSGD_SEALED_H
#define PSGD_SEALED_H

#include <stddef.h>

#include "shared/err.h"

struct sealed {  /* as its owner or as another process sees it */
    void *start; /* of a page; NULL: not there */
    size_t size;
};

/* At least `bytes` of this process's own: mapped for writing, sealed, every page there, zeros. *fd is for the
 * others, the caller closes it. ERR_NOMEM: `n_nodes` with so much each do not fit into half of the memory
 * that this machine has free. */
int sealed_make(struct sealed *out, int *fd, size_t bytes, int n_nodes, struct err *e);

/* Another process's, made of `least` to `most` bytes, mapped for reading: a write is a fault. ERR_PROTOCOL:
 * it is not sealed, or of another size. */
int sealed_attach(struct sealed *out, int fd, size_t least, size_t most, struct err *e);

void sealed_clear(struct sealed *s);

#endif
