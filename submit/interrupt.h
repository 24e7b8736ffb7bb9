/* interrupt -- SIGINT, SIGTERM and SIGHUP as a question that loops ask, and a descriptor that wakes their
 * poll. The first one asks for an orderly end; the second one ends the process where it stands. */
#ifndef PSGD_SUBMIT_INTERRUPT_H
#define PSGD_SUBMIT_INTERRUPT_H

#include "shared/err.h"

int interrupt_init(struct err *e);
int interrupt_signal(void); /* the signal that came, or 0 */
int interrupt_fd(void);     /* becomes readable when one comes; -1 before interrupt_init */
void interrupt_drain(void); /* so that a poll sleeps again */

/* 0, or ERR_CANCELLED with a sentence when a signal came. */
int interrupt_check(struct err *e);

#endif
