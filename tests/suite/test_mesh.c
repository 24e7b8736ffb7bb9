/* Every mesh keeps the contract of mesh.h: the same cases over mesh_mem and mesh_tcp. */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/mesh_mem.h"
#include "agent/runner/tcp_link.h"
#include "shared/clock.h"
#include "tests/lib/fault_proxy.h"

enum { LIMIT = 1 << 20, NODES = 3 };

struct net {
    struct mesh *node[NODES]; /* workers 0, 1 and server -2 */
    struct mesh_mem *mem;
};

static const int ids[NODES] = {0, 1, -2};
static const volatile int never = 0;

static void open_mem(struct net *n)
{
    n->mem = mesh_mem_new(2, 1, LIMIT, 1);
    for (int i = 0; i < NODES; i++)
        n->node[i] = mesh_mem_node(n->mem, ids[i]);
}

struct opening {
    struct mesh_tcp_config cfg;
    struct mesh_peer peers[NODES];
    struct mesh *mesh;
    struct err e;
};

static int listen_anywhere(int *port)
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

/* What each node is told; `o` may be changed before opening_run. */
static void opening_prepare(struct opening o[NODES], double timeout, enum mesh_tls tls)
{
    int ports[NODES];

    for (int i = 0; i < NODES; i++) {
        o[i] = (struct opening){.cfg = {.job = "j-test01", .attempt = 1, .node = ids[i], .limit = LIMIT}};
        o[i].cfg.listen_fd = listen_anywhere(&ports[i]);
        o[i].cfg.deadline = clock_now() + timeout;
        o[i].cfg.interrupted = &never;
        o[i].cfg.tls = tls;
    }
    for (int i = 0; i < NODES; i++) {
        o[i].cfg.peers = o[i].peers;
        for (int k = 0; k < NODES; k++)
            if (k != i) {
                struct mesh_peer *p = &o[i].peers[o[i].cfg.n_peers++];

                *p = (struct mesh_peer){.node = ids[k], .host = "127.0.0.1", .port = ports[k]};
                memset(p->key, 1 << i | 1 << k, sizeof p->key); /* each pair its own */
            }
    }
}

static void *open_one(void *arg)
{
    struct opening *o = arg;

    mesh_tcp_open(&o->mesh, &o->cfg, &o->e);
    return NULL;
}

static void opening_run(struct opening o[NODES])
{
    pthread_t t[NODES];

    for (int i = 0; i < NODES; i++)
        pthread_create(&t[i], NULL, open_one, &o[i]);
    for (int i = 0; i < NODES; i++)
        pthread_join(t[i], NULL);
}

static void open_links(struct net *n, enum mesh_tls tls)
{
    struct opening o[NODES];

    opening_prepare(o, 10, tls);
    opening_run(o);
    for (int i = 0; i < NODES; i++) {
        assert_non_null(o[i].mesh);
        n->node[i] = o[i].mesh;
    }
}

static void open_tcp(struct net *n)
{
    open_links(n, MESH_TLS_AUTO);
}

static void open_tls(struct net *n)
{
    open_links(n, MESH_TLS_ON);
}

static const struct {
    const char *name;
    void (*open)(struct net *);
} meshes[] = {{"mesh_mem", open_mem}, {"mesh_tcp", open_tcp}, {"mesh_tcp with TLS", open_tls}};

static void send_bytes(struct mesh *m, int to, uint64_t round, size_t len, int fill)
{
    struct mesh_head h = {.kind = FRAME_WORD, .peer = to, .word = 3, .round = round, .channel = 2};
    struct mesh_buf *b = mesh_buf_take(m);
    struct err e = {0};

    b->len = len;
    memset(b->bytes, fill, len);
    assert_ok(mesh_send(m, &h, b, &e));
    mesh_buf_put(m, b);
}

/* The next event at `to`, while the other nodes get their turns to send what waits. */
static struct mesh_event next_event(struct net *n, int to)
{
    struct mesh_event ev, other;
    struct err e = {0};
    double deadline = clock_now() + 60;

    do {
        assert_ok(mesh_poll(n->node[to], &ev, clock_now() + 0.001, &e));
        for (int i = 0; i < NODES && ev.kind == MESH_NOTHING; i++)
            if (i != to && n->node[i]) {
                assert_ok(mesh_poll(n->node[i], &other, 0, &e));
                assert_int_equal(other.kind, MESH_NOTHING);
            }
    } while (ev.kind == MESH_NOTHING && clock_now() < deadline);
    return ev;
}

static void finish(struct net *n)
{
    /* Nodes of one thread cannot wait for each other's good-bye: a short time must do. */
    for (int i = NODES - 1; i >= 0; i--)
        if (n->node[i])
            mesh_close(n->node[i], clock_now() + 0.02);
    if (n->mem)
        mesh_mem_free(n->mem);
}

static void messages_arrive_whole_and_in_order(struct net *n)
{
    static const size_t sizes[] = {1, 0, 64, 4096, LIMIT, 3, 100000};

    for (size_t k = 0; k < N_OF(sizes); k++)
        send_bytes(n->node[0], 1, k, sizes[k], (int)k + 1);
    for (size_t k = 0; k < N_OF(sizes); k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.peer, 0);
        assert_int_equal(ev.head.round, k);
        assert_int_equal(ev.head.word, 3);
        assert_int_equal(ev.head.channel, 2);
        assert_int_equal(ev.buf->len, sizes[k]);
        for (size_t i = 0; i < sizes[k]; i++)
            assert_int_equal(ev.buf->bytes[i], (int)k + 1);
        mesh_buf_put(n->node[1], ev.buf);
    }
}

static void everybody_reaches_everybody(struct net *n)
{
    for (int from = 0; from < NODES; from++)
        for (int to = 0; to < NODES; to++) {
            struct mesh_event ev;

            if (from == to)
                continue;
            send_bytes(n->node[from], ids[to], 9, 10, from);
            ev = next_event(n, to);
            assert_int_equal(ev.kind, MESH_MESSAGE);
            assert_int_equal(ev.head.peer, ids[from]);
            mesh_buf_put(n->node[to], ev.buf);
        }
}

static void one_buffer_goes_to_many(struct net *n)
{
    struct mesh_head h = {.kind = FRAME_REPLY};
    struct mesh_buf *b = mesh_buf_take(n->node[2]);
    struct err e = {0};

    b->len = 5;
    memcpy(b->bytes, "hello", 5);
    for (h.peer = 0; h.peer < 2; h.peer++)
        assert_ok(mesh_send(n->node[2], &h, b, &e));
    mesh_buf_put(n->node[2], b);
    for (int to = 0; to < 2; to++) {
        struct mesh_event ev = next_event(n, to);

        assert_int_equal(ev.head.kind, FRAME_REPLY);
        assert_memory_equal(ev.buf->bytes, "hello", 5);
        mesh_buf_put(n->node[to], ev.buf);
    }
}

