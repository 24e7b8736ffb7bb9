/* mpi_receive -- the messages that arrive from one peer: a few heads at once, each into a slot of its own,
 * and one body at a time. A slot is free again, and the peer may send another message, when its message is
 * delivered, so that a peer that sends without pause waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/mesh/mpi/mesh_mpi_private.h"

static struct mpi_slot *next_slot(struct mpi_peer *p)
{
    return &p->slots[p->n_received % SLOTS];
}

static void receive_head(struct mpi *t, struct mpi_peer *p, int slot)
{
    p->slots[slot].is_full = false;
    mpi_check(t, p, "MPI_Irecv",
              MPI_Irecv(p->slots[slot].bytes, HEAD_MAX, MPI_BYTE, p->rank, TAG_HEAD, t->comm,
                        mpi_request(t, p, REQUEST_SLOTS + slot)));
}

static void receive_credit(struct mpi *t, struct mpi_peer *p)
{
    mpi_check(t, p, "MPI_Irecv",
              MPI_Irecv(p->credit, FRAME_BYTES, MPI_BYTE, p->rank, TAG_CREDIT, t->comm,
                        mpi_request(t, p, REQUEST_CREDIT)));
}

void mpi_receive_begin(struct mpi *t, struct mpi_peer *p)
{
    for (int slot = 0; slot < SLOTS; slot++)
        receive_head(t, p, slot);
    receive_credit(t, p);
}

bool mpi_receive_end(struct mpi *t, struct mpi_peer *p)
{
    for (int request = 0; request < REQUEST_GRANT; request++) {
        MPI_Request *r = mpi_request(t, p, request);

        if (*r == MPI_REQUEST_NULL)
            continue;
        if (MPI_Cancel(r) != MPI_SUCCESS || MPI_Wait(r, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
    }
    return true;
}

static void receive_piece(struct mpi *t, struct mpi_peer *p)
{
    size_t n = p->len - p->arrived;

    n = n < t->piece ? n : t->piece;
    p->arrival = ARRIVAL_BODY;
    mpi_check(t, p, "MPI_Irecv",
              MPI_Irecv(p->into + p->arrived, (int)n, MPI_BYTE, p->rank, TAG_BODY, t->comm,
                        mpi_request(t, p, REQUEST_BODY)));
}

/* Checks what is valid of any frame, and takes the credit that it grants. */
static bool read_frame(struct mpi *t, struct mpi_peer *p, struct frame *f, const unsigned char *bytes,
                       size_t len)
{
    struct err e = {0};
    char why[MESH_REASON_MAX];

    if (len < FRAME_BYTES)
        err_set(&e, ERR_PROTOCOL, "a head of %zu bytes", len);
    else if (frame_unpack(f, bytes, &e) == 0 &&
             (f->job != t->job || f->attempt != t->attempt || f->from != p->node || f->to != t->spec.node))
        err_set(&e, ERR_PROTOCOL, "a message of another job, attempt or node");
    else if (e.code == 0 && len != FRAME_BYTES + mpi_lead((size_t)f->len))
        err_set(&e, ERR_PROTOCOL, "a head of %zu bytes for a payload of %llu", len,
                (unsigned long long)f->len);
    else if (e.code == 0 && (int32_t)(p->n_sent - f->ack) < 0)
        err_set(&e, ERR_PROTOCOL, "a credit for message %u after message %u", f->ack, p->n_sent);
    if (e.code == 0) {
        /* A grant and a head may overtake each other. */
        if ((int32_t)(f->ack - p->n_granted) > 0)
            p->n_granted = f->ack;
        return true;
    }
    snprintf(why, sizeof why, "sent what is not valid: %.200s", e.text);
    mpi_peer_drop(t, p, why);
    return false;
}

