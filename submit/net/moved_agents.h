/* moved_agents -- agents that were joined and now answer at another address: their keys are known. Nothing
 * but TLS handshakes is sent before a pin has fitted. */
#ifndef PSGD_SUBMIT_MOVED_AGENTS_H
#define PSGD_SUBMIT_MOVED_AGENTS_H

#include "submit/job/job_node.h"
#include "submit/net/joined_agents.h"

struct stranger {
    const char *address;        /* "host:port" */
    const struct access *found; /* of those that are known, one whose pin fits; NULL: none does */
};

/* Connects to all n addresses at once, and again with ever fewer pins to those where one has fitted: about
 * log2(known->n) times. Ends after 3 s, and then knows of an agent that has not answered nothing. ERR_NOMEM,
 * ERR_INTERNAL, ERR_CANCELLED. */
int recognise(struct stranger *s, size_t n, const struct access_list *known, struct err *e);

/* The agent `a` is at that address; replaces what is known of it. */
int recognise_keep(const struct access *a, const char *address, struct err *e);

/* Gives each of n nodes, `stride` bytes apart, for which neither pin nor token was found (node_find_access),
 * those of an agent that was joined at another address, if it is that one; says so, and keeps the address. */
int recognise_moved(struct node *nodes, size_t n, size_t stride, struct err *e);

#endif
