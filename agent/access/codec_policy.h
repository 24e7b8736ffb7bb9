/* codec_policy -- which codecs this agent runs, and how isolated: decides on a job's codec before any of its
 * code runs.
 *
 * The decision is by digest. An object may be loaded as it was sent if it is one of the agent's own built-in
 * codecs, if its SHA-256 is on the list, or if the policy is `any`. The digest of a source proves nothing
 * about the object that is sent with it, so a source that is built in or on the list is compiled here, and
 * only the result is loaded. */
#ifndef PSGD_CODEC_POLICY_H
#define PSGD_CODEC_POLICY_H

#include <limits.h>
#include <stdbool.h>

#include "agent/base/agent_options.h"
#include "shared/base/crypto.h"
#include "shared/plugin/elf.h"
#include "shared/plugin/isolation.h"

struct codec_rules {
    enum codec_policy policy;
    char builtin_dir[PATH_MAX]; /* of the agent's own codecs: *.so, and the *.c they are made from */
    char list[PATH_MAX];        /* of allowed codecs: digest_list.h */
    struct elf_kind here;
    const char *cc; /* name of the compiler that job_runner uses */
};

struct codec_offer {
    const char *name;                    /* for messages */
    const char *object_hex, *source_hex; /* source_hex "": no source was sent */
    const char *object;                  /* the object's file; NULL: not uploaded yet */
};

enum codec_use { CODEC_LOAD, CODEC_COMPILE };

/* Whether the code that runs is of this build: of the object, or of the source, which is then compiled
 * here. */
bool codec_is_builtin(const struct codec_rules *r, const char *object_hex, const char *source_hex,
                      enum codec_use use);

/* ERR_CODEC: the codec is refused, with a hint for the user, or the list cannot be read. */
int codec_admit(enum codec_use *out, const struct codec_rules *r, const struct codec_offer *o, struct err *e);

/* How far this machine can isolate a codec (own_isolation.h), and what the agent requires. {0}: not found out
 * yet, which counts as none. */
struct agent_isolation {
    enum isolation level;
    int landlock_abi;
    bool has_seccomp, has_own_user, has_own_tree;
    char lacks[256];         /* why it is not the next level; "" at the highest */
    bool is_required;        /* --require-isolation is given, and holds for every codec */
    enum isolation required; /* the option's level; without it the level for codecs that are not built in */
};

/* Returns the least level at which the codec may run: the higher one of what this agent requires and what the
 * submitter wants. */
enum isolation isolation_for(const struct agent_isolation *is, bool is_builtin, enum isolation wanted);

/* ERR_REFUSED: this machine has a lower level; the message states what it lacks, the hint how to allow it. */
int isolation_admit(const struct agent_isolation *is, const char *codec, bool is_builtin,
                    enum isolation wanted, struct err *e);

#endif
