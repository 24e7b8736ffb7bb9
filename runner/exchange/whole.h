/* whole -- sums over whole vectors that several servers compute together in a synchronous round, because each
 * server has only a range of the vectors:
 *
 *   WHOLE_MEASURES  --aggregate krum and geomedian: the measures of all contributions
 *                   (aggregators/aggregators.h), before they are aggregated
 *   WHOLE_NORM      --clip-norm and --on-nonfinite skip, of a rule whose servers update: the norm of the
 *                   gradient, before the update
 *
 * A server that has merged a round's contributions sends its part of these sums to every other server
 * (FRAME_PART, docs/protocol.md 3), and waits for theirs. Each server adds up all parts in the order of the
 * servers, in double precision: so all of them get the same bits, and decide the same. All servers ignore
 * a contribution that one of them lacks (its worker was lost before it had sent every range).
 *
 * In an asynchronous job servers do not merge the same contribution at the same time. There each worker sends
 * the norm of its whole gradient with every range of it (paths/path_servers.c). */
#ifndef PSGD_WHOLE_H
#define PSGD_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"

struct channel;
struct exchange;

enum whole_kind { WHOLE_MEASURES, WHOLE_NORM, WHOLE_KINDS };

struct whole { /* of a server; on a worker it is empty */
    /* (n_servers, WHOLE_KINDS) of this round, in the order of the servers, this one's included; an element is
     * NULL until the part has arrived. NULL: the job needs no parts. */
    struct mesh_buf **parts;
    bool has_applied;  /* the rule's apply has been called in this round */
    bool needs_update; /* the rule has requested an update, which needs the norm */
    int *common;       /* (n_common, of room n_workers) workers whose contributions all servers have */
    int n_common;
    size_t *ranks; /* (n_workers) room */
};

/* Do the servers of this job send each other parts of that kind? The same on all nodes. */
bool whole_needs(const struct exchange *x, enum whole_kind kind);
bool whole_links_servers(const struct exchange *x);                 /* parts of any kind */
size_t whole_bytes(const struct exchange *x, enum whole_kind kind); /* of the longest part; 0: none */
/* Does a worker send the norm of its gradient with each contribution? */
bool whole_sends_norm(const struct exchange *x);

/* For a channel of a server. Each int function returns CODEC_GO, CODEC_WAIT or a code. */
int whole_open(struct channel *ch);
void whole_clear(struct channel *ch);
/* Sends this server's part, once in a round; CODEC_WAIT until the parts of all servers have arrived. */
int whole_gather(struct channel *ch, enum whole_kind kind);
int whole_on_part(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b); /* takes b */
void whole_end_round(struct channel *ch); /* accounts for the parts and drops them */
/* The first server whose part is missing; 0: none. */
int whole_awaits(const struct channel *ch);

/* When WHOLE_MEASURES are gathered: writes the sum of all servers' measures (n_common, n_common) of the
 * contributions in `common`, in their order, for vector number `vector` of a contribution. */
void whole_measure(const struct channel *ch, int vector, double *measure);
/* When WHOLE_NORM is gathered: the norm of the gradient. NaN: a value of it is not finite. */
double whole_norm(const struct channel *ch);

#endif
