/* peer_stats -- for each peer: whether it has left, and the traffic with it. Of thousands of nodes a node
 * exchanges messages with few, so the statistics of a peer are made on first use. */
#ifndef PSGD_PEER_STATS_H
#define PSGD_PEER_STATS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Traffic between this node and one peer, one way, in one round. */
struct exchange_traffic {
    uint64_t messages, raw_bytes, wire_bytes;
    double encode_s, transfer_s;
};

struct peer_traffic {
    int slot;
    uint64_t n_sent, n_received;                  /* messages so far, for the trace */
    uint64_t round;                               /* peer_stats.n_rounds when `sent` and `received` began */
    struct exchange_traffic sent, received;       /* of the round under way */
    struct exchange_traffic sent_done, recv_done; /* of the previous round */
};

struct peer_stats { /* by slot: workers, then servers */
    int n;
    bool *has_left; /* (n): it has sent BYE, or is lost */
    int n_left;
    uint64_t n_rounds;         /* closed */
    struct peer_traffic *made; /* (n_made), by slot */
    int n_made, room;
};

int peer_stats_open(struct peer_stats *s, int n, struct err *e);
void peer_stats_clear(struct peer_stats *s);
void peer_stats_leave(struct peer_stats *s, int slot); /* the peer has sent BYE, or is lost */

/* These are valid until the next peer_stats_make(). Makes the peer's statistics if there are none. NULL: no
 * memory. */
struct peer_traffic *peer_stats_make(struct peer_stats *s, int slot);
/* Of a peer whose statistics exist. */
struct peer_traffic *peer_stats_of(const struct peer_stats *s, int slot);
/* All zeros for a peer without statistics. */
const struct peer_traffic *peer_stats_read(const struct peer_stats *s, int slot);
/* The first peer from this slot on that has statistics; n: there is none. */
int peer_stats_next(const struct peer_stats *s, int slot);
/* The present round becomes the previous one: for each peer at its next access, because most peers of a large
 * job have no traffic in most rounds. */
static inline void peer_stats_close_round(struct peer_stats *s)
{
    s->n_rounds++;
}

#endif
