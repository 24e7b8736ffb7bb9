/* jobs -- the jobs of this agent, each with its resources on this machine. All jobs share the agent's folder,
 * slots, limits, and rules for codecs. */
#ifndef PSGD_AGENT_JOBS_H
#define PSGD_AGENT_JOBS_H

#include <limits.h>
#include <sched.h>
#include <time.h>

#include "agent/access/codec_policy.h"
#include "agent/access/trainer_policy.h"
#include "agent/base/agent_options.h"
#include "agent/base/notify.h"
#include "agent/jobs/artifact.h"
#include "agent/jobs/blob.h"
#include "agent/jobs/counts.h"
#include "agent/jobs/job.h"
#include "agent/jobs/journal.h"
#include "agent/jobs/runner_about.h"
#include "agent/jobs/runner_lines.h"
#include "agent/jobs/supervise.h"
#include "agent/jobs/trainer_about.h"
#include "agent/jobs/turns.h"
#include "shared/base/address.h"
#include "shared/base/loop.h"
#include "shared/job/data_place.h"

enum {
    LEASE_S = 30,         /* a reservation expires after this time without a request of its submitter */
    FIRST_LEASE_S = 15,   /* the same before the first request that follows the reservation */
    BROKEN_LEASE_S = 3,   /* the same after the stream of its events has ended: time to open another one */
    BLOB_YOUNG_S = 120,   /* a blob is kept for this time after its last use, also if no job links it */
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

/* How a job has ended, while its journal cannot be written. The end is not reported before it is in the
 * journal, because a restarted agent would not know it. */
struct outcome {
    bool is_waiting;
    enum job_state state;
    char reason[REASON_MAX], message[MESSAGE_MAX];
    struct err why; /* the journal's last error */
};

struct jobs;
struct tombstones;

/* A job with its resources on this machine. */
struct task {
    struct jobs *jobs;
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
    struct event *end;              /* the runner's end event, until the process has ended; owned */
    struct outcome unwritten;
    char stop_reason[REASON_MAX], stop_message[MESSAGE_MAX]; /* of job_stop; "": not stopped */
    unsigned n_bad_lines;
    int n_last_turns; /* loop turns spent on reading the lines of a runner that has ended */
    bool is_cut; /* a line could not be recorded; later ones wait, so that the journal never skips a line */

    /* Its place, from 1, in the order in which jobs ended; 0: it has not, or did before the agent started. */
    uint64_t n_ended;
    bool is_read_again; /* after the runner's end, for lines that had to wait */
    struct line_limit lines;