/* Node 0 and the server say each other many messages, and node `asleep` does nothing. */
static void others_get_theirs(struct net *n, int asleep)
{
    struct mesh *m = n->node[asleep];

    n->node[asleep] = NULL;
    for (uint64_t k = 0; k < 2 * MESH_QUEUE_MAX; k++) {
        int from = k % 2 ? 2 : 0;
        struct mesh_event ev;

        send_bytes(n->node[from], ids[2 - from], k, 100, 1);
        ev = next_event(n, 2 - from);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        mesh_buf_put(n->node[2 - from], ev.buf);
    }
    n->node[asleep] = m;
}

static void a_peer_that_takes_nothing_is_refused_more(struct net *n)
{
    struct mesh_head h = {.kind = FRAME_WORD, .peer = 1};
    struct mesh_buf *b = mesh_buf_take(n->node[0]);
    struct err e = {0};
    int sent = 0;

    b->len = LIMIT;
    memset(b->bytes, 1, LIMIT);
    while (sent < 10 * MESH_QUEUE_MAX && mesh_send(n->node[0], &h, b, &e) == 0)
        sent++;
    mesh_buf_put(n->node[0], b);
    assert_int_equal(e.code, ERR_REFUSED);
    assert_in_range(sent, MESH_QUEUE_MAX, 2 * MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued(n->node[0]), MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued_for(n->node[0], 1), MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued_for(n->node[0], -2), 0);
    others_get_theirs(n, 1);
    for (int k = 0; k < sent; k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        mesh_buf_put(n->node[1], ev.buf);
    }
    assert_int_equal(mesh_queued(n->node[0]), 0);
}

static void a_paused_peer_keeps_its_words(struct net *n)
{
    struct mesh_event ev;
    struct err e = {0};

    mesh_pause(n->node[1], 0, true);
    send_bytes(n->node[0], 1, 1, 10, 1);
    send_bytes(n->node[2], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, -2);
    mesh_buf_put(n->node[1], ev.buf);
    assert_ok(mesh_poll(n->node[1], &ev, clock_now() + 0.02, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, 0);
    mesh_buf_put(n->node[1], ev.buf);
}

static void what_was_said_before_a_good_bye_arrives(struct net *n)
{
    struct mesh_event ev;

    send_bytes(n->node[2], 1, 5, 1000, 1);
    mesh_close(n->node[2], clock_now() + 0.02);
    n->node[2] = NULL;
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    mesh_buf_put(n->node[1], ev.buf);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_LEFT);
    assert_int_equal(ev.head.peer, -2);
    send_bytes(n->node[1], -2, 1, 10, 1); /* dropped in silence */
}

/* Where pieces shall lie: one after the other in `bytes`. */
struct places {
    enum mesh_where where;
    int n_asked;
    struct mesh_head head;
    size_t len, end;
    unsigned char bytes[3 * LIMIT];
};

static enum mesh_where find_place(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    struct places *p = owner;

    p->n_asked++;
    p->head = *h;
    p->len = len;
    if (p->where == MESH_HERE) {
        *at = p->bytes + p->end;
        p->end += len;
    }
    return p->where;
}

static struct places *places_at(struct mesh *m, enum mesh_where where)
{
    static struct places places;

    places = (struct places){.where = where};
    m->place = find_place;
    m->owner = &places;
    return &places;
}

static void send_piece(struct mesh *m, int to, uint64_t round, const void *bytes, size_t len)
{
    struct mesh_head h = {.kind = FRAME_PIECE, .peer = to, .word = 6, .round = round, .channel = 1};
    struct err e = {0};

    assert_ok(mesh_send_view(m, &h, bytes, len, &e));
}

static void a_piece_fills_its_place(struct net *n)
{
    static const size_t sizes[] = {4, 0, 1 << 18, LIMIT + 4};
    static unsigned char bytes[2 * LIMIT];
    struct places *p = places_at(n->node[1], MESH_HERE);
    size_t end = 0;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t k = 0; k < N_OF(sizes); end += sizes[k++])
        send_piece(n->node[0], 1, k, bytes + end, sizes[k]);
    for (size_t k = 0; k < N_OF(sizes); k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.kind, FRAME_PIECE);
        assert_int_equal(ev.head.peer, 0);
        assert_int_equal(ev.head.round, k);
        assert_int_equal(ev.head.word, 6);
        assert_int_equal(ev.head.channel, 1);
        assert_null(ev.buf);
        assert_int_equal(p->n_asked, k + 1);
        assert_int_equal(p->len, sizes[k]);
        assert_int_equal(p->head.kind, ev.head.kind); /* not by memcmp: it has padding */
        assert_int_equal(p->head.peer, ev.head.peer);
        assert_int_equal(p->head.round, ev.head.round);
        assert_int_equal(p->head.word, ev.head.word);
        assert_int_equal(p->head.channel, ev.head.channel);
    }
    assert_memory_equal(p->bytes, bytes, end);
}

/* Sanitizers watch every byte of it, which takes too long and too much memory. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define IS_SANITIZED 1
#elif defined __has_feature
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED 0
#endif

static enum mesh_where place_at_owner(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    (void)h;
    (void)len;
    *at = owner;
    return MESH_HERE;
}

static void a_piece_of_a_gibibyte_arrives(struct net *n)
{
    const size_t len = (size_t)1 << 30, marks[] = {0, 12345, len / 2 + 1, len - 1};
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    unsigned char *map[2];
    struct mesh_event ev;

    if (IS_SANITIZED || pages < (long)(3 * len) / page)
        return;
    for (int i = 0; i < 2; i++) {
        map[i] = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(map[i] != MAP_FAILED);
        madvise(map[i], len, MADV_HUGEPAGE);
    }
    for (size_t k = 0; k < N_OF(marks); k++)
        map[0][marks[k]] = (unsigned char)(k + 1);
    n->node[1]->place = place_at_owner;
    n->node[1]->owner = map[1];
    send_piece(n->node[0], 1, 1, map[0], len);
    send_bytes(n->node[0], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 1);
    assert_int_equal(memcmp(map[0], map[1], len), 0); /* cmocka looks at one byte a time */
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 2);
    mesh_buf_put(n->node[1], ev.buf);
    for (int i = 0; i < 2; i++)
        munmap(map[i], len);
}

