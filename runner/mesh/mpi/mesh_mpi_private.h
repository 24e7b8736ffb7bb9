/* mesh_mpi_private -- the structs that the files of this folder share. */
#ifndef PSGD_MESH_MPI_PRIVATE_H
#define PSGD_MESH_MPI_PRIVATE_H

#include <mpi.h>

#include "runner/mesh/mpi/mesh_mpi.h"

enum { WINDOW = 4, INLINE_MAX = 4096, HEAD_MAX = FRAME_BYTES + INLINE_MAX, PIECE_MAX = 256 << 20 };
enum { TAG_HEAD = 1, TAG_BODY };

/* The requests of a peer: head and body of the message that arrives, then heads and bodies of WINDOW
 * messages that leave. */
enum {
    REQUEST_HEAD,
    REQUEST_BODY,
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

enum mpi_arrival {
    ARRIVAL_AWAITED, /* a head is received */
    ARRIVAL_HEAD,    /* it is there */
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
    uint32_t n_sent;

    enum mpi_arrival arrival;
    unsigned char head[HEAD_MAX];
    size_t head_len;
    uint32_t n_received;
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
    MPI_Comm comm;
    struct mpi_peer *peers; /* (n_peers) */
    size_t *n_unsent;       /* (n_peers): messages that wait, or that MPI has */
    size_t n_peers;
    MPI_Request *requests; /* (n_peers, REQUESTS) */
    int *done;             /* (n_peers * REQUESTS): of MPI_Testsome */
    MPI_Status *statuses;  /* as `done` */
    struct mesh_event *ended;
    size_t n_ended, turn;
    bool has_work; /* a peer's arrival may go on without MPI */
    bool is_closing;
    int watched_fd, timer_fd;
};

/* Writes MPI's text for the error. Returns `code`. */
int mpi_fail(struct err *e, int code, int rc, const char *call);
/* No message is received from the peer any more or sent to it, and MESH_LOST is due. */
void mpi_peer_drop(struct mpi *t, struct mpi_peer *p, const char *why);

/* Sending. Takes a reference of buf. The caller has checked that there is room. */
void mpi_send_add(struct mpi *t, struct mpi_peer *p, const struct mpi_message *message);
/* A request of REQUEST_HEADS or later is complete. */
void mpi_send_done(struct mpi *t, struct mpi_peer *p, int request);
/* Gives MPI as many messages as it may have. Call it when all complete requests are handled: it uses them for
 * others. */
void mpi_send_waiting(struct mpi *t, struct mpi_peer *p);
void mpi_send_forget(struct mpi *t, struct mpi_peer *p); /* the messages that MPI has not got */

/* Receiving. */
void mpi_receive_head(struct mpi *t, struct mpi_peer *p);
/* REQUEST_HEAD or REQUEST_BODY is complete, with so many bytes. */
void mpi_receive_done(struct mpi *t, struct mpi_peer *p, int request, size_t len);
/* The payload of the first message of each peer, its processor's name. */
bool mpi_receive_hello(struct mpi *t, struct mpi_peer *p, const char *own_name);
/* Goes on with what has arrived. True: *out is a message. */
bool mpi_receive_next(struct mpi *t, struct mpi_peer *p, struct mesh_event *out);

static inline MPI_Request *mpi_request(struct mpi *t, const struct mpi_peer *p, int request)
{
    return &t->requests[(p - t->peers) * REQUESTS + request];
}

#endif
