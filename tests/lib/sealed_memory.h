/* sealed_memory -- skips tests of shared memory on kernels before Linux 5.1, which lack
 * F_SEAL_FUTURE_WRITE. */
#ifndef PSGD_TEST_SEALED_MEMORY_H
#define PSGD_TEST_SEALED_MEMORY_H

#include <stdbool.h>

#include "runner/shm/sealed.h"
#include "tests/unit/unit.h"

static inline bool sealed_memory_exists(void)
{
    struct sealed v;
    struct err e = {0};
    int fd, rc = sealed_make(&v, &fd, &shm_own, 1, 2, &e);

    if (rc < 0) {
        print_message("# %s\n", e.text);
        return !strstr(e.text, "F_SEAL_FUTURE_WRITE"); /* with any other error the test must fail */
    }
    sealed_clear(&v);
    close(fd);
    return true;
}

static inline void needs_sealed_memory(void)
{
    if (!sealed_memory_exists())
        skip();
}

#endif
