/* Somebody between two nodes that link: bytes are changed, left out and put in, frames' checksums are made
 * right again or not, and all comes in pieces. Without an edit both ends open; who has been shown a changed
 * byte that counts never does. The first byte is a piece's length; then come edits, EDIT bytes each: which
 * byte of the 2 x 176, what is done to it, how. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/runner/mesh/tcp/tcp_link.h"
#include "shared/crc32c.h"
#include "tests/fuzz/unlogged.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CONNECTOR, /* node 1, which says hello and, shown a challenge, its proof */
    ACCEPTOR,  /* node 0: hello and challenge */
    HELLO_BYTES = FRAME_BYTES + HELLO_NONCE,
    SAID = HELLO_BYTES + FRAME_BYTES + 32, /* bytes that each end says */
    EDIT = 4,
    EDITS_MAX = 4
};
enum { XORS, REPAIRS, DROPS, DOUBLES, N_DOINGS };

struct edit {
    size_t at; /* of what its end says, as it says it */
    int doing;
    uint8_t mask; /* not 0 */
};

struct way { /* what one end says, on its way to the other */
    int fd;  /* this end of the sayer's socket */
    uint8_t said[SAID];
    size_t n_said, n_edited; /* bytes of it */
    uint8_t told[2 * SAID];  /* after the edits */
    size_t n_told;
    struct edit edits[EDITS_MAX];
    size_t n_edits;
};

static uint32_t checksum_of(const uint8_t head[FRAME_BYTES])
{
    return crc32c(head, 60);
}

/* Edits the next frame. */
static void edit(struct way *w)
{
    size_t from = w->n_edited, to = from < HELLO_BYTES ? HELLO_BYTES : SAID;
    uint8_t frame[SAID];
    uint32_t crc;

    if (w->n_said < to)
        abort(); /* frames are said whole */
    memcpy(frame, w->said + from, to - from);
    for (size_t k = 0; k < w->n_edits; k++) {
        const struct edit *ed = &w->edits[k];

        if (ed->at < from || ed->at >= to || ed->doing > REPAIRS)
            continue;
        frame[ed->at - from] ^= ed->mask;
        crc = checksum_of(frame);
        if (ed->doing == REPAIRS)
            memcpy(frame + 60, &crc, sizeof crc);
    }
    for (size_t i = from; i < to; i++) {
        int times = 1;

        for (size_t k = 0; k < w->n_edits; k++)
            if (w->edits[k].at == i && w->edits[k].doing >= DROPS)
                times = w->edits[k].doing == DROPS ? 0 : 2;
        for (; times > 0; times--)
            w->told[w->n_told++] = frame[i - from];
    }
    w->n_edited = to;
}

/* Hands on what has been said since, in pieces, with the hearer looking after each. */
static int hand_on(struct way *w, int to, struct tcp_link *hearer, const struct mesh_tcp_config *cfg,
                   size_t chunk)
{
    size_t from = w->n_told;
    struct err e;
    ssize_t got = recv(w->fd, w->said + w->n_said, SAID - w->n_said, MSG_DONTWAIT);

    w->n_said += got > 0 ? (size_t)got : 0;
    while (w->n_edited < w->n_said)
        edit(w);
    for (size_t at = from, k; at < w->n_told; at += k) {
        k = w->n_told - at < chunk ? w->n_told - at : chunk;
        if (send(to, w->told + at, k, MSG_NOSIGNAL) != (ssize_t)k)
            return -1;
        for (int left = 1; left > 0 && hearer->state != LINK_OPEN;)
            if (tcp_link_advance(hearer, cfg, &e) < 0 || ioctl(hearer->fd, FIONREAD, &left) < 0)
                return -1;
    }
    return 0;
}

/* Has the hearer of the frame at `from` to refuse it? With its checksum made right, a head is vouched for by
 * the proofs alone: job, attempt, from, to, and `ack` in a connector's hello and an acceptor's challenge. */
static bool is_changed(const struct way *w, int sayer, size_t from)
{
    size_t len = from == 0 ? HELLO_BYTES : SAID - HELLO_BYTES;
    bool has_ack = (from == 0) == (sayer == CONNECTOR);
    const uint8_t *told = w->told + from, *said = w->said + from;
    uint32_t crc = checksum_of(told);

    return w->n_told < from + len || memcmp(told + 60, &crc, sizeof crc) != 0 ||
           memcmp(told + 8, said + 8, 20) != 0 || (has_ack && memcmp(told + 52, said + 52, 4) != 0) ||
           memcmp(told + FRAME_BYTES, said + FRAME_BYTES, len - FRAME_BYTES) != 0;
}

static void take_edits(struct way ways[2], const uint8_t *data, size_t size)
{
    for (; size >= EDIT && ways[0].n_edits + ways[1].n_edits < EDITS_MAX; data += EDIT, size -= EDIT) {
        size_t at = (data[0] | (size_t)data[1] << 8) % (2 * SAID);
        struct way *w = &ways[at / SAID];
        struct edit ed = {.at = at % SAID, .doing = data[2] % N_DOINGS, .mask = data[3] ? data[3] : 1};

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
    static const uint32_t heard[1] = {7};
    struct mesh_tcp_config cfg[2];
    struct tcp_link ends[2];
    struct way ways[2] = {0};
    int fds[2][2];
    struct err e;

    if (size < 1)
        return 0;
    for (int i = 0; i < 2; i++) {
        cfg[i] = (struct mesh_tcp_config){
            .job = "j-fuzzed", .attempt = 1, .node = 1 - peers[i].node, .peers = &peers[i], .n_peers = 1};
        open_ends(fds[i]);
        ways[i].fd = fds[i][1];
    }
    take_edits(ways, data + 1, size - 1);
    ends[CONNECTOR] = (struct tcp_link){
        .fd = fds[CONNECTOR][0], .state = LINK_CONNECTING, .node = 0, .heard = heard};
    tcp_link_accepted(&ends[ACCEPTOR], &cfg[ACCEPTOR], heard, fds[ACCEPTOR][0]);
    if (tcp_link_advance(&ends[CONNECTOR], &cfg[CONNECTOR], &e) < 0)
        abort();
    for (int turn = 0; turn < 2; turn++) /* hello, hello and challenge, proof */
        for (int i = 0; i < 2; i++)
            if (hand_on(&ways[i], fds[1 - i][1], &ends[1 - i], &cfg[1 - i], 1u + data[0]) < 0)
                goto closed;
closed:
    for (int i = 0; i < 2; i++) /* whose hello was changed hears no proof that fits */
        if (ends[i].state == LINK_OPEN &&
            (is_changed(&ways[1 - i], 1 - i, 0) || is_changed(&ways[1 - i], 1 - i, HELLO_BYTES) ||
             is_changed(&ways[i], i, 0)))
            abort();
    if (ways[0].n_edits + ways[1].n_edits == 0 &&
        (ends[CONNECTOR].state != LINK_OPEN || ends[ACCEPTOR].state != LINK_OPEN))
        abort();
    for (int i = 0; i < 2; i++) {
        tcp_link_hang_up(&ends[i]);
        close(fds[i][1]);
    }
    return 0;
}
