/* peers -- the start document, with which a submitter starts a node: the attempt, the secret of the job's
 * nodes, and the nodes that this one may need, with the public halves of their keys. */
#ifndef PSGD_PEERS_H
#define PSGD_PEERS_H

#include "agent/jobs/event.h"

struct start_document {
    int attempt;
    char *line;              /* for the runner: the document in one line */
    char digest[SHA256_HEX]; /* of that line */
};

/* Parses the document and checks it against the reservation. ERR_CONFIG, ERR_NOMEM: *out is unchanged. */
int start_document_parse(struct start_document *out, const json_t *doc, const struct job_spec *spec,
                         struct err *e);
void start_document_clear(struct start_document *d);

#endif
