/* How the nodes of an arena find each other: the later of two connects to the earlier one's name and says
 * JOIN, with a proof that it knows the secret of the pair; the earlier one answers GIVE, with a proof of its
 * own and the descriptor of its memory; then the later one gives its memory too. Names are public
 * (/proc/net/unix) and may be taken by anybody once their owner is gone, so nothing is handed out before the
 * other end has proved itself, and the secret itself is never sent. Afterwards the connection carries single
 * bytes that mean nothing but "wake up". */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/runner/arena_state.h"
#include "shared/crypto.h"

enum {
    MAGIC = 0x61677370, /* "psga" */
    JOIN = 1,
    GIVE = 2,
    GIVE_BACK = 3,
    TAG_LISTEN = -1,
    TAG_STRANGER = ARENA_NODES_MAX, /* and above; below: members */
    EVENTS = 16,
    BYTES_AT_ONCE = 64,
    PREFIX = 6, /* "\0psgd-" */
};

struct word { /* one packet; both ends run on one machine */
    uint32_t magic, kind, from, to;
    uint8_t nonce[ARENA_NONCE];  /* the later node's */
    uint8_t proof[SHA256_BYTES]; /* HMAC of the bytes before it with the pair's secret */
};

_Static_assert(offsetof(struct word, proof) == 16 + ARENA_NONCE && sizeof(struct word) == 64, "no padding");

static void prove(uint8_t out[SHA256_BYTES], const struct word *w, const struct arena_member *m)
{
    hmac_sha256(out, m->secret, sizeof m->secret, w, offsetof(struct word, proof));
}

/* Sends a word to member i, `fd` with it unless -1. A fresh socket's buffer takes it at once. */
static int say(const struct arena *a, int i, uint32_t kind, int fd, struct err *e)
{
    const struct arena_member *m = &a->members[i];
    struct word w = {.magic = MAGIC, .kind = kind, .from = (uint32_t)a->me, .to = (uint32_t)i};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {.iov_base = &w, .iov_len = sizeof w};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

    memcpy(w.nonce, m->nonce, sizeof w.nonce);
    prove(w.proof, &w, m);
    if (fd >= 0) {
        h.msg_control = &control;
        h.msg_controllen = CMSG_LEN(sizeof fd);
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    if (sendmsg(m->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof w)
        return err_errno(e, ERR_LOST, "node %d, on this machine", m->node);
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
static int hear_word(const struct arena *a, int from, uint32_t kind, struct word *w, int *fd)
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
        w->to == (uint32_t)a->me)
        return 1;
    shut(fd);
    /* An empty packet looks like the end too, and can carry a descriptor. */
    return n == 0 ? ERR_LOST : ERR_PROTOCOL;
}

static bool is_proved(const struct word *w, const struct arena_member *m)
{
    uint8_t proof[SHA256_BYTES];

    prove(proof, w, m);
    return equal_in_constant_time(proof, w->proof, sizeof proof);
}

/* `how`: EPOLL_CTL_ADD, or EPOLL_CTL_MOD for another tag. */
static int watch(const struct arena *a, int how, int fd, int tag, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = tag};

    if (epoll_ctl(a->epoll, how, fd, &ev) < 0)
        return err_errno(e, ERR_IO, "epoll_ctl");
    return 0;
}

static socklen_t address_of(struct sockaddr_un *out, const uint8_t name[ARENA_NAME_BYTES])
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, "\0psgd-", PREFIX);
    hex_encode(out->sun_path + PREFIX, name, ARENA_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + PREFIX + 2 * ARENA_NAME_BYTES);
}

int arena_meet_open(struct arena *a, struct err *e)
{
    struct sockaddr_un at;
    socklen_t len;

    random_bytes(a->name, sizeof a->name);
    len = address_of(&at, a->name);
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->epoll < 0 || a->listen_fd < 0 || bind(a->listen_fd, (struct sockaddr *)&at, len) < 0 ||
        listen(a->listen_fd, SOMAXCONN) < 0)
        return err_errno(e, ERR_IO, "a socket for the nodes of this machine");
    return watch(a, EPOLL_CTL_ADD, a->listen_fd, TAG_LISTEN, e);
}

static void stop_meeting(struct arena *a)
{
    for (int i = 0; i < ARENA_STRANGERS_MAX; i++)
        shut(&a->strangers[i]);
    shut(&a->listen_fd);
    shut(&a->memory_fd);
}

void arena_meet_close(struct arena *a)
{
    stop_meeting(a);
    for (int i = 0; i < a->n; i++)
        shut(&a->members[i].fd);
    shut(&a->epoll);
}

const uint8_t *arena_name(const struct arena *a)
{
    return a->name;
}

void arena_expect(struct arena *a, int i, const uint8_t secret[ARENA_SECRET_BYTES])
{
    struct arena_member *m = &a->members[i];

    memcpy(m->secret, secret, sizeof m->secret);
    m->state = MEMBER_EXPECTED;
}