static void a_piece_without_a_place_waits_and_so_does_what_is_behind_it(struct net *n)
{
    struct places *p = places_at(n->node[1], MESH_LATER);
    struct mesh_event ev;
    struct err e = {0};

    send_piece(n->node[0], 1, 8, "piece", 5);
    send_bytes(n->node[0], 1, 9, 10, 1);
    send_bytes(n->node[2], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, -2);
    mesh_buf_put(n->node[1], ev.buf);
    assert_ok(mesh_poll(n->node[1], &ev, clock_now() + 0.02, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    assert_int_equal(p->n_asked, 1);
    mesh_pause(n->node[1], 0, false);
    assert_ok(mesh_poll(n->node[1], &ev, clock_now() + 0.02, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    assert_int_equal(p->n_asked, 2);
    p->where = MESH_HERE;
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 8);
    assert_memory_equal(p->bytes, "piece", 5);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 9);
    mesh_buf_put(n->node[1], ev.buf);
}

/* An empty piece is whole with its header: no byte that comes later reminds the mesh of it. */
static void an_empty_piece_that_waited_comes_by_itself(struct net *n)
{
    struct places *p = places_at(n->node[1], MESH_LATER);
    struct mesh_event ev;
    struct err e = {0};

    send_piece(n->node[0], 1, 8, "", 0);
    assert_ok(mesh_poll(n->node[1], &ev, clock_now() + 0.02, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    p->where = MESH_HERE;
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 8);
}

static void a_wrong_piece_loses_its_sender(struct net *n)
{
    struct mesh_event ev;

    places_at(n->node[1], MESH_WRONG);
    send_piece(n->node[0], 1, 1, "piece", 5);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, 0);
    send_piece(n->node[0], -2, 1, "piece", 5); /* where nobody can place one */
    ev = next_event(n, 2);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, 0);
}

static void a_mesh_that_closes_asks_for_no_place(struct net *n)
{
    struct places *p = places_at(n->node[1], MESH_LATER);
    struct mesh_event ev;
    struct err e = {0};

    send_piece(n->node[0], 1, 8, "piece", 5);
    assert_ok(mesh_poll(n->node[1], &ev, clock_now() + 0.02, &e));
    assert_int_equal(p->n_asked, 1);
    mesh_close(n->node[1], clock_now() + 0.02);
    n->node[1] = NULL;
    assert_int_equal(p->n_asked, 1);
    ev = next_event(n, 0);
    assert_int_equal(ev.kind, MESH_LEFT);
}

static void every_mesh_keeps_the_contract(void **state)
{
    static void (*const cases[])(struct net *) = {
        messages_arrive_whole_and_in_order,
        everybody_reaches_everybody,
        one_buffer_goes_to_many,
        a_peer_that_takes_nothing_is_refused_more,
        a_paused_peer_keeps_its_words,
        what_was_said_before_a_good_bye_arrives,
        a_piece_fills_its_place,
        a_piece_of_a_gibibyte_arrives,
        a_piece_without_a_place_waits_and_so_does_what_is_behind_it,
        an_empty_piece_that_waited_comes_by_itself,
        a_wrong_piece_loses_its_sender,
        a_mesh_that_closes_asks_for_no_place,
    };

    (void)state;
    for (size_t m = 0; m < N_OF(meshes); m++)
        for (size_t k = 0; k < N_OF(cases); k++) {
            struct net n = {0};

            meshes[m].open(&n);
            cases[k](&n);
            finish(&n);
        }
}

/* A raw connection to a node, to say what no mesh would. */
static int connect_raw(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void strangers_do_not_keep_nodes_from_meeting(void **state)
{
    struct opening o[NODES];
    int fds[80];

    (void)state;
    opening_prepare(o, 20, MESH_TLS_AUTO);
    for (int i = 0; i < 80; i++) {
        fds[i] = connect_raw(o[1].peers[0].port); /* node 0's */
        assert_true(write(fds[i], "GET / HTTP/1.1\r\n", i % 3 ? 16 : 1) > 0);
    }
    opening_run(o);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(o[i].e.code, 0);
        mesh_close(o[i].mesh, clock_now() + 0.02);
    }
    for (int i = 0; i < 80; i++)
        close(fds[i]);
}

static void try_another_key(enum mesh_tls tls)
{
    struct opening o[NODES];

    opening_prepare(o, 1, tls);
    o[1].peers[0].key[5] ^= 1; /* that of its pair with node 0 */
    opening_run(o);
    for (int i = 0; i < 2; i++)
        assert_null(o[i].mesh);
    if (o[2].mesh) /* its pairs are in order */
        mesh_close(o[2].mesh, clock_now() + 0.02);
    assert_int_equal(o[1].e.code, ERR_AUTH);
}

static void another_key_is_refused(void **state)
{
    (void)state;
    try_another_key(MESH_TLS_OFF);
    try_another_key(MESH_TLS_ON);
}

/* The node links with this peer alone. */
static void keep_pair(struct opening *o, int peer)
{
    for (size_t i = 0; i < o->cfg.n_peers; i++)
        if (o->peers[i].node == peer)
            o->peers[0] = o->peers[i];
    o->cfg.n_peers = 1;
}

/* Node -2 says that it is node `as`, with every key that it was given. */
static void pose_as(struct opening *o, int as, int towards)
{
    keep_pair(o, towards);
    o->cfg.node = as;
}

static void try_to_pass(enum mesh_tls tls)
{
    struct opening o[NODES];

    /* At the address where node 1 looks for node 0. */
    opening_prepare(o, 1, tls);
    keep_pair(&o[1], 0);
    pose_as(&o[2], 0, 1);
    o[1].peers[0].port = o[0].peers[1].port; /* the server's */
    opening_run(o);
    assert_null(o[1].mesh);
    assert_int_equal(o[1].e.code, ERR_AUTH);
    assert_null(o[2].mesh);
    /* Calling node 0 as node 1. */
    opening_prepare(o, 1, tls);
    keep_pair(&o[0], 1);
    pose_as(&o[2], 1, 0);
    close(o[1].cfg.listen_fd);
    o[1].cfg.listen_fd = -1;
    o[1].cfg.deadline = 0;
    opening_run(o);
    assert_null(o[0].mesh);
    assert_null(o[2].mesh);
    assert_int_equal(o[2].e.code, ERR_AUTH);
}

static void a_node_cannot_pass_for_another_one(void **state)
{
    (void)state;
    try_to_pass(MESH_TLS_OFF);
    try_to_pass(MESH_TLS_ON);
}

/* A man in the middle of one connection, who passes everything on and keeps what the connector says. */
struct tap {
    int listen_fd, to_port;
    uint8_t said[4096];
    size_t n_said;
};

static void *tap_run(void *arg)
{
    struct tap *t = arg;
    struct pollfd from[2] = {{.fd = t->listen_fd, .events = POLLIN}};
    uint8_t bytes[4096];

    assert_int_equal(poll(from, 1, 5000), 1);
    from[0].fd = accept(t->listen_fd, NULL, NULL);
    from[1] = (struct pollfd){.fd = connect_raw(t->to_port), .events = POLLIN};
    for (bool open = true; open && poll(from, 2, 5000) > 0;)
        for (int i = 0; i < 2 && open; i++) {
            ssize_t n = from[i].revents ? read(from[i].fd, bytes, sizeof bytes) : -1;

            open = !from[i].revents || n > 0;
            if (n > 0)
                assert_int_equal(write(from[!i].fd, bytes, (size_t)n), n);
            if (n > 0 && i == 0 && t->n_said + (size_t)n <= sizeof t->said) {
                memcpy(t->said + t->n_said, bytes, (size_t)n);
                t->n_said += (size_t)n;
            }
        }
    close(from[0].fd);
    close(from[1].fd);
    close(t->listen_fd);
    return NULL;
}

static void play_again(enum mesh_tls tls)
{
    struct opening o[NODES];
    struct tap tap = {0};
    pthread_t tapper, opener;
    uint8_t bytes[4096];
    int tap_port, fd;

    opening_prepare(o, 5, tls);
    for (int i = 0; i < 2; i++)
        keep_pair(&o[i], !i);
    tap.listen_fd = listen_anywhere(&tap_port);
    tap.to_port = o[1].peers[0].port;
    o[1].peers[0].port = tap_port;
    o[2].cfg.n_peers = 0;
    pthread_create(&tapper, NULL, tap_run, &tap);
    opening_run(o);
    for (int i = NODES - 1; i >= 0; i--) {
        assert_non_null(o[i].mesh);
        mesh_close(o[i].mesh, clock_now() + 0.1);
    }
    pthread_join(tapper, NULL);
    assert_true(tap.n_said > 2 * FRAME_BYTES);

    /* Node 0 once more, the same attempt: what node 1 said then does not open a link now. */
    opening_prepare(o, 1, tls);
    keep_pair(&o[0], 1);
    for (int i = 1; i < NODES; i++)
        close(o[i].cfg.listen_fd);
    pthread_create(&opener, NULL, open_one, &o[0]);
    fd = connect_raw(o[1].peers[0].port);
    assert_int_equal(write(fd, tap.said, tap.n_said), tap.n_said);
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
    pthread_join(opener, NULL);
    assert_null(o[0].mesh);
    assert_int_equal(o[0].e.code, ERR_TIMEOUT);
    close(fd);
}

static void a_handshake_that_is_played_again_is_refused(void **state)
{
    (void)state;
    play_again(MESH_TLS_OFF);
    play_again(MESH_TLS_ON);
}

static void ends_that_do_not_agree_on_tls_both_say_so(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct opening o[NODES];
        char log[1024] = "";
        int fds[2], err = dup(STDERR_FILENO);

        opening_prepare(o, 1, MESH_TLS_OFF);
        for (int i = 0; i < 2; i++)
            keep_pair(&o[i], !i);
        o[2].cfg.n_peers = 0;
        o[with].cfg.tls = MESH_TLS_ON;
        assert_int_equal(pipe(fds), 0);
        dup2(fds[1], STDERR_FILENO);
        opening_run(o);
        dup2(err, STDERR_FILENO);
        assert_true(read(fds[0], log, sizeof log - 1) > 0);
        for (int i = 0; i < 2; i++)
            assert_null(o[i].mesh);
        mesh_close(o[2].mesh, 0);
        /* The one that called ends with it, the one that was called has it in its log. */
        assert_int_equal(o[1].e.code, ERR_AUTH);
        assert_non_null(strstr(o[1].e.text, with == 0
                                                ? "--data-tls: node 0 talks with TLS, this node without"
                                                : "--data-tls: node 0 talks without TLS, this node with"));
        assert_non_null(strstr(log, with == 0 ? "--data-tls: node 1 talks without TLS, this node with"
                                              : "--data-tls: node 1 talks with TLS, this node without"));
        close(fds[0]);
        close(fds[1]);
        close(err);
    }
}

