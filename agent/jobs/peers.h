/* peers -- the document of doCommit: the attempt, and every node of the job, each except this one with the
 * key that it shares with this one. */
#ifndef PSGD_PEERS_H
#define PSGD_PEERS_H

#include "agent/jobs/event.h"

struct start_document {
    int attempt;
    json_t *nodes;           /* [{"node","role","address"}], to be shown: without keys and ports */
    char *line;              /* for the runner: the document in one line */
    char digest[SHA256_HEX]; /* of that line */
};

/* Checks the document against the reservation. ERR_CONFIG; nothing to clear then. */
int start_document_parse(struct start_document *out, const json_t *doc, const struct job_spec *spec,
                         struct err *e);
void start_document_clear(struct start_document *d);

#endif
