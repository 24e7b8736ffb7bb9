/* both_kernels -- runs a group of tests twice: on this machine's kernel, and with the system calls of Linux
 * 4.18. */
#ifndef PSGD_BOTH_KERNELS_H
#define PSGD_BOTH_KERNELS_H

#include <errno.h>

#include "tests/lib/old_kernel.h"
#include "tests/unit/unit.h"

/* errno of old_kernel_begin() */
static int both_kernels_why;

static inline void the_same_as_on_linux_4_18(void **state)
{
    (void)state;
    print_message("# no filter may be set here: %s\n", strerror(both_kernels_why));
    skip();
}

/* Returns the number of failed tests. Where there are no seccomp filters, one skipped test replaces the
 * second run. */
static inline int run_on_both_kernels_(const char *name, const struct CMUnitTest *tests, size_t n)
{
    static const struct CMUnitTest none[] = {cmocka_unit_test(the_same_as_on_linux_4_18)};
    int failed = _cmocka_run_group_tests(name, tests, n, NULL, NULL);

    if (old_kernel_begin() == 0)
        return failed + _cmocka_run_group_tests("as on Linux 4.18", tests, n, NULL, NULL);
    both_kernels_why = errno;
    return failed + cmocka_run_group_tests(none, NULL, NULL);
}
#define run_on_both_kernels(tests) run_on_both_kernels_(#tests, tests, N_OF(tests))

#endif
