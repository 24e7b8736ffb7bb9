/* reason -- why a job is in its state: the names in `reason` of docs/protocol.md 1.4, with their meanings in
 * the table of reason.c. A reader accepts any other name, too, because the writer may be newer. */
#ifndef PSGD_REASON_H
#define PSGD_REASON_H

#include <stdbool.h>

#include "shared/job/job_state.h"

/* why a job waits */
#define REASON_AGENT_BUSY           "AgentBusy"
#define REASON_DRAINING             "Draining"
#define REASON_WAITING_FOR_PACKAGES "WaitingForPackages"
#define REASON_LOADING_PACKAGES     "LoadingPackages"
#define REASON_WAITING_FOR_NODES    "WaitingForNodes"

/* what cannot be used */
#define REASON_SETTINGS_INVALID   "SettingsInvalid"
#define REASON_CODEC_LOAD_FAILED  "CodecLoadFailed"
#define REASON_MODEL_INVALID      "ModelInvalid"
#define REASON_DATA_INVALID       "DataInvalid"
#define REASON_CHECKPOINT_INVALID "CheckpointInvalid"
#define REASON_ISOLATION_TOO_LOW  "IsolationTooLow"
#define REASON_NOT_STARTED        "NotStarted"

/* what went wrong while the job ran */
#define REASON_CODEC_FAILED       "CodecFailed"
#define REASON_TRAINER_FAILED     "TrainerFailed"
#define REASON_NODE_LOST          "NodeLost"
#define REASON_ROUND_TIMEOUT      "RoundTimeout"
#define REASON_NUMERIC_DIVERGENCE "NumericDivergence"
#define REASON_OUT_OF_MEMORY      "OutOfMemory"
#define REASON_DISK_FULL          "DiskFull"
#define REASON_RUNNER_DIED        "RunnerDied"
#define REASON_FALSE_SUCCESS      "FalseSuccess"
#define REASON_INTERRUPTED        "Interrupted"
#define REASON_INTERNAL           "Internal"
#define REASON_JOURNAL_FAILED     "JournalFailed"
#define REASON_JOURNAL_DAMAGED    "JournalDamaged"

/* who stopped the job */
#define REASON_TIME_LIMIT      "TimeLimit"
#define REASON_USER_CANCELLED  "UserCancelled"
#define REASON_JOB_FAILED      "JobFailed"
#define REASON_LEASE_EXPIRED   "LeaseExpired"
#define REASON_AGENT_RESTARTED "AgentRestarted"
#define REASON_AGENT_STOPPED   "AgentStopped"
#define REASON_SUPERSEDED      "Superseded"

/* In the message of a node that failed because a sum over all workers is not finite. The message of the
 * worker whose contribution was not finite says so; no other node can find out which worker it was. */
#define REASON_OF_A_SUM "a contribution of this round is not finite"

/* Rank of a node's end as the cause of the others' ends; the smallest is the most likely cause. Other nodes
 * report NodeLost when a node dies or is cancelled. In an all-reduce all nodes get a sum that is not finite,
 * and end at about the same time, but only one knows that it was its own gradient. */
enum { REASON_RANK_LOST = 2 }; /* of a node that no longer answers */
int reason_rank(enum job_state state, const char *reason, const char *message);

struct reason {
    const char *group, *name, *meaning;
    bool is_of_runner; /* a runner or its monitor may report it; only the agent sets the others */
};

extern const struct reason reasons[];
extern const int n_reasons;

bool reason_is_of_runner(const char *name);

/* "the runner ended without a reason: ..."; NULL: no reason of this version. */
const char *reason_meaning(const char *name);

#endif
