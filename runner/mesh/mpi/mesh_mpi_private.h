/* mesh_mpi_private -- the structs that the files of this folder share. */
#ifndef PSGD_MESH_MPI_PRIVATE_H
#define PSGD_MESH_MPI_PRIVATE_H

#include <mpi.h>

#include "runner/mesh/mpi/mesh_mpi.h"

/* A peer has SLOTS places for heads that arrive: WINDOW for messages that need a credit, and one for BYE.
 * SLOTS is a power of two, because the number of a message, from which its slot follows, wraps around. */
enum { WINDOW = 7, SLOTS = WINDOW + 1, GRANT_AFTER = SLOTS / 2 };

/* Before a long message MPI asks the receiver whether it has a place, and waits for the answer: so chunks are
 * longer than over TCP. Messages of up to some tens of KiB (64 in Open MPI over TCP) it sends at once, and so
 * both parts of a payload of at most 2 LEAD_MAX bytes. */
enum { CHUNK = 512 << 10 };
enum { LEAD_MAX = 32 << 10, HEAD_MAX = FRAME_BYTES + LEAD_MAX };
enum { TAG_HEAD = 1, TAG_BODY, TAG_CREDIT };

/* The requests of a peer: heads that arrive, the body of the message that is received, a grant that arrives;
 * then a grant that leaves, heads and bodies of WINDOW messages that leave. */
enum {
    REQUEST_SLOTS,
    REQUEST_BODY = REQUEST_SLOTS + SLOTS,
    REQUEST_CREDIT,
    REQUEST_GRANT,
    REQUEST_HEADS,
    REQUEST_BODIES = REQUEST_HEADS + WINDOW,
    REQUESTS = REQUEST_BODIES + WINDOW
};

struct mpi_message {
    struct mesh_head head;
    const void *bytes;
    size_t len;
    struct mesh_buf *buf; /* with a reference; NULL: a view */
};

struct mpi_parcel { /* a message that MPI has */
    struct mpi_message message;
    bool is_used;
    size_t given; /* bytes of the body that MPI has got so far */
    unsigned char head[HEAD_MAX];
};

struct mpi_slot { /* the head of a message that arrives */
    bool is_full;
    struct frame frame;
    unsigned char bytes[HEAD_MAX];
};

enum mpi_arrival {
    ARRIVAL_AWAITED, /* the next head is in its slot, or will be */
    ARRIVAL_BODY,    /* the body is received */
    ARRIVAL_WHOLE    /* the message is there */
};

struct mpi_peer {
    int node, rank;
    bool is_local, has_greeted, is_paused, has_left, is_lost;

    struct mpi_message waiting[MESH_QUEUE_MAX + 1]; /* a ring; one more for BYE */
    size_t first, n_waiting;
    struct mpi_parcel parcels[WINDOW];
    int incomplete; /* the parcel of whose body MPI lacks a part, which goes before later bodies; -1: none */
    uint32_t n_sent, n_granted; /* messages sent; those of them whose slot is free again */
    bool has_sent_bye;

    enum mpi_arrival arrival;
    struct mpi_slot slots[SLOTS]; /* message k arrives in slot k % SLOTS */
    uint32_t n_received, n_told;  /* messages whose slot is free again; those that the peer knows of */
    unsigned char credit[FRAME_BYTES], grant[FRAME_BYTES];
    struct mesh_head arriving;
    unsigned char *into; /* (len): the payload's place */
    size_t len, arrived; /* bytes */
    struct mesh_buf *buf;
    void *unwanted; /* place of a chunk that arrives while the mesh closes; owned */
};

struct mpi {
    struct mesh mesh;
    struct mesh_pool pool;
    struct mesh_spec spec;
    uint64_t job;
    uint32_t attempt;
    size_t piece; /* of mesh_mpi_address */
    MPI_Comm comm;
    MPI_Comm sum_comm;                 /* a sum that a node has not begun must not match its MPI_Ibarrier */
    MPI_Request sums[MESH_REDUCE_MAX]; /* a ring */
    size_t first_sum, n_sums;
    struct mpi_peer *peers; /* (n_peers) */
    size_t *n_unsent;       /* (n_peers): messages that wait, or that MPI has */
    size_t n_peers;
    MPI_Request *requests; /* (n_peers, REQUESTS) */
    int *done;             /* (n_peers * REQUESTS): of MPI_Testsome */
    MPI_Status *statuses;  /* as `done` */
    struct mesh_event *ended;
    size_t n_ended, turn;
    bool has_work; /* a peer's arrival may go on without MPI */
    bool is_closing, has_been_interrupted;
    MPI_Request all_close; /* of closing: the barrier of all nodes */
    int watched_fd, timer_fd;
};

/* Writes MPI's text for the error. Returns `code`. */
int mpi_fail(struct err *e, int code, int rc, const char *call);
/* No message is received from the peer any more or sent to it, and MESH_LOST is due. */
void mpi_peer_drop(struct mpi *t, struct mpi_peer *p, const char *why);
/* rc: of a call that begins to send to the peer, or to receive from it. Drops the peer if it has failed. */
void mpi_check(struct mpi *t, struct mpi_peer *p, const char *call, int rc);

/* Sending. Takes a reference of buf. The caller has checked that there is room. */
void mpi_send_add(struct mpi *t, struct mpi_peer *p, const struct mpi_message *message);
/* A request of REQUEST_GRANT or later is complete. */
void mpi_send_done(struct mpi *t, struct mpi_peer *p, int request);
/* Gives MPI as many messages as it may have. Call it when all complete requests are handled: it uses them for
 * others. */
void mpi_send_waiting(struct mpi *t, struct mpi_peer *p);
/* Tells the peer which slots are free, if it has not heard of so many that it may wait for them. */
void mpi_send_grant(struct mpi *t, struct mpi_peer *p);
void mpi_send_forget(struct mpi *t, struct mpi_peer *p); /* the messages that MPI has not got */

/* Receiving. */
void mpi_receive_begin(struct mpi *t, struct mpi_peer *p);
/* Withdraws what has not arrived. False: MPI still has memory of the peer's. */
bool mpi_receive_end(struct mpi *t, struct mpi_peer *p);
/* A request below REQUEST_GRANT is complete, with so many bytes. */
void mpi_receive_done(struct mpi *t, struct mpi_peer *p, int request, size_t len);
/* The payload of the first message of each peer, its processor's name. */
bool mpi_receive_hello(struct mpi *t, struct mpi_peer *p, const char *own_name);
/* Goes on with what has arrived. True: *out is a message. */
bool mpi_receive_next(struct mpi *t, struct mpi_peer *p, struct mesh_event *out);

/* Sums. */
int mpi_reduce(struct mesh *m, const float *in, float *out, size_t n, struct err *e);
size_t mpi_reducing(const struct mesh *m);
int mpi_reduce_advance(struct mpi *t, struct err *e); /* drops those that are complete */

/* The bytes of a payload that its head carries: all of a short one, and none of a long one, whose body then
 * needs no copy. */
static inline size_t mpi_lead(size_t len)
{
    return len <= LEAD_MAX ? len : len <= (size_t)2 * LEAD_MAX ? LEAD_MAX : 0;
}

static inline MPI_Request *mpi_request(struct mpi *t, const struct mpi_peer *p, int request)
{
    return &t->requests[(p - t->peers) * REQUESTS + request];
}

#endif
