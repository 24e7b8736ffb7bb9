/* node_reservation -- what a node of a job needs to start, as docs/protocol.md 1.4 describes it: the document
 * that reserves it, and the files of its packages. stages/stage_place.c and stage_ship.c send them to an
 * agent, stages/stage_pack.c writes them into a job folder. */
#ifndef PSGD_SUBMIT_NODE_RESERVATION_H
#define PSGD_SUBMIT_NODE_RESERVATION_H

#include "shared/job/package.h"
#include "submit/job/submission.h"

/* The reservation, without workers_on_host. NULL: no memory. */
json_t *node_reservation_json(const struct submission *s, const struct job_node *n);

struct package_file {
    const char *name;
    const struct blob *blob; /* of the submission */
};

/* Returns the number of files of the package; 0: the node has no such package. */
int node_package_files(struct package_file out[PACKAGE_FILES_MAX], const struct submission *s,
                       const struct job_node *n, enum package p);

/* {"files":{"NAME":"SHA256HEX",...}}. NULL: no memory. */
json_t *node_package_json(const struct submission *s, const struct job_node *n, enum package p);

#endif
