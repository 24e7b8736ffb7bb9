/* sealed -- memory that a process shares read-only with others: a memfd of fixed size that only its owner
 * can write.
 *
 * The owner maps it for writing and then seals it (memfd_create(2), F_ADD_SEALS in fcntl(2)): its size can
 * no longer change, and no new mapping can be writable, in any process that holds the descriptor. Other
 * processes check the seals and the size before they map it for reading, so that no owner can make their
 * loads fault, and they trust no length stored in it. */
#ifndef PSGD_SEALED_H
#define PSGD_SEALED_H

#include <stddef.h>

#include "runner/shm/shm_source.h"
#include "shared/base/err.h"

struct sealed {  /* a mapping, in its owner or in another process */
    void *start; /* page-aligned; NULL: not mapped */
    size_t size;
};

/* Makes a sealed region of at least `bytes` zeros, mapped for writing, with all pages allocated. *fd is the
 * descriptor to send to the others; the caller closes it. ERR_NOMEM: `n_nodes` such regions exceed half of
 * this machine's free memory, or the source refuses as much. */
int sealed_make(struct sealed *out, int *fd, const struct shm_source *source, size_t bytes, int n_nodes,
                struct err *e);

/* Maps another process's region of `min_bytes` to `max_bytes` for reading; a write faults. ERR_PROTOCOL: it
 * is not sealed, or of another size. */
int sealed_attach(struct sealed *out, int fd, size_t min_bytes, size_t max_bytes, struct err *e);

void sealed_clear(struct sealed *s);

#endif
