/* codec_load -- loads the shared object of a codec or an executor and checks its table against this psgd's
 * codecs/codec.h or codecs/executor.h; what a codec's limits allow in a job. */
#ifndef PSGD_CODEC_LOAD_H
#define PSGD_CODEC_LOAD_H

#include <stdbool.h>

#include "codecs/codec_events.h"
#include "codecs/executor.h"
#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/aggregate.h"
#include "shared/job/combine_path_kinds.h"
#include "shared/plugin/path_cost.h"

struct codec_library {
    void *handle;
    const struct codec_plugin *plugin;      /* of a codec */
    const struct executor_plugin *executor; /* of an executor */
    int fd; /* the loaded copy in memory (file_copy_to_memory), open as long as the library */
    char sha256[SHA256_HEX]; /* of that copy */
};

/* What a source of an older ABI must change, for the message that refuses it. */
#define CODEC_ABI_CHANGES                                                                                    \
    "ABI 11 moved all but combinations to codec_events.h, which a source includes that does more than "      \
    "combine, or sets .compression, .result, .cost or .sends: these fields, .round and .events go into "     \
    ".more = CODEC_MORE(...), c->node, c->step and the other facts of the job are c->run->node, "            \
    "c->run->step, and c->host->NAME(c, ...) is codec_NAME(c, ...)"

/* The greatest values of codec.h's enumerations, by which tables are indexed; larger ones are invalid. */
enum {
    CODEC_COMPRESSION_MAX = CODEC_LOSSY_PARAMS,
    CODEC_LIMITS_MAX = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY | CODEC_ASGD_NEEDS_SERVERS |
                       CODEC_NO_SSGD | CODEC_NO_OVERLAP,
    CODEC_RESULT_MAX = CODEC_MEAN_OF_PARAMETERS
};

#define CODEC_STATE_MAX  ((size_t)1 << 30)
#define CODEC_OBJECT_MAX ((size_t)256 << 20) /* bytes of the file */

/* Limits that follow from a plug-in's callbacks, in addition to those that it declares. */
enum {
    CODEC_WHOLE_GRADIENTS = 1 << 16, /* it exchanges one gradient per worker, not one per block */
    CODEC_NO_ON_LOST = 1 << 17,      /* an event rule without on_lost() */
    CODEC_CLIPS_A_RANGE = 1 << 18, /* where several servers update, no norm of the whole gradient is known */
    CODEC_CLIPS_A_RANGE_IN_ASGD = 1 << 19, /* nor in asgd */
    CODEC_LIMITS_KNOWN = CODEC_LIMITS_MAX | CODEC_WHOLE_GRADIENTS | CODEC_NO_ON_LOST | CODEC_CLIPS_A_RANGE |
                         CODEC_CLIPS_A_RANGE_IN_ASGD
};

/* Whether workers are linked to servers only, and servers to workers only. An event rule may send to any
 * node. */
bool codec_is_star(const struct codec_plugin *p, int n_servers);

/* Returns what workers have after a synchronous exchange: as declared, or as follows from how the rule
 * combines. */
enum codec_result codec_result(const struct codec_plugin *p);

/* All limits of a plug-in, CODEC_LIMITS_KNOWN. */
unsigned codec_limits(const struct codec_plugin *p);

/* The properties of a job that a codec can limit. */
struct codec_job {
    int n_workers, n_servers, n_blocks, redundancy;
    bool has_unequal_blocks; /* workers hold different numbers of blocks */
    bool is_sync, goes_on;   /* goes_on: the job continues without lost workers */
    bool clips;              /* --clip-norm */
    bool is_compressed;      /* --compress or --compress-down */
    /* To items that can be added on their way (chain_sums in codecs/compress/chain_list.h). */
    bool compresses_items;
    struct aggregate aggregate;
    enum overlap overlap;
    int n_drawn;               /* workers that take part in a round: n_workers, or fewer */
    struct path_layout layout; /* n_machines 0: not known; each worker then has its own */
};

/* Checks a job against a codec's limits. ERR_CODEC. */
int codec_check_limits(const char *name, unsigned limits, const struct codec_job *job, struct err *e);

/* Loads a sealed copy of the file (file_copy_to_memory): the digest is then of the code that runs, and the
 * file may be in a folder mounted noexec. ERR_CODEC: not a shared object, no codec_plugin in it, built
 * against another codec.h (the message has both versions), or an inconsistent table. Runs the object's
 * constructors: call it only in a process that may run its code. */
int codec_library_open(struct codec_library *l, const char *path, struct err *e);
/* As codec_library_open, for the executor_plugin of an executor. */
int codec_library_open_executor(struct codec_library *l, const char *path, struct err *e);

/* The two halves of codec_library_open: the copy, none of whose code runs, and its loading, which opens no
 * file but shared libraries. If loading fails, *l is empty. */
int codec_library_copy(struct codec_library *l, const char *path, struct err *e);
int codec_library_load(struct codec_library *l, const char *path, struct err *e);
int codec_library_load_executor(struct codec_library *l, const char *path, struct err *e);

void codec_library_drop(struct codec_library *l); /* unloads it: *l is then empty */
void codec_library_close(struct codec_library *l);

#endif
