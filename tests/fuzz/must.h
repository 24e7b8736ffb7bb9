/* must -- what a target claims: the fuzzer reports an input for which it does not hold. */
#ifndef PSGD_FUZZ_MUST_H
#define PSGD_FUZZ_MUST_H

#include <stdbool.h>
#include <stdlib.h>

static inline void must(bool ok)
{
    if (!ok)
        abort();
}

#endif
