/* submission -- one job: its settings, packages, nodes, facts, and its end. Its stages:
 * submit/stages/stages.h. */
#ifndef PSGD_SUBMIT_SUBMISSION_H
#define PSGD_SUBMIT_SUBMISSION_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/job/job_state.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"
#include "submit/files/job_id.h"
#include "submit/job/job_node.h"
#include "submit/options/submit_options.h"

/* Bytes sent to agents under their SHA-256: in memory, or in an unlinked file. */
struct blob {
    char hex[SHA256_HEX];
    void *bytes; /* owned; NULL: in fd */
    int fd;      /* > 0, owned */
    size_t len;
};

void blob_set(struct blob *b, void *take_bytes, size_t len);
/* Reads a file of at most `max` bytes. */
int blob_read(struct blob *b, const char *path, size_t max, struct err *e);
/* Opens a file and hashes it; the file must not change until it is shipped. */
int blob_open(struct blob *b, const char *path, struct err *e);
/* Opens a temporary file, hashes it and unlinks it. */
int blob_take_file(struct blob *b, const char *path, struct err *e);
void blob_clear(struct blob *b);

/* The package of a codec; `source` is empty if the user gave an object file. */
struct codec_blobs {
    struct blob object, source, manifest;
    bool is_tried; /* its open() is called before shipping, and may refuse the job: a built-in codec */
};

enum { ATTEMPTS_MAX = 1000000 }; /* as of a reservation (agent/jobs/event.h) */

struct submission {
    const struct options *opt;
    struct settings settings;
    struct http *http;
    char id[JOB_ID_MAX];
    int attempt;                  /* 1, 2, ... */
    char folder[PATH_MAX];        /* result folder, absolute */
    char resume[PATH_MAX];        /* the folder with the checkpoints it starts from; "": none */
    bool may_lack_list;           /* the job is only checked: without a worker.json, addresses are made up */
    bool counts_servers;          /* there is no list of agents: the servers are only a number */
    bool is_simulated;            /* the same, and there are no processes either */
    char job_folder[PATH_MAX];    /* of a job without agents (job_folder.h), absolute; "": on agents */
    const char *trace;            /* the file for a trace of the nodes' time; "": none */
    bool has_default_folder;      /* no -o: logs/ID-NAME, and logs/latest points there */
    bool made_folder, made_parts; /* created by this process: removed if the job does not start */
    char csv_style[16];
    double submitted_at;        /* clock_wall */
    double deadline;            /* clock_now; 0: none (--timeout) */
    struct worker_list workers; /* all nodes listed in --workers */
    struct job_node *nodes;     /* nodes of this job: workers, then servers */
    size_t n_nodes;
    json_t *facts; /* facts known before the start, for the job index and run.json */
    struct model_spec model_spec;
    bool sends_params;     /* the codec exchanges parameters after local steps, not gradients at each */
    const char *own_state; /* why a checkpoint serves no other number of workers; NULL: it does */
    bool runs_events;      /* the codec itself decides which nodes exchange */
    bool takes_gradients;  /* it combines or changes the gradient of each step */
    int n_dense;           /* layers of the model, for the names of --csv-style classic */
    uint64_t model_bytes;  /* upper limit of the size of a result's model file; 0: not known */

    struct blob settings_blob, model, test, *shards; /* shards: (node_count) */
    struct blob *tests; /* (node_count): the parts of `test`, if they are shipped in its place; or NULL */
    struct blob preprocessing; /* what was learned from the data, for the model's file; empty: no data */
    struct codec_blobs codec, server_codec; /* server_codec: empty if servers use the workers' codec */
    struct blob weights;                    /* initial weights of every node; empty: drawn from the seed */
    struct blob trainer;                    /* the package of the user's training program; empty: none */
    uint64_t n_batches;                     /* of that program in an epoch; 0: it has not said */
    bool is_function, gives_gradients;      /* trainer_describe.h */
    struct blob *checkpoints;               /* (n_nodes) initial checkpoint of each node; NULL: none */

    bool is_queued;       /* it waits in the queue (results/queue_folder.h); its agents are not chosen yet */
    bool has_not_run;     /* it has ended in the queue: no agent ever started it */
    bool is_started;      /* all nodes have taken the order to start; some may have ended since */
    enum job_state state; /* of the whole job, once it is over */
    int cause;            /* index of the node that decided its state; -1: none */
    struct {
        int node;
        char reason[40], message[1024];
    } seen;           /* cause found by an earlier command; reason "": no failure */
    bool is_complete; /* no required file is missing */
    json_t *files;    /* [{"name","bytes","sha256"}] of the result folder */
    json_t *last_log; /* last log lines of the node that decided a failed job; NULL: none */
    int lock_fd;      /* results_lock(); 0: not taken */
};

int submission_init(struct submission *s, const struct options *opt, struct err *e);
/* Makes `s` the next attempt of its job: only id, folder, times and facts.attempts of the ended attempt
 * remain. `resume`: as the field. */
int submission_again(struct submission *s, int attempt, const char *resume, struct err *e);
void submission_clear(struct submission *s);
/* Creates the nodes from the first n_workers and n_servers of `workers`, and finds their tokens, unless the
 * job waits in the queue. */
int submission_set_nodes(struct submission *s, size_t n_workers, size_t n_servers, struct err *e);

/* Assigns the node, whose requests must have ended, to another agent. */
int submission_move_node(const struct submission *s, struct job_node *n, const struct listed_agent *to,
                         struct err *e);

/* The codec shipped to the node, and its facts: {"name","sha256",...}. */
const struct codec_blobs *submission_codec(const struct submission *s, const struct job_node *n);
const json_t *submission_codec_facts(const struct submission *s, const struct job_node *n);

/* Some node's call has not finished. */
bool submission_is_calling(const struct submission *s);
/* Waits until all calls have finished, and prints every 30 s for which agent. A signal ends the calls. */
void submission_finish_calls(struct submission *s);
/* Number of workers on the machine of this node, by host names. */
int submission_workers_beside(const struct submission *s, const struct job_node *n);
/* Number of nodes known to have ended. */
size_t submission_count_ended(const struct submission *s);
/* Renews the leases of the reservations during long operations; of one node, if the answer to its last call
 * has been used: this call replaces it. */
void submission_keep_lease(struct submission *s);
void submission_renew_lease(struct submission *s, struct job_node *n);
/* Releases every reservation; the agents record `reason` with the job. */
void submission_release(struct submission *s, const char *reason);
/* Cancels the nodes that have not ended, without waiting for their end. */
void submission_cancel(struct submission *s, const char *reason, bool has_failed);
/* ERR_CANCELLED: a signal was received. ERR_TIMEOUT: the time of --timeout is over. */
int submission_check_time(struct submission *s, struct err *e);

#endif
