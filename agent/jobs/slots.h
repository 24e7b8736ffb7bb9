/* slots -- the places for jobs: `--slots N` lets N jobs run at a time, each with its part of the processors
 * that the agent may use, and of the memory that jobs may. With one slot a job has all of them. The
 * processors of a slot have neighbouring numbers; with more slots than processors some slots share one. */
#ifndef PSGD_SLOTS_H
#define PSGD_SLOTS_H

#include <sched.h>

#include "agent/jobs/jobs.h"

/* The lowest slot that no job has; -1: all are taken. */
int slots_free(const struct jobs *jobs);

/* Returns false if the slot has all processors of the agent. */
bool slots_processors(cpu_set_t *out, const struct jobs *jobs, int slot);

/* Bytes that a runner may use; 0: no limit. */
uint64_t slots_memory(const struct jobs *jobs);

#endif
