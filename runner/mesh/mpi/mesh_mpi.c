#include "runner/mesh/mpi/mesh_mpi.h"

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "runner/mesh/mpi/mesh_mpi_private.h"
#include "shared/base/clock.h"
#include "shared/job/transport_kinds.h"

/* mesh_poll spins for this time, as in mesh_tcp.c. MPI has no descriptor to sleep on: afterwards it sleeps
 * for a fraction of the time that it has waited, so that waiting takes little processor time and is late by
 * little. */
static const double SPIN_S = 250e-6, NAP_SHARE = 1.0 / 16, NAP_MAX_S = 1e-3;
static const double TICK_S = 1e-3; /* of mesh_descriptor, which is readable so long after a mesh_poll */
static const double BYE_REPORT_S = 3;

int mpi_fail(struct err *e, int code, int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    MPI_Error_string(rc, text, &len);
    return err_set(e, code, "%s: %.*s", call, len, text);
}

static struct mpi_peer *find_peer(const struct mpi *t, int node)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].node == node)
            return &t->peers[i];
    return NULL;
}

void mpi_peer_drop(struct mpi *t, struct mpi_peer *p, const char *why)
{
    struct mesh_event *ev;

    if (p->is_lost || p->has_left)
        return;
    p->is_lost = true;
    mpi_send_forget(t, p);
    ev = &t->ended[t->n_ended++];
    *ev = (struct mesh_event){.kind = MESH_LOST, .head.peer = p->node};
    snprintf(ev->why, sizeof ev->why, "%s", why);
}

void mpi_check(struct mpi *t, struct mpi_peer *p, const char *call, int rc)
{
    struct err why;

    if (rc == MPI_SUCCESS)
        return;
    mpi_fail(&why, ERR_LOST, rc, call);
    mpi_peer_drop(t, p, why.text);
}

static int mpi_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    struct mpi *t = (struct mpi *)m;
    struct mpi_peer *p = find_peer(t, h->peer);

    if (!p)
        return err_set(e, ERR_CODEC, "node %d has no connection to node %d", t->spec.node, h->peer);
    if (p->is_lost || p->has_left)
        return 0;
    if (t->n_unsent[p - t->peers] >= MESH_QUEUE_MAX)
        return err_set(e, ERR_REFUSED, "%d messages are queued for node %d, which does not receive them",
                       MESH_QUEUE_MAX, p->node);
    mpi_send_add(t, p, &(struct mpi_message){.head = *h, .bytes = bytes, .len = len, .buf = b});
    return 0;
}

static size_t mpi_queued(const struct mesh *m)
{
    const struct mpi *t = (const struct mpi *)m;
    size_t most = 0;

    for (size_t i = 0; i < t->n_peers; i++)
        most = t->n_unsent[i] > most && !t->peers[i].is_lost ? t->n_unsent[i] : most;
    return most;
}

static size_t mpi_queued_for(const struct mesh *m, int node)
{
    const struct mpi *t = (const struct mpi *)m;
    const struct mpi_peer *p = find_peer(t, node);

    return p && !p->is_lost ? t->n_unsent[p - t->peers] : 0;
}

/* Lets MPI make progress, and handles what is complete. */
static int advance(struct mpi *t, struct err *e)
{
    int n = 0, rc;

    rc = MPI_Testsome((int)(t->n_peers * REQUESTS), t->requests, &n, t->done, t->statuses);
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
        return mpi_fail(e, ERR_IO, rc, "MPI_Testsome");
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++) {
        struct mpi_peer *p = &t->peers[t->done[i] / REQUESTS];
        int request = t->done[i] % REQUESTS, len = 0;
        struct err why;

        if (rc == MPI_ERR_IN_STATUS && t->statuses[i].MPI_ERROR != MPI_SUCCESS) {
            mpi_fail(&why, ERR_LOST, t->statuses[i].MPI_ERROR, "MPI");
            mpi_peer_drop(t, p, why.text);
        } else if (request >= REQUEST_GRANT) {
            mpi_send_done(t, p, request);
        } else {
            MPI_Get_count(&t->statuses[i], MPI_BYTE, &len);
            mpi_receive_done(t, p, request, (size_t)len);
        }
    }
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++) {
        mpi_send_waiting(t, &t->peers[t->done[i] / REQUESTS]);
        mpi_send_grant(t, &t->peers[t->done[i] / REQUESTS]);
    }
    return mpi_reduce_advance(t, e);
}

