#include "tests/lib/mesh_remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/mpi/mesh_mpi.h"
#include "runner/mesh/mpi_library.h"
#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "tests/unit/unit.h"

enum act { ACT_SEND, ACT_POLL, ACT_QUEUED, ACT_PAUSE, ACT_DROP, ACT_CLOSE, ACT_SINK };
enum { ALL_NODES = -1000 };

struct rank_call { /* to a process, `len` bytes behind it */
    enum act act;
    struct mesh_head head;
    size_t len;
    double deadline;
    bool is_on, is_view;
};

struct rank_answer { /* of a process, `len` bytes behind it, unless it asks for a sink */
    enum act act;
    int code;
    enum mesh_event_kind kind;
    struct mesh_head head;
    size_t len, value;
    bool has_bytes;
    char text[MESH_REASON_MAX];
};

struct remote {
    struct mesh mesh;
    struct mesh_pool pool;
    struct mesh_remotes *all;
    int fd;
    void *sink[MESH_NODES]; /* of the chunk that arrives from that node */
    bool is_closing;
};

struct mesh_remotes {
    struct remote of[MESH_NODES];
    struct child mpirun;
    bool has_lost;
};

static void write_all(int fd, const void *bytes, size_t len)
{
    struct err e = {0};

    if (file_write_all(fd, bytes, len, "the socket of a process of MPI", &e) < 0)
        fail_msg("%s", e.text);
}

/* False: the other process has ended. */
static bool read_all(int fd, void *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, (char *)bytes + at, len - at);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The test's side. */

static void ask(struct remote *r, const struct rank_call *c, const void *bytes)
{
    write_all(r->fd, c, sizeof *c);
    if (c->len > 0)
        write_all(r->fd, bytes, c->len);
}

static void find_sink(struct remote *r, const struct rank_answer *a)
{
    void **at = &r->sink[mesh_slot(2, a->head.peer)];
    struct rank_call c = {.act = ACT_SINK};

    c.head.index = r->mesh.sink ? r->mesh.sink(r->mesh.owner, &a->head, a->len, at) : MESH_SINK_REFUSED;
    ask(r, &c, NULL);
}

static struct rank_answer get_answer(struct remote *r)
{
    struct rank_answer a;

    do {
        if (!read_all(r->fd, &a, sizeof a))
            fail_msg("a process of MPI has ended");
        if (a.act == ACT_SINK)
            find_sink(r, &a);
    } while (a.act == ACT_SINK);
    return a;
}

static int remote_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                       struct mesh_buf *b, struct err *e)
{
    struct remote *r = (struct remote *)m;
    struct rank_answer a;

    ask(r, &(struct rank_call){.act = ACT_SEND, .head = *h, .len = len, .is_view = !b}, bytes);
    a = get_answer(r);
    return a.code < 0 ? err_set(e, a.code, "%s", a.text) : 0;
}

static void take_bytes(struct remote *r, const struct rank_answer *a, struct mesh_event *out)
{
    void *at = r->sink[mesh_slot(2, a->head.peer)];

    if (a->head.kind != FRAME_CHUNK) {
        out->buf = mesh_buf_take(&r->mesh);
        out->buf->len = a->len;
        at = out->buf->bytes;
    }
    assert_true(read_all(r->fd, at, a->len));
}

static int remote_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct remote *r = (struct remote *)m;
    struct rank_answer a;

    ask(r, &(struct rank_call){.act = ACT_POLL, .deadline = deadline}, NULL);
    a = get_answer(r);
    *out = (struct mesh_event){.kind = a.kind, .head = a.head};
    memcpy(out->why, a.text, sizeof out->why);
    if (a.kind == MESH_MESSAGE)
        take_bytes(r, &a, out);
    r->all->has_lost |= a.kind == MESH_LOST;
    return a.code < 0 ? err_set(e, a.code, "%s", a.text) : 0;
}

static size_t remote_queued_for(const struct mesh *m, int node)
{
    struct remote *r = (struct remote *)(uintptr_t)m;

    ask(r, &(struct rank_call){.act = ACT_QUEUED, .head.peer = node}, NULL);
    return get_answer(r).value;
}

