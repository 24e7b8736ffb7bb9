/* submission -- one job on its way through the stages: read, check, place, ship, start, watch, collect.
 * Every stage is `int stage_x(struct submission *, struct err *)`, returns 0 or an error, and may be called
 * again. */
#ifndef PSGD_SUBMIT_SUBMISSION_H
#define PSGD_SUBMIT_SUBMISSION_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/crypto.h"
#include "shared/job_state.h"
#include "shared/model_spec.h"
#include "shared/settings.h"
#include "submit/node.h"
#include "submit/options.h"

/* Bytes that go to agents under their SHA-256: in memory, or in a file that has no name any more. */
struct blob {
    char hex[SHA256_HEX];
    void *bytes; /* owned; NULL: in fd */
    int fd;      /* > 0, owned */
    size_t len;
};

void blob_set(struct blob *b, void *take_bytes, size_t len);
/* Reads a file of at most `max` bytes. */
int blob_read(struct blob *b, const char *path, size_t max, struct err *e);
/* Opens a file and hashes it; it must stay as it is until it is shipped. */
int blob_open(struct blob *b, const char *path, struct err *e);
/* Opens a temporary file, hashes it and removes its name. */
int blob_take_file(struct blob *b, const char *path, struct err *e);
void blob_clear(struct blob *b);

enum { ATTEMPT = 1 };

/* The package of a codec; without source when a user's came as an object. */
struct codec_blobs {
    struct blob object, source, manifest;
};

struct submission {
    const struct options *opt;
    struct settings settings;
    struct http *http;
    char id[JOB_ID_MAX];
    char folder[PATH_MAX];        /* of the results, absolute */
    bool is_simulated;            /* there are no agents, and servers are a number */
    bool has_default_folder;      /* no -o: logs/ID-NAME, and logs/latest points there */
    bool made_folder, made_parts; /* by this process: taken away again when nothing comes of the job */
    char csv_style[8];
    double submitted_at;        /* clock_wall */
    double deadline;            /* clock_now; 0: none (--timeout) */
    struct worker_list workers; /* all that --workers lists */
    struct node *nodes;         /* those of this job: workers, then servers */
    size_t n_nodes;
    json_t *facts; /* what was found out before the start; goes into the job index and run.json */
    struct model_spec model_spec;
    bool sends_params;    /* the codec exchanges parameters after local steps, not gradients at each */
    int n_dense;          /* layers of the model, for the names of --csv-style=classic */
    uint64_t model_bytes; /* a result's model file is not longer; 0: not known */

    struct blob settings_blob, model, test, *shards; /* shares: (node_count) */
    struct codec_blobs codec, server_codec;          /* server_codec: empty where servers have the workers' */
    struct blob weights;      /* that every node starts from; empty: drawn from the seed */
    struct blob *checkpoints; /* (n_nodes) that each starts from instead; NULL: none */

    bool is_started;
    enum job_state state; /* of the whole job, once it is over */
    int cause;            /* index of the node that decided it; -1: none */
    struct {
        int node;
        char reason[40], message[1024];
    } seen; /* why it ended, of a job that an earlier command judged; reason "": nothing went wrong */
    bool is_complete; /* every file that should be there is */
    json_t *files;    /* [{"name","bytes","sha256"}] of the result folder */
    json_t *last_log; /* what the node that decided a failed job wrote last: lines; NULL: none */
};

int submission_init(struct submission *s, const struct options *opt, struct err *e);
void submission_clear(struct submission *s);
void submission_new_id(char out[JOB_ID_MAX]);
/* Makes the nodes out of the first n_workers and n_servers of `workers`, and finds each one's token. */
int submission_set_nodes(struct submission *s, size_t n_workers, size_t n_servers, struct err *e);

/* What of it is shipped to that node, and what `facts` say of it: {"name","sha256",...}. */
const struct codec_blobs *submission_codec(const struct submission *s, const struct node *n);
const json_t *submission_codec_facts(const struct submission *s, const struct node *n);

/* Waits until no call runs any more. */
void submission_finish_calls(struct submission *s);
/* How many nodes' ends are known. */
size_t submission_count_ended(const struct submission *s);
/* Keeps the reservations alive while something takes long. */
void submission_keep_lease(struct submission *s);
/* Gives back every reservation; `reason` is kept with the job on the agents. */
void submission_release(struct submission *s, const char *reason);
/* Tells the nodes that have not ended to stop, without waiting. */
void submission_cancel(struct submission *s, const char *reason);
/* ERR_CANCELLED, ERR_TIMEOUT: a signal came, --timeout is over. */
int submission_check_time(struct submission *s, struct err *e);

/* What the command says of the job is refused before the list of agents is opened. */
int stage_read(struct submission *s, struct err *e);
int stage_read_job(struct submission *s, struct err *e); /* its part that needs no list of agents */
int stage_check(struct submission *s, struct err *e);
/* Its part that leaves nothing behind: data, settings. */
int stage_check_job(struct submission *s, struct err *e);
/* The part of that which asks for no nodes: settings, and the shares of the data. */
int stage_check_packages(struct submission *s, struct err *e);
int stage_place(struct submission *s, struct err *e);
int stage_ship(struct submission *s, struct err *e);
int stage_start(struct submission *s, struct err *e);
int stage_watch(struct submission *s, struct err *e);
int stage_collect(struct submission *s, struct err *e);

#endif
