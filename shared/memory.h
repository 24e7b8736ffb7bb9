/* memory -- how much of it is left. */
#ifndef PSGD_MEMORY_H
#define PSGD_MEMORY_H

/* Bytes that this process can take without others being swapped, or itself or others being killed: the
 * kernel's MemAvailable, or what the control groups leave in which the process runs (a container's, or a
 * batch system's), whichever is less. HUGE_VAL where nothing is told. */
double memory_available(void);

#endif
