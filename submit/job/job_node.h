/* job_node -- one node of the job as job_submit sees it: its agent, the token, its last known state, and its
 * two concurrent requests: one call and the stream of its events. */
#ifndef PSGD_SUBMIT_JOB_NODE_H
#define PSGD_SUBMIT_JOB_NODE_H

#include <stdbool.h>

#include "shared/job/worker_list.h"
#include "submit/job/node_folder.h"
#include "submit/net/http_client.h"
#include "submit/net/joined_agents.h"
#include "submit/net/reply.h"
#include "submit/options/submit_options.h"

enum { REPLY_MAX = 1 << 20, NODE_LOG_NAME = 24, N_FIRST_LOSSES = 5 };

static const double CALL_S = 30;

/* How much of what an agent sends is printed. Agents are not trusted: one that sends line after line must
 * fill neither the terminal nor logs/submit.log. The limit is a token bucket of bytes for each agent; lines
 * that exceed it are counted, and their number is printed before the next line. */
enum { NODE_PRINT_BYTES = 64 << 10, NODE_PRINT_BYTES_PER_S = 1 << 10 };
struct print_limit { /* {0}: the bucket is full */
    double at;       /* clock_now of the last call; 0: none */
    double bytes;    /* in the bucket at that time */
    uint64_t n_hidden;
};
/* Returns whether a line of `len` bytes may be printed at time `now`; if so, *n_hidden is the number of lines
 * that were left out before it. */
bool node_may_print(struct print_limit *l, size_t len, double now, uint64_t *n_hidden);

/* How long its steps take without waiting (stragglers.h). */
struct pace {      /* of one worker; {0}: nothing is known */
    bool is_known; /* it has reported once */
    int64_t step;  /* of the last report, with the time until then */
    double busy_s;
    double step_s;     /* seconds per step between the last two; 0: not known */
    int n_slow;        /* reports in a row with more than twice the median */
    int64_t slow_from; /* the step with which these began */
    int64_t since;     /* from this step on it was found to be a straggler; 0: it was not */
    double median_s;   /* in the last report by which it was one */
    double found_s;    /* its step_s there */
};

struct job_node {
    struct listed_agent at;
    struct node_folder folder;             /* of a job without agents: it answers the requests */
    const char *job;                       /* the job's id; the submission's */
    int attempt;                           /* of the job, which all requests name; 0: none */
    char label[ADDRESS_MAX + 16];          /* "agent 127.0.0.1:15387", for messages */
    const struct credentials *credentials; /* of node_find_access */
    char token[TOKEN_MAX];
    char job_key[BASE64_TEXT]; /* of the job on this agent; "": none */
    char pin[BASE64_TEXT];     /* of its key; "": HTTP without TLS */
    bool is_closed;            /* no request is sent: no pin, no token to prove, and no --insecure-no-tls */
    bool must_prove;           /* no request is sent before the agent has proved that it knows the token */
    char token_sources[1400];  /* where the token was searched, for messages */
    struct agent_view agent;
    struct job_view view;
    struct pace pace;      /* of its steps, while the job is watched */
    bool is_reserved;      /* or may be: the agent must be notified if the job does not start */
    bool is_ready;         /* has loaded everything */
    bool has_started;      /* it was running */
    bool is_ended;         /* its final state is known */
    bool is_lost;          /* its agent has not answered again in time */
    bool has_state_change; /* a change of its state has not been printed yet */
    double ended_at;       /* clock_now */
    double contact_at;     /* clock_now of the last call, for the lease */
    double event_at;       /* clock_now of its last event; 0: none yet */
    double longest_gap;    /* longest time between two events, seconds */
    double silent_since;   /* clock_now when its agent stopped answering; 0: it answers */
    bool is_silence_reported;
    bool may_have_restarted; /* it was silent since its view was requested */
    double cut_at; /* clock_now when its stream ended without the job's end, and no event came since; 0 */
    bool is_asked; /* the running call asks for the job's state for that reason */
    double unwritten_at;  /* clock_now when its agent first reported that it cannot write the job's end; 0 */
    double retry_at;      /* when the stream is opened again */
    struct err silence;   /* why its agent does not answer */
    struct err unwritten; /* why the job's end cannot be written */
    uint64_t last_seq;
    struct print_limit said;       /* of node_say */
    bool has_bad_event;            /* reported once */
    bool is_streaming;             /* the stream is open, or its end has not been handled yet */
    bool is_probed;                /* the running call is a liveness probe of the agent */
    char model_sha256[SHA256_HEX]; /* SHA-256 of its final model; "": none */
    bool has_false_sum;            /* the SHA-256 that it has reported is not that of its model's weights */
    json_t *traffic;               /* traffic per peer, from its records; NULL: not fetched */
    double first_losses[N_FIRST_LOSSES]; /* (n_first_losses), of a training program, from its records */
    size_t n_first_losses;
    struct http_request call, stream;
};

