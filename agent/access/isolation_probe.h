/* isolation_probe -- how far codecs are kept from this machine: what its runners can do, and what a codec
 * needs. */
#ifndef PSGD_ISOLATION_PROBE_H
#define PSGD_ISOLATION_PROBE_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/plugin/isolation.h"

/* As `job_runner --isolation` reports it. {0}: none, before the runner was asked. */
struct agent_isolation {
    enum isolation level;
    int landlock_abi;
    bool has_seccomp, has_own_user, has_own_tree;
    char lacks[256];         /* why it is not the next level; "" at the highest */
    bool is_required;        /* --require-isolation is given: for every codec */
    enum isolation required; /* it, else what a codec needs that is not built in */
};

/* Asks the runner program; one that cannot answer isolates nothing. `required`: --require-isolation, -1: not
 * given. ERR_AUTH: the level here is below it. */
int isolation_ask(struct agent_isolation *out, const char *runner_exe, int required, struct err *e);

/* The least level for a codec: of --require-isolation and what its submitter wants. */
enum isolation isolation_for(const struct agent_isolation *is, bool is_builtin, enum isolation wanted);

/* ERR_REFUSED: this machine has less, with what it lacks, and how to allow it. */
int isolation_admit(const struct agent_isolation *is, const char *codec, bool is_builtin,
                    enum isolation wanted, struct err *e);

#endif
