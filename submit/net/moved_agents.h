/* moved_agents -- agents that were joined and now answer at another address: their keys are known. Nothing
 * but TLS handshakes is sent before a pin has fitted. */
#ifndef PSGD_SUBMIT_MOVED_AGENTS_H
#define PSGD_SUBMIT_MOVED_AGENTS_H

#include "submit/net/joined_agents.h"

struct moved_agent {
    const char *address;        /* "host:port" */
    const struct access *found; /* of those that are known, one whose pin fits; NULL: none does */
};

/* Connects to all n addresses at once, and again with ever fewer pins to those where one has fitted: about
 * log2(known->n) times. Ends after 3 s, and then knows of an agent that has not answered nothing. ERR_NOMEM,
 * ERR_INTERNAL, ERR_CANCELLED. */
int moved_agents_find(struct moved_agent *s, size_t n, const struct access_list *known, struct err *e);

/* The agent `a` is at that address; replaces what is known of it. */
int moved_agents_keep(const struct access *a, const char *address, struct err *e);

#endif
