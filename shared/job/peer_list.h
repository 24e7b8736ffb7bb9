/* peer_list -- the nodes of a job in the order to start one: a single text, the same for many nodes, so that
 * a thousand nodes can be started with it (docs/protocol.md, 1.4). An entry has five words, separated by a
 * space, and entries are separated by semicolons:
 *
 *   NODE ADDRESS HOST PORT KEY     0 10.0.0.1:15387 10.0.0.1 40123 64-HEX-DIGITS
 *
 * Words have only letters, digits and . _ - : % [ ]. */
#ifndef PSGD_PEER_LIST_H
#define PSGD_PEER_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum {
    PEER_KEY_BYTES = 32,
    PEER_HOST_MAX = 256, /* with the NUL */
    PEER_TEXT = 640      /* bytes of the longest entry, with its separator and a NUL */
};

struct peer {
    int node, data_port;
    const char *address, *host;  /* of its agent; at which the other nodes reach it */
    uint8_t key[PEER_KEY_BYTES]; /* the public half of its data key (runner/mesh/tcp/data_key.h) */
};

struct peer_list {
    char *text; /* of which the peers' words are parts */
    struct peer *at;
    size_t n;
};

/* Writes an entry without separator. Returns its length. */
size_t peer_print(char out[PEER_TEXT], const struct peer *p);

/* Each node occurs once. ERR_CONFIG: the message begins with the entry, "/peers/3: "; ERR_NOMEM. */
int peer_list_parse(struct peer_list *out, const char *text, struct err *e);
void peer_list_clear(struct peer_list *l);

/* The index of the node, or -1. */
long peer_list_find(const struct peer_list *l, int node);

#endif
