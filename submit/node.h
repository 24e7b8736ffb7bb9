/* node -- one node of the job as job_submit sees it: its agent, the token, the state it is known to be in,
 * and the two requests that may run to it, one call and the stream of its events. */
#ifndef PSGD_SUBMIT_NODE_H
#define PSGD_SUBMIT_NODE_H

#include <stdbool.h>

#include "shared/worker.h"
#include "submit/http.h"
#include "submit/reply.h"

enum { JOB_ID_MAX = 48, TOKEN_MAX = 256, REPLY_MAX = 1 << 20, NODE_LOG_NAME = 24 };

static const double CALL_S = 30;

struct node {
    struct worker at;
    const char *job;              /* the job's id; the submission's */
    char label[ADDRESS_MAX + 16]; /* "agent 127.0.0.1:15387", for sentences */
    char token[TOKEN_MAX];
    char token_story[1400]; /* where it was looked for, for the sentence when it is not right */
    struct agent_view agent;
    struct job_view view;
    bool is_reserved;    /* or may be: the agent is to be told when nothing comes of the job */
    bool is_ready;       /* has loaded everything */
    bool is_ended;       /* its end is known */
    bool is_lost;        /* its agent did not come back in time */
    bool is_announced;   /* a change of its state is to be said */
    double ended_at;     /* clock_now */
    double contact_at;   /* clock_now of the last call, for the lease */
    double event_at;     /* clock_now of its last event; 0: none yet */
    double longest_gap;  /* seconds between two of them */
    double silent_since; /* clock_now since when its agent does not answer; 0: it does */
    bool is_silence_told;
    double retry_at;    /* when the stream is opened again */
    struct err silence; /* why it does not */
    uint64_t last_seq;
    bool has_bad_event;            /* said once */
    bool is_streaming;             /* the stream is open, or its end was not looked at yet */
    bool is_probed;                /* the call that runs asks whether its agent lives */
    char model_sha256[SHA256_HEX]; /* of its final model; "": none */
    json_t *traffic;               /* by peer, out of its records; NULL: they were not fetched */
    struct http_request call, stream;
};

const char *node_role(const struct node *n); /* "worker", "server" */
bool node_is_server(const struct node *n);
const char *node_host(const struct node *n); /* where the other nodes reach it */
/* For people and run.json; "unknown" where its agent does not answer and its end has not been seen. */
const char *node_state(const struct node *n);
/* Of its log: "worker-0", a server's "ps-0". */
const char *node_log_name(char out[NODE_LOG_NAME], const struct node *n);

/* Finds the token; none is fine until an agent asks for one. ERR_AUTH: a file that was named cannot be read.
 * `in_clear`: it may go to another machine over a connection that is not encrypted. */
int node_find_token(struct node *n, const char *token_file, bool in_clear, struct err *e);

/* Fills n->call with a request for the path that fmt gives, and starts it. */
int node_ask(struct http *h, struct node *n, const char *method, const void *body, size_t len, struct err *e,
             const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* The same for a blob, from memory or (fd > 0) from a file. */
int node_put_blob(struct http *h, struct node *n, const char *hex, const void *bytes, int fd, size_t len,
                  double timeout_s, struct err *e);
/* GET into a file of the caller's, at most `max` bytes. */
int node_download(struct http *h, struct node *n, int fd, uint64_t max, const char *path, struct err *e);
/* 0 when n->call was answered with 2xx; else the sentence, naming the node. */
int node_answer(const struct node *n, struct err *e);
/* node_ask without a body for an answer of up to `max` bytes, poll until done, node_answer. */
int node_get(struct http *h, struct node *n, uint64_t max, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Opens the stream of the job's events behind last_seq. Events update `view`, is_ready and is_ended. */
int node_open_stream(struct http *h, struct node *n, struct err *e);

/* Takes an answer of /v1/jobs/{id} into view and what follows from it. */
int node_take_view(struct node *n, struct err *e);
void node_end(struct node *n, enum job_state state, const char *reason, const char *message);
void node_forget(struct http *h, struct node *n);

#endif
