/* memory -- how much of it the machine has left. */
#ifndef PSGD_MEMORY_H
#define PSGD_MEMORY_H

/* Bytes that a program can take without others being swapped or killed (the kernel's MemAvailable); HUGE_VAL
 * where it is not told. */
double memory_available(void);

#endif
