/* collect -- turns the nodes' artifacts into the files of the result folder. stage_collect.c has the table
 * of artifacts and downloads them; the functions below process each kind. */
#ifndef PSGD_SUBMIT_COLLECT_H
#define PSGD_SUBMIT_COLLECT_H

#include "submit/results/records.h"
#include "submit/stages/submission.h"

/* One node's part of the collection. */
struct yield {
    struct node *node;
    struct artifact_list list;
    bool is_received;
    int fd;            /* the artifact being downloaded; 0: none */
    const char *bytes; /* the downloaded artifact, mapped; NULL: none */
    size_t len;
};

struct collection {
    struct submission *s;
    struct yield *yields; /* (s->n_nodes) */
    bool is_missing;      /* a required artifact is missing */
};

enum artifact_flags {
    OF_SERVERS = 1,      /* servers have it too */
    NEEDED = 2,          /* missing after a success, it makes the results incomplete */
    ONE_IS_ENOUGH = 4,   /* the same on all workers; their SHA-256 are in their lists */
    ONLY_IF_ASKED = 8,   /* with --trace */
    ONLY_IF_FAILED = 16, /* useless after a success */
    OF_THEIR_CODEC = 32, /* from one server instead of a worker, if servers use another codec */
    END_IS_ENOUGH = 64   /* fetch only the end of one longer than `max`; `live` takes ?after=BYTES */
};

/* A file that a node may have written. */
struct artifact {
    const char *name;
    const char *live; /* its path while the job still runs; NULL: none */
    const char *from; /* its path instead of artifacts/NAME; NULL: artifacts/NAME */
    uint64_t max;     /* limit in bytes; 0: the size of a model */
    unsigned flags;
    /* Writes the downloaded artifacts (yields with bytes) into the folder. */
    int (*keep)(struct collection *c, const struct artifact *a, struct err *e);
    int (*check)(const struct yield *y, struct err *e); /* checks one download; NULL: no check */
    enum record_kind kind;                              /* for collect_records */
    const char *ending; /* for collect_checkpoints, as in start_checkpoint_name; for collect_codec */
};

/* Prints what is missing and why; the results are then incomplete, unless the job tolerates the node's
 * failure. */
void collect_miss(struct collection *c, const struct node *n, const char *what, const char *why);

int collect_records(struct collection *c, const struct artifact *a, struct err *e);
int collect_events(struct collection *c, const struct artifact *a, struct err *e);
int collect_logs(struct collection *c, const struct artifact *a, struct err *e);
int collect_model(struct collection *c, const struct artifact *a, struct err *e);
/* Writes codec/NAME.c, with which the job can be submitted again, and codec/NAME.json, the manifest of the
 * compiled codec. */
int collect_codec(struct collection *c, const struct artifact *a, struct err *e);
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e);
/* Writes to the path of --trace, not into the folder. Nodes keep their parts, so that a fetch can try
 * again. */
int collect_trace(struct collection *c, const struct artifact *a, struct err *e);

/* ERR_*: the download is not a valid file of tensors. */
int collect_check_model(const struct yield *y, struct err *e);

#endif
