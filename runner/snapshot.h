/* snapshot -- the model of a running node, for an agent that asks by SIGURG: written between two steps of a
 * worker, or two messages of a server, and reported by a line `model` (docs/protocol.md, section 2). */
#ifndef PSGD_SNAPSHOT_H
#define PSGD_SNAPSHOT_H

#include "runner/node.h"

/* Handles SIGURG, because programs that do not handle this signal ignore it: an older runner continues. Once,
 * in main. */
void snapshot_handle_signal(void);
/* Call between steps: writes the model if it is asked for, at most once a second, and of a large model less
 * often. If the model cannot be written, the reason is reported and the job continues. Returns whether a
 * model was asked for. */
bool snapshot_take(struct node *n);

#endif
