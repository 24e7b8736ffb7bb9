/* codec_policy -- which codecs this agent runs: decides on a job's codec before any of its code runs.
 *
 * The decision is by digest. An object may be loaded as it was sent if it is one of the agent's own
 * built-in codecs, if its SHA-256 is on the list, or if the policy is `any`. The digest of a source proves
 * nothing about the object sent with it, so a source that is built in here or on the list is compiled here,
 * and only the result is loaded. */
#ifndef PSGD_CODEC_POLICY_H
#define PSGD_CODEC_POLICY_H

#include <limits.h>
#include <stdbool.h>

#include "agent/base/agent_options.h"
#include "shared/base/crypto.h"
#include "shared/plugin/elf.h"

struct codec_rules {
    enum codec_policy policy;
    char builtin_dir[PATH_MAX]; /* the agent's own: *.so, and the *.c they are made from */
    char list[PATH_MAX];        /* a SHA-256 a line, as sha256sum writes it or alone; # begins a comment */
    struct elf_kind here;
    const char *cc; /* the compiler that job_runner looks for */
};

struct codec_offer {
    const char *name;                    /* for messages */
    const char *object_hex, *source_hex; /* source_hex "": no source was sent */
    const char *object;                  /* the object's file; NULL: not uploaded yet */
};

enum codec_use { CODEC_LOAD, CODEC_COMPILE };

/* Whether the code that runs is one of this build's own: the object, or the source that is compiled here. */
bool codec_is_builtin(const struct codec_rules *r, const char *object_hex, const char *source_hex,
                      enum codec_use use);

/* ERR_CODEC: the codec is refused, with a hint for the user, or the list cannot be read. */
int codec_admit(enum codec_use *out, const struct codec_rules *r, const struct codec_offer *o, struct err *e);

#endif
