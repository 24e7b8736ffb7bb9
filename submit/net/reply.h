/* reply -- parses the agents' answers into structs. Agents are not trusted: every text is bounded and
 * cleaned for a terminal, every number is finite or NAN, and unknown keys are ignored, because a newer
 * agent may send more. */
#ifndef PSGD_SUBMIT_REPLY_H
#define PSGD_SUBMIT_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/comm.h"
#include "shared/job/job_state.h"
#include "shared/job/package.h"
#include "shared/job/stop.h"
#include "shared/records/artifacts.h"

enum { REPLY_ID = 48 };

struct agent_view {
    char id[64], version[32];
    int api;
    bool is_free;       /* it has a slot for a job */
    double cpus;        /* processors of its machine; 0: not reported */
    double monotonic_s; /* CLOCK_MONOTONIC of its machine at the time of the answer; 0: not reported */
};

struct drain_view {
    bool is_draining;
    int64_t n_running, n_queued;
};

struct progress_view {
    int64_t epoch, epochs, step, steps;              /* 0: not known */
    double loss, accuracy, eval_loss, eval_accuracy; /* NAN: not known */
    struct comm comm;
    struct stop stopped; /* of a worker: why its training ended early; STOP_NONE: it has not */
    bool is_held_up;     /* it waits for another node: */
    int waits_for;
    char params_sha256[SHA256_HEX]; /* of the weights that a worker ends with; "": not known */
    bool combined_nothing;          /* a worker reports that no exchange had a contribution with a weight */
};

struct job_view {
    enum job_state state;
    char reason[40], message[1024];
    bool lacks[N_PACKAGES];
    int data_port;                    /* 0: none yet */
    char data_key[SHA256_HEX];        /* the public half of its runner's; "": not reported */
    int queue_position, queue_length; /* 1 is next; 0: it does not wait in a queue */
    char queue_behind[48];            /* the job before it; "": none */
    double elapsed_s;
    char engine[256];                     /* math library in use; "": not reported */
    char submitter[65];                   /* whose token reserved it; "": the agent requires none */
    char isolation[16];                   /* of its codec; "": not reported */
    char started_at[32], finished_at[32]; /* "" : not yet */
    struct progress_view progress;
    uint64_t last_seq;
};

enum job_event_kind {
    EVENT_OTHER,
    EVENT_STATE,
    EVENT_PROGRESS,
    EVENT_EVAL,
    EVENT_STOPPED,
    EVENT_RESULT,
    EVENT_LOG,
    EVENT_END
};

struct job_event {
    enum job_event_kind kind;
    uint64_t seq;
    enum job_state state;           /* EVENT_STATE, EVENT_END */
    char reason[40], message[1024]; /* both; EVENT_LOG: message is the text, reason the level */
    char data_key[SHA256_HEX];      /* EVENT_STATE; "": none */
};

enum { ARTIFACTS_MAX = 2 * N_ARTIFACTS }; /* a newer agent may have more */
struct artifact_view {
    char name[64], sha256[SHA256_HEX];
    uint64_t bytes;
    bool complete;
};
struct artifact_list {
    size_t n;
    struct artifact_view items[ARTIFACTS_MAX];
};

/* Each returns ERR_PROTOCOL if the answer does not follow docs/protocol.md; *out is then invalid. */
int reply_agent(struct agent_view *out, const char *text, size_t len, struct err *e);
int reply_job(struct job_view *out, const char *text, size_t len, struct err *e);
/* From GET /v1/jobs: the newest job and its id; "": there is none, and *out is not set. */
int reply_newest_job(char id[REPLY_ID], struct job_view *out, const char *text, size_t len, struct err *e);
/* From PUT /v1/jobs/{id}/packages: which of these n digests are on its list of blobs that the agent lacks. */
int reply_lacks(bool *is_listed, const char *const *hex, size_t n, const char *text, size_t len,
                struct err *e);
int reply_artifacts(struct artifact_list *out, const char *text, size_t len, struct err *e);

int reply_drain(struct drain_view *out, const char *text, size_t len, struct err *e);

/* From GET /v1/jobs: the job that holds the agent's slot, "j-1kq8 of ann@laptop (running, 63 %)"; "" if
 * none does. */
int reply_holder(char *out, size_t size, const char *text, size_t len, struct err *e);

/* Parses one line of a job's events. Progress, eval, stopped and result events update the fields of
 * `progress` that they contain. */
int reply_event(struct job_event *out, struct progress_view *progress, const char *line, size_t len,
                struct err *e);

/* The message and code of an answer that is not 2xx, problem+json or not. Returns the code. */
int reply_problem(struct err *out, int status, const char *text, size_t len);

void progress_view_init(struct progress_view *p);

#endif
