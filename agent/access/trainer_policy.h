/* trainer_policy -- which training programs of submitters this agent runs, with which interpreter, and how it
 * confines them. A codec is confined before any of its code runs; a training program may do what the agent's
 * user may do, or, with --trainer-isolation files or user, still more than a codec (SECURITY.md). So whether
 * one runs here is decided by the agent's owner, with --trainers, when the job is reserved and again when the
 * program arrives. */
#ifndef PSGD_TRAINER_POLICY_H
#define PSGD_TRAINER_POLICY_H

#include <limits.h>

#include "agent/access/codec_policy.h"
#include "agent/base/agent_options.h"
#include "shared/base/err.h"
#include "shared/trainer/trainer_isolation.h"

struct trainer_rules {
    enum trainer_policy policy;
    char list[PATH_MAX];   /* of the packages of allowed programs: digest_list.h */
    char python[PATH_MAX]; /* the interpreter, an absolute path; "": there is none */
    enum trainer_isolation isolation;
    char data[PATH_MAX]; /* the folder that confined programs may read, an absolute path; "": none */
};

/* Sets the rules by the options. ERR_USAGE: --trainer-python names no program, --trainer-data no folder;
 * ERR_CONFIG: a path is too long. */
int trainer_rules_set(struct trainer_rules *r, const struct agent_options *opt, struct err *e);

/* Checks that this machine can confine programs as the rules say, which confines codecs by *own. ERR_AUTH. */
int trainer_rules_check(const struct trainer_rules *r, const struct agent_isolation *own, struct err *e);

/* Checks a program; `name`: its main file, for messages; `hex`: SHA-256 of its package, "": not known yet,
 * which only --trainers none refuses. ERR_TRAINER: it is refused, with a hint for the user, or the list
 * cannot be read. */
int trainer_admit(const struct trainer_rules *r, const char *name, const char *hex, struct err *e);

#endif
