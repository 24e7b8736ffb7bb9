/* A man in the middle of two nodes that link: bytes are changed, removed and duplicated, checksums of
 * frames are corrected or not, and everything is delivered in chunks. Without edits both ends open; an end
 * that received a change in a byte that matters never does. The first byte is the length of a chunk; then
 * come edits, EDIT bytes each: which byte of the 2 x 176, the kind of edit, the mask. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp_link.h"
#include "shared/base/crc32c.h"
#include "tests/fuzz/unlogged.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CONNECTOR, /* node 1, which sends a hello and, after a challenge, its proof */
    ACCEPTOR,  /* node 0: hello and challenge */
    SENT_BYTES = HELLO_BYTES + FRAME_BYTES + 32, /* bytes that each end sends */
    EDIT = 4,
    EDITS_MAX = 4
};
enum { XORS, REPAIRS, DROPS, DUPLICATES, N_EDIT_KINDS };

struct edit {
    size_t at; /* offset in the bytes that its end sends, in the order of sending */
    int kind;
    uint8_t mask; /* not 0 */
};

struct direction { /* one direction */
    int fd;        /* this end of the sender's socket */
    uint8_t sent[SENT_BYTES];
    size_t n_sent, n_edited;           /* bytes of it */
    uint8_t forwarded[2 * SENT_BYTES]; /* after the edits */
    size_t n_forwarded;
    struct edit edits[EDITS_MAX];
    size_t n_edits;
};

static uint32_t checksum_of(const uint8_t head[FRAME_BYTES])
{
    return crc32c(head, 60);
}

/* Edits the next frame. */
static void edit(struct direction *w)
{
    size_t from = w->n_edited, to = from < HELLO_BYTES ? HELLO_BYTES : SENT_BYTES;
    uint8_t frame[SENT_BYTES];
    uint32_t crc;

    if (w->n_sent < to)
        abort(); /* frames are sent whole */
    memcpy(frame, w->sent + from, to - from);
    for (size_t k = 0; k < w->n_edits; k++) {
        const struct edit *ed = &w->edits[k];

        if (ed->at < from || ed->at >= to || ed->kind > REPAIRS)
            continue;
        frame[ed->at - from] ^= ed->mask;
        crc = checksum_of(frame);
        if (ed->kind == REPAIRS)
            memcpy(frame + 60, &crc, sizeof crc);
    }
    for (size_t i = from; i < to; i++) {
        int times = 1;

        for (size_t k = 0; k < w->n_edits; k++)
            if (w->edits[k].at == i && w->edits[k].kind >= DROPS)
                times = w->edits[k].kind == DROPS ? 0 : 2;
        for (; times > 0; times--)
            w->forwarded[w->n_forwarded++] = frame[i - from];
    }
    w->n_edited = to;
}

/* Forwards the bytes sent since, in chunks; the receiver advances after each. */
static int forward(struct direction *w, int to, struct tcp_link *receiver, const struct tcp_config *cfg,
                   size_t chunk)
{
    size_t from = w->n_forwarded;
    struct err e;
    ssize_t got = recv(w->fd, w->sent + w->n_sent, SENT_BYTES - w->n_sent, MSG_DONTWAIT);

    w->n_sent += got > 0 ? (size_t)got : 0;
    while (w->n_edited < w->n_sent)
        edit(w);
    for (size_t at = from, k; at < w->n_forwarded; at += k) {
        k = w->n_forwarded - at < chunk ? w->n_forwarded - at : chunk;
        if (send(to, w->forwarded + at, k, MSG_NOSIGNAL) != (ssize_t)k)
            return -1;
        for (int left = 1; left > 0 && receiver->state != LINK_OPEN;)
            if (tcp_link_advance(receiver, cfg, &e) < 0 || ioctl(receiver->fd, FIONREAD, &left) < 0)
                return -1;
    }
    return 0;
}