static void try_another_attempt(enum mesh_tls tls)
{
    struct opening o[NODES];

    opening_prepare(o, 1, tls);
    o[1].cfg.attempt = 2;
    opening_run(o);
    for (int i = 0; i < NODES; i++)
        assert_null(o[i].mesh);
}

static void another_attempt_is_refused(void **state)
{
    (void)state;
    try_another_attempt(MESH_TLS_OFF);
    try_another_attempt(MESH_TLS_ON);
}

static void a_node_that_nobody_is_at_is_named(void **state)
{
    struct opening o[NODES];

    (void)state;
    opening_prepare(o, 5, MESH_TLS_AUTO);
    close(o[0].cfg.listen_fd);
    o[0].cfg.listen_fd = -1;
    open_one(&o[2]); /* the server connects to both workers */
    assert_null(o[2].mesh);
    assert_true(strstr(o[2].e.text, "node 0 at 127.0.0.1:") != NULL);
    close(o[1].cfg.listen_fd);
}

/* Nodes 0 and 1 alone. */
struct pair {
    struct opening o[2];
    int port; /* node 0's */
};

static void pair_prepare(struct pair *p)
{
    struct opening o[NODES];

    opening_prepare(o, 10, MESH_TLS_AUTO);
    close(o[2].cfg.listen_fd);
    for (int i = 0; i < 2; i++) {
        p->o[i] = o[i];
        p->o[i].cfg.peers = p->o[i].peers;
        p->o[i].cfg.n_peers = 1; /* the other worker comes first */
    }
    p->port = p->o[1].peers[0].port;
}

static void pair_run(struct pair *p)
{
    pthread_t t;

    pthread_create(&t, NULL, open_one, &p->o[0]);
    open_one(&p->o[1]);
    pthread_join(t, NULL);
    assert_non_null(p->o[0].mesh);
    assert_non_null(p->o[1].mesh);
}

static void *close_one(void *arg)
{
    struct opening *o = arg;

    mesh_close(o->mesh, clock_now() + 10);
    return NULL;
}

static void pair_close(struct pair *p)
{
    pthread_t t;

    pthread_create(&t, NULL, close_one, &p->o[0]);
    close_one(&p->o[1]);
    pthread_join(t, NULL);
}

/* One end of a conversation over a bad line: sends numbered messages of many sizes until told to stop, then
 * says how many there were; checks what it hears. */
