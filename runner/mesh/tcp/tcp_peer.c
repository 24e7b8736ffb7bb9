/* tcp_peer -- sends and receives the messages of one peer of mesh_tcp (tcp.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp.h"
#include "shared/base/clock.h"
#include "shared/base/crc32c.h"

enum {
    AT_ONCE = 1 << 18, /* bytes per system call, so that both directions and all peers progress */
    TURN = AT_ONCE + TCP_STAGE_BYTES, /* bytes of one peer before the next: a chunk and its header */
    /* Each message acknowledges those received before. Without one, an ACK frame is sent after so many
     * messages or bytes: the peer keeps every message until it is acknowledged. */
    ACK_AFTER_MESSAGES = 32,
    ACK_AFTER_BYTES = 1 << 22,
    DESCRIPTOR_ACK_WEIGHT = ACK_AFTER_MESSAGES / SEND_POOL_DESCRIPTORS_MAX +
                            1 /* counts as so many messages, because there are few slots */
};

static const double SOUND_S = 1; /* a connection that has lasted so long was working */

static size_t queue_size(void)
{
    return sizeof((struct tcp_peer *)0)->queue / sizeof((struct tcp_peer *)0)->queue[0];
}

static struct tcp_message *message_at(struct tcp_peer *p, size_t i)
{
    return &p->queue[(p->first + i) % queue_size()];
}

void tcp_peer_watch(struct tcp *t, struct tcp_peer *p, bool writing, bool paused)
{
    uint32_t events = (paused ? 0u : EPOLLIN) | (writing ? EPOLLOUT : 0u);
    struct epoll_event ev = {.events = events, .data.ptr = p};
    bool is_new = writing != p->is_writing || paused != p->is_paused;

    p->is_writing = writing;
    p->is_paused = paused;
    if (p->fd >= 0 && is_new)
        epoll_ctl(t->epoll, EPOLL_CTL_MOD, p->fd, &ev);
}

static void release(struct tcp_peer *p, size_t n)
{
    for (; n > 0; n--) {
        mesh_buf_put(p->queue[p->first].buf);
        p->n_descriptors -= p->queue[p->first].is_descriptor;
        p->first = (p->first + 1) % queue_size();
        p->acked++;
        if (p->n_in_flight > 0)
            p->n_in_flight--;
        else
            p->n_unsent--;
    }
}

/* Removes from the queue the messages that the peer has received, except one that is partly sent: its frame
 * must be completed. */
static void release_received(struct tcp_peer *p)
{
    int32_t n = (int32_t)(p->received - p->acked);
    size_t most = p->n_in_flight + (p->sends == SENDS_MESSAGE ? 0 : p->n_unsent);

    if (n > 0)
        release(p, (size_t)n < most ? (size_t)n : most);
}

/* Has the peer received the BYE of this node, which closes and has nothing more to send? */
static bool has_said_bye(const struct tcp *t, const struct tcp_peer *p)
{
    return t->is_closing && p->n_in_flight + p->n_unsent == 0;
}

/* Resets the connection's own state: the frames partly sent and received. A sink stays: the peer sends the
 * same message again. */
static void disconnect(struct tcp_peer *p)
{
    tls_close(p->tls);
    p->tls = NULL;
    close(p->fd); /* removes it from epoll, too */
    p->fd = -1;
    p->sends = SENDS_NOTHING;
    p->n_header = p->n_payload = p->n_stage = p->stage_at = 0;
    p->is_writing = false;
    release_received(p);
}

/* A dropped peer may still run and later read slots that its descriptors refer to: they must not be
 * reused. */
static void withdraw_slots(struct tcp_peer *p)
{
    for (size_t i = 0; i < p->n_in_flight + p->n_unsent; i++)
        if (message_at(p, i)->is_descriptor)
            send_pool_withdraw(message_at(p, i)->buf);
}

