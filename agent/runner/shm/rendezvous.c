/* How nodes find each other: the later of two connects to the earlier one's name and says JOIN, with a proof
 * that it knows the secret of the pair; the earlier one answers GIVE, with a proof of its own and the
 * descriptor of its memory; then the later one gives its memory too. Names are public (/proc/net/unix) and
 * may be taken by anybody once their owner is gone, so nothing is handed out before the other end has proved
 * itself, and the secret itself is never sent. Afterwards the connection carries single bytes that mean
 * nothing but "wake up". */
#include "agent/runner/shm/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/crypto.h"

enum {
    MAGIC = 0x61677370, /* "psga" */
    JOIN = 1,
    GIVE = 2,
    GIVE_BACK = 3,
    TAG_LISTEN = -1,
    TAG_UNPROVEN = RENDEZVOUS_MAX, /* and above; below: members */
    NONCE = 16,
    EVENTS = 16,
    BYTES_AT_ONCE = 64,
    PREFIX = 6, /* "\0psgd-" */
};

struct member { /* one node, this one included */
    int node;
    enum {
        MEMBER_UNKNOWN,  /* no secret yet */
        MEMBER_EXPECTED, /* will connect */
        MEMBER_JOINING,  /* has shown the secret and got this node's memory; its own is to come */
        MEMBER_ASKED,    /* this node has shown the secret; the answer is to come */
        MEMBER_HERE,
        MEMBER_GONE,    /* was here; its memory still is */
        MEMBER_LEFT_OUT /* is not met */
    } state;
    int fd; /* -1: none */
    uint8_t secret[RENDEZVOUS_SECRET_BYTES], nonce[NONCE];
    struct sealed memory;
};

struct rendezvous {
    int n, me;
    size_t least, most;
    struct member members[RENDEZVOUS_MAX];
    int n_missing; /* whose memory is not mapped */
    uint8_t name[RENDEZVOUS_NAME_BYTES];
    int epoll, listen_fd, memory_fd;       /* the last two: -1 once all are here */
    int unproven[RENDEZVOUS_UNPROVEN_MAX]; /* connected, nothing shown yet; -1: free */
    int next_unproven;                     /* the oldest, which goes first when there is no room */
    struct err broken;                     /* code 0: it is not */
};

struct packet { /* one packet; both ends run on one machine */
    uint32_t magic, kind, from, to;
    uint8_t nonce[NONCE];        /* the later node's */
    uint8_t proof[SHA256_BYTES]; /* HMAC of the bytes before it with the pair's secret */
};

_Static_assert(offsetof(struct packet, proof) == 16 + NONCE && sizeof(struct packet) == 64, "no padding");

static void prove(uint8_t out[SHA256_BYTES], const struct packet *w, const struct member *who)
{
    hmac_sha256(out, who->secret, sizeof who->secret, w, offsetof(struct packet, proof));
}

/* Sends a word to member i, `fd` with it unless -1. A fresh socket's buffer takes it at once. */
static int send_packet(const struct rendezvous *m, int i, uint32_t kind, int fd, struct err *e)
{
    const struct member *who = &m->members[i];
    struct packet w = {.magic = MAGIC, .kind = kind, .from = (uint32_t)m->me, .to = (uint32_t)i};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {.iov_base = &w, .iov_len = sizeof w};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

    memcpy(w.nonce, who->nonce, sizeof w.nonce);
    prove(w.proof, &w, who);
    if (fd >= 0) {
        h.msg_control = &control;
        h.msg_controllen = CMSG_LEN(sizeof fd);
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    if (sendmsg(who->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof w)
        return err_errno(e, ERR_LOST, "node %d, on this machine", who->node);
    return 0;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd); /* which takes it out of the epoll, too */
    *fd = -1;
}

/* The next packet, if it is a word of this kind to this node. *fd is the descriptor that came with it, or -1.
 * 1: it is; 0: nothing is here yet; ERR_PROTOCOL; ERR_LOST: the end. */
static int receive_packet(const struct rendezvous *m, int from, uint32_t kind, struct packet *w, int *fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {.iov_base = w, .iov_len = sizeof *w};
    /* Room for one descriptor exactly: CMSG_SPACE would be enough for two, and the kernel fills it. */
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof *fd)};
    ssize_t n = recvmsg(from, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *fd = -1;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return ERR_LOST;
    if (CMSG_FIRSTHDR(&h) && control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS &&
        control.head.cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(&control.head), sizeof *fd);
    if (n == (ssize_t)sizeof *w && !(h.msg_flags & MSG_TRUNC) && w->magic == MAGIC && w->kind == kind &&
        w->to == (uint32_t)m->me)
        return 1;
    shut(fd);
    /* An empty packet looks like the end too, and can carry a descriptor. */
    return n == 0 ? ERR_LOST : ERR_PROTOCOL;
}

