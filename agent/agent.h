/* agent -- what the daemon holds: its options, its folder, and the jobs with everything that belongs to
 them. */
#ifndef PSGD_AGENT_H
#define PSGD_AGENT_H

#include <limits.h>
#include <time.h>

#include "agent/artifact.h"
#include "agent/blob.h"
#include "agent/codec_policy.h"
#include "agent/gate.h"
#include "agent/job.h"
#include "agent/journal.h"
#include "agent/listen.h"
#include "agent/loop.h"
#include "agent/options.h"
#include "agent/supervise.h"
#include "agent/tail.h"

enum {
    LEASE_S = 120,      /* a reservation without a sign of its submitter */
    N_SLOTS = 1,        /* a runner uses the machine as if it were its own */
    LAST_LOG_LINES = 20 /* of a runner that died */
};

static const double STOP_GRACE_S = 10; /* between SIGTERM and SIGKILL, unless the cancel says otherwise */
static const double LIMIT_GRACE_S = 2; /* the same, at the job's time limit: it was known */
static const double END_GRACE_S = 5;   /* between a runner's last word and its exit */

/* What a file of an ended job was when it was hashed: as long as it is that, so is its digest. */
struct file_digest {
    uint64_t bytes;
    struct timespec changed;
    char hex[SHA256_HEX]; /* "": not hashed yet */
};

/* A job with what it holds on this machine. */
struct task {
    struct agent *agent;
    struct task *next, *prev; /* in order of reservation */
    struct job job;
    struct journal journal;
    char dir[DIR_MAX + 64]; /* jobs/ID */

    int data_fd; /* the data socket until the runner has it; -1 */
    struct runner runner;
    struct watch runner_watch, tail_watch;
    struct tail tail;
    uint64_t n_skip;   /* lines of the runner that the journal has already */
    struct event *end; /* the runner's last word, kept until it is gone; owned */
    unsigned n_bad_lines;
    int n_last_turns; /* in which lines of a runner that is gone were read */
    bool is_cut; /* a line did not reach the journal: none does after it, so that n_skip counts a beginning */

    struct timer tick;                  /* once a second while the job lives */
    double lease_at, limit_at, kill_at; /* clock_now(); 0: none */
    unsigned n_streams;
    struct file_digest digests[N_ARTIFACTS];
};

struct agent {
    struct agent_options opt;
    struct loop loop;
    struct token token;
    struct blob_store blobs;
    struct data_address data;
    char id[16], host[64], address[80]; /* "127.0.0.1", "127.0.0.1:15387" */
    char runner_exe[PATH_MAX];
    struct codec_rules codecs;
    uint64_t job_memory; /* bytes that a runner may take; 0: no limit */
    uint64_t job_files;  /* descriptors that one can have here */
    int dir_fd, lock_fd;
    double since_wall, since;
    bool is_draining;
    bool is_insecure; /* listens beyond loopback, without TLS */
    struct task *first, *last;
    uint64_t n_changes; /* grows with every event of any job: who waits for one looks again */
};

/* A folder's lock, id, blobs, token and jobs. */
int agent_open(struct agent *a, const struct agent_options *opt, struct err *e);
void agent_close(struct agent *a);

/* What uploads may use: a reserve is kept for journals and records. */
uint64_t agent_disk_free(const struct agent *a);

struct task *task_find(const struct agent *a, const char *id);
size_t task_count(const struct agent *a, bool (*is_it)(const struct job *));

/* Makes the job's folder and journal. ERR_CONFLICT: the folder is there already; ERR_IO, ERR_NOSPACE: nothing
 * is left. */
int task_add(struct agent *a, const struct job_spec *spec, struct task **out, struct err *e);

/* Removes the job from memory and disk. Only what is terminal. */
void task_forget(struct task *t);

/* Forgets terminal jobs beyond --keep, those that ended first. */
void task_trim(struct agent *a);

/* Reads every job's journal and takes up what is still going on. */
int task_restore_all(struct agent *a, struct err *e);
void task_close_all(struct agent *a);

/* Numbers the event, writes it to the journal, applies it. Whatever is not progress, eval or log is on the
 * disk when this returns. On failure nothing has happened, except that an `end` counts anyway. */
int task_record(struct task *t, struct event *ev, struct err *e);

#endif
