/* reason -- why a job is in its state: the names in `reason` of docs/protocol.md 1.4. A program that reads
 * one accepts any other name, too, as it may be newer. */
#ifndef PSGD_REASON_H
#define PSGD_REASON_H

/* why it waits */
#define REASON_AGENT_BUSY           "AgentBusy"          /* another job has the agent's slot */
#define REASON_WAITING_FOR_PACKAGES "WaitingForPackages" /* job_submit has not sent all packages */
#define REASON_LOADING_PACKAGES     "LoadingPackages"    /* the runner reads them */
#define REASON_WAITING_FOR_NODES    "WaitingForNodes"    /* other nodes are not ready */

/* what cannot be used */
#define REASON_SETTINGS_INVALID   "SettingsInvalid"   /* the job's settings */
#define REASON_CODEC_LOAD_FAILED  "CodecLoadFailed"   /* the codec does not compile or load here */
#define REASON_MODEL_INVALID      "ModelInvalid"      /* the model, or the weights to start from */
#define REASON_DATA_INVALID       "DataInvalid"       /* the node's part of the data set */
#define REASON_CHECKPOINT_INVALID "CheckpointInvalid" /* the checkpoint to resume from */

/* what went wrong while it trained */
#define REASON_CODEC_FAILED       "CodecFailed"       /* the codec reported an error, or took too long */
#define REASON_NODE_LOST          "NodeLost"          /* a node ended or cannot be reached; see that node */
#define REASON_ROUND_TIMEOUT      "RoundTimeout"      /* a node did not contribute within --round-timeout */
#define REASON_NUMERIC_DIVERGENCE "NumericDivergence" /* a loss or gradient is not finite */
#define REASON_OUT_OF_MEMORY      "OutOfMemory"    /* beyond `agent --job-memory`, or the machine's memory */
#define REASON_DISK_FULL          "DiskFull"       /* no space is left for what the job writes */
#define REASON_RUNNER_DIED        "RunnerDied"     /* the runner ended without a reason: a crash, or killed */
#define REASON_INTERNAL           "Internal"       /* an error inside psgd */
#define REASON_JOURNAL_FAILED     "JournalFailed"  /* the agent's disk does not take the job's end */
#define REASON_JOURNAL_DAMAGED    "JournalDamaged" /* lines are missing without which it cannot go on */

/* who stopped it */
#define REASON_TIME_LIMIT      "TimeLimit"      /* it ran longer than --time-limit */
#define REASON_USER_CANCELLED  "UserCancelled"  /* Ctrl-C, or `job_submit cancel` */
#define REASON_JOB_FAILED      "JobFailed"      /* another node's failure ended the job */
#define REASON_LEASE_EXPIRED   "LeaseExpired"   /* job_submit was gone before the start */
#define REASON_AGENT_RESTARTED "AgentRestarted" /* the agent was restarted before the start */
#define REASON_AGENT_STOPPED   "AgentStopped"   /* the agent was stopped */

#endif