/* Checks that the message in the next slot may follow the one before it. */
static bool check_order(struct mpi *t, struct mpi_peer *p, const struct frame *f)
{
    char why[MESH_REASON_MAX];

    if (f->seq == p->n_received + 1 && (f->kind == FRAME_HELLO) != p->has_greeted)
        return true;
    if (f->seq != p->n_received + 1)
        snprintf(why, sizeof why, "sent what is not valid: message %u after message %u", f->seq,
                 p->n_received);
    else
        snprintf(why, sizeof why, "sent what is not valid: %s",
                 p->has_greeted ? "a second HELLO" : "a message before its HELLO");
    mpi_peer_drop(t, p, why);
    return false;
}

static void on_body(struct mpi *t, struct mpi_peer *p, size_t len)
{
    p->arrived += len;
    if (len == 0)
        mpi_peer_drop(t, p, "sent a piece of a message without bytes");
    else if (p->arrived < p->len)
        receive_piece(t, p);
    else
        p->arrival = ARRIVAL_WHOLE;
}

void mpi_receive_done(struct mpi *t, struct mpi_peer *p, int request, size_t len)
{
    struct frame grant;

    if (p->is_lost)
        return;
    if (request == REQUEST_BODY)
        on_body(t, p, len);
    else if (request == REQUEST_CREDIT && read_frame(t, p, &grant, p->credit, len))
        receive_credit(t, p);
    else if (request < REQUEST_BODY) {
        struct mpi_slot *slot = &p->slots[request - REQUEST_SLOTS];

        slot->is_full = read_frame(t, p, &slot->frame, slot->bytes, len);
    }
    t->has_work = true;
}

/* The message of the next slot is delivered. */
static void free_slot(struct mpi *t, struct mpi_peer *p)
{
    receive_head(t, p, (int)(p->n_received % SLOTS));
    p->n_received++;
    p->arrival = ARRIVAL_AWAITED;
    mpi_send_grant(t, p);
}

bool mpi_receive_hello(struct mpi *t, struct mpi_peer *p, const char *own_name)
{
    const struct mpi_slot *slot = next_slot(p);

    if (!slot->is_full || p->is_lost || !check_order(t, p, &slot->frame))
        return false;
    p->has_greeted = true;
    p->is_local = slot->frame.len == strlen(own_name) &&
                  memcmp(slot->bytes + FRAME_BYTES, own_name, slot->frame.len) == 0;
    free_slot(t, p);
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
    const struct mpi_slot *slot = next_slot(p);
    const struct frame *f = &slot->frame;

    /* A head for which there is no place yet has been checked before. */
    if (p->arriving.kind == 0) {
        if (!check_order(t, p, f))
            return;
        if (f->kind == FRAME_BYE) {
            on_bye(t, p);
            return;
        }
        if (f->kind < FRAME_CONTRIBUTION || f->kind == FRAME_ACK) {
            mpi_peer_drop(t, p, "sent a frame that is no message");
            return;
        }
        p->arriving = (struct mesh_head){
            .kind = f->kind, .peer = p->node, .channel = f->channel, .index = f->index, .round = f->round};
        p->len = (size_t)f->len;
    }
    if (!find_place(t, p, p->len))
        return;
    p->arrived = mpi_lead(p->len);
    if (p->len > p->arrived)
        receive_piece(t, p);
    else
        p->arrival = ARRIVAL_WHOLE;
    if (p->arrived > 0)
        memcpy(p->into, slot->bytes + FRAME_BYTES, p->arrived);
}

bool mpi_receive_next(struct mpi *t, struct mpi_peer *p, struct mesh_event *out)
{
    if (p->is_lost || p->has_left || p->is_paused)
        return false;
    if (p->arrival == ARRIVAL_AWAITED && next_slot(p)->is_full)
        take_head(t, p);
    if (p->arrival != ARRIVAL_WHOLE || p->is_lost || p->has_left)
        return false;
    *out = (struct mesh_event){.kind = MESH_MESSAGE, .head = p->arriving, .buf = p->buf};
    p->buf = NULL;
    p->arriving = (struct mesh_head){0};
    free_slot(t, p);
    return true;
}