/* The next message that is complete. Round robin. */
static bool next_message(struct mpi *t, struct mesh_event *out)
{
    for (size_t k = 0; t->has_work && k < t->n_peers; k++) {
        size_t i = (t->turn + k) % t->n_peers;

        if (mpi_receive_next(t, &t->peers[i], out)) {
            t->turn = i + 1;
            return true;
        }
    }
    t->has_work = false;
    return false;
}

/* Returns whether the caller's descriptor is readable; waits for that at most so long. */
static bool is_watched_readable(const struct mpi *t, double seconds)
{
    struct pollfd p = {.fd = t->watched_fd, .events = POLLIN};
    struct timespec ts = {.tv_nsec = (long)(seconds * 1e9)};

    if (t->watched_fd < 0 && seconds <= 0)
        return false;
    return ppoll(&p, t->watched_fd >= 0, &ts, NULL) != 0; /* also after a signal */
}

/* In a wait that has lasted so long. Returns as is_watched_readable(). */
static bool take_nap(const struct mpi *t, double waited_s)
{
    double nap = waited_s < SPIN_S ? 0 : fmin(waited_s * NAP_SHARE, NAP_MAX_S);
    bool is_readable = is_watched_readable(t, nap);

    if (!is_readable && nap <= 0)
        sched_yield();
    return is_readable;
}

/* True once: callers that go on until they have saved are to wait here as before. */
static bool is_newly_interrupted(struct mpi *t)
{
    bool is_new = !t->has_been_interrupted && flag_is_up(t->spec.interrupted);

    t->has_been_interrupted |= is_new;
    return is_new;
}

static void wind_timer(const struct mpi *t)
{
    const struct itimerspec tick = {.it_value.tv_nsec = (long)(TICK_S * 1e9)};
    uint64_t n;

    if (read(t->timer_fd, &n, sizeof n) == sizeof n)
        timerfd_settime(t->timer_fd, 0, &tick, NULL);
}

static int mpi_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct mpi *t = (struct mpi *)m;
    const size_t backlog = mpi_queued(m), reducing = t->n_sums;
    const double start = clock_now();

    *out = (struct mesh_event){.kind = MESH_NOTHING};
    wind_timer(t);
    for (double now = start;; now = clock_now()) {
        if (advance(t, e) < 0)
            return e->code;
        if (t->n_ended == 0 && next_message(t, out))
            return 0;
        if (t->n_ended > 0) {
            *out = t->ended[--t->n_ended];
            return 0;
        }
        if (mpi_queued(m) < backlog || t->n_sums < reducing || now >= deadline || is_newly_interrupted(t) ||
            take_nap(t, now - start))
            return 0;
    }
}

static bool mpi_is_local(const struct mesh *m, int node)
{
    const struct mpi_peer *p = find_peer((const struct mpi *)m, node);

    return p && p->is_local;
}

static int mpi_watch(struct mesh *m, int fd, struct err *e)
{
    (void)e;
    ((struct mpi *)m)->watched_fd = fd;
    return 0;
}

static int mpi_descriptor(const struct mesh *m)
{
    return ((const struct mpi *)m)->timer_fd;
}

static void mpi_pause(struct mesh *m, int node, bool on)
{
    struct mpi *t = (struct mpi *)m;
    struct mpi_peer *p = find_peer(t, node);

    if (!p)
        return;
    p->is_paused = on;
    t->has_work |= !on;
}

static void mpi_drop(struct mesh *m, int node, const char *why)
{
    struct mpi *t = (struct mpi *)m;
    struct mpi_peer *p = find_peer(t, node);

    if (p)
        mpi_peer_drop(t, p, why);
}

