/* unlogged -- for targets whose inputs mostly break a connection, which would be logged each time. */
#ifndef PSGD_FUZZ_UNLOGGED_H
#define PSGD_FUZZ_UNLOGGED_H

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Output of sanitizers and of the fuzzer goes to the descriptor, and is kept. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    stderr = fopen("/dev/null", "w");
    return stderr ? 0 : -1;
}

#endif
