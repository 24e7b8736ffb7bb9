/* collect -- turns the nodes' artifacts into the files of the result folder. stages/stage_collect.c downloads
 * each artifact in the table of shared/records/artifacts.c, and calls the function below for its kind. */
#ifndef PSGD_SUBMIT_COLLECT_H
#define PSGD_SUBMIT_COLLECT_H

#include <jansson.h>
#include <stdio.h>

#include "shared/records/artifacts.h"
#include "submit/job/submission.h"

/* One node's artifacts. */
struct node_files {
    struct job_node *node;
    struct artifact_list list;
    bool is_received;  /* the agent has reported the node's end, and delivers files */
    bool is_asked;     /* for the artifact that is collected now */
    int fd;            /* its download; 0: into the answer, node->call.reply */
    const char *bytes; /* (len): the downloaded artifact, mapped, or the answer; NULL: none */
    size_t len;
};

struct collection {
    struct submission *s;
    struct node_files *got;   /* (s->n_nodes) */
    struct model_spec *model; /* the job's; owned. NULL: an executor's, or unknown */
    bool is_missing;          /* a required artifact is missing */
    bool is_of_servers;       /* collecting the servers' codec, if it is not the workers' */
};

/* Prints that the node lacks `what`, and why. The results are then incomplete, unless the job tolerates the
 * node's failure. */
void collect_miss(struct collection *c, const struct job_node *n, const char *what, const char *why);

/* Each writes the downloaded artifacts (c->got with bytes) into the folder. ERR_IO, ERR_NOSPACE, ERR_NOMEM;
 * artifacts of a node that are invalid are reported as missing. */
int collect_records(struct collection *c, const struct artifact *a, struct err *e);
int collect_events(struct collection *c, const struct artifact *a, struct err *e);
int collect_logs(struct collection *c, const struct artifact *a, struct err *e);
int collect_model(struct collection *c, const struct artifact *a, struct err *e);
/* Writes codec/NAME.c, with which the job can be submitted again, and codec/NAME.json, the manifest of the
 * compiled codec. */
int collect_codec(struct collection *c, const struct artifact *a, struct err *e);
int collect_output(struct collection *c, const struct artifact *a, struct err *e);
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e);

/* Checks that a download has the tensors of the job's model and was made by this job. ERR_PROTOCOL, or errors
 * of tensor_file_open(). */
int collect_check_model(const struct collection *c, const struct node_files *got, struct err *e);

/* The steps of collect_records(). Writes the columns as the first line of a file, with its line feed. */
void collect_header(FILE *out, const struct artifact *a);
/* Appends the complete rows of one node's file, without its header. *bad: the number of rows that a strict
 * scan refuses (shared/records/record.h), which are left out. ERR_PROTOCOL: another header, or a row of
 * another node; then nothing is written. */
int collect_rows(FILE *out, const struct artifact *a, int node, const char *text, size_t len, size_t *bad,
                 struct err *e);
/* Appends the rows of a merged file whose step and round, if the file has these columns, are at most `step`
 * and `round`: the rows of an earlier attempt up to the checkpoint from which a later one continued.
 * ERR_PROTOCOL: another header. */
int collect_rows_until(FILE *out, const struct artifact *a, const char *text, size_t len, uint64_t step,
                       uint64_t round, struct err *e);
/* Totals per peer in one node's comm.csv, in order of appearance:
 * [{"peer","sent_messages","sent_raw_bytes","sent_bytes","recv_messages","recv_raw_bytes","recv_bytes"}].
 * NULL: no memory. */
json_t *collect_peers(const char *text, size_t len);

/* The lines of collect_events(): the events of all nodes sorted by time, each line with its node. */
enum { EVENT_LOG_MAX = 256 << 20 }; /* bytes kept in memory, of all nodes together */
struct event_log {
    struct event_line *lines;
    size_t n, room, bytes;
    size_t max; /* 0: EVENT_LOG_MAX */
};
/* Adds the lines of one node's events; skips lines that are no JSON object. False: the rest does not fit. */
bool event_log_add(struct event_log *l, int node, const char *text, size_t len);
void event_log_clear(struct event_log *l);

#endif