static bool is_proved(const struct packet *w, const struct member *who)
{
    uint8_t proof[SHA256_BYTES];

    prove(proof, w, who);
    return equal_in_constant_time(proof, w->proof, sizeof proof);
}

/* `how`: EPOLL_CTL_ADD, or EPOLL_CTL_MOD for another tag. */
static int watch(const struct rendezvous *m, int how, int fd, int tag, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = tag};

    if (epoll_ctl(m->epoll, how, fd, &ev) < 0)
        return err_errno(e, ERR_IO, "epoll_ctl");
    return 0;
}

static socklen_t address_of(struct sockaddr_un *out, const uint8_t name[RENDEZVOUS_NAME_BYTES])
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, "\0psgd-", PREFIX);
    hex_encode(out->sun_path + PREFIX, name, RENDEZVOUS_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + PREFIX + 2 * RENDEZVOUS_NAME_BYTES);
}

static int listen_for_others(struct rendezvous *m, struct err *e)
{
    struct sockaddr_un at;
    socklen_t len;

    random_bytes(m->name, sizeof m->name);
    len = address_of(&at, m->name);
    m->epoll = epoll_create1(EPOLL_CLOEXEC);
    m->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (m->epoll < 0 || m->listen_fd < 0 || bind(m->listen_fd, (struct sockaddr *)&at, len) < 0 ||
        listen(m->listen_fd, SOMAXCONN) < 0)
        return err_errno(e, ERR_IO, "a socket for the nodes of this machine");
    return watch(m, EPOLL_CTL_ADD, m->listen_fd, TAG_LISTEN, e);
}

static void stop_rendezvous(struct rendezvous *m)
{
    for (int i = 0; i < RENDEZVOUS_UNPROVEN_MAX; i++)
        shut(&m->unproven[i]);
    shut(&m->listen_fd);
    shut(&m->memory_fd);
}

int rendezvous_open(struct rendezvous **out, const struct rendezvous_config *cfg, struct err *e)
{
    struct rendezvous *m = calloc(1, sizeof *m);

    assert(cfg->n > 0 && cfg->n <= RENDEZVOUS_MAX && cfg->me >= 0 && cfg->me < cfg->n);
    *out = NULL;
    if (!m)
        return err_set(e, ERR_NOMEM, "no memory for a meeting of %d nodes", cfg->n);
    m->n = cfg->n;
    m->me = cfg->me;
    m->least = cfg->least;
    m->most = cfg->most;
    m->epoll = m->listen_fd = m->memory_fd = -1;
    for (int i = 0; i < RENDEZVOUS_UNPROVEN_MAX; i++)
        m->unproven[i] = -1;
    for (int i = 0; i < m->n; i++) {
        bool is_included = !cfg->includes || cfg->includes[i];

        m->members[i] = (struct member){
            .node = cfg->nodes[i], .fd = -1, .state = is_included ? MEMBER_UNKNOWN : MEMBER_LEFT_OUT};
        m->n_missing += is_included && i != m->me;
    }
    m->members[m->me].state = MEMBER_HERE;
    if (listen_for_others(m, e) < 0 ||
        sealed_make(&m->members[m->me].memory, &m->memory_fd, cfg->bytes, m->n, e) < 0) {
        rendezvous_close(m);
        return e->code;
    }
    *out = m;
    return 0;
}

