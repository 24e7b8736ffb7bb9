/* agent -- the state of the daemon: its options, its folder, and the jobs with everything that belongs to
 * them. */
#ifndef PSGD_AGENT_H
#define PSGD_AGENT_H

#include <limits.h>
#include <time.h>

#include "agent/access/codec_policy.h"
#include "agent/access/identity.h"
#include "agent/access/isolation_probe.h"
#include "agent/access/members.h"
#include "agent/api/counts.h"
#include "agent/api/curve.h"
#include "agent/api/gate.h"
#include "agent/api/static_document.h"
#include "agent/base/agent_options.h"
#include "agent/base/listen.h"
#include "agent/base/notify.h"
#include "agent/jobs/artifact.h"
#include "agent/jobs/blob.h"
#include "agent/jobs/intake.h"
#include "agent/jobs/job.h"
#include "agent/jobs/journal.h"
#include "agent/jobs/runner_about.h"
#include "agent/jobs/supervise.h"
#include "agent/jobs/tail.h"
#include "agent/jobs/tombstones.h"
#include "page/page.h"
#include "shared/base/loop.h"

enum {
    FIRST_LEASE_S = 15,   /* the same until the first request that follows the reservation */
    LEASE_S = 30,         /* a reservation expires after this time without a request of its submitter */
    BROKEN_LEASE_S = 3,   /* the same after the stream of its events has ended: time to open another one */
    BLOB_YOUNG_S = 120,   /* an upload stays for this time without a job that uses it */
    RUN_FILES_MAX = 1000, /* files in a run folder */
    LAST_LOG_LINES = 20   /* of node.log, recorded when a runner dies */
};

static const double STOP_GRACE_S = 10; /* between SIGTERM and SIGKILL, unless the cancel request sets
                                        * another */
static const double LIMIT_GRACE_S = 2; /* the same at the job's time limit, which is known in advance */
static const double END_GRACE_S = 5;   /* between a runner's end event and its exit */

/* The digest of an ended job's file, valid while the file's size and modification time are the same. */
struct file_digest {
    uint64_t bytes;
    struct timespec changed;
    char hex[SHA256_HEX]; /* "": not hashed yet */
};

/* How a job has ended, while its journal does not take it: until then it has not ended for anybody, as it
 * would be alive again after a crash. */
struct outcome {
    bool is_waiting;
    enum job_state state;
    char reason[REASON_MAX], message[MESSAGE_MAX];
    struct err why; /* the journal's last error */
};

/* A job with its resources on this machine. */
struct task {
    struct agent *agent;
    struct task *next, *prev; /* in order of reservation */
    struct job job;
    struct journal journal;
    char dir[DIR_MAX + 64]; /* jobs/ID, of a later attempt jobs/ID.ATTEMPT */

    int data_fd; /* the data socket until the runner has it; -1 */
    struct runner runner;
    struct watch runner_watch, order_watch;
    struct tail tail;
    struct notify_file events_file; /* the file that `tail` reads */
    uint64_t n_skip;                /* runner lines that are in the journal already */
    struct event *end;              /* the runner's end event, kept until the process has ended; owned */
    struct outcome unwritten;
    char stop_reason[REASON_MAX], stop_message[MESSAGE_MAX]; /* of job_stop; "": not stopped */
    unsigned n_bad_lines;
    int n_last_turns; /* loop turns spent on reading the lines of a runner that has ended */
    bool is_cut; /* a line could not be written to the journal: later ones wait, so n_skip counts a prefix */

    uint64_t
        n_ended; /* 1, 2, ...: it was the n-th job to end since the agent started; 0: before, or not yet */
    bool is_read_again; /* after its end, for lines that had to wait */
    struct intake intake;

    struct timer tick;                  /* every second until the job has ended */
    double lease_at, limit_at, kill_at; /* clock_now(); 0: none */
    double lease_s;                     /* how long the lease is that ends at lease_at */
    unsigned n_streams;
    /* Lines `model` of the runner so far, and why the last one has no model; "": it has one. */
    uint64_t n_models;
    char model_error[MESSAGE_MAX];
    uint64_t kept_bytes; /* of an ended job, on the disk; 0: not counted yet */
    struct file_digest digests[N_ARTIFACTS];
};

