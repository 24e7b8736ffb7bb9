/* interrupt -- SIGINT, SIGTERM and SIGHUP set a flag, which loops check, and make a descriptor readable, so
 * that poll() returns. The first signal requests an orderly end; the second one ends the process at once. */
#ifndef PSGD_SUBMIT_INTERRUPT_H
#define PSGD_SUBMIT_INTERRUPT_H

#include "shared/base/err.h"

int interrupt_init(struct err *e);
int interrupt_signal(void); /* the signal received, or 0 */
int interrupt_fd(void);     /* becomes readable on a signal; -1 before interrupt_init */
void interrupt_drain(void); /* empties the descriptor, so that a poll sleeps again */

/* 0, or ERR_CANCELLED with a message after a signal. */
int interrupt_check(struct err *e);

#endif