struct talker {
    struct mesh *m;
    int to;
    atomic_int *may_stop; /* nobody does before `n_least` are sent */
    atomic_int *n_ready;  /* who has heard everything; until both have, both go on to poll */
    uint64_t n_least, n_sent, n_heard, n_promised;
    uint64_t ahead; /* how many messages it may have said more than heard */
    double deadline;
    bool has_failed;
    char why[MESH_WHY];
};

static size_t talk_size(uint64_t k)
{
    return k % 17 == 0 ? 9000 : (size_t)(k * 2654435761u >> 7) % 3000;
}

static bool hear_one(struct talker *t, const struct mesh_event *ev)
{
    uint64_t k = t->n_heard;

    if (ev->head.kind == FRAME_EVENT) {
        t->n_promised = ev->head.round;
        return true;
    }
    if (ev->head.round != k || ev->buf->len != talk_size(k))
        return false;
    for (size_t i = 0; i < ev->buf->len; i++)
        if (ev->buf->bytes[i] != (unsigned char)(k * 7 + i))
            return false;
    t->n_heard++;
    return true;
}

static void *talk(void *arg)
{
    struct talker *t = arg;
    bool has_ended = false, is_ready = false;

    while (!t->has_failed && *t->n_ready < 2) {
        struct mesh_head h = {.kind = FRAME_WORD, .peer = t->to, .round = t->n_sent};
        struct mesh_event ev;
        struct err e = {0};

        bool may_say = mesh_queued(t->m) < 20 && (t->n_sent < t->n_heard + t->ahead || *t->may_stop);

        if (!has_ended && may_say) {
            struct mesh_buf *b = mesh_buf_take(t->m);

            has_ended = *t->may_stop && t->n_sent >= t->n_least;
            h.kind = has_ended ? FRAME_EVENT : FRAME_WORD;
            b->len = has_ended ? 0 : talk_size(t->n_sent);
            for (size_t i = 0; i < b->len; i++)
                b->bytes[i] = (unsigned char)(t->n_sent * 7 + i);
            t->n_sent += !has_ended;
            t->has_failed = mesh_send(t->m, &h, b, &e) < 0;
            mesh_buf_put(t->m, b);
        }
        if (mesh_poll(t->m, &ev, clock_now() + (has_ended || !may_say ? 0.01 : 0), &e) < 0 ||
            clock_now() > t->deadline)
            t->has_failed = true;
        if (ev.kind == MESH_MESSAGE) {
            t->has_failed = !hear_one(t, &ev) || t->has_failed;
            mesh_buf_put(t->m, ev.buf);
        } else if (ev.kind != MESH_NOTHING) {
            t->has_failed = true;
            memcpy(t->why, ev.why, sizeof t->why);
        }
        if (!is_ready && has_ended && t->n_heard == t->n_promised) {
            is_ready = true;
            ++*t->n_ready;
        }
    }
    return NULL;
}

/* A conversation over a bad line. */
struct talk {
    struct fault_plan plan;
    enum mesh_tls tls;
    int n_least[N_FAULTS]; /* it ends when so many have happened */
    uint64_t ahead;        /* see talker; 0: without a limit */
    bool stalls;           /* for seconds, this way, that way and both ways */
    double seconds;        /* that it may take; 0: a minute */
};

/* A failed one is had again with PSGD_FAULT_SEED. */
static uint64_t fault_seed(void)
{
    const char *seed = getenv("PSGD_FAULT_SEED");

    return seed ? strtoull(seed, NULL, 10) : 5;
}

static bool has_happened(const struct talk *k, struct fault_proxy *proxy)
{
    for (int i = 0; i < N_FAULTS; i++)
        if (proxy->n[i] < k->n_least[i])
            return false;
    return true;
}

static void stall(struct fault_proxy *proxy)
{
    for (int ways = STALL_THERE; ways <= (STALL_THERE | STALL_BACK); ways++) {
        proxy->stalls = ways;
        usleep(ways == (STALL_THERE | STALL_BACK) ? 4000000 : 1000000);
        proxy->stalls = STALL_NONE;
        usleep(100000);
    }
}

static void check_talk(const struct talk *k, struct fault_proxy *proxy, const struct talker t[2])
{
    bool is_whole = has_happened(k, proxy), is_calm = true;

    for (int i = 0; i < 2; i++)
        is_whole = is_whole && !t[i].has_failed && t[i].n_heard == t[!i].n_sent;
    for (int i = 0; i < N_FAULTS; i++)
        is_calm = is_calm && k->n_least[i] == 0;
    if (!is_whole || (is_calm && proxy->n_connections != 1))
        fail_msg("seed %llu: %d flips, %d repeats, %d cuts, %d resets, %d half-closes; %d connections; "
                 "node 0 heard %llu of %llu: %s; node 1 heard %llu of %llu: %s",
                 (unsigned long long)k->plan.seed, proxy->n[FAULT_FLIP], proxy->n[FAULT_REPEAT],
                 proxy->n[FAULT_CUT], proxy->n[FAULT_RESET], proxy->n[FAULT_HALF_CLOSE], proxy->n_connections,
                 (unsigned long long)t[0].n_heard, (unsigned long long)t[1].n_sent, t[0].why,
                 (unsigned long long)t[1].n_heard, (unsigned long long)t[0].n_sent, t[1].why);
}

/* Both ends talk until what is to happen has; every message must come once, in order, and unchanged. */
static void talk_over(struct talk k)
{
    struct pair p;
    struct fault_proxy proxy;
    atomic_int may_stop = 0, n_ready = 0;
    struct talker t[2];
    pthread_t thread[2];
    double deadline = clock_now() + (k.seconds > 0 ? k.seconds : 60);

    k.plan.seed = fault_seed();
    pair_prepare(&p);
    for (int i = 0; i < 2; i++)
        p.o[i].cfg.tls = k.tls;
    fault_proxy_open(&proxy, p.port, &k.plan);
    p.o[1].peers[0].port = proxy.port;
    pair_run(&p);
    proxy.is_on = true;
    for (int i = 0; i < 2; i++) {
        t[i] = (struct talker){.m = p.o[i].mesh,
                               .to = !i,
                               .may_stop = &may_stop,
                               .n_ready = &n_ready,
                               .n_least = 40,
                               .n_promised = UINT64_MAX,
                               .ahead = k.ahead ? k.ahead : UINT32_MAX,
                               .deadline = deadline};
        pthread_create(&thread[i], NULL, talk, &t[i]);
    }
    if (k.stalls)
        stall(&proxy);
    while (!has_happened(&k, &proxy) && clock_now() < deadline - 10)
        usleep(10000);
    may_stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    check_talk(&k, &proxy, t);
    if (k.seconds > 0)
        print_message("# %d flipped bits in %llu messages over %d connections, and no message changed\n",
                      proxy.n[FAULT_FLIP], (unsigned long long)(t[0].n_heard + t[1].n_heard),
                      proxy.n_connections);
    pair_close(&p);
    fault_proxy_close(&proxy);
}

