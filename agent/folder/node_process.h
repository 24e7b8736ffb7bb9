/* node_process -- one process of a job folder: the struct that the files of this folder share. */
#ifndef PSGD_NODE_PROCESS_H
#define PSGD_NODE_PROCESS_H

#include <limits.h>
#include <signal.h>

#include "agent/base/agent_options.h"
#include "agent/folder/meeting.h"
#include "agent/folder/rank_options.h"
#include "agent/jobs/jobs.h"
#include "shared/base/loop.h"
#include "shared/job/job_folder.h"
#include "shared/job/settings.h"

enum { NODE_PROCESS_LOCK_S = 15 }; /* time for an earlier launch's process of a node to end */

struct node_process {
    struct rank_options opt;
    struct agent_options agent;
    struct loop loop;
    struct jobs jobs;
    struct meeting meet;
    struct task *task; /* of this attempt; NULL: not reserved yet */
    struct job_spec spec;
    struct settings set;
    json_t *document;      /* job.json */
    const json_t *entry;   /* this node's, in the document */
    char folder[PATH_MAX]; /* the job folder, absolute */
    char name[JOB_FOLDER_NODE_NAME], address[80], machine[MEETING_NAME];
    char launch[MEETING_NAME];      /* the launcher's name of this launch; "": it has none */
    char earlier_offer[MEETING_ID]; /* that was there when this process came */
    int rank, n_nodes, lock_fd;
    uint8_t secret[SHA256_BYTES]; /* of the folder, until the start */
    struct watch stop_watch, program_watch;
    sigset_t stop_set;
    int signal;             /* that was received; 0: none */
    bool wants_checkpoint;  /* the order was not passed on yet */
    bool has_program_ended; /* of --program-fd */
    bool has_read_attempts; /* earlier ones, from the node's folder */

    double written_at, looked_at, led_at; /* clock_now() */
    uint64_t written_change;
    enum job_state written_state;
    double failed_at; /* process 0: when the first failure was seen; 0: none */
    bool has_told_stop;
};

/* Whether the node has ended. */
static inline bool node_process_is_over(const struct node_process *f)
{
    return f->task && job_state_is_terminal(f->task->job.state);
}

#endif
