/* memory -- how much of it is left. */
#ifndef PSGD_MEMORY_H
#define PSGD_MEMORY_H

/* Bytes that this process can take without others being swapped, or itself or others being killed: the
 * kernel's MemAvailable, what the control groups leave in which the process runs (a container's, or a batch
 * system's), or what its own limits leave (RLIMIT_AS, which `ulimit -v` sets, and RLIMIT_DATA), whichever is
 * least. HUGE_VAL where nothing is told. */
double memory_available(void);

#endif