int arena_connect(struct arena *a, int i, const uint8_t name[ARENA_NAME_BYTES],
                  const uint8_t secret[ARENA_SECRET_BYTES], struct err *e)
{
    struct arena_member *m = &a->members[i];
    struct sockaddr_un at;
    socklen_t len = address_of(&at, name);

    if (m->state != MEMBER_UNKNOWN)
        return err_set(e, ERR_PROTOCOL, "node %d has been met before", m->node);
    memcpy(m->secret, secret, sizeof m->secret);
    random_bytes(m->nonce, sizeof m->nonce);
    m->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (m->fd < 0)
        return err_errno(e, ERR_IO, "a socket for the nodes of this machine");
    if (connect(m->fd, (struct sockaddr *)&at, len) < 0) {
        err_errno(e, ERR_UNREACHABLE, "node %d, on this machine", m->node);
        shut(&m->fd);
        return e->code;
    }
    m->state = MEMBER_ASKED;
    if (say(a, i, JOIN, -1, e) < 0)
        return e->code;
    return watch(a, EPOLL_CTL_ADD, m->fd, i, e);
}

/* A member's memory has come; everything about it is doubted first. Takes `fd`. */
static int take_memory(struct arena *a, int i, int fd, struct err *e)
{
    struct arena_member *m = &a->members[i];
    int rc;

    if (fd < 0)
        return err_set(e, ERR_PROTOCOL, "node %d: it has sent no memory", m->node);
    rc = arena_memory_borrow(&m->view, fd, a->n_floats, e);
    close(fd);
    if (rc < 0)
        return err_at(e, "node %d", m->node);
    m->state = MEMBER_HERE;
    a->n_here++;
    return 0;
}

static void hear_bells(struct arena_member *m)
{
    char byte;

    for (int i = 0; i < BYTES_AT_ONCE; i++) {
        ssize_t n = recv(m->fd, &byte, 1, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            m->state = MEMBER_GONE;
            shut(&m->fd);
            return;
        }
    }
}

static int hear_member(struct arena *a, int i, struct err *e)
{
    struct arena_member *m = &a->members[i];
    const uint32_t kind = m->state == MEMBER_ASKED ? GIVE : GIVE_BACK;
    struct word w;
    int fd, rc;

    if (m->fd < 0)
        return 0;
    if (m->state == MEMBER_HERE) {
        hear_bells(m);
        return 0;
    }
    rc = hear_word(a, m->fd, kind, &w, &fd);
    if (rc == 0)
        return 0;
    if (rc == ERR_LOST)
        return err_set(e, ERR_LOST,
                       "node %d, on this machine, ended the connection: another secret, or it is gone",
                       m->node);
    if (rc < 0 || w.from != (uint32_t)i || memcmp(w.nonce, m->nonce, sizeof w.nonce) != 0 ||
        !is_proved(&w, m)) {
        shut(&fd);
        return err_set(e, ERR_AUTH, "who answers for node %d, on this machine, does not hold its secret",
                       m->node);
    }
    if (take_memory(a, i, fd, e) < 0)
        return e->code;
    return kind == GIVE ? say(a, i, GIVE_BACK, a->memory_fd, e) : 0;
}

/* Whoever does not prove to be an expected node is sent away without a word. */
static int hear_stranger(struct arena *a, int k, struct err *e)
{
    struct arena_member *m;
    struct word w;
    int fd, rc;

    if (a->strangers[k] < 0)
        return 0;
    rc = hear_word(a, a->strangers[k], JOIN, &w, &fd);
    if (rc == 0)
        return 0;
    shut(&fd);
    if (rc < 0 || w.from >= (uint32_t)a->n || a->members[w.from].state != MEMBER_EXPECTED ||
        !is_proved(&w, &a->members[w.from])) {
        shut(&a->strangers[k]);
        return 0;
    }
    m = &a->members[w.from];
    memcpy(m->nonce, w.nonce, sizeof m->nonce);
    m->state = MEMBER_JOINING;
    m->fd = a->strangers[k];
    a->strangers[k] = -1;
    if (watch(a, EPOLL_CTL_MOD, m->fd, (int)w.from, e) < 0)
        return e->code;
    return say(a, (int)w.from, GIVE, a->memory_fd, e);
}

static int take_stranger(struct arena *a, struct err *e)
{
    int k = a->next_stranger;
    int fd = accept4(a->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return 0;
    shut(&a->strangers[k]);
    a->strangers[k] = fd;
    a->next_stranger = (k + 1) % ARENA_STRANGERS_MAX;
    if (watch(a, EPOLL_CTL_ADD, fd, TAG_STRANGER + k, e) < 0)
        return e->code;
    return hear_stranger(a, k, e);
}

int arena_hear(struct arena *a, struct err *e)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(a->epoll, ev, EVENTS, 0);

    /* What is left over makes the epoll readable again. */
    for (int i = 0; i < n; i++) {
        int tag = ev[i].data.fd;
        int rc = tag == TAG_LISTEN     ? take_stranger(a, e)
                 : tag >= TAG_STRANGER ? hear_stranger(a, tag - TAG_STRANGER, e)
                                       : hear_member(a, tag, e);

        if (rc < 0)
            return rc;
    }
    if (a->n_here == a->n)
        stop_meeting(a);
    return 0;
}

/* A full socket buffer is fine: so many bytes wake as well. An end is found out by who reads. */
void arena_ring(struct arena *a)
{
    for (int i = 0; i < a->n; i++)
        if (i != a->me && a->members[i].fd >= 0 && atomic_load(&a->members[i].view.words->is_asleep))
            send(a->members[i].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