struct agent {
    struct agent_options opt;
    struct loop loop;
    struct notify notify;
    struct token token, cluster; /* the agent's own, and one that others share; path "": none */
    struct identity identity;
    struct members members;
    struct blob_store blobs;
    struct forgotten_list forgotten;
    struct address data;
    char id[16], host[64], address[80]; /* "127.0.0.1", "127.0.0.1:15387" */
    char runner_exe[PATH_MAX];
    struct runner_about runner_about;
    struct codec_rules codecs;
    struct agent_isolation isolation;
    uint64_t job_memory; /* memory limit of the runners of all slots in bytes; 0: no limit */
    uint64_t job_files;  /* descriptor limit of a runner on this machine */
    uint64_t job_disk;   /* limit of the files of a run folder in bytes; 0: no limit */
    char boot[PROCESS_BOOT];
    int dir_fd, lock_fd;
    double since_wall, since;
    bool is_stopping;  /* no job is given a slot any more */
    bool is_draining;  /* takes no new jobs until it is resumed, also after a restart: drain.h */
    bool allows_plain; /* HTTP without TLS, on the same port */
    bool is_insecure;  /* the same beyond loopback */
    bool is_local;     /* can be reached at a loopback address */
    bool is_subreaper; /* becomes the parent of what a runner leaves */
    struct task *first, *last;
    double trim_at;      /* clock_now() at which ended jobs may be removed again, after one could not be */
    uint64_t n_ended;    /* jobs since the start */
    uint64_t n_reserved; /* the highest order of a reservation */
    struct counts counts;
    struct curves curves;
    struct lasting openapi, page; /* as GET /openapi.json and GET / answer */
    char page_policy[PAGE_POLICY];
    char exe[PATH_MAX]; /* this program */
    uint64_t n_changes; /* incremented by every event of any job: waiting requests are then checked again */
};

/* Takes the folder's lock, loads its id, token and key, and opens the blob store. */
int agent_open(struct agent *a, const struct agent_options *opt, struct err *e);
void agent_close(struct agent *a);

/* Reads token files and members again if they were changed, and logs what is wrong with them. */
void agent_refresh_tokens(struct agent *a);

/* Keeps ADDRESS#PIN in the folder, for `agent token invite`, and prints an invitation where TLS is required.
 */
int agent_invite(struct agent *a, struct err *e);

/* Returns the bytes that uploads may use: free space without the reserve for journals and records, and
 * without what the uploads in flight have announced. */
uint64_t agent_disk_free(const struct agent *a);

/* The job's attempt, or with 0 its latest one on this agent; NULL: there is none. */
struct task *task_attempt(const struct agent *a, const char *id, int attempt);
struct task *task_find(const struct agent *a, const char *id); /* the latest */
/* The name of its folder in jobs/. */
const char *task_folder(const struct task *t);
size_t task_count(const struct agent *a, bool (*is_it)(const struct job *));

/* Creates the job's folder and journal; owner, key_sha256: as in struct job. ERR_CONFLICT: the folder exists
 * already; ERR_IO, ERR_NOSPACE: nothing is left behind. */
int task_add(struct agent *a, const struct job_spec *spec, const char *owner, const char *key_sha256,
             struct task **out, struct err *e);

/* Removes a terminal job from memory and disk: also after a power failure it is gone. `why`: as in
 * forgotten.h. ERR_IO: it is still there. */
int task_forget(struct task *t, const char *why, struct err *e);

/* Reads every job's journal, removes what a killed agent or runner has left half written, and resumes the
 * jobs that have not ended. ERR_NOMEM: some job is not known. */
int task_restore_all(struct agent *a, struct err *e);
void task_close_all(struct agent *a);

/* The number of jobs whose end is not written yet. */
size_t task_count_unwritten(const struct agent *a);

/* The resource of docs/protocol.md 1.4. */
json_t *task_json(const struct task *t);

/* Numbers the event, writes it to the journal and applies it. All but progress, eval and log events are on
 * disk when this returns. On failure nothing has changed. */
int task_record(struct task *t, struct event *ev, struct err *e);

#endif