/* Whether the receiver must refuse the frame at `from`. With a corrected checksum, only the proofs protect
 * a header: job, attempt, from, to, and `ack` in an acceptor's challenge and a connector's proof. */
static bool is_changed(const struct direction *w, size_t from)
{
    size_t len = from == 0 ? HELLO_BYTES : SENT_BYTES - HELLO_BYTES;
    bool has_ack = from != 0;
    const uint8_t *forwarded = w->forwarded + from, *sent = w->sent + from;
    uint32_t crc = checksum_of(forwarded);

    return w->n_forwarded < from + len || memcmp(forwarded + 60, &crc, sizeof crc) != 0 ||
           memcmp(forwarded + 8, sent + 8, 20) != 0 ||
           (has_ack && memcmp(forwarded + 52, sent + 52, 4) != 0) ||
           memcmp(forwarded + FRAME_BYTES, sent + FRAME_BYTES, len - FRAME_BYTES) != 0;
}

static void take_edits(struct direction directions[2], const uint8_t *data, size_t size)
{
    for (; size >= EDIT && directions[0].n_edits + directions[1].n_edits < EDITS_MAX;
         data += EDIT, size -= EDIT) {
        size_t at = (data[0] | (size_t)data[1] << 8) % (2 * SENT_BYTES);
        struct direction *w = &directions[at / SENT_BYTES];
        struct edit ed = {
            .at = at % SENT_BYTES, .kind = data[2] % N_EDIT_KINDS, .mask = data[3] ? data[3] : 1};

        w->edits[w->n_edits++] = ed;
    }
}

static void open_ends(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mesh_peer peers[2] = {
        [CONNECTOR] = {.node = 0, .key = {1, 2, 3}}, [ACCEPTOR] = {.node = 1, .key = {1, 2, 3}}};
    static const uint32_t received[1] = {7};
    static const struct sockaddr_storage here = {.ss_family = AF_UNIX};
    struct tcp_config cfg[2];
    struct tcp_link ends[2];
    struct direction directions[2] = {0};
    int fds[2][2];
    struct err e;

    if (size < 1)
        return 0;
    for (int i = 0; i < 2; i++) {
        cfg[i] = (struct tcp_config){
            .spec.node = 1 - peers[i].node,
            .address = {.job = "j-fuzzed", .attempt = 1, .peers = &peers[i], .n_peers = 1}};
        open_ends(fds[i]);
        directions[i].fd = fds[i][1];
    }
    take_edits(directions, data + 1, size - 1);
    ends[CONNECTOR] = (struct tcp_link){
        .fd = fds[CONNECTOR][0], .at = here, .state = LINK_CONNECTING, .node = 0, .received = received};
    tcp_link_accepted(&ends[ACCEPTOR], &cfg[ACCEPTOR], received, fds[ACCEPTOR][0], &here, sizeof here);
    if (tcp_link_advance(&ends[CONNECTOR], &cfg[CONNECTOR], &e) < 0)
        abort();
    for (int turn = 0; turn < 2; turn++) /* hello, hello and challenge, proof */
        for (int i = 0; i < 2; i++)
            if (forward(&directions[i], fds[1 - i][1], &ends[1 - i], &cfg[1 - i], 1u + data[0]) < 0)
                goto closed;
closed:
    for (int i = 0; i < 2; i++) /* an end whose hello was changed receives no matching proof */
        if (ends[i].state == LINK_OPEN &&
            (is_changed(&directions[1 - i], 0) || is_changed(&directions[1 - i], HELLO_BYTES) ||
             is_changed(&directions[i], 0)))
            abort();
    if (directions[0].n_edits + directions[1].n_edits == 0 &&
        (ends[CONNECTOR].state != LINK_OPEN || ends[ACCEPTOR].state != LINK_OPEN))
        abort();
    for (int i = 0; i < 2; i++) {
        tcp_link_hang_up(&ends[i]);
        close(fds[i][1]);
    }
    return 0;
}
