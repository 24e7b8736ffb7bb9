/* trainer_policy -- which training programs of submitters this agent runs, and with which interpreter. A
 * codec is confined before any of its code runs; a training program is not, and may do what the agent's user
 * may do (SECURITY.md). So whether one runs here is decided by the agent's owner, with --trainers, when the
 * job is reserved and again when the program arrives. */
#ifndef PSGD_TRAINER_POLICY_H
#define PSGD_TRAINER_POLICY_H

#include <limits.h>

#include "agent/base/agent_options.h"
#include "shared/base/err.h"

struct trainer_rules {
    enum trainer_policy policy;
    char list[PATH_MAX];   /* of the packages of allowed programs: digest_list.h */
    char python[PATH_MAX]; /* the interpreter, an absolute path; "": there is none */
};

/* Sets the rules by the options. ERR_USAGE: --trainer-python names no program; ERR_CONFIG: a path is too
 * long. */
int trainer_rules_set(struct trainer_rules *r, const struct agent_options *opt, struct err *e);

/* Checks a program; `name`: its main file, for messages; `hex`: SHA-256 of its package, "": not known yet,
 * which only --trainers none refuses. ERR_TRAINER: it is refused, with a hint for the user, or the list
 * cannot be read. */
int trainer_admit(const struct trainer_rules *r, const char *name, const char *hex, struct err *e);

#endif
