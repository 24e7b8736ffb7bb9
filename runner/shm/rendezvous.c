/* Protocol of a pair: the later node connects to the earlier node's name and sends JOIN with a proof that it
 * knows the pair's secret; the earlier node answers GIVE with its own proof and the descriptor of its memory;
 * the later node answers GIVE_BACK with the descriptor of its memory. Names are public (/proc/net/unix), and
 * any process can bind a name after its owner has ended, so no descriptor is sent before the other node's
 * proof, and the secret itself is never sent. Afterwards the connection carries single bytes as wakeups. */
#include "runner/shm/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "shared/base/fd_pass.h"

enum {
    MAGIC = 0x61677370, /* "psga" */
    JOIN = 1,
    GIVE = 2,
    GIVE_BACK = 3,
    TAG_LISTEN = -1,
    TAG_UNPROVEN = RENDEZVOUS_MAX, /* + index in `unproven`; smaller tags: members */
    NONCE = 16,
    EVENTS = 16,
    BYTES_AT_ONCE = 64,
};

struct shm_member { /* one node, this one included */
    int node;
    enum {
        MEMBER_UNKNOWN,    /* no secret known yet */
        MEMBER_EXPECTED,   /* will connect */
        MEMBER_JOINING,    /* has proved the secret and received this node's memory; its own is missing */
        MEMBER_CONNECTING, /* this node has sent JOIN; the answer is pending */
        MEMBER_JOINED,
        MEMBER_ENDED,   /* had joined; its memory stays mapped */
        MEMBER_EXCLUDED /* exchanges no memory with this node */
    } state;
    int fd; /* -1: none */
    uint8_t secret[RENDEZVOUS_SECRET_BYTES], nonce[NONCE];
    struct sealed memory;
};

struct rendezvous {
    const struct shm_source *source;
    int n, me;
    size_t min_bytes, max_bytes;
    struct shm_member members[RENDEZVOUS_MAX];
    int n_missing; /* members whose memory is not mapped yet */
    uint8_t name[RENDEZVOUS_NAME_BYTES];
    int epoll, listen_fd, memory_fd;       /* the last two: -1 once all have joined */
    int unproven[RENDEZVOUS_UNPROVEN_MAX]; /* accepted connections without a valid JOIN; -1: free */
    int next_unproven;                     /* the oldest, which is replaced next */
    struct err broken;                     /* the error that ended the rendezvous; code 0: none */
};

struct packet { /* in host byte order: both ends run on one machine */
    uint32_t magic, kind, from, to;
    uint8_t nonce[NONCE];        /* the later node's */
    uint8_t proof[SHA256_BYTES]; /* HMAC of the bytes before it with the pair's secret */
};

_Static_assert(offsetof(struct packet, proof) == 16 + NONCE && sizeof(struct packet) == 64, "no padding");

static void write_proof(uint8_t out[SHA256_BYTES], const struct packet *p, const struct shm_member *peer)
{
    hmac_sha256(out, peer->secret, sizeof peer->secret, p, offsetof(struct packet, proof));
}

/* Sends a packet to member i, with `fd` attached unless -1. It fits into a new socket's empty buffer. */
static int send_packet(const struct rendezvous *r, int i, uint32_t kind, int fd, struct err *e)
{
    const struct shm_member *peer = &r->members[i];
    struct packet p = {.magic = MAGIC, .kind = kind, .from = (uint32_t)r->me, .to = (uint32_t)i};

    memcpy(p.nonce, peer->nonce, sizeof p.nonce);
    write_proof(p.proof, &p, peer);
    if (fd_pass_send(peer->fd, &p, sizeof p, fd, MSG_DONTWAIT) != (ssize_t)sizeof p)
        return err_errno(e, ERR_LOST, "node %d, on this machine", peer->node);
    return 0;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd); /* removes it from epoll, too */
    *fd = -1;
}

/* Receives the next packet, which must be of this kind and for this node. *fd is the attached descriptor,
 * or -1. 1: received; 0: none yet; ERR_PROTOCOL: another packet; ERR_LOST: end of the connection. */
static int receive_packet(const struct rendezvous *r, int from, uint32_t kind, struct packet *p, int *fd)
{
    ssize_t n = fd_pass_receive(from, p, sizeof *p, fd, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return ERR_LOST;
    if (n == (ssize_t)sizeof *p && p->magic == MAGIC && p->kind == kind && p->to == (uint32_t)r->me)
        return 1;
    shut(fd);
    /* An empty packet looks like the end of the connection too, and can carry a descriptor: closed above. */
    return n == 0 ? ERR_LOST : ERR_PROTOCOL;
}

static bool is_proved(const struct packet *p, const struct shm_member *peer)
{
    uint8_t proof[SHA256_BYTES];

    write_proof(proof, p, peer);
    return equal_in_constant_time(proof, p->proof, sizeof proof);
}

/* `how`: EPOLL_CTL_ADD, or EPOLL_CTL_MOD for another tag. */
static int watch_fd(const struct rendezvous *r, int how, int fd, int tag, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = tag};

    if (epoll_ctl(r->epoll, how, fd, &ev) < 0)
        return err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl");
    return 0;
}

