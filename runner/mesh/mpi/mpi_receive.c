/* mpi_receive -- the messages that arrive from one peer, one at a time: the next head is received when the
 * message before it is delivered, so that a peer that sends without pause waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/mesh/mpi/mesh_mpi_private.h"

void mpi_receive_head(struct mpi *t, struct mpi_peer *p)
{
    p->arrival = ARRIVAL_AWAITED;
    MPI_Irecv(p->head, HEAD_MAX, MPI_BYTE, p->rank, TAG_HEAD, t->comm, mpi_request(t, p, REQUEST_HEAD));
}

static void receive_piece(struct mpi *t, struct mpi_peer *p)
{
    size_t n = p->len - p->arrived;

    n = n < PIECE_MAX ? n : PIECE_MAX;
    p->arrival = ARRIVAL_BODY;
    MPI_Irecv(p->into + p->arrived, (int)n, MPI_BYTE, p->rank, TAG_BODY, t->comm,
              mpi_request(t, p, REQUEST_BODY));
}

void mpi_receive_done(struct mpi *t, struct mpi_peer *p, int request, size_t len)
{
    if (p->is_lost)
        return;
    if (request == REQUEST_HEAD) {
        p->head_len = len;
        p->arrival = ARRIVAL_HEAD;
    } else {
        p->arrived += len;
        if (len == 0)
            mpi_peer_drop(t, p, "sent a piece of a message without bytes");
        else if (p->arrived < p->len)
            receive_piece(t, p);
        else
            p->arrival = ARRIVAL_WHOLE;
    }
    t->has_work = true;
}

/* Checks the head, and that its payload is in it or follows. */
static bool read_head(struct mpi *t, struct mpi_peer *p, struct frame *f)
{
    struct err e = {0};
    char why[MESH_REASON_MAX];

    if (p->head_len < FRAME_BYTES)
        err_set(&e, ERR_PROTOCOL, "a head of %zu bytes", p->head_len);
    else if (frame_unpack(f, p->head, &e) == 0 &&
             (f->job != t->job || f->attempt != t->attempt || f->from != p->node || f->to != t->spec.node))
        err_set(&e, ERR_PROTOCOL, "a message of another job, attempt or node");
    else if (e.code == 0 && f->seq != p->n_received + 1)
        err_set(&e, ERR_PROTOCOL, "message %u after message %u", f->seq, p->n_received);
    else if (e.code == 0 && p->head_len != FRAME_BYTES + (f->len <= INLINE_MAX ? (size_t)f->len : 0))
        err_set(&e, ERR_PROTOCOL, "a head of %zu bytes for a payload of %llu", p->head_len,
                (unsigned long long)f->len);
    else if (e.code == 0 && (f->kind == FRAME_HELLO) == p->has_greeted)
        err_set(&e, ERR_PROTOCOL, p->has_greeted ? "a second HELLO" : "a message before its HELLO");
    if (e.code == 0) {
        p->n_received++;
        return true;
    }
    snprintf(why, sizeof why, "sent what is not valid: %.200s", e.text);
    mpi_peer_drop(t, p, why);
    return false;
}

bool mpi_receive_hello(struct mpi *t, struct mpi_peer *p, const char *own_name)
{
    struct frame f;

    if (p->arrival != ARRIVAL_HEAD || !read_head(t, p, &f))
        return false;
    p->has_greeted = true;
    p->is_local = f.len == strlen(own_name) && memcmp(p->head + FRAME_BYTES, own_name, f.len) == 0;
    mpi_receive_head(t, p);
    return true;
}

static void on_bye(struct mpi *t, struct mpi_peer *p)
{
    p->has_left = true;
    mpi_send_forget(t, p);
    t->ended[t->n_ended++] = (struct mesh_event){.kind = MESH_LEFT, .head.peer = p->node};
}

/* A chunk that nobody wants, as the mesh closes. */
static enum mesh_sink_result find_unwanted(struct mpi_peer *p, size_t len, void **at)
{
    free(p->unwanted);
    p->unwanted = malloc(len + 1);
    *at = p->unwanted;
    return p->unwanted ? MESH_SINK_READY : MESH_SINK_REFUSED;
}

/* Finds where the payload goes. False: it waits, or the peer is dropped. */
static bool find_place(struct mpi *t, struct mpi_peer *p, size_t len)
{
    char why[MESH_REASON_MAX];
    void *at = NULL;

    if (p->arriving.kind == FRAME_CHUNK) {
        enum mesh_sink_result where = t->is_closing   ? find_unwanted(p, len, &at)
                                      : !t->mesh.sink ? MESH_SINK_REFUSED
                                                      : t->mesh.sink(t->mesh.owner, &p->arriving, len, &at);

        p->into = at;
        if (where == MESH_SINK_LATER)
            p->is_paused = true;
        if (where == MESH_SINK_REFUSED)
            mpi_peer_drop(t, p, "sent a chunk that nothing awaits");
        return where == MESH_SINK_READY;
    }
    if (len > t->pool.limit) {
        snprintf(why, sizeof why, "sent a message of %zu bytes, and the longest of this job has %zu", len,
                 t->pool.limit);
        mpi_peer_drop(t, p, why);
        return false;
    }
    p->buf = mesh_buf_take(&t->mesh);
    if (!p->buf) {
        mpi_peer_drop(t, p, "sent a message for which this node has no memory");
        return false;
    }
    p->buf->len = len;
    p->into = p->buf->bytes;
    return true;
}

/* Handles a head that has arrived, up to its body if that follows. */
static void take_head(struct mpi *t, struct mpi_peer *p)
{
    struct frame f;

    /* A head for which there is no place yet has been checked before. */
    if (p->arriving.kind == 0) {
        if (!read_head(t, p, &f))
            return;
        if (f.kind == FRAME_BYE) {
            on_bye(t, p);
            return;
        }
        if (f.kind < FRAME_CONTRIBUTION || f.kind == FRAME_ACK) {
            mpi_peer_drop(t, p, "sent a frame that is no message");
            return;
        }
        p->arriving = (struct mesh_head){
            .kind = f.kind, .peer = p->node, .channel = f.channel, .index = f.index, .round = f.round};
        p->len = (size_t)f.len;
    }
    if (!find_place(t, p, p->len))
        return;
    p->arrived = 0;
    if (p->len > INLINE_MAX) {
        receive_piece(t, p);
        return;
    }
    if (p->len > 0)
        memcpy(p->into, p->head + FRAME_BYTES, p->len);
    p->arrival = ARRIVAL_WHOLE;
}

bool mpi_receive_next(struct mpi *t, struct mpi_peer *p, struct mesh_event *out)
{
    if (p->is_lost || p->has_left || p->is_paused)
        return false;
    if (p->arrival == ARRIVAL_HEAD)
        take_head(t, p);
    if (p->arrival != ARRIVAL_WHOLE || p->is_lost || p->has_left)
        return false;
    *out = (struct mesh_event){.kind = MESH_MESSAGE, .head = p->arriving, .buf = p->buf};
    p->buf = NULL;
    p->arriving = (struct mesh_head){0};
    mpi_receive_head(t, p);
    return true;
}