void rendezvous_close(struct rendezvous *m)
{
    if (!m)
        return;
    stop_rendezvous(m);
    for (int i = 0; i < m->n; i++) {
        shut(&m->members[i].fd);
        sealed_clear(&m->members[i].memory);
    }
    shut(&m->epoll);
    free(m);
}

const uint8_t *rendezvous_name(const struct rendezvous *m)
{
    return m->name;
}

void rendezvous_expect(struct rendezvous *m, int i, const uint8_t secret[RENDEZVOUS_SECRET_BYTES])
{
    struct member *who = &m->members[i];

    memcpy(who->secret, secret, sizeof who->secret);
    who->state = MEMBER_EXPECTED;
}

int rendezvous_connect(struct rendezvous *m, int i, const uint8_t name[RENDEZVOUS_NAME_BYTES],
                       const uint8_t secret[RENDEZVOUS_SECRET_BYTES], struct err *e)
{
    struct member *who = &m->members[i];
    struct sockaddr_un at;
    socklen_t len = address_of(&at, name);

    if (who->state != MEMBER_UNKNOWN)
        return err_set(e, ERR_PROTOCOL, "node %d has been met before", who->node);
    memcpy(who->secret, secret, sizeof who->secret);
    random_bytes(who->nonce, sizeof who->nonce);
    who->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (who->fd < 0)
        return err_errno(e, ERR_IO, "a socket for the nodes of this machine");
    if (connect(who->fd, (struct sockaddr *)&at, len) < 0) {
        err_errno(e, ERR_UNREACHABLE, "node %d, on this machine", who->node);
        shut(&who->fd);
        return e->code;
    }
    who->state = MEMBER_ASKED;
    if (send_packet(m, i, JOIN, -1, e) < 0)
        return e->code;
    return watch(m, EPOLL_CTL_ADD, who->fd, i, e);
}

/* A member's memory has come; everything about it is doubted first. Takes `fd`. */
static int take_memory(struct rendezvous *m, int i, int fd, struct err *e)
{
    struct member *who = &m->members[i];
    int rc;

    if (fd < 0)
        return err_set(e, ERR_PROTOCOL, "node %d: it has sent no memory", who->node);
    rc = sealed_attach(&who->memory, fd, m->least, m->most, e);
    close(fd);
    if (rc < 0)
        return err_at(e, "node %d", who->node);
    who->state = MEMBER_HERE;
    m->n_missing--;
    return 0;
}

static void drain_wakeups(struct member *who)
{
    char byte;

    for (int i = 0; i < BYTES_AT_ONCE; i++) {
        ssize_t n = recv(who->fd, &byte, 1, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            who->state = MEMBER_GONE;
            shut(&who->fd);
            return;
        }
    }
}

static int advance_member(struct rendezvous *m, int i, struct err *e)
{
    struct member *who = &m->members[i];
    const uint32_t kind = who->state == MEMBER_ASKED ? GIVE : GIVE_BACK;
    struct packet w;
    int fd, rc;

    if (who->fd < 0)
        return 0;
    if (who->state == MEMBER_HERE) {
        drain_wakeups(who);
        return 0;
    }
    rc = receive_packet(m, who->fd, kind, &w, &fd);
    if (rc == 0)
        return 0;
    if (rc == ERR_LOST)
        return err_set(e, ERR_LOST,
                       "node %d, on this machine, ended the connection: another secret, or it is gone",
                       who->node);
    if (rc < 0 || w.from != (uint32_t)i || memcmp(w.nonce, who->nonce, sizeof w.nonce) != 0 ||
        !is_proved(&w, who)) {
        shut(&fd);
        return err_set(e, ERR_AUTH, "who answers for node %d, on this machine, does not hold its secret",
                       who->node);
    }
    if (take_memory(m, i, fd, e) < 0)
        return e->code;
    return kind == GIVE ? send_packet(m, i, GIVE_BACK, m->memory_fd, e) : 0;
}

