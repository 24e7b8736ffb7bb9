/* job_folder -- a job without agents: a folder that every machine of the job can read and write, as on a
 * cluster's shared file system. `job_submit pack` writes it, `job_runner --job DIR` runs one node of it.
 *
 *   job.json         {"version":1,"record":{...},"nodes":[{"reservation":{...},"packages":{"settings":
 *                    {"files":{...}},...}},...]}: the record of the job index (submit/results/job_index.h),
 *                    and for each node, workers first, what an agent would get (docs/protocol.md 1.4)
 *   packages/SHA256  the files of the packages
 *   secret           64 hexadecimal digits, from which the keys of the nodes' pairs are derived
 *   meet/            by which the processes find each other (agent/folder/meeting.h)
 *   node-K/, ps-K/   what node K, or server K, has written: node.json is its state, run/ links to its
 *                    records; jobs/ID/ has both of its first attempt, jobs/ID.N/ of attempt N
 *   refused.json     in place of all that, why psgd-run has refused the job: srun lets its other processes
 *                    wait
 *   results/         written by `job_submit collect`
 *
 * Process r of the launcher is worker r, or, from the number of workers on, server r minus that number. */
#ifndef PSGD_JOB_FOLDER_H
#define PSGD_JOB_FOLDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

#define JOB_FOLDER_DOCUMENT   "job.json"
#define JOB_FOLDER_PACKAGES   "packages"
#define JOB_FOLDER_SECRET     "secret"
#define JOB_FOLDER_MEET       "meet"
#define JOB_FOLDER_REFUSAL    "refused.json"         /* {"launch","sentence"}: psgd-run has refused the job */
#define JOB_FOLDER_CANCEL     "meet/cancel.json"     /* {"reason"}: the job is to be ended */
#define JOB_FOLDER_CHECKPOINT "meet/checkpoint.json" /* {}: a checkpoint is asked for */
#define JOB_FOLDER_NODE       "node.json"
#define JOB_FOLDER_COLLECT    "collect.lock" /* a lock of the command that makes the results */

enum {
    JOB_FOLDER_DOCUMENT_MAX = 64 << 20,
    JOB_FOLDER_NODE_MAX = 1 << 20, /* bytes of a node.json */
    JOB_FOLDER_REFUSAL_MAX = 1 << 16,
    JOB_FOLDER_NODE_NAME = 24,
    JOB_FOLDER_ATTEMPTS_MAX = 1000000, /* as of a reservation (agent/jobs/event.h) */
    /* A process that has not written its state for so long, while it should every BEAT_S, counts as gone. */
    JOB_FOLDER_BEAT_S = 5,
    JOB_FOLDER_GONE_S = 30
};

/* Whether the folder has a job.json and packages. */
bool job_folder_is(const char *path);
/* Reads job.json. ERR_NOT_FOUND: the folder is no job folder; ERR_REFUSED: its job was refused;
 * ERR_CONFIG. */
int job_folder_read(json_t **out, const char *path, struct err *e);
/* "node-1", of a server "ps-0". Returns `out`. */
const char *job_folder_node_name(char out[JOB_FOLDER_NODE_NAME], int node);
/* The lock of the node's folder `path`, which its process holds until it ends. Some network file systems keep
 * locks to one machine, so that FREE means little for a process on another one, and some have none. */
enum job_folder_lock {
    JOB_FOLDER_NO_LOCK, /* the process has not come yet, or the file system has no locks */
    JOB_FOLDER_FREE,
    JOB_FOLDER_HELD
};
enum job_folder_lock job_folder_lock(const char *path);

#endif
