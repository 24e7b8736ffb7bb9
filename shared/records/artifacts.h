/* artifacts -- the files that a node of a job leaves. One table (artifacts.c) has the name of each file on
 * the node and in the results, the kinds of node that write it, and its content. The runner writes, and the
 * agent serves, no other files; job_submit collects them in the order of the table. */
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

/* What job_submit makes of the file in the results. */
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
    NEEDED = 2,             /* results are incomplete if it is missing after a success */
    ONE_IS_ENOUGH = 4,      /* all workers have the same one, as the SHA-256 in their lists of files show */
    ONLY_IF_ASKED = 8,      /* with --trace */
    ONLY_IF_FAILED = 16,    /* useless after a success */
    END_IS_ENOUGH = 32,     /* if it is longer than `max`, only its end is fetched */
    OF_EXECUTORS = 64,      /* nodes that run an executor have it too */
    ONLY_OF_EXECUTORS = 128 /* only nodes that run an executor have it */
};

struct artifact {
    const char *name; /* on the node */
    const char *path; /* in the results; ends with '/' where each file there has a name of its own */
    enum artifact_kind kind;
    unsigned flags;
    uint64_t max;                        /* limit in bytes; 0: the size of a model */
    const struct record_column *columns; /* of records */
    const char *help;                    /* for README.txt; NULL: the help of an earlier file includes it */
};

extern const struct artifact artifacts[N_ARTIFACTS];

/* The file of a snapshot: a running node writes its model to it on request. It has a temporary name
 * (file_temporary), so that it is removed after the process has ended. It is not an artifact, because it is
 * not a result. */
#define SNAPSHOT_NAME "now.safetensors"

/* The name on the node. */
const char *artifact_name(enum artifact_id a);
/* Writes the names of the columns of a file of records. Returns their number. */
size_t artifact_columns(const char *names[RECORD_COLUMNS_MAX], const struct artifact *a);
/* Returns the index of the column of that name, which must exist. */
size_t artifact_column(const struct artifact *a, const char *name);
/* Whether a node of that kind has the file. */
bool artifact_is_of(const struct artifact *a, bool is_server, bool is_executor);

#endif