/* Frees the mesh; MPI has none of its memory any more. */
static void mpi_free(struct mpi *t)
{
    for (size_t i = 0; t->peers && i < t->n_peers; i++) {
        mpi_send_forget(t, &t->peers[i]);
        mesh_buf_put(t->peers[i].buf);
        free(t->peers[i].unwanted);
    }
    mesh_pool_clear(&t->pool);
    if (t->timer_fd >= 0)
        close(t->timer_fd);
    free(t->peers);
    free(t->n_unsent);
    free(t->requests);
    free(t->done);
    free(t->statuses);
    free(t->ended);
    free(t);
}

static bool any_lost(const struct mpi *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peers[i].is_lost)
            return true;
    return false;
}

/* Polls until `t` is done, or until a moment. */
static bool poll_until(struct mpi *t, bool (*is_done)(struct mpi *t), double until)
{
    const double start = clock_now();
    struct err e = {0};
    struct mesh_event ev;

    for (double now = start; !is_done(t); now = clock_now()) {
        until = mesh_closes_until(&t->spec, until);
        if (now >= until || any_lost(t) || mpi_poll(&t->mesh, &ev, 0, &e) < 0)
            return false;
        mesh_buf_put(ev.buf);
        if (ev.kind == MESH_NOTHING)
            take_nap(t, now - start);
    }
    return true;
}

static bool has_sent_all(struct mpi *t)
{
    return mpi_queued(&t->mesh) == 0;
}

static void report_silent(const struct mpi *t)
{
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->n_unsent[i] > 0)
            fprintf(stderr, "node %d has not received the BYE yet\n", t->peers[i].node);
}

/* The others would wait for this node without a limit. */
static void abort_job(const struct mpi *t, const char *why)
{
    fprintf(stderr, "%s: all processes of the job are ended (MPI_Abort)\n", why);
    MPI_Abort(t->comm, 1);
}

static void check_barrier(const struct mpi *t, const char *call, int rc)
{
    struct err why;

    if (rc == MPI_SUCCESS)
        return;
    mpi_fail(&why, ERR_IO, rc, call);
    abort_job(t, why.text);
}

static bool have_all_closed(struct mpi *t)
{
    int is_done = 0;

    check_barrier(t, "MPI_Test", MPI_Test(&t->all_close, &is_done, MPI_STATUS_IGNORE));
    return is_done;
}

/* Returns whether they have. */
static bool wait_for_all(struct mpi *t)
{
    check_barrier(t, "MPI_Ibarrier", MPI_Ibarrier(t->comm, &t->all_close));
    if (poll_until(t, have_all_closed, clock_now() + BYE_REPORT_S))
        return true;
    if (flag_is_up(t->spec.interrupted) || any_lost(t))
        return false;
    fprintf(stderr, "this node waits until all nodes of the job close\n");
    return poll_until(t, have_all_closed, INFINITY);
}

/* Set when no message or sum of the last mesh is under way: MPI can be ended. */
static bool may_finalize;

static void mpi_close(struct mesh *m, double deadline)
{
    struct mpi *t = (struct mpi *)m;
    double report_at = fmin(deadline, clock_now() + BYE_REPORT_S);
    bool have_received, can_free = true;

    t->is_closing = true;
    t->watched_fd = -1;
    for (size_t i = 0; i < t->n_peers; i++) {
        struct mpi_peer *p = &t->peers[i];

        mpi_pause(m, p->node, false);
        if (!p->is_lost)
            mpi_send_add(t, p, &(struct mpi_message){.head.kind = FRAME_BYE});
    }
    have_received = poll_until(t, has_sent_all, report_at);
    if (!have_received && report_at < deadline && !any_lost(t)) {
        report_silent(t);
        have_received = poll_until(t, has_sent_all, deadline);
    }
    /* From here on MPI may still use the mesh's memory, unless all have closed: it is then freed with the
     * process. */
    if (any_lost(t) || (!have_received && flag_is_up(t->spec.interrupted)))
        return;
    if (!have_received) {
        report_silent(t);
        abort_job(t, "a node has not received the BYE");
    }
    if (!wait_for_all(t))
        return;
    for (size_t i = 0; i < t->n_peers; i++)
        can_free &= mpi_receive_end(t, &t->peers[i]);
    may_finalize = can_free && t->n_sums == 0;
    if (can_free)
        mpi_free(t);
}

