/* queued_files -- a checked job written into the queue, and read from there to run: its record, the files of
 * its packages, and the agents that it may use. What is read back can be shipped as if it had just been
 * checked; the files of the user that it was made from are not needed any more. */
#ifndef PSGD_SUBMIT_QUEUED_FILES_H
#define PSGD_SUBMIT_QUEUED_FILES_H

#include "submit/job/submission.h"
#include "submit/results/queue_folder.h"

/* Writes the job, which is queued and whose nodes are set, and its record in the index. When this returns 0,
 * the job is on the disk, or a message has said that it may not be yet. ERR_NOSPACE: the disk is full, or the
 * files of all jobs would take more than --queue-space; ERR_IO, ERR_NOMEM. Nothing is left behind then. */
int queued_files_write(struct submission *s, const struct queue_place *place, struct err *e);

/* The job's document, and from it its options, of which only those that say where and how long it runs are
 * set unless it has --retries; s->opt must be `o` from then on. Files that options name need not be there.
 * ERR_NOT_FOUND: the job is not in the queue, or its document cannot be read; ERR_CONFIG. *doc is NULL then,
 * and `o` has the options before the one that cannot be read, and the defaults of the others. */
int queued_files_read_options(struct options *o, json_t **doc, const char *id, struct err *e);
/* Fills an initialized submission from that document: record, agents and packages. Node i runs on agents[i],
 * an address of the job's list; NULL: they are not chosen yet. ERR_CONFIG, ERR_IO, ERR_NOMEM; ERR_BUSY: an
 * agent's token cannot be read now. */
int queued_files_read(struct submission *s, const json_t *doc, const json_t *agents, struct err *e);
/* The list of agents in the document; worker_list_clear() frees it. ERR_CONFIG, ERR_NOMEM. */
int queued_files_agents(struct worker_list *out, const json_t *doc, struct err *e);

#endif
