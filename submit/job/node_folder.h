/* node_folder -- the node of a job without agents, which has written its state and its files into a job
 * folder (shared/job/job_folder.h): answers the requests about a job (docs/protocol.md 1.3) from these
 * files, as an agent would. A codec may have written any file among them, so that none is opened through a
 * link. */
#ifndef PSGD_SUBMIT_NODE_FOLDER_H
#define PSGD_SUBMIT_NODE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "submit/job/folder_process.h"
#include "submit/net/http_client.h"

struct node_folder {
    const char *job_folder; /* NULL: the node is on an agent */
    int node;
    int only_attempt; /* read the files of this attempt; 0: of the latest */
    int attempt;      /* that was read last; 0: none */
    struct node_resume {
        bool is_set;
        int64_t epoch, step, round;
    } resume;          /* the point from which that attempt went on */
    char host[256];    /* of its process; "": it has not started */
    bool is_running;   /* its process was there when its state was read last */
    bool has_vanished; /* it was not, and had reported no end */
    struct folder_process process;
    uint64_t n_read;   /* bytes of the events of this attempt that were passed on */
    uint64_t last_seq; /* of these */
};

/* Answers the request `r` for `path`, "/v1/jobs/ID...", of job `job`: r->busy stays false, and r->err and
 * r->status have the result. A stream of events has those that there are now. ERR_NOMEM. */
int node_folder_answer(struct node_folder *f, struct http_request *r, const char *job, const char *path,
                       struct err *e);

#endif
