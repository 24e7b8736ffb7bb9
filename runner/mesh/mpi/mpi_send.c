/* mpi_send -- the messages that leave for one peer: they wait in a ring, and at most WINDOW are with MPI. */
#include <string.h>

#include "runner/mesh/mpi/mesh_mpi_private.h"

static size_t index_of(const struct mpi *t, const struct mpi_peer *p)
{
    return (size_t)(p - t->peers);
}

/* Gives MPI the next piece of a body. Bodies are received in the order of their heads, so that a later
 * message must not precede the rest of this one. */
static void give_piece(struct mpi *t, struct mpi_peer *p, int k)
{
    struct mpi_parcel *a = &p->parcels[k];
    size_t n = a->message.len - a->given;

    n = n < t->piece ? n : t->piece;
    mpi_check(t, p, "MPI_Isend",
              MPI_Isend((const char *)a->message.bytes + a->given, (int)n, MPI_BYTE, p->rank, TAG_BODY,
                        t->comm, mpi_request(t, p, REQUEST_BODIES + k)));
    a->given += n;
    p->incomplete = a->given < a->message.len ? k : -1;
}

static void give_message(struct mpi *t, struct mpi_peer *p, int k)
{
    struct mpi_parcel *a = &p->parcels[k];
    struct mpi_message *v = &a->message;
    bool is_bye;
    size_t lead;
    struct frame f;

    *v = p->waiting[p->first];
    p->first = (p->first + 1) % (MESH_QUEUE_MAX + 1);
    p->n_waiting--;
    lead = mpi_lead(v->len);
    is_bye = v->head.kind == FRAME_BYE;
    f = (struct frame){.kind = v->head.kind,
                       .job = t->job,
                       .attempt = t->attempt,
                       .from = t->spec.node,
                       .to = p->node,
                       .channel = v->head.channel,
                       .index = v->head.index,
                       .round = v->head.round,
                       .len = v->len,
                       .seq = ++p->n_sent,
                       .ack = p->n_received};
    frame_pack(a->head, &f);
    p->n_told = p->n_received;
    p->has_sent_bye |= is_bye;
    if (lead > 0)
        memcpy(a->head + FRAME_BYTES, v->bytes, lead);
    a->is_used = true;
    a->given = lead;
    /* mesh_close waits until BYE is received; other messages have a free slot, so that they do not fill the
     * peer's memory. */
    mpi_check(t, p, is_bye ? "MPI_Issend" : "MPI_Isend",
              (is_bye ? MPI_Issend : MPI_Isend)(a->head, FRAME_BYTES + (int)lead, MPI_BYTE, p->rank, TAG_HEAD,
                                                t->comm, mpi_request(t, p, REQUEST_HEADS + k)));
    if (lead < v->len && !p->is_lost)
        give_piece(t, p, k);
}

/* BYE needs no credit. */
static bool has_credit(const struct mpi_peer *p)
{
    return p->n_sent - p->n_granted < WINDOW || p->waiting[p->first].head.kind == FRAME_BYE;
}

void mpi_send_waiting(struct mpi *t, struct mpi_peer *p)
{
    for (int k = 0; k < WINDOW && p->n_waiting > 0 && p->incomplete < 0 && has_credit(p); k++)
        if (!p->parcels[k].is_used)
            give_message(t, p, k);
}

/* No grant follows BYE: the peer drops what waits, and no receive for a grant may be open when MPI ends. */
void mpi_send_grant(struct mpi *t, struct mpi_peer *p)
{
    const struct frame f = {.kind = FRAME_ACK,
                            .job = t->job,
                            .attempt = t->attempt,
                            .from = t->spec.node,
                            .to = p->node,
                            .ack = p->n_received};

    if (p->n_received - p->n_told < GRANT_AFTER || p->has_sent_bye || p->has_left || p->is_lost ||
        *mpi_request(t, p, REQUEST_GRANT) != MPI_REQUEST_NULL)
        return;
    frame_pack(p->grant, &f);
    p->n_told = p->n_received;
    mpi_check(t, p, "MPI_Isend",
              MPI_Isend(p->grant, FRAME_BYTES, MPI_BYTE, p->rank, TAG_CREDIT, t->comm,
                        mpi_request(t, p, REQUEST_GRANT)));
}

void mpi_send_add(struct mpi *t, struct mpi_peer *p, const struct mpi_message *message)
{
    p->waiting[(p->first + p->n_waiting++) % (MESH_QUEUE_MAX + 1)] = *message;
    if (message->buf)
        message->buf->refs++;
    t->n_unsent[index_of(t, p)]++;
    mpi_send_waiting(t, p);
}

void mpi_send_done(struct mpi *t, struct mpi_peer *p, int request)
{
    int k = (request - REQUEST_HEADS) % WINDOW;
    struct mpi_parcel *a;

    if (request == REQUEST_GRANT)
        return;
    a = &p->parcels[k];
    if (request >= REQUEST_BODIES && a->given < a->message.len)
        give_piece(t, p, k);
    /* Head and body may be complete together, and a body has several pieces. */
    if (a->is_used && a->given == a->message.len &&
        *mpi_request(t, p, REQUEST_HEADS + k) == MPI_REQUEST_NULL &&
        *mpi_request(t, p, REQUEST_BODIES + k) == MPI_REQUEST_NULL) {
        mesh_buf_put(a->message.buf);
        a->is_used = false;
        t->n_unsent[index_of(t, p)]--;
    }
}

void mpi_send_forget(struct mpi *t, struct mpi_peer *p)
{
    for (; p->n_waiting > 0; p->n_waiting--) {
        mesh_buf_put(p->waiting[p->first].buf);
        p->first = (p->first + 1) % (MESH_QUEUE_MAX + 1);
        t->n_unsent[index_of(t, p)]--;
    }
}
