/* Any frames and any bytes from a linked peer: for any division into chunks, the same messages are
 * received, the peer ends in the same state, and nothing is written outside a message's sink. The first
 * four bytes are the lengths of chunks; then come frames, FIELDS bytes each. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp.h"
#include "shared/base/crc32c.h"
#include "tests/fuzz/unlogged.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_CHUNKS = 4,
    FIELDS = 7,
    LIMIT = 300,
    FRAMES_MAX = 12,
    SINKS_MAX = FRAMES_MAX,
    MINE = 2,
    SEND_POOL = 200
};

static unsigned char send_pool[SEND_POOL]; /* the peer's: allocated so that a sanitizer sees its end */

struct stream {
    uint8_t bytes[FRAMES_MAX * (FRAME_BYTES + 512)];
    size_t n;
    uint32_t next_seq;
};

/* Valid unless its fields say otherwise, so that most get past the checksums. */
static void add_frame(struct stream *s, const uint8_t in[FIELDS])
{
    bool is_next = in[4] < 224;
    int flaw = in[6] % 64;
    struct frame f = {
        .kind = (enum frame_kind)(FRAME_CONTRIBUTION + in[0] % (FRAME_KINDS - FRAME_CONTRIBUTION)),
        .job = 5,
        .attempt = flaw == 1 ? 2 : 1,
        .from = flaw == 2 ? 2 : 1,
        .len = (uint64_t)in[1] * (1 + in[6] / 128u),
        .index = in[2],
        .round = in[3],
        .seq = is_next ? s->next_seq : s->next_seq + in[4] - 240u,
        .ack = in[5] % (MINE + 2)};
    uint8_t *head = s->bytes + s->n, *payload = head + FRAME_BYTES;

    if (flaw == 3)
        f.kind = (enum frame_kind)(FRAME_HELLO + in[0] % 3);
    if (f.kind == FRAME_ACK)
        f.seq = 0;
    else
        s->next_seq += is_next;
    for (size_t i = 0; i < f.len; i++)
        payload[i] = (uint8_t)(in[2] + i);
    if (flaw >= 32 && flaw < 48) {
        f.is_descriptor = true;
        f.len = flaw == 32 ? f.len : FRAME_DESCRIPTOR_BYTES;
        frame_descriptor_pack(payload, flaw == 33 ? UINT64_MAX - in[2] : in[2], in[1]);
    }
    f.crc = crc32c(payload, f.len) ^ (flaw == 4);
    frame_pack(head, &f);
    if (flaw == 5)
        head[in[2] % FRAME_BYTES] ^= (uint8_t)(1 << in[3] % 8);
    s->n += FRAME_BYTES + (flaw == 6 ? f.len / 2 : f.len);
}

struct received {
    uint32_t crc; /* of all messages */
    size_t n;
    void *sinks[SINKS_MAX];
    size_t n_sinks, last_len; /* of the last sink */
    uint64_t asked_for;       /* the round of the chunk that had no sink yet */
};

/* Each sink is an allocation of its own, so that a write beyond it is detected. */
static enum mesh_sink_result sink(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    struct received *r = owner;

    if (h->index % 8 == 7 || len > LIMIT || r->n_sinks == SINKS_MAX)
        return MESH_SINK_REFUSED;
    if (h->index % 8 == 6 && r->asked_for != h->round + 1) {
        r->asked_for = h->round + 1;
        return MESH_SINK_LATER;
    }
    r->asked_for = 0;
    r->last_len = len;
    *at = r->sinks[r->n_sinks++] = malloc(len > 0 ? len : 1);
    if (!*at)
        abort();
    return MESH_SINK_READY;
}

static void note(struct received *r, const struct mesh_event *ev)
{
    const struct mesh_head *h = &ev->head;
    const uint64_t fields[] = {ev->kind, h->kind, (uint64_t)h->peer, h->channel, h->index, h->round};

    r->crc = crc32c_more(r->crc, fields, sizeof fields);
    if (ev->buf)
        r->crc = crc32c_more(r->crc, ev->buf->bytes, ev->buf->len);
    else
        r->crc = crc32c_more(r->crc, r->sinks[r->n_sinks - 1], r->last_len);
    r->n++;
    mesh_buf_put(ev->buf);
}