static size_t remote_queued(const struct mesh *m)
{
    return remote_queued_for(m, ALL_NODES);
}

static void remote_pause(struct mesh *m, int node, bool on)
{
    struct remote *r = (struct remote *)m;

    ask(r, &(struct rank_call){.act = ACT_PAUSE, .head.peer = node, .is_on = on}, NULL);
    get_answer(r);
}

static void remote_drop(struct mesh *m, int node, const char *why)
{
    struct remote *r = (struct remote *)m;

    ask(r, &(struct rank_call){.act = ACT_DROP, .head.peer = node, .len = strlen(why) + 1}, why);
    get_answer(r);
}

static void remote_close(struct mesh *m, double deadline)
{
    struct remote *r = (struct remote *)m;

    const struct rank_call c = {.act = ACT_CLOSE, .deadline = deadline + MESH_TIMEOUT_S};

    /* mpirun ends all processes when the first one that has lost a node ends. */
    if (send(r->fd, &c, sizeof c, MSG_NOSIGNAL) != sizeof c)
        assert_true(r->all->has_lost);
    r->is_closing = true;
    mesh_pool_clear(&r->pool);
}

static bool remote_is_local(const struct mesh *m, int node)
{
    (void)m;
    (void)node;
    return true;
}

static int remote_watch(struct mesh *m, int fd, struct err *e)
{
    (void)m;
    return fd < 0 ? 0 : err_set(e, ERR_INTERNAL, "a descriptor of another process");
}

static const struct mesh_ops ops = {.send = remote_send,
                                    .poll = remote_poll,
                                    .queued = remote_queued,
                                    .queued_for = remote_queued_for,
                                    .pause = remote_pause,
                                    .drop = remote_drop,
                                    .close = remote_close,
                                    .is_local = remote_is_local,
                                    .watch = remote_watch};

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", name); /* abstract: it leaves no file */
    return a;
}

/* The folder of the transports. */
static const char *transports_folder(void)
{
    static char path[PATH_MAX];
    const char *build = getenv("BUILD");

    snprintf(path, sizeof path, "%s/transports", build && build[0] ? build : "build");
    return path;
}

/* Looked for once: NULL where the MPI is not installed, or psgd was built without it. */
static const char *mpirun_of(const char *mpi)
{
    static struct {
        const char *mpi;
        char program[PATH_MAX];
    } found[2];
    char object[PATH_MAX + 40], command[64];
    int i = 0;

    while (found[i].mpi && strcmp(found[i].mpi, mpi) != 0)
        assert_true(++i < 2);
    if (!found[i].mpi) {
        found[i].mpi = mpi;
        snprintf(object, sizeof object, "%s/%s.so", transports_folder(), mpi);
        snprintf(command, sizeof command, "tests/lib/mpirun_of %s", mpi);
        if (access(object, R_OK) == 0) {
            FILE *printed = popen(command, "r");

            assert_non_null(printed);
            if (fgets(found[i].program, sizeof found[i].program, printed))
                found[i].program[strcspn(found[i].program, "\n")] = '\0';
            pclose(printed);
        }
    }
    return found[i].program[0] ? found[i].program : NULL;
}

/* Without these variables Open MPI refuses to start processes as root, and more of them than there are
 * processors. */
static void start_mpirun(struct child *c, const char *mpi, const char *program, char *socket_name,
                         size_t piece)
{
    char self[PATH_MAX], n[4], mpirun[PATH_MAX], named[40], bytes[24];
    char *const argv[] = {"env",
                          "OMPI_ALLOW_RUN_AS_ROOT=1",
                          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                          "OMPI_MCA_rmaps_base_oversubscribe=1",
                          named,
                          mpirun,
                          "-n",
                          n,
                          self,
                          "--rank",
                          socket_name,
                          bytes,
                          NULL};
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    struct err e = {0};

    assert_true(len > 0);
    self[len] = '\0';
    snprintf(n, sizeof n, "%d", MESH_NODES);
    snprintf(mpirun, sizeof mpirun, "%s", program);
    snprintf(named, sizeof named, "PSGD_MPI=%s", mpi);
    snprintf(bytes, sizeof bytes, "%zu", piece);
    assert_ok(child_start(c, &(struct child_how){.argv = argv, .out = -1, .err = STDERR_FILENO}, &e));
}

