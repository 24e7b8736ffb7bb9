/* launcher_process -- the launcher's own process on this machine, which tells a launch from the next where
 * the launcher gives it no name. */
#ifndef PSGD_SUBMIT_LAUNCHER_PROCESS_H
#define PSGD_SUBMIT_LAUNCHER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

/* "PID-TICKS" of the nearest ancestor that was started without the variable `rank`, which the launcher sets
 * in the processes that it starts, a shell between it and the program included. False: it is not known. */
bool launcher_process_name(char *out, size_t size, const char *rank);

#endif
