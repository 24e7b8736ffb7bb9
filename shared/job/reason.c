#include "shared/job/reason.h"

#include <string.h>

#define WAITS    "Why it waits"
#define INPUT    "What cannot be used"
#define TRAINING "What went wrong while it ran"
#define STOPPED  "Who stopped it"

const struct reason reasons[] = {
    {WAITS, REASON_AGENT_BUSY, "another job has the agent's slot", false},
    {WAITS, REASON_DRAINING, "the agent was drained: `job_submit agents resume`", false},
    {WAITS, REASON_WAITING_FOR_PACKAGES, "job_submit has not sent all packages", false},
    {WAITS, REASON_LOADING_PACKAGES, "the runner reads them", false},
    {WAITS, REASON_WAITING_FOR_NODES, "other nodes are not ready", false},
    {INPUT, REASON_SETTINGS_INVALID, "the job's settings", true},
    {INPUT, REASON_CODEC_LOAD_FAILED, "the codec, or executor, does not compile or load here", true},
    {INPUT, REASON_MODEL_INVALID, "the model, or the weights to start from", true},
    {INPUT, REASON_DATA_INVALID, "the node's part of the data set", true},
    {INPUT, REASON_CHECKPOINT_INVALID, "the checkpoint to resume from", true},
    {INPUT, REASON_ISOLATION_TOO_LOW, "a machine cannot isolate the codec as required", true},
    {INPUT, REASON_NOT_STARTED, "an agent refused a job of the queue before its start", false},
    {TRAINING, REASON_CODEC_FAILED, "the codec, or executor, reported an error, or took too long", true},
    {TRAINING, REASON_TRAINER_FAILED,
     "the training program ended with an error, or did not follow its contract", true},
    {TRAINING, REASON_NODE_LOST, "a node ended or cannot be reached; see that node", true},
    {TRAINING, REASON_ROUND_TIMEOUT, "a node did not contribute within --round-timeout", true},
    {TRAINING, REASON_NUMERIC_DIVERGENCE, "a loss or gradient is not finite", true},
    {TRAINING, REASON_OUT_OF_MEMORY, "beyond `agent --job-memory`, or the machine's memory", true},
    {TRAINING, REASON_DISK_FULL,
     "no space is left for what the job writes, or it writes more than `agent --job-disk`", true},
    {TRAINING, REASON_RUNNER_DIED, "the runner ended without a reason: a crash, or killed", true},
    {TRAINING, REASON_FALSE_SUCCESS, "a node reported success, and its files or its progress contradict it",
     false},
    {TRAINING, REASON_INTERRUPTED, "its machine was restarted while it ran", false},
    {TRAINING, REASON_INTERNAL, "an error inside psgd", true},
    {TRAINING, REASON_JOURNAL_FAILED, "the agent cannot write the job's end to its disk", false},
    {TRAINING, REASON_JOURNAL_DAMAGED, "the job's journal lacks lines that are needed to continue", false},
    {STOPPED, REASON_TIME_LIMIT, "it ran longer than --time-limit", true},
    {STOPPED, REASON_USER_CANCELLED, "Ctrl-C, or `job_submit cancel`", false},
    {STOPPED, REASON_JOB_FAILED, "another node's failure ended the job", false},
    {STOPPED, REASON_LEASE_EXPIRED, "job_submit had ended, or could not reach the agent, before the start",
     false},
    {STOPPED, REASON_AGENT_RESTARTED, "the agent was restarted before the start", false},
    {STOPPED, REASON_AGENT_STOPPED, "the agent was stopped", false},
    {STOPPED, REASON_SUPERSEDED, "a later attempt of the job was reserved on the agent", false},
};
const int n_reasons = sizeof reasons / sizeof *reasons;

bool reason_is_of_runner(const char *name)
{
    for (int i = 0; i < n_reasons; i++)
        if (strcmp(reasons[i].name, name) == 0)
            return reasons[i].is_of_runner;
    return false;
}

const char *reason_meaning(const char *name)
{
    for (int i = 0; i < n_reasons; i++)
        if (strcmp(reasons[i].name, name) == 0)
            return reasons[i].meaning;
    return NULL;
}

int reason_rank(enum job_state state, const char *reason, const char *message)
{
    if (strcmp(reason, REASON_JOB_FAILED) == 0)
        return 5;
    if (state == JOB_CANCELLED)
        return 3;
    if (strcmp(reason, REASON_NODE_LOST) == 0 || strcmp(reason, REASON_ROUND_TIMEOUT) == 0)
        return 4;
    return strcmp(reason, REASON_NUMERIC_DIVERGENCE) == 0 && strstr(message, REASON_OF_A_SUM);
}