static const struct mesh_ops ops = {mpi_send,  mpi_poll,       mpi_queued, mpi_queued_for,
                                    mpi_pause, mpi_drop,       mpi_close,  mpi_is_local,
                                    mpi_watch, mpi_descriptor, mpi_reduce, mpi_reducing};

static void finalize(void)
{
    if (may_finalize)
        MPI_Finalize();
}

/* Only the thread of the mesh calls MPI. */
static int start_mpi(int n_processes, struct err *e)
{
    int is_started = 0, provided, rc;

    MPI_Initialized(&is_started);
    if (is_started)
        return 0;
    fprintf(stderr, "starts MPI, and waits until all %d processes of the job have\n", n_processes);
    rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (rc != MPI_SUCCESS)
        return mpi_fail(e, ERR_IO, rc, "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED)
        return err_set(e, ERR_CONFIG, "this MPI allows a process no other threads");
    return atexit(finalize) == 0 ? 0 : err_set(e, ERR_NOMEM, "no memory to end MPI at exit");
}

static int check_ranks(const struct mesh_spec *spec, struct err *e)
{
    const struct mesh_mpi_address *a = spec->address;
    int rank = -1, size = -1, wanted = mesh_slot(a->n_workers, spec->node);

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == wanted && size == a->n_workers + a->n_servers)
        return 0;
    err_set(e, ERR_CONFIG, "MPI has process %d of %d here, and the job needs process %d of %d", rank, size,
            wanted, a->n_workers + a->n_servers);
    return err_hint(e, "Does the launcher belong to this MPI? mpirun --version, or srun --mpi=list.");
}