/* The connection of the next process. An mpirun that ends before it fails the test. */
static int accept_process(int fd, struct child *mpirun)
{
    struct pollfd either[] = {{.fd = fd, .events = POLLIN}, {.fd = mpirun->fd, .events = POLLIN}};

    while (poll(either, 2, -1) < 0)
        assert_int_equal(errno, EINTR);
    if (!either[0].revents)
        fail_msg("mpirun has ended with status %d before its processes connected",
                 WEXITSTATUS(child_wait(mpirun)));
    return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

struct mesh_remotes *mesh_remotes_begin(const char *mpi, size_t piece, struct mesh *out[MESH_NODES])
{
    const char *program = mpirun_of(mpi);
    char name[64];
    struct mesh_remotes *all;
    struct sockaddr_un a;
    int fd;

    if (!program)
        return NULL;
    all = calloc(1, sizeof *all);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name, sizeof name, "psgd-test-mesh-%ld", (long)getpid());
    a = address_of(name);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, MESH_NODES), 0);
    start_mpirun(&all->mpirun, mpi, program, name, piece);
    for (int i = 0; i < MESH_NODES; i++) {
        int peer = accept_process(fd, &all->mpirun), slot = -1;
        struct remote *r;

        assert_true(peer >= 0 && read_all(peer, &slot, sizeof slot) && slot >= 0 && slot < MESH_NODES);
        r = &all->of[slot];
        *r = (struct remote){.mesh = {.ops = &ops}, .pool.limit = MESH_LIMIT, .all = all, .fd = peer};
        r->mesh.pool = &r->pool;
        out[slot] = &r->mesh;
    }
    close(fd);
    return all;
}

void mesh_remotes_end(struct mesh_remotes *all)
{
    int status;

    if (all->has_lost)
        kill(all->mpirun.pid, SIGTERM);
    for (int i = 0; i < MESH_NODES; i++) {
        struct remote *r = &all->of[i];

        assert_true(r->is_closing);
        if (!all->has_lost)
            get_answer(r);
    }
    status = child_wait(&all->mpirun);
    if (!all->has_lost)
        assert_int_equal(status, 0);
    for (int i = 0; i < MESH_NODES; i++)
        close(all->of[i].fd);
    free(all);
}

/* The side of a process. */

struct rank_mesh {
    struct mesh *mesh;
    int fd;
    unsigned char *chunks[MESH_NODES];
    size_t lens[MESH_NODES];
};

static enum mesh_sink_result ask_sink(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    struct rank_mesh *r = owner;
    int slot = mesh_slot(2, h->peer);
    struct rank_call c;

    write_all(r->fd, &(struct rank_answer){.act = ACT_SINK, .head = *h, .len = len},
              sizeof(struct rank_answer));
    if (!read_all(r->fd, &c, sizeof c))
        return MESH_SINK_REFUSED;
    if (c.head.index == MESH_SINK_READY) {
        free(r->chunks[slot]);
        *at = r->chunks[slot] = malloc(len + 1);
        r->lens[slot] = len;
    }
    return (enum mesh_sink_result)c.head.index;
}

/* A view's bytes stay until the process ends. */
static int send_message(struct rank_mesh *r, const struct rank_call *c, struct err *e)
{
    struct mesh_buf *b = c->is_view ? NULL : mesh_buf_take(r->mesh);
    void *bytes = b ? b->bytes : malloc(c->len + 1);
    int rc;

    if (!read_all(r->fd, bytes, c->len))
        _exit(1);
    if (!b)
        return mesh_send_view(r->mesh, &c->head, bytes, c->len, e);
    b->len = c->len;
    rc = mesh_send(r->mesh, &c->head, b, e);
    mesh_buf_put(b);
    return rc;
}

