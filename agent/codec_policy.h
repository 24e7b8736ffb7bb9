/* codec_policy -- which codecs this agent runs: its answer to a job that brings one, before anything of it
 * runs.
 *
 * Digests decide. An object may be loaded as it came when it is one of the agent's own built-in codecs, when
 * its SHA-256 is on the list, or when anything goes. The digest of a source says nothing about an object that
 * came beside it, so a source that is built in here too, or on the list, is compiled here, and only what
 * comes of that is loaded. */
#ifndef PSGD_CODEC_POLICY_H
#define PSGD_CODEC_POLICY_H

#include <limits.h>

#include "shared/crypto.h"
#include "shared/elf.h"

enum codec_policy { CODECS_BUILTIN, CODECS_ALLOWLIST, CODECS_ANY };
#define CODEC_POLICY_CHOICES "builtin|allowlist|any" /* in the order of the enum */

struct codec_rules {
    enum codec_policy policy;
    char builtin_dir[PATH_MAX]; /* the agent's own: *.so, and the *.c they are made from */
    char list[PATH_MAX];        /* a SHA-256 a line, as sha256sum writes it or alone; # begins a comment */
    struct elf_kind here;
    const char *cc; /* the compiler that job_runner will find, or not */
};

struct codec_offer {
    const char *name;                    /* for sentences */
    const char *object_hex, *source_hex; /* source_hex "": none came */
    const char *object;                  /* the object's file; NULL: it is not here yet */
};

enum codec_use { CODEC_LOAD, CODEC_COMPILE };

/* ERR_CODEC: refused, in words that say what to do; or the list cannot be read. */
int codec_admit(enum codec_use *out, const struct codec_rules *r, const struct codec_offer *o, struct err *e);

#endif