/* Waits for a call of all processes, with the deadline of opening; rc: of its beginning. */
static int await_all(struct mpi *t, int rc, MPI_Request *request, const char *call, struct err *e)
{
    int is_done = 0;

    while (rc == MPI_SUCCESS && !is_done) {
        rc = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
        if (is_done)
            break;
        if (flag_is_up(t->spec.interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop");
        if (clock_now() > t->spec.deadline)
            return err_set(e, ERR_TIMEOUT, "not all processes of the job have started MPI in time");
        sched_yield();
    }
    return rc == MPI_SUCCESS ? 0 : mpi_fail(e, ERR_IO, rc, call);
}

static int copy_comm(struct mpi *t, MPI_Comm of, MPI_Comm *out, struct err *e)
{
    MPI_Request request;
    int rc = MPI_Comm_idup(of, out, &request);

    return await_all(t, rc, &request, "MPI_Comm_idup", e);
}

/* The processors of a process: its cpuset, of which a launcher may bind it to a part. */
struct processors {
    char machine[MPI_MAX_PROCESSOR_NAME];
    cpu_set_t may_use; /* empty: sched_getaffinity fails where the machine has more than it can name */
};

/* Those of all processes of a machine together, as each may be bound to others. */
static int count_processors(struct mpi *t, int n_processes, struct err *e)
{
    struct processors *all = calloc((size_t)n_processes + 1, sizeof *all), *own = all + n_processes;
    MPI_Request request;
    cpu_set_t here;
    int len, rc;

    if (!all)
        return err_set(e, ERR_NOMEM, "no memory for the processors of %d processes", n_processes);
    MPI_Get_processor_name(own->machine, &len);
    if (sched_getaffinity(0, sizeof own->may_use, &own->may_use) < 0)
        CPU_ZERO(&own->may_use);
    rc = MPI_Iallgather(own, sizeof *own, MPI_BYTE, all, sizeof *all, MPI_BYTE, t->comm, &request);
    if (await_all(t, rc, &request, "MPI_Iallgather", e) < 0)
        return e->code; /* MPI may still write into `all` */
    here = own->may_use;
    for (int i = 0; i < n_processes; i++)
        if (strncmp(all[i].machine, own->machine, sizeof own->machine) == 0)
            CPU_OR(&here, &here, &all[i].may_use);
    t->mesh.n_processors = CPU_COUNT(&here);
    free(all);
    return 0;
}

static struct mpi *new_mesh(const struct mesh_spec *spec)
{
    const struct mesh_mpi_address *a = spec->address;
    size_t n = a->n_peers, n_requests = (n + 1) * REQUESTS;
    struct mpi *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->mesh = (struct mesh){.ops = &ops, .pool = &t->pool, .chunk = CHUNK};
    t->pool.limit = spec->limit;
    t->spec = *spec;
    t->spec.address = NULL;
    t->job = frame_job(a->job);
    t->attempt = a->attempt;
    t->piece = a->piece;
    t->watched_fd = -1;
    t->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    t->peers = calloc(n + 1, sizeof *t->peers);
    t->n_unsent = calloc(n + 1, sizeof *t->n_unsent);
    t->requests = malloc(n_requests * sizeof(MPI_Request));
    t->done = malloc(n_requests * sizeof *t->done);
    t->statuses = malloc(n_requests * sizeof *t->statuses);
    t->ended = calloc(n + 1, sizeof *t->ended);
    if (t->timer_fd < 0 || !t->peers || !t->n_unsent || !t->requests || !t->done || !t->statuses ||
        !t->ended) {
        mpi_free(t);
        return NULL;
    }
    for (size_t i = 0; i < n_requests; i++)
        t->requests[i] = MPI_REQUEST_NULL;
    t->n_peers = n;
    for (size_t i = 0; i < n; i++)
        t->peers[i] = (struct mpi_peer){
            .node = a->peers[i], .rank = mesh_slot(a->n_workers, a->peers[i]), .incomplete = -1};
    timerfd_settime(t->timer_fd, 0, &(struct itimerspec){.it_value.tv_nsec = 1}, NULL);
    return t;
}

/* Tells each peer the name of this processor, and reads theirs. */
static int greet_peers(struct mpi *t, struct err *e)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int len = 0;
    size_t n_greeted = 0;

    MPI_Get_processor_name(name, &len);
    for (size_t i = 0; i < t->n_peers; i++) {
        mpi_receive_begin(t, &t->peers[i]);
        mpi_send_add(t, &t->peers[i],
                     &(struct mpi_message){.head.kind = FRAME_HELLO, .bytes = name, .len = (size_t)len});
    }
    while (n_greeted < t->n_peers || mpi_queued(&t->mesh) > 0) {
        if (advance(t, e) < 0)
            return e->code;
        for (size_t i = 0; i < t->n_peers; i++)
            if (!t->peers[i].has_greeted)
                n_greeted += mpi_receive_hello(t, &t->peers[i], name);
        if (t->n_ended > 0)
            return err_set(e, ERR_PROTOCOL, "node %d %s", t->ended[0].head.peer, t->ended[0].why);
        if (flag_is_up(t->spec.interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop");
        if (clock_now() > t->spec.deadline)
            break;
        sched_yield();
    }
    for (size_t i = 0; i < t->n_peers; i++)
        if (!t->peers[i].has_greeted || t->n_unsent[i] > 0)
            return err_set(e, ERR_TIMEOUT, "node %d has not answered over MPI in time", t->peers[i].node);
    return 0;
}

/* After a failure the mesh is freed with the process, as MPI may use its memory. */
static int mpi_open(struct mesh **out, const struct mesh_spec *spec, struct err *e)
{
    const struct mesh_mpi_address *a = spec->address;
    const double start = clock_now();
    struct mpi *t;

    if (start_mpi(a->n_workers + a->n_servers, e) < 0 || check_ranks(spec, e) < 0)
        return e->code;
    t = new_mesh(spec);
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for the mesh of a node");
    t->spec.deadline += clock_now() - start; /* MPI takes what it needs */
    if (copy_comm(t, MPI_COMM_WORLD, &t->comm, e) < 0)
        return e->code;
    MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    if (count_processors(t, a->n_workers + a->n_servers, e) < 0)
        return e->code;
    if (copy_comm(t, t->comm, &t->sum_comm, e) < 0)
        return e->code;
    may_finalize = false;
    if (greet_peers(t, e) < 0)
        return e->code;
    *out = &t->mesh;
    return 0;
}

const struct mesh_transport mesh_mpi = {.traits = &transport_traits[TRANSPORT_MPI], .open = mpi_open};
