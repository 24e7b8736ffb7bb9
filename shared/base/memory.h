/* memory -- how much memory this process can allocate. */
#ifndef PSGD_MEMORY_H
#define PSGD_MEMORY_H

/* Returns the bytes that this process can allocate without swapping, and without any process being killed:
 * the least of the kernel's MemAvailable, the remainder of the limits of its control groups (a container's,
 * or a batch system's), and that of its own limits (RLIMIT_AS, which `ulimit -v` sets, and RLIMIT_DATA).
 * HUGE_VAL if none is known. */
double memory_available(void);
/* Returns the same without the limits of this process: bytes of its machine and control groups, which it
 * shares with other processes. */
double memory_shared(void);

/* Opens the files that these functions read, and keeps them open, so that both work when the process may not
 * open files any more. A child of fork() must not call them afterwards, nor a process that has changed its
 * control groups. */
void memory_keep_open(void);

#endif
