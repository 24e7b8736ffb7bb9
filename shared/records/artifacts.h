/* artifacts -- the files that a node of a job leaves. One table (artifacts.c) has the name of each on the
 * node and in the results, whether workers, servers or both write it, and its content. The runner writes and
 * the agent serves no other files; job_submit collects them in the order of the table. */
#ifndef PSGD_ARTIFACTS_H
#define PSGD_ARTIFACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/records/record.h"

#define RECORD_FILE(ID, ...) ARTIFACT_##ID,
enum artifact_id {
    RECORD_FILES(RECORD_FILE) N_RECORD_FILES, /* those above are CSV files */
    ARTIFACT_LOG = N_RECORD_FILES,
    ARTIFACT_EVENTS,
    ARTIFACT_FINAL_MODEL,
    ARTIFACT_BEST_MODEL,
    ARTIFACT_CHECKPOINT,
    ARTIFACT_PREVIOUS_CHECKPOINT,
    ARTIFACT_TRACE,
    ARTIFACT_CODEC_SOURCE,
    ARTIFACT_CODEC_MANIFEST,
    ARTIFACT_OUTPUT,
    N_ARTIFACTS
};
#undef RECORD_FILE

/* How job_submit makes results of it. */
enum artifact_kind {
    ARTIFACT_IS_RECORDS,    /* all nodes' rows in one file; an optional one only if a node has it */
    ARTIFACT_IS_LOG,        /* one file per node */
    ARTIFACT_IS_EVENTS,     /* all nodes' events in one file, from the agents' journals, which have times */
    ARTIFACT_IS_MODEL,      /* that of one worker */
    ARTIFACT_IS_CHECKPOINT, /* one file per node */
    ARTIFACT_IS_TRACE,      /* all nodes' traces in the file of --trace */
    ARTIFACT_IS_OUTPUT,     /* one file per node */
    ARTIFACT_IS_OF_CODEC,   /* from the job's packages: that of one worker, and of one server */
    N_ARTIFACT_KINDS
};

enum artifact_flags {
    OF_SERVERS = 1,         /* servers have it too */
    NEEDED = 2,             /* missing after a success, it makes the results incomplete */
    ONE_IS_ENOUGH = 4,      /* the same on all workers; their SHA-256 are in their lists */
    ONLY_IF_ASKED = 8,      /* with --trace */
    ONLY_IF_FAILED = 16,    /* useless after a success */
    END_IS_ENOUGH = 32,     /* only the end is fetched of one longer than `max` */
    OF_EXECUTORS = 64,      /* nodes that run an executor have it too, ... */
    ONLY_OF_EXECUTORS = 128 /* ... or only they */
};

struct artifact {
    const char *name; /* on the node */
    const char *path; /* in the results; ends with '/' where each file there has a name of its own */
    enum artifact_kind kind;
    unsigned flags;
    uint64_t max;                        /* limit in bytes; 0: the size of a model */
    const struct record_column *columns; /* of records */
    const char *help;                    /* for README.txt; NULL: that of an earlier one includes it */
};

extern const struct artifact artifacts[N_ARTIFACTS];

/* What a node writes its model to while it runs, when it is asked for it: a temporary name (file_temporary),
 * as the file goes with the process. Not an artifact: it is no result. */
#define SNAPSHOT_NAME "now.safetensors"

/* The name on the node. */
const char *artifact_name(enum artifact_id a);
/* Of records: the names of all columns, and their number; the index of one of them. */
size_t artifact_columns(const char *names[RECORD_COLUMNS_MAX], const struct artifact *a);
size_t artifact_column(const struct artifact *a, const char *name);
/* Does such a node have it? */
bool artifact_is_of(const struct artifact *a, bool is_server, bool is_executor);

#endif
