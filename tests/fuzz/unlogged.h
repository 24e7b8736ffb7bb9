/* unlogged -- for targets whose inputs mostly break a connection, which is said in the log each time. */
#ifndef PSGD_FUZZ_UNLOGGED_H
#define PSGD_FUZZ_UNLOGGED_H

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What sanitizers and the fuzzer say goes to the descriptor, and is heard. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    stderr = fopen("/dev/null", "w");
    return stderr ? 0 : -1;
}

#endif
