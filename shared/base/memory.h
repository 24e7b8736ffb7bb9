/* memory -- available memory. */
#ifndef PSGD_MEMORY_H
#define PSGD_MEMORY_H

/* Returns the bytes that this process can allocate without swapping, and without any process being killed:
 * the least of the kernel's MemAvailable, the remainder of the limits of its control groups (a container's,
 * or a batch system's), and that of its own limits (RLIMIT_AS, which `ulimit -v` sets, and RLIMIT_DATA).
 * HUGE_VAL if none is known. */
double memory_available(void);
/* The same of what processes share: without this one's own limits, beyond which it gets no memory anyway. */
double memory_shared(void);

/* Opens the files that these functions read, and keeps them open: both work in a process that may open no
 * file any more, until it forks, and as long as it stays in its control groups. */
void memory_keep_open(void);

#endif
