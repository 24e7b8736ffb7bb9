/* collect -- turns the nodes' artifacts into the files of the result folder. stage_collect.c
 * downloads what the table in shared/records/artifacts.c lists; the functions below process each kind. */
#ifndef PSGD_SUBMIT_COLLECT_H
#define PSGD_SUBMIT_COLLECT_H

#include "shared/records/artifacts.h"
#include "submit/job/submission.h"
#include "submit/results/merged_records.h"

/* One node's part of the collection. */
struct yield {
    struct job_node *node;
    struct artifact_list list;
    bool is_received;
    int fd;            /* the artifact being downloaded; 0: none */
    const char *bytes; /* the downloaded artifact, mapped; NULL: none */
    size_t len;
};

struct collection {
    struct submission *s;
    struct yield *yields;     /* (s->n_nodes) */
    struct model_spec *model; /* the job's; owned. NULL: an executor's, or not known */
    bool is_missing;          /* a required artifact is missing */
    bool is_of_servers;       /* collecting the servers' codec, where it differs from the workers' */
};

/* Prints what is missing and why; the results are then incomplete, unless the job tolerates the node's
 * failure. */
void collect_miss(struct collection *c, const struct job_node *n, const char *what, const char *why);

/* Each writes the downloaded artifacts (yields with bytes) into the folder. */
int collect_records(struct collection *c, const struct artifact *a, struct err *e);
int collect_events(struct collection *c, const struct artifact *a, struct err *e);
int collect_logs(struct collection *c, const struct artifact *a, struct err *e);
int collect_model(struct collection *c, const struct artifact *a, struct err *e);
/* Writes codec/NAME.c, with which the job can be submitted again, and codec/NAME.json, the manifest of the
 * compiled codec. */
int collect_codec(struct collection *c, const struct artifact *a, struct err *e);
int collect_output(struct collection *c, const struct artifact *a, struct err *e);
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e);
/* Writes to the path of --trace, not into the folder. Nodes keep their parts, so that a fetch can try
 * again. */
int collect_trace(struct collection *c, const struct artifact *a, struct err *e);

/* ERR_*: the download is not a file of the tensors of the job's model, made by this job. */
int collect_check_model(const struct collection *c, const struct yield *y, struct err *e);
/* The SHA-256 that workers report of their weights, where the model that was fetched shows them: of the node
 * that delivered `y`, the final model, and of those whose agents list a file with the same bytes. One that
 * differs is replaced by that of the model, and the node has a false sum. */
void collect_check_sums(struct collection *c, const struct yield *y);

#endif