/* PSGD_SOAK_FLIPS=1000000 (make soak) asks for that many. */
static void no_flipped_bit_changes_a_message(void **state)
{
    const char *soak = getenv("PSGD_SOAK_FLIPS");
    int n = soak ? atoi(soak) : 1000;

    (void)state;
    talk_over((struct talk){.plan = {.every = {[FAULT_FLIP] = 10000}},
                            .tls = MESH_TLS_OFF,
                            .n_least = {[FAULT_FLIP] = n},
                            .ahead = 16,
                            .seconds = soak ? 60 + n / 100.0 : 0});
    talk_over((struct talk){
        .plan = {.every = {[FAULT_FLIP] = 20000}}, .tls = MESH_TLS_ON, .n_least = {[FAULT_FLIP] = 300}});
}

static void every_message_arrives_once_through_all_faults_together(void **state)
{
    static const struct fault_plan plan = {.every = {[FAULT_FLIP] = 50000,
                                                     [FAULT_REPEAT] = 50000,
                                                     [FAULT_CUT] = 200000,
                                                     [FAULT_RESET] = 100000,
                                                     [FAULT_HALF_CLOSE] = 100000},
                                           .jitter = 0.002};

    (void)state;
    for (enum mesh_tls tls = MESH_TLS_ON; tls <= MESH_TLS_OFF; tls++)
        talk_over((struct talk){.plan = plan, .tls = tls, .n_least = {20, 20, 10, 10, 10}});
}

static void every_message_arrives_byte_by_byte(void **state)
{
    (void)state;
    talk_over((struct talk){.plan = {.drips = true}, .tls = MESH_TLS_OFF});
    talk_over((struct talk){.plan = {.drips = true}, .tls = MESH_TLS_ON});
}

static void a_long_and_uneven_way_has_no_effect(void **state)
{
    (void)state;
    talk_over((struct talk){.plan = {.delay = 0.05, .jitter = 0.05}, .tls = MESH_TLS_OFF});
    talk_over((struct talk){.plan = {.delay = 0.05, .jitter = 0.05}, .tls = MESH_TLS_ON});
}

static void a_slow_reader_has_no_effect(void **state)
{
    (void)state;
    talk_over((struct talk){.plan = {.rate = 2e6}, .tls = MESH_TLS_OFF});
    talk_over((struct talk){.plan = {.rate = 2e6}, .tls = MESH_TLS_ON});
}

static void a_line_that_stalls_for_seconds_has_no_effect(void **state)
{
    (void)state;
    talk_over((struct talk){.tls = MESH_TLS_ON, .stalls = true});
}

static double seconds_until_lost(struct mesh *m, struct mesh_event *ev)
{
    double start = clock_now();
    struct err e = {0};

    do
        assert_ok(mesh_poll(m, ev, start + 20, &e));
    while (ev->kind == MESH_NOTHING && clock_now() < start + 20);
    return clock_now() - start;
}

/* `victim` is a process of its own; the other node is here. */
static void a_killed_node_is_missed(int victim)
{
    struct pair p;
    struct mesh_event ev;
    pid_t child;

    pair_prepare(&p);
    child = fork();
    if (child == 0) {
        close(p.o[!victim].cfg.listen_fd);
        open_one(&p.o[victim]);
        for (;;)
            pause();
    }
    close(p.o[victim].cfg.listen_fd);
    open_one(&p.o[!victim]);
    assert_non_null(p.o[!victim].mesh);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(seconds_until_lost(p.o[!victim].mesh, &ev) < 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, victim);
    assert_string_equal(ev.why, "the connection ended: the process is gone");
    mesh_close(p.o[!victim].mesh, clock_now());
}