/* Whoever does not prove to be an expected node is sent away without a word. */
static int receive_join(struct rendezvous *m, int k, struct err *e)
{
    struct member *who;
    struct packet w;
    int fd, rc;

    if (m->unproven[k] < 0)
        return 0;
    rc = receive_packet(m, m->unproven[k], JOIN, &w, &fd);
    if (rc == 0)
        return 0;
    shut(&fd);
    if (rc < 0 || w.from >= (uint32_t)m->n || m->members[w.from].state != MEMBER_EXPECTED ||
        !is_proved(&w, &m->members[w.from])) {
        shut(&m->unproven[k]);
        return 0;
    }
    who = &m->members[w.from];
    memcpy(who->nonce, w.nonce, sizeof who->nonce);
    who->state = MEMBER_JOINING;
    who->fd = m->unproven[k];
    m->unproven[k] = -1;
    if (watch(m, EPOLL_CTL_MOD, who->fd, (int)w.from, e) < 0)
        return e->code;
    return send_packet(m, (int)w.from, GIVE, m->memory_fd, e);
}

static int accept_unproven(struct rendezvous *m, struct err *e)
{
    int k = m->next_unproven;
    int fd = accept4(m->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return 0;
    shut(&m->unproven[k]);
    m->unproven[k] = fd;
    m->next_unproven = (k + 1) % RENDEZVOUS_UNPROVEN_MAX;
    if (watch(m, EPOLL_CTL_ADD, fd, TAG_UNPROVEN + k, e) < 0)
        return e->code;
    return receive_join(m, k, e);
}

static int advance(struct rendezvous *m, struct err *e)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(m->epoll, ev, EVENTS, 0);

    /* What is left over makes the epoll readable again. */
    for (int i = 0; i < n; i++) {
        int tag = ev[i].data.fd;
        int rc = tag == TAG_LISTEN     ? accept_unproven(m, e)
                 : tag >= TAG_UNPROVEN ? receive_join(m, tag - TAG_UNPROVEN, e)
                                       : advance_member(m, tag, e);

        if (rc < 0)
            return rc;
    }
    if (m->n_missing > 0)
        return 0;
    stop_rendezvous(m);
    return 1;
}

int rendezvous_advance(struct rendezvous *m, struct err *e)
{
    int rc = m->broken.code;

    if (rc < 0) {
        *e = m->broken;
        return rc;
    }
    rc = advance(m, e);
    if (rc < 0)
        m->broken = *e;
    return rc;
}

int rendezvous_fd(const struct rendezvous *m)
{
    return m->epoll;
}

int rendezvous_late(const struct rendezvous *m, struct err *e)
{
    int i = 0;

    assert(m->n_missing > 0);
    while (m->members[i].state >= MEMBER_HERE)
        i++;
    return err_set(e, ERR_TIMEOUT, "node %d has not joined the memory that the nodes of this machine share",
                   m->members[i].node);
}

int rendezvous_n(const struct rendezvous *m)
{
    return m->n;
}

int rendezvous_me(const struct rendezvous *m)
{
    return m->me;
}

int rendezvous_node(const struct rendezvous *m, int i)
{
    return m->members[i].node;
}

struct sealed rendezvous_memory(const struct rendezvous *m, int i)
{
    return m->members[i].memory;
}

bool rendezvous_is_gone(const struct rendezvous *m, int i)
{
    return m->members[i].state == MEMBER_GONE;
}

/* A full socket buffer is fine: so many bytes wake as well. An end is found out by who reads. */
void rendezvous_wake(const struct rendezvous *m, int i)
{
    if (i != m->me && m->members[i].fd >= 0)
        send(m->members[i].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
