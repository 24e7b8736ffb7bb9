/* event -- what happens to a job: the lines of its journal, of its runner and of the event streams.
 *
 * An event has a number and is public. A note is private to the agent, which reads it after a restart. Both
 * are one JSON object per line; an event begins with `{"seq":`, a note with `{"note":`. */
#ifndef PSGD_EVENT_H
#define PSGD_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/base/process.h"
#include "shared/job/comm.h"
#include "shared/job/job_state.h"
#include "shared/job/package.h"
#include "shared/job/stop.h"
#include "shared/plugin/isolation.h"

enum {
    JOB_ID_MAX = 42,        /* "j-" and at most 40 */
    RUNNER_LINE_MAX = 4096, /* without the line feed; longer ones are dropped */
    EVENT_LINE_MAX = 8192,  /* a runner's line with seq and at, which is never twice as long */
    REASON_MAX = 32,
    MESSAGE_MAX = 1024,
    ENGINE_MAX = 256,
    OWNER_MAX = 64,
    EVENT_NO_NODE = -1 /* the submitter's id, so that no node has it */
};

enum event_kind {
    EVENT_STATE,
    EVENT_PROGRESS,
    EVENT_EVAL,
    EVENT_STOPPED, /* why training ends before its epochs are done */
    EVENT_RESULT,  /* the digest of a worker's last weights */
    EVENT_LOG,
    EVENT_ENGINE,    /* the runner's compute engine */
    EVENT_ISOLATION, /* how far the runner keeps its codec from the machine */
    EVENT_END,
    EVENT_READY,  /* only from a runner; recorded as the state `ready` */
    NOTE_RESERVE, /* the reservation as requested */
    NOTE_SOCKET,  /* the data socket is bound */
    NOTE_PACKAGE, /* a package is complete */
    NOTE_RUNNER,  /* a runner was forked */
    NOTE_START,   /* the start document was sent to the runner */
    NOTE_SKIPPED, /* lines of the runner that were not copied before the next event */
    N_EVENT_KINDS
};

/* A submitter's request: the body of POST /v1/jobs. */
struct job_spec {
    char id[JOB_ID_MAX + 1];
    int attempt, node;
    char role[8];
    char name[129], codec[129], submitter[129]; /* shown, never interpreted */
    int node_count, server_count;
    int workers_on_host; /* workers of this job on this machine, which share its processors; 0: not given */
    bool no_queue;
    int holds;     /* slots of other agents that the job has already */
    bool executor; /* the job runs one: it has no model */
    bool weights;  /* the job starts from weights or a checkpoint, and needs that package */
    char codec_sha256[SHA256_HEX], codec_source_sha256[SHA256_HEX]; /* "": not given yet, or none */
    /* The main file of the program that trains on the workers, shown, never interpreted; "": psgd trains. */
    char trainer[256];
    char trainer_sha256[SHA256_HEX];  /* of its package; "": not given yet */
    enum isolation require_isolation; /* the least that the submitter accepts */
    double time_limit_s;
};

struct event {
    enum event_kind kind;
    uint64_t seq; /* 0: a note, or not numbered yet */
    double at;    /* clock_wall() */

    enum job_state state; /* STATE, END */
    char reason[REASON_MAX], message[MESSAGE_MAX];
    char data_key[SHA256_HEX]; /* READY, and the STATE that records it: the public half, in hex; "": none */

    enum stop_reason stop; /* STOPPED, with step, loss and accuracy of the evaluation that decided it */
    int epoch, epochs;     /* PROGRESS, EVAL */
    uint64_t step, steps;
    uint64_t samples;      /* PROGRESS: seen by the node so far */
    struct comm comm;      /* PROGRESS */
    double loss, accuracy; /* NAN: not given */
    int waits_for;         /* PROGRESS: node for which it waits since a second or more; EVENT_NO_NODE: none */
    char params_sha256[SHA256_HEX]; /* RESULT */
    bool combined_nothing;          /* RESULT */

    char level[8], text[RUNNER_LINE_MAX]; /* LOG; ENGINE: text only, at most ENGINE_MAX */
    enum isolation isolation;             /* ISOLATION, with text, which may be "" */

    struct job_spec spec;        /* RESERVE */
    char owner[OWNER_MAX + 1];   /* with the name of the request's token; "": none was required */
    char key_sha256[SHA256_HEX]; /* and the SHA-256 of its X-Job-Key; "": not sent */
    uint64_t order;              /* 1, 2, ... in the order in which this agent accepted them */
    int data_port, slot;         /* SOCKET */
    char package[16];            /* PACKAGE, with the SHA-256 of its files in the order of packages.c */
    char hex[PACKAGE_FILES_MAX][SHA256_HEX];
    int pid; /* RUNNER, with its start time in clock ticks since boot, which identifies the process */
    uint64_t start_ticks;
    char boot[PROCESS_BOOT]; /* RUNNER: the boot of the machine in which this process runs */
    uint64_t n_lines;        /* SKIPPED */
    char digest[SHA256_HEX]; /* START: of the whole document, to recognize a repeated request */
    double monotonic_s;      /* START: clock_now(), for the time limit */
};

bool event_is_note(const struct event *ev);

/* An event of `kind` now; reason and message may be NULL. */
void event_init(struct event *ev, enum event_kind kind);
void event_state(struct event *ev, enum event_kind kind, enum job_state s, const char *reason,
                 const char *message);

/* Returns the line with its line feed, which the caller frees; NULL without memory. */
char *event_line(const struct event *ev);

/* Reads a line of the journal, or of a runner (which writes neither seq nor at, and no notes). The line has
 * no line feed. ERR_CONFIG: malformed, ERR_NOMEM. */
int event_parse_line(struct event *out, const char *line, size_t len, bool from_runner, struct err *e);

/* Parses the request and checks what the table of fields cannot express: the form of the id, node against
 * role. ERR_CONFIG. */
int job_spec_parse(struct job_spec *out, const json_t *doc, struct err *e);
json_t *job_spec_json(const struct job_spec *s);
/* Whether this node starts a training program: a worker does, if the job has one. */
bool job_spec_has_program(const struct job_spec *s);
/* Checks that the job has such a node: a worker is 0, 1, ..., a server -2, -3, ... `at`: the JSON path in the
 * message. ERR_CONFIG. */
int job_spec_check_node(const struct job_spec *s, const char *role, int node, const char *at, struct err *e);

bool is_job_id(const char *text);

#endif