const char *node_role(const struct job_node *n); /* "worker", "server" */
bool node_is_server(const struct job_node *n);
const char *node_host(const struct job_node *n); /* its host name for the other nodes */
/* Its state for display and run.json. Before its end is known: "unreachable" if its agent does not answer,
 * "unknown" if its state could not be read for another reason. */
const char *node_state(const struct job_node *n);
/* Name of its log: "worker-0", for a server "ps-0". */
const char *node_log_name(char out[NODE_LOG_NAME], const struct job_node *n);

/* Finds the pin and the token of the node's agent: those of a joined agent, the pin in the list of workers,
 * or those that an agent of this machine has written. A token without a pin suffices: before the first
 * request the agent has to prove that it knows the token (submit/net/prove.h). A missing token is no error
 * until an agent requires one. With --ca only a pin of the list is used; with --cert only a token that an
 * option or the list names. ERR_AUTH: a named file cannot be read, or the list has another pin than the
 * joined agent. `c` must outlive the node. */
int node_find_access(struct job_node *n, const struct credentials *c, struct err *e);
bool node_has_ca(const struct job_node *n); /* --ca: its agent must have a certificate of a CA */
/* Searches for the agents of those of n nodes, `stride` bytes apart, for which node_find_access() has found
 * neither pin nor token: an agent that was joined at another address gets its pin and token, is named on the
 * console, and its address is saved. ERR_NOMEM, ERR_CANCELLED. */
int node_find_moved(struct job_node *nodes, size_t n, size_t stride, struct err *e);

/* Must its agent still prove that it knows the token, before it gets a request? */
bool node_must_prove(const struct job_node *n);
/* Has the agents of all such nodes among n, `stride` bytes apart, prove it at the same time; otherwise each
 * proves it before its first request, while the other nodes wait. If an agent fails, node_answer() has the
 * reason. ERR_NOMEM, ERR_CANCELLED. */
int node_prove_all(struct job_node *nodes, size_t n, size_t stride, struct err *e);

/* Starts n->call: a request for the path given by fmt. */
int node_ask(struct http *h, struct job_node *n, const char *method, const void *body, size_t len,
             struct err *e, const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* The same for a blob, from memory or (fd > 0) from a file. */
int node_put_blob(struct http *h, struct job_node *n, const char *hex, const void *bytes, int fd, size_t len,
                  double timeout_s, struct err *e);
/* GET into the caller's file, or with fd 0 into n->call.reply, at most `max` bytes. */
int node_download(struct http *h, struct job_node *n, int fd, uint64_t max, const char *path, struct err *e);
/* 0 if n->call was answered with 2xx; otherwise an error that names the node. */
int node_answer(const struct job_node *n, struct err *e);
/* node_ask without a body for an answer of up to `max` bytes, polled until done; then node_answer. */
int node_get(struct http *h, struct job_node *n, uint64_t max, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Prints a message about the node or of its agent, within its print_limit. `is_more`: on the terminal only
 * with -v. */
void node_say(struct job_node *n, bool is_more, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Opens the stream of the job's events after last_seq. Events update `view`, is_ready and is_ended. */
int node_open_stream(struct http *h, struct job_node *n, struct err *e);

/* Parses an answer of /v1/jobs/{id} in n->call into `view`, is_ready and is_ended. */
int node_take_view(struct job_node *n, struct err *e);
void node_end(struct job_node *n, enum job_state state, const char *reason, const char *message);
void node_forget(struct http *h, struct job_node *n);

#endif
