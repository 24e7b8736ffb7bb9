/* codec_load -- opens a codec's shared object and holds it against codecs/codec.h. */
#ifndef PSGD_CODEC_LOAD_H
#define PSGD_CODEC_LOAD_H

#include <stdbool.h>

#include "codecs/codec.h"
#include "shared/crypto.h"
#include "shared/err.h"

struct codec_library {
    void *handle;
    const struct codec_plugin *plugin;
    int fd; /* of the copy in memory that was loaded; open as long as the library, whose name it is */
    char sha256[SHA256_HEX]; /* of that copy */
};

/* The greatest values of codec.h's lists: what is beyond names nothing, and tables are indexed by them. */
enum {
    CODEC_COMPRESSION_MAX = CODEC_UNCOMPRESSED,
    CODEC_LIMITS_MAX = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY | CODEC_ASGD_NEEDS_SERVERS |
                       CODEC_NO_SSGD,
    CODEC_RESULT_MAX = CODEC_MEAN_OF_PARAMETERS
};

#define CODEC_STATE_MAX  ((size_t)1 << 30)
#define CODEC_OBJECT_MAX ((size_t)256 << 20) /* bytes of the file */

/* Limits that follow from a plug-in's callbacks, beside those that it states. */
enum {
    CODEC_WHOLE_GRADIENTS = 1 << 16, /* it exchanges one gradient per worker, not one per block */
    CODEC_DEAF_TO_LOSSES = 1 << 17,  /* an event rule without on_lost */
    CODEC_LIMITS_KNOWN = CODEC_LIMITS_MAX | CODEC_WHOLE_GRADIENTS | CODEC_DEAF_TO_LOSSES
};

/* All limits of a plug-in, CODEC_LIMITS_KNOWN. */
unsigned codec_limits(const struct codec_plugin *p);

/* What of a job may be outside a codec's limits. */
struct codec_job {
    int n_workers, n_servers, n_blocks, redundancy;
    bool is_sync, goes_on; /* goes_on: without lost workers */
};

/* Does a job stay within a codec's limits? ERR_CODEC. */
int codec_check_limits(const char *name, unsigned limits, const struct codec_job *job, struct err *e);

/* Loads a sealed copy of the file (memory_file.h), so that the digest is of what runs, and a folder mounted
 * noexec serves. ERR_CODEC: not a shared object, no codec_plugin in it, built against another codec.h (both
 * sides named), or a plug-in that contradicts itself. Runs the object's constructors: only a process that may
 * run its code calls this. */
int codec_library_open(struct codec_library *l, const char *path, struct err *e);
void codec_library_close(struct codec_library *l);

#endif
