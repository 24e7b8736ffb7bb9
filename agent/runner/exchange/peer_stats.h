/* links -- what an exchange keeps about each other node: whether it has left, and the traffic with it. Of
 * thousands of nodes one talks to few, so figures are kept a page of nodes at a time, from the first that is
 * asked for. */
#ifndef PSGD_PEER_STATS_H
#define PSGD_PEER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

/* What went between this node and one peer in a round. */
struct exchange_traffic {
    uint64_t messages, raw_bytes, wire_bytes;
    double encode_s, transfer_s;
};

struct link {
    uint64_t n_said, n_received;                  /* messages so far, for the trace */
    uint64_t round;                               /* the one under way, of links.n_rounds */
    struct exchange_traffic sent, received;       /* of the round under way */
    struct exchange_traffic sent_done, recv_done; /* of the one before */
};

struct peer_stats { /* by slot: workers, then servers */
    int n;
    bool *has_left; /* (n): said good-bye, or is lost */
    int n_left;
    uint64_t n_rounds;              /* closed */
    struct peer_stats_page **pages; /* by slot / page; NULL: not made yet */
    struct peer_stats_page *made;   /* a list of those that are */
};

int peer_stats_open(struct peer_stats *l, int n, struct err *e);
void peer_stats_clear(struct peer_stats *l);
void peer_stats_leave(struct peer_stats *l, int slot); /* once for each that goes */

/* Makes its page where there is none. NULL: no memory. */
struct link *link_make(struct peer_stats *l, int slot);
/* Of a node whose page is there. */
struct link *link_of(const struct peer_stats *l, int slot);
/* All zeros where nothing was said. */
const struct link *link_read(const struct peer_stats *l, int slot);
/* The round's traffic becomes that of the round before: for each node when it is next looked at, as most of
 * many nodes are not in every round. */
void peer_stats_close_round(struct peer_stats *l);

#endif
