/* collective -- carries plans of collective operations (collective_plan.h) out between the workers of a job,
 * piece by piece. As the exchange, it never waits: it is told what the mesh has, and says whether it is done.
 *
 * A piece is a message FRAME_CHUNK: its round is the number of the collective on this job, from 1, its word
 * counts the pieces from its sender to its receiver in it, its payload is raw floats. It is sent by view from
 * where it stands. One that is to be copied is read straight to its place, one that is to be added into a
 * buffer of one piece per sender. A piece of the next collective, or one for which there is no buffer yet, is
 * left in the connection. What the plan does not expect -- another number, word or length -- is refused
 * before a byte of it is read. */
#ifndef PSGD_COLLECTIVE_H
#define PSGD_COLLECTIVE_H

#include "agent/runner/collective/collective_plan.h"
#include "agent/runner/mesh/mesh.h"
#include "agent/runner/stopwatch.h"

enum {
    COLLECTIVE_CHUNK = 256 * 1024, /* bytes: larger ones leave the second-level cache before they are added */
    COLLECTIVE_QUEUE = 32          /* pieces handed to the mesh before a peer must take some */
};

enum { COLLECTIVE_DONE = 0, COLLECTIVE_UNDER_WAY = 1 };

struct collective_config {
    int n_nodes, me; /* nodes 0 .. n_nodes-1 of the mesh */
    enum collective_algorithm algorithm;
    /* Hands a piece to the mesh by view: as mesh_send_view, the error where the caller keeps it. */
    int (*send)(void *owner, const struct mesh_head *h, const void *bytes, size_t len);
    void (*received)(void *owner, int from, size_t len); /* a piece of so many bytes has been taken */
    struct stopwatch *watch;                             /* in PHASE_DECODE while a piece is added */
    void *owner;
};

struct collective_ask {
    enum collective_kind kind;
    bool is_mean; /* what is summed is divided by the number of nodes */
    int root;
    const float *in; /* (n): unchanged until the collective is done */
    float *out;      /* (n): unchanged until the next one is, and so not that one's `out` */
    size_t n;
    size_t ready; /* `in` is there from here on; what is before it comes to be, from its end to its front */
    const size_t *buckets; /* (n_buckets), as in plan_ask; borrowed until another ask of this kind */
    size_t n_buckets;
};

struct collective;

int collective_new(struct collective **out, const struct collective_config *cfg, struct err *e);
void collective_free(struct collective *c); /* after the mesh is closed: it may still send from it */
void collective_attach(struct collective *c, struct mesh *m); /* borrowed */

/* Begins one; none is under way. All nodes must ask for the same. COLLECTIVE_DONE where there is nobody to
 * wait for. ERR_NOMEM: only for a kind and length it has not had just before. */
int collective_start(struct collective *c, const struct collective_ask *ask, struct err *e);
bool collective_is_under_way(const struct collective *c);
/* Of the one under way, `in` is there from `ready` on by now: goes on with that. */
int collective_ready(struct collective *c, size_t ready, struct err *e);
/* One event of the mesh while one is under way: a piece that has come, or any other, for the mesh may have
 * room again. */
int collective_on_event(struct collective *c, const struct mesh_event *ev, struct err *e);
uint64_t collective_summed(const struct collective *c); /* bytes of pieces that it has added so far */
/* Of the collective under way: the node whose piece is waited for, or -1; and in words: "piece 3 of node 1 in
 * all-reduce 12". */
int collective_awaits(const struct collective *c);
void collective_waits_for(const struct collective *c, char *out, size_t size);
/* For mesh->place. */
enum mesh_where collective_sink(struct collective *c, const struct mesh_head *h, size_t len, void **at);

#endif
