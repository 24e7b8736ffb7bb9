#include "tests/lib/mesh_nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp_link.h"
#include "shared/base/clock.h"
#include "shared/base/flag.h"
#include "tests/unit/unit.h"

const int mesh_ids[MESH_NODES] = {0, 1, -2};
static const atomic_bool never = false;

int listen_anywhere(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

int connect_to(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

void opening_prepare(struct opening o[MESH_NODES], double timeout, enum mesh_tls tls)
{
    int ports[MESH_NODES];

    for (int i = 0; i < MESH_NODES; i++) {
        o[i] = (struct opening){.cfg = {.spec = {.node = mesh_ids[i], .limit = MESH_LIMIT},
                                        .address = {.job = "j-test01", .attempt = 1}}};
        o[i].cfg.address.listen_fd = listen_anywhere(&ports[i]);
        o[i].cfg.spec.deadline = clock_now() + timeout;
        o[i].cfg.spec.interrupted = &never;
        o[i].cfg.address.tls = tls;
    }
    for (int i = 0; i < MESH_NODES; i++) {
        o[i].cfg.address.peers = o[i].peers;
        for (int k = 0; k < MESH_NODES; k++)
            if (k != i) {
                struct mesh_peer *p = &o[i].peers[o[i].cfg.address.n_peers++];

                *p = (struct mesh_peer){.node = mesh_ids[k], .host = "127.0.0.1", .port = ports[k]};
                memset(p->key, 1 << i | 1 << k, sizeof p->key); /* different for each pair */
            }
    }
}

void opening_keep(struct opening *o, int peer)
{
    for (size_t i = 0; i < o->cfg.address.n_peers; i++)
        if (o->peers[i].node == peer)
            o->peers[0] = o->peers[i];
    o->cfg.address.n_peers = 1;
}

static int find_two(void *owner, int node, struct tcp_places *out, struct err *e)
{
    (void)node;
    (void)e;
    *out = ((struct two_addresses *)owner)->places;
    return 0;
}

static int dial_one(void *owner, int node, uint32_t index, const struct tcp_aim *aim)
{
    const struct two_addresses *a = owner;

    (void)node;
    (void)aim;
    assert_true(index < a->places.n);
    if (index == 0 && a->first_error) {
        errno = a->first_error;
        return -1;
    }
    return tcp_dial(&a->places.at[index]);
}

void opening_name(struct opening *o, struct two_addresses *a, const char *first)
{
    const char *const hosts[] = {first, "127.0.0.1"};
    struct err e = {0};

    *a = (struct two_addresses){.dialer = {.find = find_two, .dial = dial_one, .owner = a},
                                .places.n = N_OF(hosts)};
    for (uint32_t i = 0; i < N_OF(hosts); i++) {
        struct tcp_places one;

        assert_ok(tcp_find(&one, o->peers[0].node, hosts[i], o->peers[0].port, &e));
        a->places.at[i] = one.at[0];
        a->places.at[i].index = i;
    }
    snprintf(o->peers[0].host, sizeof o->peers[0].host, "two.example");
    o->cfg.address.dialer = &a->dialer;
}

static void *answer(void *arg)
{
    monitor_answer(arg);
    return NULL;
}

void node_monitor_begin(struct node_monitor *m, struct opening *o)
{
    int ends[2];

    *m = (struct node_monitor){
        .state = {.attempt = o->cfg.address.attempt, .answer_poll = epoll_create1(EPOLL_CLOEXEC)}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    m->state.request_fd = ends[0];
    m->monitor.fd = ends[1];
    m->monitor.answer_s = MESH_TIMEOUT_S;
    m->state.job_order.node = o->cfg.spec.node;
    strcpy(m->state.job_order.job, o->cfg.address.job);
    m->state.list = (struct peer_list){.at = calloc(o->cfg.address.n_peers, sizeof *m->state.list.at),
                                       .n = o->cfg.address.n_peers};
    m->state.peers = calloc(m->state.list.n, sizeof *m->state.peers);
    for (size_t i = 0; i < m->state.list.n; i++) {
        const struct mesh_peer *p = &o->cfg.address.peers[i];

        m->state.list.at[i] = (struct peer){.node = p->node, .data_port = p->port, .host = p->host};
    }
    pthread_mutex_init(&m->state.lock, NULL);
    assert_int_equal(pthread_create(&m->thread, NULL, answer, &m->state), 0);
    m->dialer = monitor_dialer(&m->monitor);
    o->cfg.address.dialer = &m->dialer;
}

void node_monitor_end(struct node_monitor *m)
{
    close(m->monitor.fd);
    pthread_join(m->thread, NULL);
    close(m->state.request_fd);
    close(m->state.answer_poll);
    pthread_mutex_destroy(&m->state.lock);
    for (size_t i = 0; i < m->state.list.n; i++)
        free(m->state.peers[i]);
    free(m->state.peers);
    free(m->state.list.at);
}

int opening_open(struct opening *o, struct err *e)
{
    if (!o->cfg.spec.transport)
        o->cfg.spec.transport = &mesh_tcp;
    o->cfg.spec.address = &o->cfg.address;
    return mesh_open(&o->mesh, &o->cfg.spec, e);
}

void *opening_run_one(void *arg)
{
    struct opening *o = arg;

    opening_open(o, &o->e);
    return NULL;
}

void opening_run(struct opening o[MESH_NODES])
{
    pthread_t t[MESH_NODES];

    for (int i = 0; i < MESH_NODES; i++)
        pthread_create(&t[i], NULL, opening_run_one, &o[i]);
    for (int i = 0; i < MESH_NODES; i++)
        pthread_join(t[i], NULL);
}

void opening_run_until(struct opening o[MESH_NODES], int one)
{
    static atomic_bool is_over;
    pthread_t t[MESH_NODES];

    is_over = false;
    for (int i = 0; i < MESH_NODES; i++) {
        o[i].cfg.spec.interrupted = &is_over;
        pthread_create(&t[i], NULL, opening_run_one, &o[i]);
    }
    pthread_join(t[one], NULL);
    flag_raise(&is_over);
    for (int i = 0; i < MESH_NODES; i++)
        if (i != one)
            pthread_join(t[i], NULL);
}

void *opening_close_one(void *arg)
{
    struct opening *o = arg;

    mesh_close(o->mesh, clock_now() + MESH_TIMEOUT_S);
    return NULL;
}

void pair_prepare(struct pair *p)
{
    struct opening o[MESH_NODES];

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_AUTO);
    close(o[2].cfg.address.listen_fd);
    for (int i = 0; i < 2; i++) {
        p->o[i] = o[i];
        p->o[i].cfg.address.peers = p->o[i].peers;
        p->o[i].cfg.address.n_peers = 1; /* the first peer is the other worker */
    }
    p->port = p->o[1].peers[0].port;
}

void pair_run(struct pair *p)
{
    pthread_t t;

    pthread_create(&t, NULL, opening_run_one, &p->o[0]);
    opening_run_one(&p->o[1]);
    pthread_join(t, NULL);
    assert_non_null(p->o[0].mesh);
    assert_non_null(p->o[1].mesh);
}

void pair_close(struct pair *p)
{
    pthread_t t;

    pthread_create(&t, NULL, opening_close_one, &p->o[0]);
    opening_close_one(&p->o[1]);
    pthread_join(t, NULL);
}

void send_bytes(struct mesh *m, int to, uint64_t round, size_t len, int fill)
{
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = to, .index = 3, .round = round, .channel = 2};
    struct mesh_buf *b = mesh_buf_take(m);
    struct err e = {0};

    b->len = len;
    memset(b->bytes, fill, len);
    assert_ok(mesh_send(m, &h, b, &e));
    mesh_buf_put(b);
}

void send_raw_frame(int fd, const struct frame *f)
{
    uint8_t bytes[FRAME_BYTES];

    frame_pack(bytes, f);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
}

double seconds_until_event(struct mesh *m, struct mesh_event *ev)
{
    double start = clock_now();
    struct err e = {0};

    do
        assert_ok(mesh_poll(m, ev, start + MESH_TIMEOUT_S, &e));
    while (ev->kind == MESH_NOTHING && clock_now() < start + MESH_TIMEOUT_S);
    return clock_now() - start;
}

double poll_shortly(struct mesh *m, struct mesh_event *ev)
{
    double start = clock_now();
    struct err e = {0};

    assert_ok(mesh_poll(m, ev, start + 0.005, &e));
    return fmin(clock_now() - start, 0.02);
}

double watched_until_event(struct mesh *m, struct mesh_event *ev)
{
    double start = clock_now(), watched = 0;

    do
        watched += poll_shortly(m, ev);
    while (ev->kind == MESH_NOTHING && clock_now() < start + MESH_TIMEOUT_S);
    return watched;
}

int raw_link(const struct opening *o, uint32_t received)
{
    struct tcp_link l = {.fd = -1, .received = &received};
    struct err e = {0};

    assert_ok(tcp_link_resolve(&l, &o->cfg, &o->cfg.address.peers[0], &e));
    assert_ok(tcp_link_connect(&l, &o->cfg, LINK_CONNECTING, &e));
    while (l.state != LINK_OPEN) {
        struct pollfd fd = {.fd = l.fd, .events = l.state == LINK_CONNECTING ? POLLOUT : POLLIN};

        assert_int_equal(poll(&fd, 1, 1000 * MESH_TIMEOUT_S), 1);
        assert_ok(tcp_link_advance(&l, &o->cfg, &e));
    }
    fcntl(l.fd, F_SETFL, fcntl(l.fd, F_GETFL) & ~O_NONBLOCK);
    return l.fd;
}

struct frame raw_contribution(int from, uint32_t seq)
{
    return (struct frame){.kind = FRAME_CONTRIBUTION,
                          .job = frame_job("j-test01"),
                          .attempt = 1,
                          .from = from,
                          .to = 0,
                          .round = seq,
                          .seq = seq};
}
