/* own_isolation -- how far this agent's runners can isolate a codec: a child process enters the sandbox that
 * they enter (shared/sandbox/sandbox.h), as the same user in the same kernel and container, states what it
 * has got, and ends. It executes no other program, and takes 2 ms of processor time; a runner, which first
 * loads what it computes with, would take several times as long. */
#ifndef PSGD_OWN_ISOLATION_H
#define PSGD_OWN_ISOLATION_H

#include "agent/access/codec_policy.h"

/* `required`: the level of --require-isolation; -1: not given. Call it while the process has one thread.
 * ERR_AUTH: this machine's level is below `required`. A machine where it cannot be found out isolates
 * nothing, and `lacks` has the reason. */
int own_isolation_find(struct agent_isolation *out, int required, struct err *e);

#endif