void tcp_peer_drop(struct tcp *t, struct tcp_peer *p, const char *why)
{
    struct mesh_event *ended = &t->ended[t->n_ended++];

    if (p->fd >= 0)
        disconnect(p);
    if (p->state == PEER_AWAITED)
        t->n_awaited--;
    p->state = PEER_GONE;
    mesh_buf_put(p->buf);
    p->buf = NULL;
    if (!p->has_left && !p->has_ended)
        withdraw_slots(p);
    release(p, p->n_in_flight + p->n_unsent);
    *ended = (struct mesh_event){.kind = p->has_left ? MESH_LEFT : MESH_LOST, .head.peer = p->node};
    if (!p->has_left)
        snprintf(ended->why, sizeof ended->why, "%s", why);
}

void tcp_peer_break(struct tcp *t, struct tcp_peer *p, double timeout, const char *why)
{
    double now = clock_now();

    disconnect(p);
    if (p->has_left || has_said_bye(t, p)) {
        tcp_peer_drop(t, p, "");
        return;
    }
    p->state = PEER_AWAITED;
    t->n_awaited++;
    t->maintain_at = 0;
    /* A connection that breaks at once and carries no message does not restart the timeout. */
    if (now - p->linked_at > SOUND_S || p->lost_at == 0) {
        p->broken_at = now;
        p->lost_at = now + timeout;
        p->redial_at = now;
        p->pause = TCP_FIRST_PAUSE_S;
        p->was_seen = false;
    }
    snprintf(p->why, sizeof p->why, "%s", why);
    fprintf(stderr, "node %d %s\n", p->node, why);
}

static void broken(struct tcp *t, struct tcp_peer *p, const char *why)
{
    tcp_peer_break(t, p, TCP_TIMEOUT_S, why);
}

static void broken_by(struct tcp *t, struct tcp_peer *p, int error)
{
    char why[MESH_REASON_MAX];

    snprintf(why, sizeof why, "ended the connection%s%s", error ? ": " : "", error ? strerror(error) : "");
    broken(t, p, why);
}

/* The peer has received all messages up to `ack`. False: `ack` is invalid. It may be ahead of what this
 * connection carried: the handshake states what the peer had received when it wrote that frame, and until the
 * handshake was complete the peer may have read more of the connection before. */
static bool take_ack(struct tcp_peer *p, uint32_t ack)
{
    if ((int32_t)(ack - p->received) <= 0)
        return true; /* outdated: another frame acknowledged more */
    if ((int32_t)(ack - p->sent) > 0)
        return false;
    p->received = ack;
    release_received(p);
    p->lost_at = 0;
    return true;
}

/* Starts the next frame unless one is partly sent. False: there is nothing to send. */
static bool next_frame(struct tcp *t, struct tcp_peer *p)
{
    struct frame f = {.job = t->job,
                      .attempt = t->cfg.address.attempt,
                      .from = t->cfg.spec.node,
                      .to = p->node,
                      .ack = t->received[p - t->peers]};

    if (p->sends != SENDS_NOTHING)
        return true;
    if (p->n_unsent > 0 && p->n_in_flight < TCP_IN_FLIGHT_MAX) {
        struct tcp_message *m = message_at(p, p->n_in_flight);

        if (!m->has_crc) {
            m->crc = crc32c(m->bytes, m->len);
            m->has_crc = true;
        }
        f.kind = m->head.kind;
        f.channel = m->head.channel;
        f.index = m->head.index;
        f.round = m->head.round;
        f.len = m->len;
        f.seq = p->acked + (uint32_t)p->n_in_flight + 1;
        f.crc = m->crc;
        f.is_descriptor = m->is_descriptor;
        p->sends = SENDS_MESSAGE;
    } else if (p->n_to_ack >= ACK_AFTER_MESSAGES || p->bytes_to_ack >= ACK_AFTER_BYTES) {
        f.kind = FRAME_ACK;
        p->sends = SENDS_ACK;
    } else {
        return false;
    }
    p->n_to_ack = p->bytes_to_ack = 0;
    p->n_out = 0;
    frame_pack(p->out, &f);
    return true;
}

