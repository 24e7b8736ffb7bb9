/* collecting -- runs the collectives of an event rule, or of a path, on its channel: checks the calls against
 * codec_events.h, accounts for the chunks, and calls on_collective when a collective is complete. */
#ifndef PSGD_COLLECTING_H
#define PSGD_COLLECTING_H

#include "codecs/codec_events.h"
#include "runner/collective/collective.h"

struct shm_group;
struct channel;

/* The collective under way. A two-level all-reduce whose lower level is shared memory takes three steps: the
 * first worker of each machine gets the sum of the machine's workers; the first workers of all machines add
 * up these sums; the result goes back to the workers of each machine. */
enum collecting_step {
    COLLECTING_NOTHING, /* none, or a collective on the mesh that takes one step */
    COLLECTING_IN_SHM,  /* a collective in shared memory that takes one step */
    COLLECTING_INSIDE,
    COLLECTING_BETWEEN,
    COLLECTING_BACK,
};

struct collecting {
    struct shm_group *shm_group; /* NULL: collectives go over the mesh */
    bool is_whole;               /* the group has all workers */
    bool is_inside;              /* two-level all-reduces use shared memory inside machines */
    bool reads_grads;  /* all-reduces read their vectors in shared memory, where the gradients are ... */
    bool is_in_memory; /* ... and send nothing over connections */
    enum collecting_step step;
    struct collective_request in_shm; /* of the present or last step in shared memory */
    struct collective_request levels; /* of an all-reduce in three steps */
    float *sum;      /* (n_params) of this machine; NULL: this is not the first of several workers on it */
    size_t ready;    /* grads are complete from this index on; 0: all of them */
    size_t *buckets; /* (n_buckets), of grads, as in plan_request */
    size_t n_buckets;
    struct collective *collective; /* NULL: this channel can have none */
    struct mesh *mesh;
    bool is_done;         /* the collective is complete, and on_collective has not been called yet */
    size_t item_bytes;    /* of one number of the last collective */
    const char *last_out; /* (n_last_out) bytes */
    size_t n_last_out;
};

int collecting_open(struct channel *ch, struct err *e);
void collecting_clear(struct channel *ch);
/* As exchange_share(). */
int collecting_share(struct channel *ch, struct shm_group *group, struct err *e);
void collecting_attach(struct channel *ch, struct mesh *m, const int *machines); /* as exchange_attach */
/* Sets linked[k] for each worker k with which an all-reduce of n items (NULL: floats) exchanges chunks, where
 * workers are on these machines. CODEC_GO or a code. */
int collecting_link(struct channel *ch, size_t n, const struct collective_item *item, const int *machines,
                    bool *linked);
/* Handles any event, and all but the codec's call that may follow. CODEC_GO or an error code. */
int collecting_advance(struct channel *ch, const struct mesh_event *ev, struct err *e);
/* Handles any event. CODEC_GO or an error code. */
int collecting_on_event(struct channel *ch, const struct mesh_event *ev, struct err *e);
int collecting_ready(struct channel *ch, size_t ready); /* grads are complete from `ready` on */
bool collecting_is_on_mesh(const struct channel *ch);   /* is a collective under way on the mesh? */
bool collecting_is_awaited(const struct channel *ch);   /* as collective_is_awaited() */
int collecting_notify(struct channel *ch);              /* calls on_collective if a collective is complete */
bool collecting_cannot_complete(
    const struct channel *ch); /* it waits for a chunk that can no longer arrive */
/* The node for which the collective waits, or the rule; -1: none in particular. */
int collecting_awaits(const struct channel *ch);
void collecting_waits_for(const struct channel *ch, char *out, size_t size);
/* Begins a collective: CODEC_WAIT or a code. */
int collecting_start(struct channel *ch, struct collective_request *request);
int collecting_all_reduce(struct channel *ch, enum codec_reduction what, const float *in, float *out,
                          size_t n);

#endif