/* A poll that sleeps on what TLS has read along would take its whole second for each of these. */
static void long_messages_go_to_and_fro_without_a_pause(void **state)
{
    static const enum mesh_tls modes[] = {MESH_TLS_OFF, MESH_TLS_ON};

    (void)state;
    for (size_t k = 0; k < N_OF(modes); k++) {
        struct pair p;
        struct mesh_event ev;
        pid_t child;
        double start;

        pair_prepare(&p);
        for (int i = 0; i < 2; i++)
            p.o[i].cfg.tls = modes[k];
        child = fork();
        if (child == 0) {
            close(p.o[0].cfg.listen_fd);
            open_one(&p.o[1]);
            for (int n = 0; n < 30; n++) {
                seconds_until_lost(p.o[1].mesh, &ev);
                send_bytes(p.o[1].mesh, 0, 0, LIMIT, n);
                mesh_buf_put(p.o[1].mesh, ev.buf);
            }
            close_one(&p.o[1]);
            _exit(0);
        }
        close(p.o[1].cfg.listen_fd);
        open_one(&p.o[0]);
        assert_non_null(p.o[0].mesh);
        start = clock_now();
        for (int n = 0; n < 30; n++) {
            send_bytes(p.o[0].mesh, 1, 0, LIMIT, n);
            seconds_until_lost(p.o[0].mesh, &ev);
            assert_int_equal(ev.kind, MESH_MESSAGE);
            assert_int_equal(ev.buf->bytes[LIMIT - 1], n);
            mesh_buf_put(p.o[0].mesh, ev.buf);
        }
        assert_true(clock_now() - start < 10);
        close_one(&p.o[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

static void a_dead_process_is_lost_within_a_second(void **state)
{
    (void)state;
    a_killed_node_is_missed(0);
    a_killed_node_is_missed(1);
}

/* Node 1 as a socket that knows the key, to say what no mesh would. */
static int link_raw(const struct opening *o, uint32_t heard)
{
    struct tcp_link l = {.fd = -1, .heard = &heard};
    struct err e = {0};

    assert_ok(tcp_link_resolve(&l, &o->cfg.peers[0], &e));
    assert_ok(tcp_link_connect(&l, &o->cfg, LINK_CONNECTING, &e));
    while (l.state != LINK_OPEN) {
        struct pollfd fd = {.fd = l.fd, .events = l.state == LINK_CONNECTING ? POLLOUT : POLLIN};

        assert_int_equal(poll(&fd, 1, 10000), 1);
        assert_ok(tcp_link_advance(&l, &o->cfg, &e));
    }
    return l.fd;
}

struct raw_pair {
    struct pair p;
    int fd; /* node 1's end */
};

static void raw_open(struct raw_pair *r)
{
    pthread_t t;

    pair_prepare(&r->p);
    close(r->p.o[1].cfg.listen_fd);
    pthread_create(&t, NULL, open_one, &r->p.o[0]);
    r->fd = link_raw(&r->p.o[1], 0);
    pthread_join(t, NULL);
    assert_non_null(r->p.o[0].mesh);
}

static void raw_close(struct raw_pair *r)
{
    close(r->fd);
    mesh_close(r->p.o[0].mesh, clock_now());
}

/* An empty word. */
static struct frame raw_word(uint32_t seq)
{
    return (struct frame){.kind = FRAME_WORD,
                          .job = frame_job("j-test01"),
                          .attempt = 1,
                          .from = 1,
                          .to = 0,
                          .round = seq,
                          .seq = seq};
}

static void raw_say(int fd, const struct frame *f)
{
    uint8_t bytes[FRAME_BYTES];

    frame_pack(bytes, f);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
}

static void a_frame_that_is_not_the_peers_to_send_loses_it(void **state)
{
    struct frame bad[] = {raw_word(1), raw_word(1), raw_word(1), raw_word(1),
                          raw_word(1), raw_word(2), raw_word(1)};
    static const char *const says[] = {"another job, attempt or node",
                                       "another job, attempt or node",
                                       "another job, attempt or node",
                                       "another job, attempt or node",
                                       "at most",
                                       "left a message out",
                                       "acknowledges what was not sent"};

    (void)state;
    bad[0].attempt = 0;
    bad[1].job++;
    bad[2].from = -2;
    bad[3].to = 1;
    bad[4].len = LIMIT + 1;
    bad[6].ack = 1;
    for (size_t k = 0; k < N_OF(bad); k++) {
        struct raw_pair r;
        struct mesh_event ev;

        raw_open(&r);
        raw_say(r.fd, &bad[k]);
        seconds_until_lost(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_true(strstr(ev.why, says[k]) != NULL);
        raw_close(&r);
    }
}

static void a_message_said_again_is_heard_once(void **state)
{
    static const uint32_t said[] = {1, 2, 1, 2, 2, 3};
    struct raw_pair r;
    struct mesh_event ev;

    (void)state;
    raw_open(&r);
    for (size_t k = 0; k < N_OF(said); k++)
        raw_say(r.fd, &(struct frame[]){raw_word(said[k])}[0]);
    for (uint64_t k = 1; k <= 3; k++) {
        seconds_until_lost(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        mesh_buf_put(r.p.o[0].mesh, ev.buf);
    }
    raw_close(&r);
}

/* Between messages, in a header, behind it, and in a payload. */
static void a_peer_that_dies_anywhere_is_lost_and_half_a_message_with_it(void **state)
{
    static const size_t says[] = {0, 10, FRAME_BYTES, FRAME_BYTES + 50};

    (void)state;
    for (size_t k = 0; k < N_OF(says); k++) {
        uint8_t bytes[FRAME_BYTES + 100] = {0};
        struct frame f = raw_word(1);
        struct raw_pair r;
        struct mesh_event ev;

        f.len = 100;
        frame_pack(bytes, &f);
        raw_open(&r);
        assert_int_equal(write(r.fd, bytes, says[k]), says[k]);
        shutdown(r.fd, SHUT_RDWR);
        assert_true(seconds_until_lost(r.p.o[0].mesh, &ev) < 1);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_string_equal(ev.why, "the connection ended: the process is gone");
        raw_close(&r);
    }
}

/* Nobody polls node 1's mesh: its kernel answers, and nothing is taken. */
static void open_to_one_that_hangs(struct pair *p, bool ends_stuck)
{
    struct mesh_head h = {.kind = FRAME_WORD, .peer = 1};
    struct mesh_buf *b;
    struct err e = {0};

    pair_prepare(p);
    pair_run(p);
    p->o[0].mesh->ends_stuck = ends_stuck;
    b = mesh_buf_take(p->o[0].mesh);
    b->len = LIMIT;
    memset(b->bytes, 1, LIMIT);
    for (int k = 0; k < 40; k++)
        assert_ok(mesh_send(p->o[0].mesh, &h, b, &e));
    mesh_buf_put(p->o[0].mesh, b);
}

static void a_peer_that_hangs_is_lost_in_ten_seconds_where_all_shall_read(void **state)
{
    struct pair p[2]; /* in the first, peers may be slow to read */
    struct mesh_event ev[2];
    struct err e = {0};
    double start = clock_now();

    (void)state;
    for (int i = 0; i < 2; i++)
        open_to_one_that_hangs(&p[i], i == 1);
    do
        for (int i = 0; i < 2; i++) {
            assert_ok(mesh_poll(p[i].o[0].mesh, &ev[i], clock_now() + 0.01, &e));
            assert_true(i == 1 || ev[i].kind == MESH_NOTHING);
        }
    while (ev[1].kind == MESH_NOTHING && clock_now() < start + 15);
    assert_in_range((unsigned long long)(clock_now() - start), 9, 12);
    assert_int_equal(ev[1].kind, MESH_LOST);
    assert_string_equal(ev[1].why, "it has taken nothing for 9.5 s, although messages wait for it");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            mesh_close(p[i].o[k].mesh, clock_now());
}

/* Where a step takes long nobody polls meanwhile: that is no silence of the peer's. */
static void a_break_during_a_long_step_loses_nobody(void **state)
{
    struct pair p;
    struct fault_proxy proxy;
    struct mesh_event ev;
    struct err e = {0};

    (void)state;
    pair_prepare(&p);
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){.every = {[FAULT_CUT] = 1}});
    p.o[1].peers[0].port = proxy.port;
    pair_run(&p);
    proxy.is_on = true;
    send_bytes(p.o[1].mesh, 0, 7, 10, 1);
    while (proxy.n[FAULT_CUT] == 0)
        usleep(1000);
    for (int i = 0; i < 2; i++) /* both notice */
        assert_ok(mesh_poll(p.o[i].mesh, &ev, clock_now() + 0.01, &e));
    proxy.is_on = false;
    usleep(10000000);
    for (double end = clock_now() + 10; ev.kind == MESH_NOTHING && clock_now() < end;) {
        assert_ok(mesh_poll(p.o[1].mesh, &ev, clock_now() + 0.001, &e));
        assert_int_equal(ev.kind, MESH_NOTHING);
        assert_ok(mesh_poll(p.o[0].mesh, &ev, clock_now() + 0.001, &e));
    }
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 7);
    mesh_buf_put(p.o[0].mesh, ev.buf);
    pair_close(&p);
    fault_proxy_close(&proxy);
}

static void a_good_bye_to_one_that_hangs_ends_in_time_and_says_so(void **state)
{
    struct pair p;
    char log[1024] = "";
    int fds[2], err = dup(STDERR_FILENO);
    double start;

    (void)state;
    pair_prepare(&p);
    pair_run(&p);
    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    start = clock_now();
    mesh_close(p.o[0].mesh, start + 4);
    dup2(err, STDERR_FILENO);
    assert_true(clock_now() - start >= 4 && clock_now() - start < 6);
    assert_true(read(fds[0], log, sizeof log - 1) > 0);
    assert_non_null(strstr(log, "node 1 has not heard the good-bye; waiting for it another 1 s at most"));
    mesh_close(p.o[1].mesh, clock_now());
    close(fds[0]);
    close(fds[1]);
    close(err);
}

/* One that answers a hello as if it were of another version. */
static void *answer_in_another_version(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    uint8_t bytes[FRAME_BYTES + 16];

    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    bytes[4] = 9;
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
    return NULL;
}

static void a_peer_of_another_version_is_refused_naming_both(void **state)
{
    struct pair p;
    pthread_t t;
    int port, fd = listen_anywhere(&port);

    (void)state;
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    pair_prepare(&p);
    p.o[1].peers[0].port = port;
    pthread_create(&t, NULL, answer_in_another_version, &fd);
    open_one(&p.o[1]);
    pthread_join(t, NULL);
    assert_null(p.o[1].mesh);
    assert_non_null(strstr(p.o[1].e.text, "version 9"));
    assert_non_null(strstr(p.o[1].e.text, "version 2"));
    close(p.o[0].cfg.listen_fd);
    close(fd);
}

static void a_stranger_does_not_take_a_peers_place(void **state)
{
    struct pair p;
    struct mesh_event ev;
    struct err e = {0};
    struct frame hello = {
        .kind = FRAME_HELLO, .job = frame_job("j-test01"), .attempt = 1, .from = 1, .to = 0, .len = 16};
    uint8_t answer[2 * FRAME_BYTES + 48] = {0}; /* hello and challenge */
    int fd;

    (void)state;
    pair_prepare(&p);
    pair_run(&p);
    fd = connect_raw(p.port);
    raw_say(fd, &hello);
    assert_int_equal(write(fd, answer, 16), 16);
    assert_ok(mesh_poll(p.o[0].mesh, &ev, clock_now() + 0.05, &e)); /* it is challenged, and proves nothing */
    hello.kind = FRAME_PROOF;
    hello.len = 32;
    raw_say(fd, &hello);
    assert_int_equal(write(fd, answer, 32), 32);
    assert_ok(mesh_poll(p.o[0].mesh, &ev, clock_now() + 0.05, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    assert_int_equal(read(fd, answer, sizeof answer), sizeof answer);
    assert_true(read(fd, answer, sizeof answer) <= 0); /* hung up */
    send_bytes(p.o[1].mesh, 0, 4, 10, 1);
    seconds_until_lost(p.o[0].mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 4);
    mesh_buf_put(p.o[0].mesh, ev.buf);
    close(fd);
    pair_close(&p);
}

static void a_frame_survives_packing(void **state)
{
    struct frame f = {.kind = FRAME_REPLY,
                      .job = 0x1122334455667788u,
                      .attempt = 7,
                      .from = -3,
                      .to = 4,
                      .channel = 9,
                      .word = 11,
                      .round = 1ull << 40,
                      .len = 123456789,
                      .seq = 0xfffffffe,
                      .ack = 77,
                      .crc = 0xdeadbeef};
    struct frame g;
    uint8_t bytes[FRAME_BYTES], again[FRAME_BYTES];
    struct err e = {0};

    (void)state;
    frame_pack(bytes, &f);
    assert_ok(frame_unpack(&g, bytes, &e));
    assert_int_equal(g.from, -3);
    assert_int_equal(g.len, 123456789);
    assert_int_equal(g.seq, 0xfffffffe);
    assert_int_equal(g.ack, 77);
    frame_pack(again, &g);
    assert_memory_equal(bytes, again, sizeof bytes);
}

static void every_flipped_bit_of_a_header_is_noticed(void **state)
{
    struct frame f = {.kind = FRAME_WORD, .job = 5, .attempt = 1, .to = 1, .len = 8};
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    (void)state;
    for (int bit = 0; bit < 8 * FRAME_BYTES; bit++) {
        struct frame g;

        frame_pack(bytes, &f);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    }
}

static void another_version_is_refused_naming_both(void **state)
{
    struct frame f = {.kind = FRAME_WORD}, g;
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    (void)state;
    frame_pack(bytes, &f);
    bytes[4] = 9;
    assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    assert_says("version 9");
    assert_says("version 2");
}

/* An argument is a pattern: run what matches. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_keeps_the_contract),
        cmocka_unit_test(strangers_do_not_keep_nodes_from_meeting),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(a_node_cannot_pass_for_another_one),
        cmocka_unit_test(a_handshake_that_is_played_again_is_refused),
        cmocka_unit_test(ends_that_do_not_agree_on_tls_both_say_so),
        cmocka_unit_test(another_attempt_is_refused),
        cmocka_unit_test(a_node_that_nobody_is_at_is_named),
        cmocka_unit_test(no_flipped_bit_changes_a_message),
        cmocka_unit_test(every_message_arrives_once_through_all_faults_together),
        cmocka_unit_test(every_message_arrives_byte_by_byte),
        cmocka_unit_test(a_long_and_uneven_way_has_no_effect),
        cmocka_unit_test(a_slow_reader_has_no_effect),
        cmocka_unit_test(a_line_that_stalls_for_seconds_has_no_effect),
        cmocka_unit_test(long_messages_go_to_and_fro_without_a_pause),
        cmocka_unit_test(a_dead_process_is_lost_within_a_second),
        cmocka_unit_test(a_frame_that_is_not_the_peers_to_send_loses_it),
        cmocka_unit_test(a_message_said_again_is_heard_once),
        cmocka_unit_test(a_peer_that_dies_anywhere_is_lost_and_half_a_message_with_it),
        cmocka_unit_test(a_peer_that_hangs_is_lost_in_ten_seconds_where_all_shall_read),
        cmocka_unit_test(a_break_during_a_long_step_loses_nobody),
        cmocka_unit_test(a_good_bye_to_one_that_hangs_ends_in_time_and_says_so),
        cmocka_unit_test(a_peer_of_another_version_is_refused_naming_both),
        cmocka_unit_test(a_stranger_does_not_take_a_peers_place),
        cmocka_unit_test(a_frame_survives_packing),
        cmocka_unit_test(every_flipped_bit_of_a_header_is_noticed),
        cmocka_unit_test(another_version_is_refused_naming_both),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