static void count_as_sent(struct tcp_peer *p)
{
    p->n_in_flight++;
    p->n_unsent--;
    if ((int32_t)(p->acked + (uint32_t)p->n_in_flight - p->sent) > 0)
        p->sent = p->acked + (uint32_t)p->n_in_flight;
    release_received(p);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void tcp_peer_flush(struct tcp *t, struct tcp_peer *p, size_t budget)
{
    while (p->fd >= 0 && budget > 0 && next_frame(t, p)) {
        const struct tcp_message *m = p->sends == SENDS_MESSAGE ? message_at(p, p->n_in_flight) : NULL;
        size_t len = m ? m->len : 0;
        size_t head_out = smaller(p->n_out, FRAME_BYTES);
        size_t at = p->n_out - head_out;
        struct iovec v[2] = {{p->out + head_out, FRAME_BYTES - head_out},
                             {at < len ? (void *)(m->bytes + at) : NULL, smaller(len - at, AT_ONCE)}};
        struct msghdr msg = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = p->tls ? tls_send(p->tls, v, 2) : sendmsg(p->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            broken_by(t, p, errno);
            return;
        }
        n = n < 0 ? 0 : n;
        p->n_out += (size_t)n;
        p->has_progressed |= n > 0;
        budget -= smaller(budget, (size_t)n);
        if (p->n_out == FRAME_BYTES + len) {
            p->sends = SENDS_NOTHING;
            if (m)
                count_as_sent(p);
        } else if (p->tls ? n == 0 : (size_t)n < v[0].iov_len + v[1].iov_len) {
            tcp_peer_watch(t, p, true, p->is_paused);
            return;
        }
    }
    if (p->fd < 0)
        return;
    if (p->has_left ? !next_frame(t, p) : has_said_bye(t, p))
        tcp_peer_drop(t, p, "");
    else /* when the budget is used up, epoll reports the peer again, even if nothing is queued yet */
        tcp_peer_watch(t, p, budget == 0 || next_frame(t, p), p->is_paused);
}

/* Sends at most AT_ONCE bytes, so that long messages alternate with receiving. Otherwise megabytes would
 * fill the socket buffers and have left both ends' caches when they are received. */
void tcp_peer_enqueue(struct tcp *t, struct tcp_peer *p, const struct tcp_message *m)
{
    struct tcp_message *mine = message_at(p, p->n_in_flight + p->n_unsent);

    *mine = *m;
    if (m->is_descriptor) {
        send_pool_describe(mine->descriptor, p->mine, m->bytes, m->len);
        mine->bytes = mine->descriptor;
        mine->len = sizeof mine->descriptor;
        p->n_descriptors++;
    }
    if (m->buf)
        m->buf->refs++;
    p->n_unsent++;
    if (!p->is_writing)
        tcp_peer_flush(t, p, AT_ONCE);
}

/* The peer receives nothing more: drops the messages queued for it, except a frame partly sent, and
 * acknowledges its BYE, unless this node has sent its own, which serves as acknowledgement: nothing is sent
 * after a BYE. */
static void take_bye(struct tcp *t, struct tcp_peer *p)
{
    bool sent_bye = p->n_in_flight > 0 && message_at(p, p->n_in_flight - 1)->head.kind == FRAME_BYE;
    size_t begun = p->sends == SENDS_MESSAGE ? 1 : 0;

    p->has_left = true;
    release(p, p->n_in_flight);
    for (; p->n_unsent > begun; p->n_unsent--)
        mesh_buf_put(message_at(p, p->n_unsent - 1)->buf);
    p->n_to_ack = sent_bye ? 0 : ACK_AFTER_MESSAGES;
    p->bytes_to_ack = 0;
    tcp_peer_flush(t, p, AT_ONCE);
}

/* Chooses the destination of the payload. Pauses the peer if a chunk has none yet. ERR_PROTOCOL,
 * ERR_NOMEM. */
static int find_sink(struct tcp *t, struct tcp_peer *p, struct err *e)
{
    const struct mesh_head head = {.kind = p->frame.kind,
                                   .peer = p->node,
                                   .channel = p->frame.channel,
                                   .index = p->frame.index,
                                   .round = p->frame.round};
    enum mesh_sink_result where = MESH_SINK_READY;
    void *at = NULL;

    if (p->frame.kind == FRAME_CHUNK && !t->is_closing) {
        where = t->mesh.sink ? t->mesh.sink(t->mesh.owner, &head, p->frame.len, &at) : MESH_SINK_REFUSED;
        if (where == MESH_SINK_REFUSED)
            return err_set(e, ERR_PROTOCOL, "it sent an unexpected chunk");
        if (where == MESH_SINK_LATER) {
            tcp_peer_watch(t, p, p->is_writing, true);
            return 0;
        }
    } else if (p->frame.kind != FRAME_BYE && !t->is_closing) {
        p->buf = mesh_buf_take(&t->mesh);
        if (!p->buf)
            return err_set(e, ERR_NOMEM, "no memory for its message");
        p->buf->len = p->frame.len;
        at = p->frame.is_descriptor ? p->descriptor : p->buf->bytes;
    }
    p->into = at;
    p->sink_frame = p->frame;
    p->has_sink = true;
    return 0;
}

/* Checks that this peer may send this frame now; its header is complete and its checksum right.
 * ERR_PROTOCOL. */
static int check_frame(struct tcp *t, struct tcp_peer *p, struct err *e)
{
    const struct frame *f = &p->frame, *before = &p->sink_frame;
    uint32_t received = t->received[p - t->peers];

    if (f->job != t->job || f->attempt != t->cfg.address.attempt || f->from != p->node ||
        f->to != t->cfg.spec.node)
        return err_set(e, ERR_PROTOCOL, "it sent a frame of another job, attempt or node");
    if (f->kind != FRAME_CHUNK && f->len > (f->kind == FRAME_BYE || f->kind == FRAME_ACK ? 0 : t->pool.limit))
        return err_set(e, ERR_PROTOCOL, "it announced a message of %llu bytes; at most %zu are allowed",
                       (unsigned long long)f->len, t->pool.limit);
    if (f->is_descriptor && (!p->theirs.start || f->len != FRAME_DESCRIPTOR_BYTES))
        return err_set(e, ERR_PROTOCOL, "it sent a descriptor, but shares no memory");
    if (!take_ack(p, f->ack))
        return err_set(e, ERR_PROTOCOL, "it acknowledged a message that was not sent");
    if (f->kind == FRAME_ACK)
        return 0;
    p->is_duplicate = (int32_t)(f->seq - received) <= 0;
    if (!p->is_duplicate && f->seq != received + 1)
        return err_set(e, ERR_PROTOCOL, "it skipped a message");
    if (!p->is_duplicate && p->has_sink &&
        (f->kind != before->kind || f->is_descriptor != before->is_descriptor || f->len != before->len ||
         f->index != before->index || f->round != before->round || f->channel != before->channel))
        return err_set(e, ERR_PROTOCOL, "it sent another message under the same number");
    return 0;
}

/* Reads with one system call until `*have` is `want` bytes; a NULL `into` discards them. False: bytes are
 * still missing, or the connection is broken. */
static bool read_bytes(struct tcp *t, struct tcp_peer *p, unsigned char *into, size_t *have, size_t want)
{
    unsigned char nowhere[1 << 14];
    size_t n_staged = smaller(want - *have, p->n_stage);
    size_t chunk, asked;
    struct iovec v[2];
    struct msghdr msg = {.msg_iov = v, .msg_iovlen = 2};
    ssize_t n;

    if (into && n_staged > 0)
        memcpy(into + *have, p->stage + p->stage_at, n_staged);
    p->stage_at += n_staged;
    p->n_stage -= n_staged;
    p->n_taken += n_staged;
    *have += n_staged;
    if (*have == want)
        return true;
    if (p->is_drained)
        return false;
    chunk = smaller(want - *have, into ? AT_ONCE : sizeof nowhere);
    asked = chunk + (*have + chunk == want && !p->tls ? sizeof p->stage : 0);
    v[0] = (struct iovec){into ? into + *have : nowhere, chunk};
    v[1] = (struct iovec){p->stage, asked - chunk};
    do
        n = p->tls ? tls_recv(p->tls, v[0].iov_base, chunk) : recvmsg(p->fd, &msg, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        broken_by(t, p, n < 0 ? errno : 0);
        return false;
    }
    /* TLS returns at most one record, and may hold more bytes when the socket has none. */
    p->is_drained = n < 0 || (!p->tls && (size_t)n < asked);
    n = n < 0 ? 0 : n;
    p->stage_at = 0;
    p->n_stage = (size_t)n - smaller((size_t)n, chunk);
    p->n_taken += (size_t)n - p->n_stage;
    *have += (size_t)n - p->n_stage;
    return *have == want;
}

/* After a frame with an acknowledgement: sends what is queued, and an ACK if one is due. */
static void continue_sending(struct tcp *t, struct tcp_peer *p)
{
    if (has_said_bye(t, p))
        tcp_peer_drop(t, p, "");
    else if (!p->is_writing)
        tcp_peer_flush(t, p, AT_ONCE);
}

/* Counts the message of `frame` as received and not yet acknowledged. */
static void count_to_ack(struct tcp_peer *p)
{
    p->n_to_ack += p->frame.is_descriptor ? DESCRIPTOR_ACK_WEIGHT : 1;
    p->bytes_to_ack += p->frame.len;
}

/* Copies the message that the descriptor refers to. It has no checksum: no network can damage it, and
 * faulty memory would affect any data. ERR_PROTOCOL. */
static int fetch(struct tcp *t, struct tcp_peer *p, struct err *e)
{
    const void *bytes = send_pool_find(p->descriptor, p->theirs, t->pool.limit, &p->buf->len);

    if (!bytes)
        return err_set(e, ERR_PROTOCOL,
                       "it sent a descriptor of bytes beyond its memory or longer than a message");
    memcpy(p->buf->bytes, bytes, p->buf->len);
    return 0;
}

/* Accepts the complete message of `frame`. True: *out is set for the caller. */
static bool take_message(struct tcp *t, struct tcp_peer *p, struct mesh_event *out)
{
    t->received[p - t->peers]++;
    p->lost_at = 0;
    p->has_sink = false;
    if (p->frame.kind == FRAME_BYE) {
        take_bye(t, p);
        return false;
    }
    if (t->is_closing) { /* discarded; after the BYE nothing is sent */
        mesh_buf_put(p->buf);
        p->buf = NULL;
        return false;
    }
    *out = (struct mesh_event){.kind = MESH_MESSAGE,
                               .head = {.kind = p->frame.kind,
                                        .peer = p->node,
                                        .channel = p->frame.channel,
                                        .index = p->frame.index,
                                        .round = p->frame.round},
                               .buf = p->buf};
    p->buf = NULL;
    count_to_ack(p);
    continue_sending(t, p);
    return true;
}

bool tcp_peer_has_staged(const struct tcp_peer *p)
{
    return p->fd >= 0 && !p->is_paused &&
           (p->n_stage > 0 || (p->tls && tls_has_input(p->tls)) ||
            (p->n_header == FRAME_BYTES && !p->has_sink));
}

/* The header is complete. False: the peer is dropped, or the payload must wait for its sink. */
static bool begin_message(struct tcp *t, struct tcp_peer *p)
{
    struct err e = {0};

    if (check_frame(t, p, &e) < 0 ||
        (p->frame.kind != FRAME_ACK && !p->is_duplicate && !p->has_sink && find_sink(t, p, &e) < 0)) {
        tcp_peer_drop(t, p, e.text);
        return false;
    }
    return p->frame.kind == FRAME_ACK || p->is_duplicate || p->has_sink;
}

/* Polls do not report bytes buffered in TLS: such a peer is read until there are none, or its turn is
 * over. */
static bool has_more(const struct tcp_peer *p)
{
    return p->fd >= 0 && p->tls && !p->is_drained;
}

/* False: the next frame's header is incomplete, or the connection is broken. */
static bool read_header(struct tcp *t, struct tcp_peer *p)
{
    struct err e = {0};

    if (p->n_header == FRAME_BYTES)
        return true;
    if (!read_bytes(t, p, p->header, &p->n_header, FRAME_BYTES))
        return false;
    p->n_payload = 0;
    p->crc = 0;
    if (frame_unpack(&p->frame, p->header, &e) < 0)
        broken(t, p, "sent a damaged frame");
    else if (p->frame.kind < FRAME_CONTRIBUTION) /* the network duplicated bytes */
        broken(t, p, "sent a handshake frame in an open connection");
    return p->fd >= 0;
}

/* Destination of the frame's payload; NULL: discard it, as a duplicate or because the mesh is closing. */
static unsigned char *payload_sink(const struct tcp_peer *p)
{
    return p->is_duplicate || p->frame.kind == FRAME_ACK ? NULL : p->into;
}

/* False: the payload is incomplete, or the connection is broken. */
static bool read_payload(struct tcp *t, struct tcp_peer *p)
{
    unsigned char *into = payload_sink(p);
    size_t before = p->n_payload;
    bool is_whole = read_bytes(t, p, into, &p->n_payload, p->frame.len);

    if (into && p->fd >= 0)
        p->crc = crc32c_more(p->crc, into + before, p->n_payload - before);
    return is_whole;
}

/* Handles a complete frame. True: *out is its message. */
static bool end_frame(struct tcp *t, struct tcp_peer *p, struct mesh_event *out)
{
    struct err e = {0};

    p->n_header = 0;
    if (p->frame.kind == FRAME_ACK) {
        continue_sending(t, p);
        return false;
    }
    if (payload_sink(p) && p->crc != p->frame.crc) {
        broken(t, p, "sent a message that does not match its checksum");
        return false;
    }
    if (!p->is_duplicate && p->buf && p->frame.is_descriptor && fetch(t, p, &e) < 0) {
        tcp_peer_drop(t, p, e.text);
        return false;
    }
    if (!p->is_duplicate)
        return take_message(t, p, out);
    if (!t->is_closing) { /* a duplicate: acknowledge it again */
        count_to_ack(p);
        continue_sending(t, p);
    }
    return false;
}

bool tcp_peer_receive(struct tcp *t, struct tcp_peer *p, struct mesh_event *out)
{
    p->is_drained = false;
    p->n_taken = 0;
    while (p->fd >= 0 && p->n_taken < TURN) {
        bool has_header = read_header(t, p), is_whole;

        if (has_header && p->n_payload == 0 && !begin_message(t, p))
            return false;
        is_whole = has_header && read_payload(t, p);
        if (is_whole && end_frame(t, p, out))
            return true;
        if (!is_whole && !has_more(p))
            return false;
    }
    return false;
}

void tcp_peer_adopt(struct tcp *t, struct tcp_peer *p, int fd, struct tls *tls, uint32_t ack)
{
    struct epoll_event ev = {.events = p->is_paused ? 0 : EPOLLIN, .data.ptr = p};

    if (p->state == PEER_GONE) {
        tls_close(tls);
        close(fd);
        return;
    }
    if (p->fd >= 0)
        disconnect(p);
    if (p->state == PEER_AWAITED)
        t->n_awaited--;
    p->state = PEER_LINKED;
    p->was_seen = true;
    p->fd = fd;
    p->tls = tls;
    p->linked_at = clock_now();
    p->round_trip = tcp_link_round_trip(fd);
    p->has_progressed = true;
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
        broken(t, p, strerror(errno));
        return;
    }
    if (!take_ack(p, ack)) {
        tcp_peer_drop(t, p, "it acknowledged messages in the handshake that were not sent");
        return;
    }
    p->n_unsent += p->n_in_flight;
    p->n_in_flight = 0;
    p->n_to_ack = p->bytes_to_ack = 0; /* the handshake acknowledged them */
    if (t->is_open)
        fprintf(stderr, "node %d is reconnected\n", p->node);
    continue_sending(t, p);
}