static int listen_for_others(struct rendezvous *r, struct err *e)
{
    random_bytes(r->name, sizeof r->name);
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->listen_fd = r->source->listen(r->source->owner, r->name);
    if (r->epoll < 0 || r->listen_fd < 0)
        return err_errno(e, ERR_IO, "a socket for the nodes of this machine");
    return watch_fd(r, EPOLL_CTL_ADD, r->listen_fd, TAG_LISTEN, e);
}

static void stop_rendezvous(struct rendezvous *r)
{
    for (int i = 0; i < RENDEZVOUS_UNPROVEN_MAX; i++)
        shut(&r->unproven[i]);
    shut(&r->listen_fd);
    shut(&r->memory_fd);
}

int rendezvous_open(struct rendezvous **out, const struct rendezvous_config *cfg, struct err *e)
{
    struct rendezvous *r = calloc(1, sizeof *r);

    assert(cfg->n > 0 && cfg->n <= RENDEZVOUS_MAX && cfg->me >= 0 && cfg->me < cfg->n);
    *out = NULL;
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for a rendezvous of %d nodes", cfg->n);
    r->n = cfg->n;
    r->me = cfg->me;
    r->source = cfg->source ? cfg->source : &shm_own;
    r->min_bytes = cfg->min_bytes;
    r->max_bytes = cfg->max_bytes;
    r->epoll = r->listen_fd = r->memory_fd = -1;
    for (int i = 0; i < RENDEZVOUS_UNPROVEN_MAX; i++)
        r->unproven[i] = -1;
    for (int i = 0; i < r->n; i++) {
        bool is_included = !cfg->includes || cfg->includes[i];

        r->members[i] = (struct shm_member){
            .node = cfg->nodes[i], .fd = -1, .state = is_included ? MEMBER_UNKNOWN : MEMBER_EXCLUDED};
        r->n_missing += is_included && i != r->me;
    }
    r->members[r->me].state = MEMBER_JOINED;
    if (listen_for_others(r, e) < 0 ||
        sealed_make(&r->members[r->me].memory, &r->memory_fd, r->source, cfg->bytes, r->n, e) < 0) {
        rendezvous_close(r);
        return e->code;
    }
    *out = r;
    return 0;
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    stop_rendezvous(r);
    for (int i = 0; i < r->n; i++) {
        shut(&r->members[i].fd);
        sealed_clear(&r->members[i].memory);
    }
    shut(&r->epoll);
    free(r);
}

const uint8_t *rendezvous_name(const struct rendezvous *r)
{
    return r->name;
}

void rendezvous_expect(struct rendezvous *r, int i, const uint8_t secret[RENDEZVOUS_SECRET_BYTES])
{
    struct shm_member *peer = &r->members[i];

    memcpy(peer->secret, secret, sizeof peer->secret);
    peer->state = MEMBER_EXPECTED;
}

int rendezvous_connect(struct rendezvous *r, int i, const uint8_t name[RENDEZVOUS_NAME_BYTES],
                       const uint8_t secret[RENDEZVOUS_SECRET_BYTES], struct err *e)
{
    struct shm_member *peer = &r->members[i];

    if (peer->state != MEMBER_UNKNOWN)
        return err_set(e, ERR_PROTOCOL, "node %d sent a second invitation to its memory", peer->node);
    memcpy(peer->secret, secret, sizeof peer->secret);
    random_bytes(peer->nonce, sizeof peer->nonce);
    peer->fd = r->source->connect(r->source->owner, name);
    if (peer->fd < 0)
        return err_errno(e, ERR_UNREACHABLE, "node %d, on this machine", peer->node);
    peer->state = MEMBER_CONNECTING;
    if (send_packet(r, i, JOIN, -1, e) < 0)
        return e->code;
    return watch_fd(r, EPOLL_CTL_ADD, peer->fd, i, e);
}

/* Checks and maps a member's memory. Closes `fd`. */
static int take_memory(struct rendezvous *r, int i, int fd, struct err *e)
{
    struct shm_member *peer = &r->members[i];
    int rc;

    if (fd < 0)
        return err_set(e, ERR_PROTOCOL, "node %d: it sent no descriptor of its memory", peer->node);
    rc = sealed_attach(&peer->memory, fd, r->min_bytes, r->max_bytes, e);
    close(fd);
    if (rc < 0)
        return err_at(e, "node %d", peer->node);
    peer->state = MEMBER_JOINED;
    r->n_missing--;
    return 0;
}

static void drain_wakeups(struct shm_member *peer)
{
    char byte;

    for (int i = 0; i < BYTES_AT_ONCE; i++) {
        ssize_t n = recv(peer->fd, &byte, 1, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            peer->state = MEMBER_ENDED;
            shut(&peer->fd);
            return;
        }
    }
}