/* The rest of the socket's input. */
static void receive(struct tcp *t, struct tcp_peer *p, struct received *r)
{
    struct mesh_event ev;
    bool is_message;
    int left = 0;

    do {
        if (p->is_paused)
            tcp_peer_watch(t, p, p->is_writing, false);
        is_message = tcp_peer_receive(t, p, &ev);
        if (is_message)
            note(r, &ev);
        if (p->fd >= 0 && ioctl(p->fd, FIONREAD, &left) < 0)
            abort();
    } while (p->fd >= 0 && (is_message || left > 0 || p->is_paused));
}

struct outcome {
    uint32_t crc, received, acked;
    size_t n, n_sinks, n_header, n_payload;
    bool is_linked, is_gone, has_left;
};

static struct outcome run(const struct stream *s, const uint8_t *chunks, size_t n_chunks)
{
    static const struct mesh_peer peer = {.node = 1};
    struct tcp_peer *p = calloc(1, sizeof *p);
    struct received r = {0};
    struct mesh_event ended[2];
    uint32_t received[1] = {0};
    struct tcp t = {.mesh = {.pool = &t.pool, .sink = sink, .owner = &r},
                    .pool.limit = LIMIT,
                    .cfg.address = {.attempt = 1, .peers = &peer, .n_peers = 1},
                    .job = 5,
                    .epoll = epoll_create1(0),
                    .n_peers = 1,
                    .n_awaited = 1,
                    .peers = p,
                    .received = received,
                    .ended = ended};
    struct outcome out;
    int fds[2];

    if (!p || t.epoll < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        abort();
    p->node = 1;
    p->fd = -1;
    p->theirs = (struct sealed){send_pool, sizeof send_pool};
    tcp_peer_adopt(&t, p, fds[0], NULL, 0);
    for (int k = 0; k < MINE; k++)
        tcp_peer_enqueue(&t, p, &(struct tcp_message){.head.kind = FRAME_CONTRIBUTION, .head.peer = 1});
    for (size_t at = 0, k = 0, n; at < s->n && p->fd >= 0; at += n, k++) {
        n = n_chunks > 0 ? 1u + chunks[k % n_chunks] : s->n;
        n = n < s->n - at ? n : s->n - at;
        if (send(fds[1], s->bytes + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            abort();
        receive(&t, p, &r);
    }
    out = (struct outcome){.crc = r.crc,
                           .received = received[0],
                           .acked = p->acked,
                           .n = r.n,
                           .n_sinks = r.n_sinks,
                           .n_header = p->n_header,
                           .n_payload = p->n_payload,
                           .is_linked = p->state == PEER_LINKED,
                           .is_gone = p->state == PEER_GONE,
                           .has_left = p->has_left};
    if (p->state != PEER_GONE)
        tcp_peer_drop(&t, p, "");
    mesh_pool_clear(&t.pool);
    for (size_t k = 0; k < r.n_sinks; k++)
        free(r.sinks[k]);
    close(fds[1]);
    close(t.epoll);
    free(p);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stream s;
    struct outcome whole, split;

    if (size < N_CHUNKS + FIELDS)
        return 0;
    for (size_t i = 0; i < sizeof send_pool; i++)
        send_pool[i] = (uint8_t)(i * 5);
    s.n = 0;
    s.next_seq = 1;
    for (size_t k = 0; k < FRAMES_MAX && N_CHUNKS + (k + 1) * FIELDS <= size; k++)
        add_frame(&s, data + N_CHUNKS + k * FIELDS);
    whole = run(&s, NULL, 0);
    split = run(&s, data, N_CHUNKS);
    if (whole.crc != split.crc || whole.received != split.received || whole.acked != split.acked ||
        whole.n != split.n || whole.n_sinks != split.n_sinks || whole.n_header != split.n_header ||
        whole.n_payload != split.n_payload || whole.is_linked != split.is_linked ||
        whole.is_gone != split.is_gone || whole.has_left != split.has_left)
        abort();
    return 0;
}