static void answer_event(struct rank_mesh *r, struct rank_answer *a, const struct mesh_event *ev)
{
    int slot = mesh_slot(2, ev->head.peer);
    const unsigned char *bytes = ev->buf ? ev->buf->bytes : r->chunks[slot];

    a->kind = ev->kind;
    a->head = ev->head;
    memcpy(a->text, ev->why, sizeof a->text);
    if (ev->kind == MESH_MESSAGE)
        a->len = ev->buf ? ev->buf->len : r->lens[slot];
    write_all(r->fd, a, sizeof *a);
    if (a->len > 0)
        write_all(r->fd, bytes, a->len);
    mesh_buf_put(ev->buf);
}

static void carry_out(struct rank_mesh *r, const struct rank_call *c)
{
    struct rank_answer a = {.act = c->act};
    struct mesh_event ev = {0};
    struct err e = {0};
    char why[MESH_REASON_MAX] = "";

    switch (c->act) {
    case ACT_SEND:
        a.code = send_message(r, c, &e);
        break;
    case ACT_POLL:
        a.code = mesh_poll(r->mesh, &ev, c->deadline, &e);
        break;
    case ACT_QUEUED:
        a.value = c->head.peer == ALL_NODES ? mesh_queued(r->mesh) : mesh_queued_for(r->mesh, c->head.peer);
        break;
    case ACT_PAUSE:
        mesh_pause(r->mesh, c->head.peer, c->is_on);
        break;
    case ACT_DROP:
        if (c->len > sizeof why || !read_all(r->fd, why, c->len))
            _exit(1);
        mesh_drop(r->mesh, c->head.peer, why);
        break;
    case ACT_CLOSE:
        mesh_close(r->mesh, c->deadline);
        break;
    case ACT_SINK:
        _exit(1);
    }
    if (a.code < 0)
        snprintf(a.text, sizeof a.text, "%.*s", MESH_REASON_MAX - 1, e.text);
    if (c->act == ACT_POLL && a.code == 0)
        answer_event(r, &a, &ev);
    else
        write_all(r->fd, &a, sizeof a);
}

static int my_slot(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    rank = rank ? rank : getenv("PMI_RANK");
    return rank ? atoi(rank) : -1;
}

static int run_rank(const char *name, size_t piece)
{
    static const atomic_bool never = false;
    int slot = my_slot(), peers[MESH_NODES], n = 0;
    struct sockaddr_un at = address_of(name);
    struct rank_mesh r = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct mesh_mpi_address address = {
        .job = "j-test01", .attempt = 1, .n_workers = 2, .n_servers = 1, .peers = peers, .piece = piece};
    struct mesh_spec spec = {.address = &address,
                             .limit = MESH_LIMIT,
                             .deadline = clock_now() + MESH_TIMEOUT_S,
                             .interrupted = &never};
    struct rank_call c = {.act = ACT_POLL};
    struct err e = {0};

    if (slot < 0 || slot >= MESH_NODES || connect(r.fd, (struct sockaddr *)&at, sizeof at) < 0)
        return 1;
    for (int i = 0; i < MESH_NODES; i++)
        if (i != slot)
            peers[n++] = mesh_ids[i];
    address.n_peers = (size_t)n;
    spec.node = mesh_ids[slot];
    if (mpi_library_load(&spec.transport, transports_folder(), &e) < 0 || mesh_open(&r.mesh, &spec, &e) < 0) {
        fprintf(stderr, "%s\n%s\n", e.text, e.hint);
        return 1;
    }
    r.mesh->sink = ask_sink;
    r.mesh->owner = &r;
    write_all(r.fd, &slot, sizeof slot);
    while (c.act != ACT_CLOSE && read_all(r.fd, &c, sizeof c))
        carry_out(&r, &c);
    return c.act == ACT_CLOSE ? 0 : 1;
}

bool mesh_remote_is_rank(int argc, char **argv, int *status)
{
    if (argc != 4 || strcmp(argv[1], "--rank") != 0)
        return false;
    *status = run_rank(argv[2], strtoul(argv[3], NULL, 10));
    return true;
}