static int advance_member(struct rendezvous *r, int i, struct err *e)
{
    struct shm_member *peer = &r->members[i];
    const uint32_t kind = peer->state == MEMBER_CONNECTING ? GIVE : GIVE_BACK;
    struct packet p;
    int fd, rc;

    if (peer->fd < 0)
        return 0;
    if (peer->state == MEMBER_JOINED) {
        drain_wakeups(peer);
        return 0;
    }
    rc = receive_packet(r, peer->fd, kind, &p, &fd);
    if (rc == 0)
        return 0;
    if (rc == ERR_LOST)
        return err_set(e, ERR_LOST,
                       "node %d, on this machine, ended the connection: its secret differs, or it has ended",
                       peer->node);
    if (rc < 0 || p.from != (uint32_t)i || memcmp(p.nonce, peer->nonce, sizeof p.nonce) != 0 ||
        !is_proved(&p, peer)) {
        shut(&fd);
        return err_set(e, ERR_AUTH,
                       "the process that answers for node %d, on this machine, does not know its secret",
                       peer->node);
    }
    if (take_memory(r, i, fd, e) < 0)
        return e->code;
    return kind == GIVE ? send_packet(r, i, GIVE_BACK, r->memory_fd, e) : 0;
}

/* Closes a connection without an answer unless its JOIN proves an expected node. */
static int receive_join(struct rendezvous *r, int k, struct err *e)
{
    struct shm_member *peer;
    struct packet p;
    int fd, rc;

    if (r->unproven[k] < 0)
        return 0;
    rc = receive_packet(r, r->unproven[k], JOIN, &p, &fd);
    if (rc == 0)
        return 0;
    shut(&fd);
    if (rc < 0 || p.from >= (uint32_t)r->n || r->members[p.from].state != MEMBER_EXPECTED ||
        !is_proved(&p, &r->members[p.from])) {
        shut(&r->unproven[k]);
        return 0;
    }
    peer = &r->members[p.from];
    memcpy(peer->nonce, p.nonce, sizeof peer->nonce);
    peer->state = MEMBER_JOINING;
    peer->fd = r->unproven[k];
    r->unproven[k] = -1;
    if (watch_fd(r, EPOLL_CTL_MOD, peer->fd, (int)p.from, e) < 0)
        return e->code;
    return send_packet(r, (int)p.from, GIVE, r->memory_fd, e);
}

static int accept_unproven(struct rendezvous *r, struct err *e)
{
    int k = r->next_unproven;
    int fd = accept4(r->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return 0;
    shut(&r->unproven[k]);
    r->unproven[k] = fd;
    r->next_unproven = (k + 1) % RENDEZVOUS_UNPROVEN_MAX;
    if (watch_fd(r, EPOLL_CTL_ADD, fd, TAG_UNPROVEN + k, e) < 0)
        return e->code;
    return receive_join(r, k, e);
}

static int take_events(struct rendezvous *r, struct err *e)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(r->epoll, ev, EVENTS, 0);

    /* The epoll stays readable while events are left. */
    for (int i = 0; i < n; i++) {
        int tag = ev[i].data.fd;
        int rc = tag == TAG_LISTEN     ? accept_unproven(r, e)
                 : tag >= TAG_UNPROVEN ? receive_join(r, tag - TAG_UNPROVEN, e)
                                       : advance_member(r, tag, e);

        if (rc < 0)
            return rc;
    }
    if (r->n_missing > 0)
        return 0;
    stop_rendezvous(r);
    return 1;
}

int rendezvous_advance(struct rendezvous *r, struct err *e)
{
    int rc = r->broken.code;

    if (rc < 0) {
        *e = r->broken;
        return rc;
    }
    rc = take_events(r, e);
    if (rc < 0)
        r->broken = *e;
    return rc;
}

int rendezvous_fd(const struct rendezvous *r)
{
    return r->epoll;
}

int rendezvous_late(const struct rendezvous *r, struct err *e)
{
    int i = 0;

    assert(r->n_missing > 0);
    while (r->members[i].state >= MEMBER_JOINED)
        i++;
    return err_set(e, ERR_TIMEOUT, "node %d has not joined the memory that the nodes of this machine share",
                   r->members[i].node);
}

int rendezvous_n(const struct rendezvous *r)
{
    return r->n;
}

int rendezvous_me(const struct rendezvous *r)
{
    return r->me;
}

int rendezvous_node(const struct rendezvous *r, int i)
{
    return r->members[i].node;
}

struct sealed rendezvous_memory(const struct rendezvous *r, int i)
{
    return r->members[i].memory;
}

bool rendezvous_has_ended(const struct rendezvous *r, int i)
{
    return r->members[i].state == MEMBER_ENDED;
}

/* A full socket buffer is no error, because the bytes in it wake the peer. The end of the connection is
 * noticed when it is read. */
void rendezvous_wake(const struct rendezvous *r, int i)
{
    if (i != r->me && r->members[i].fd >= 0)
        send(r->members[i].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