    struct timer tick;                  /* every second until the job has ended */
    double slot_since;                  /* clock_now() when it got its slot; 0: it has had none */
    double lease_at, limit_at, kill_at; /* clock_now(); 0: none */
    double lease_s;                     /* how long the lease is that ends at lease_at */
    unsigned n_streams;
    uint64_t n_models;             /* lines `model` of the runner so far */
    char model_error[MESSAGE_MAX]; /* why the last of them has no model; "": it has one */
    uint64_t kept_bytes;           /* that an ended job occupies on the disk; 0: not counted yet */
    struct file_digest digests[N_ARTIFACTS];
};

struct jobs {
    const struct agent_options *opt; /* of the agent, as its address is */
    struct loop *loop;
    const char *address; /* "127.0.0.1:15387", for messages */
    int dir_fd;          /* of the agent's folder, opt->dir */
    char boot[PROCESS_BOOT];
    struct notify notify;
    struct blob_store blobs;
    struct tombstones *removed; /* retention.h; owned */
    struct address data;        /* at which other machines reach the nodes of this one, with port 0 */
    char runner_exe[PATH_MAX];
    struct runner_about runner_about;
    struct codec_rules codecs;
    struct agent_isolation isolation;
    struct trainer_rules trainers;
    char data_folders[DATA_FOLDERS_MAX]; /* of data_place_open: those of the agent; of a rank, "/" */
    struct trainer_about trainer_about;
    uint64_t job_memory; /* memory limit of the runners of all slots in bytes; 0: no limit */
    uint64_t job_files;  /* descriptor limit of a runner on this machine */
    uint64_t job_disk;   /* limit of the files of a run folder in bytes; 0: no limit */
    bool is_stopping;    /* no more jobs get a slot */
    bool is_draining;    /* takes no new jobs until it is resumed, also after a restart: job_action.h */
    bool is_of_launcher; /* runners are processes of an MPI (runner_plan) */
    bool ends_runners;   /* a runner ends with this process: it is no agent but a rank of a job folder */
    /* The socket of the training program of this rank, which has started it; the runner gets it. 0: none. */
    int program_fd;
    bool is_subreaper; /* a runner's orphans become children of the agent (PR_SET_CHILD_SUBREAPER) */
    /* Returns whether the agent has started this child for another purpose than a job. */
    bool (*is_other_child)(const void *arg, pid_t child);
    const void *other_children;            /* its argument */
    void (*slot_freed)(struct jobs *jobs); /* a job has ended; set by job_restore_all */
    struct task *first, *last;
    double trim_at;   /* clock_now() before which no ended job is removed, because the last removal failed */
    uint64_t n_ended; /* jobs since the start */
    uint64_t n_reserved; /* the highest order of a reservation */
    struct counts counts;
    struct turns turns;
    uint64_t n_changes; /* incremented by every event of any job: waiting requests are then checked again */
};

/* Returns the bytes that uploads may use: free space without the reserve for journals and records, and
 * without what the uploads in flight have announced. */
uint64_t jobs_disk_free(const struct jobs *jobs);

/* The job's attempt, or with 0 its latest one on this agent; NULL: there is none. */
struct task *task_attempt(const struct jobs *jobs, const char *id, int attempt);
struct task *task_find(const struct jobs *jobs, const char *id); /* the latest */
/* The name of its folder in jobs/. */
const char *task_folder(const struct task *t);
size_t task_count(const struct jobs *jobs, bool (*is_it)(const struct job *));

/* `--slots N` lets N jobs run at a time, each with its part of the processors that the agent may use and of
 * the memory that jobs may use. With one slot a job has all of both. The processors of a slot have
 * neighbouring numbers; with more slots than processors, some slots share a processor.
 *
 * Returns the lowest slot that no job has; -1: all are taken. */
int jobs_free_slot(const struct jobs *jobs);
/* Returns false if the slot has all processors of the agent. */
bool jobs_slot_processors(cpu_set_t *out, const struct jobs *jobs, int slot);
uint64_t jobs_slot_memory(const struct jobs *jobs); /* bytes; 0: no limit */

/* Creates the job's folder and journal; owner, key_sha256: as in struct job. ERR_CONFLICT: the folder exists
 * already; ERR_IO, ERR_NOSPACE: nothing is left behind. */
int task_add(struct jobs *jobs, const struct job_spec *spec, const char *owner, const char *key_sha256,
             struct task **out, struct err *e);

/* The path of its journal. ERR_CONFIG: too long. */
int task_journal_path(char *out, size_t size, const struct task *t, struct err *e);

/* Removes it from the list and frees it; its folder stays. */
void task_drop(struct task *t);

/* Stops watching its runner and closes its descriptors, except the journal's; signals no process. */
void task_release(struct task *t);

/* Reads every job's journal, and removes what a killed agent or runner has left incomplete. ERR_NOMEM: a
 * job could not be read. */
int task_read_all(struct jobs *jobs, struct err *e);
void task_close_all(struct jobs *jobs);

/* The number of jobs whose end is not written yet. */
size_t task_count_unwritten(const struct jobs *jobs);

/* The resource of docs/protocol.md 1.4. */
json_t *task_json(const struct task *t);

/* Numbers the event, applies it and writes it to the journal. A state or an end, and all that was recorded
 * before it, is durable when this returns; a note, progress, eval or log is with the next of these. On
 * failure nothing has changed. */
int task_record(struct task *t, struct event *ev, struct err *e);
/* Makes all that was recorded durable: before the answer to a request whose last record may be a note. */
int task_sync(struct task *t, struct err *e);

#endif
