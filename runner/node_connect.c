/* node_connect -- connects a node to its peers: first by sockets, then by shared memory with nodes of its
 * machine; and checks that the memory of the job's steps is there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runner/collective/collective_plan.h"
#include "runner/mesh/mpi/mesh_mpi.h"
#include "runner/mesh/mpi_library.h"
#include "runner/mesh/tcp/data_key.h"
#include "runner/mesh/tcp/mesh_tcp.h"
#include "runner/node.h"
#include "runner/shm/shm_agreement.h"
#include "shared/base/clock.h"
#include "shared/base/memory.h"
#include "shared/sandbox/sandbox.h"

/* All nodes are ready before the first connects, so only a node that has crashed takes so long; or hundreds
 * of nodes that share a few processors, which take a millisecond of processor time for each pair of them. */
static const double CONNECT_S = 30, CONNECT_PEER_S = 0.3;

static double connect_timeout(size_t n_peers)
{
    return fmax(CONNECT_S, CONNECT_PEER_S * (double)n_peers);
}

/* Seconds in which connected nodes map each other's memory, and then in which they report the result: only a
 * node that hangs takes longer. At most a quarter of --round-timeout, because peers may wait for this node
 * meanwhile. */
static double join_timeout(const struct node *n)
{
    const double enough_s = 5;

    return fmin(enough_s, n->set.round_timeout_s / 4);
}

static const enum mesh_tls tls_of[] = {
    [DATA_TLS_ON] = MESH_TLS_ON, [DATA_TLS_OFF] = MESH_TLS_OFF, [DATA_TLS_AUTO] = MESH_TLS_AUTO};

/* Call it when this node has mapped its peers' memory. The next mesh poll notifies the peers, and from then
 * on this node reads messages from their send pools. */
static int open_send_pool(struct node *n, struct shm_agreement *a, struct err *e)
{
    if (n->send_pool || !shm_agreement_has_joined(a))
        return 0;
    if (send_pool_open(&n->send_pool, shm_agreement_take(a), n->mesh->pool->limit, e) < 0)
        return e->code;
    for (size_t i = 0; i < n->n_peers; i++)
        mesh_tcp_attach(n->mesh, n->peers[i],
                        send_pool_memory(n->send_pool, mesh_slot(a->n_workers, n->peers[i])));
    return 0;
}

static int on_event(struct node *n, struct shm_agreement *a, struct mesh_event *ev, struct err *e)
{
    if (ev->kind == MESH_MESSAGE && ev->head.kind == FRAME_LOCAL)
        return shm_agreement_on_message(a, ev, e);
    if (exchange_on_event(n->exchange, ev, e) < 0)
        return e->code;
    return ev->kind == MESH_LOST || ev->kind == MESH_LEFT ? shm_agreement_on_end(a, ev->head.peer, e)
                                                          : shm_agreement_advance(a, e);
}

/* Waits until every peer has reported whether it can share memory. Collectives wait for all of them anyway;
 * for messages the codec rule decides what to do without a peer. */
static int settle_sharing(struct node *n, struct shm_agreement *a, bool collects, struct err *e)
{
    while (!shm_agreement_is_settled(a)) {
        struct mesh_event ev;
        double now = clock_now();

        if (!collects && open_send_pool(n, a, e) < 0)
            return e->code;
        if (shm_agreement_is_late(a, collects ? connect_timeout(n->n_peers) : join_timeout(n), now))
            return collects ? shm_agreement_late(a, e) : shm_agreement_stop_waiting(a, e);
        if (mesh_poll(n->mesh, &ev, now + 0.5, e) < 0)
            return e->code;
        if (flag_is_up(&node_interrupted)) {
            mesh_buf_put(ev.buf);
            return err_set(e, ERR_CANCELLED, "asked to stop");
        }
        if (on_event(n, a, &ev, e) < 0)
            return e->code;
    }
    return collects ? 0 : open_send_pool(n, a, e);
}

/* Logs which collectives use the memory that a->n_places workers share. */
static void report_shared(const struct node *n, const struct shm_agreement *a)
{
    if (a->n_places == n->set.node_count)
        fprintf(stderr, "collectives use memory shared by all %d workers\n", a->n_places);
    else if (a->n_places > 1)
        fprintf(stderr,
                "collectives use memory shared by the %d workers on this machine, and connections "
                "between machines\n",
                a->n_places);
    else
        fprintf(stderr, "collectives use connections: this worker is alone on its machine\n");
}

/* Moves the gradients, or the parameters, into the group's memory. */
static void use_shared(struct node *n)
{
    float *in = shm_group_in(n->shm_group);

    if (shm_group_n(n->shm_group) < n->set.node_count || !exchange_shares_params(n->exchange)) {
        net_use_grads(n->net, in);
        return;
    }
    net_use_params(n->net, in);
    n->step.cfg.params = in;
}

/* Collectives use shared memory on all machines or on none. */
static int share_vectors(struct node *n, struct shm_agreement *a, struct err *e)
{
    struct rendezvous *joined = shm_agreement_take(a);
    int rc;

    if (a->all_can) {
        if (joined && shm_group_open(&n->shm_group, joined, net_n_params(n->net), e) < 0)
            return e->code;
        if (exchange_share(n->exchange, n->shm_group, e) < 0)
            return e->code;
        report_shared(n, a);
        if (!joined)
            return 0;
        use_shared(n);
        return mesh_watch(n->mesh, shm_group_fd(n->shm_group), e);
    }
    fprintf(stderr, "collectives go over connections: %s\n", a->why.text);
    rc = mesh_watch(n->mesh, -1, e);
    rendezvous_close(joined);
    return rc;
}

/* Sends messages through shared memory to each peer that can read it. */
static int share_messages(struct node *n, struct shm_agreement *a, struct err *e)
{
    size_t n_can = 0;

    for (size_t i = 0; n->send_pool && i < n->n_peers; i++)
        if (a->can[mesh_slot(a->n_workers, n->peers[i])]) {
            mesh_tcp_expose(n->mesh, n->peers[i], send_pool_memory(n->send_pool, a->me));
            n_can++;
        }
    if (n_can > 0)
        mesh_tcp_use_pool(n->mesh, n->send_pool);
    if (n_can == n->n_peers)
        fprintf(stderr, "messages go through memory shared with all peers\n");
    else
        fprintf(stderr, "messages to %zu of %zu peers go over connections: %s\n", n->n_peers - n_can,
                n->n_peers, a->why.text);
    return mesh_watch(n->mesh, -1, e);
}

/* The number of workers that share memory for collectives, this one included. */
static int n_sharing(const struct node *n, const int *machines)
{
    int count = 0;

    for (int k = 0; k < n->set.node_count; k++)
        count += !machines || machines[k] == machines[n->job.node];
    return count;
}

/* The longest range of a server, in lengths of this node's, rounded up. A server's messages are as long as
 * its range, a worker's as the longest one; with --placement round_robin ranges may have any length. */
static size_t longest_range(const struct node *n)
{
    size_t own = exchange_range(n->exchange).n, longest = own;

    for (int s = 0; n->ranges && s < n->set.server_count; s++)
        if (n->ranges[s + 1] - n->ranges[s] > longest)
            longest = n->ranges[s + 1] - n->ranges[s];
    return own > 0 ? (longest + own - 1) / own : 1;
}

/* Lets nodes of one machine share memory, if they can: for collectives, unless the transport sums, or else
 * for messages. */
static int share_memory(struct node *n, const struct mesh_transport *transport, struct err *e)
{
    /* An executor's collectives use connections: memory for collectives is sized for vectors as long as a
     * model. */
    bool collects = n->net && exchange_collects(n->exchange);
    bool has_neighbours = collective_machines(n->machines, n->set.node_count) < n->set.node_count;
    const int *machines = exchange_has_levels(n->exchange) && has_neighbours ? n->machines : NULL;
    size_t bytes = collects ? shm_group_bytes(net_n_params(n->net), n_sharing(n, machines))
                            : send_pool_bytes(n->mesh->pool->limit, n->n_peers);
    size_t most = collects ? bytes : send_pool_most_bytes(n->mesh->pool->limit, longest_range(n));
    struct shm_agreement a;
    int rc;

    if (collects && n->set.allreduce == COLLECTIVE_MPI) {
        fprintf(stderr, "all-reduces are those of %s, also within a machine\n", transport->traits->name);
        return 0;
    }
    if ((!collects && !exchange_has_messages(n->exchange)) || n->n_peers == 0 ||
        n->set.local_path == LOCAL_PATH_OFF || (!collects && !transport->shares_messages))
        return 0;
    if (exchange_has_few_links(n->exchange)) {
        fprintf(stderr,
                "collectives go over connections: too many workers share a machine or its processors\n");
        return 0;
    }
    /* Vectors of collectives have one length on all nodes; send pools do not. */
    if (shm_agreement_begin(&a, n->mesh,
                            &(struct shm_agreement_config){.n_workers = n->set.node_count,
                                                           .n_servers = n->set.server_count,
                                                           .node = n->job.node,
                                                           .peers = n->peers,
                                                           .n_peers = n->n_peers,
                                                           .bytes = bytes,
                                                           .min_bytes = collects ? bytes : 1,
                                                           .max_bytes = most,
                                                           .join_s = join_timeout(n),
                                                           .machines = machines,
                                                           .source = &n->shm_source},
                            e) < 0 ||
        settle_sharing(n, &a, collects, e) < 0)
        rc = e->code;
    else
        rc = collects ? share_vectors(n, &a, e) : share_messages(n, &a, e);
    shm_agreement_clear(&a); /* closes the rendezvous, unless it was taken */
    return rc;
}

/* The host names seen so far, and the first worker of each. */
struct host_list {
    const char **names;
    int *workers;
    size_t n;
};

/* Returns the index of the host, which is appended if it is new. Most jobs have many workers on few hosts. */
static size_t find_host(struct host_list *h, const char *name, int worker)
{
    size_t i = 0;

    while (i < h->n && strcasecmp(h->names[i], name) != 0)
        i++;
    if (i == h->n) {
        h->names[h->n] = name;
        h->workers[h->n++] = worker;
    } else if (worker < h->workers[i]) {
        h->workers[i] = worker;
    }
    return i;
}

static void fill_machines(int *machines, int n_workers, const struct orders_start *start, struct host_list *h)
{
    for (int pass = 0; pass < 2; pass++) /* after the first the hosts and their first workers are known */
        for (size_t i = 0; i < start->peers.n; i++) {
            int k = start->peers.at[i].node;

            if (k >= 0 && k < n_workers)
                machines[k] = h->workers[find_host(h, start->peers.at[i].host, k)];
        }
}

/* Workers with the same host name run on one machine. All workers have the same list, and so the same result;
 * where they need servers only, it lacks the workers. */
static int find_machines(struct node *n, const struct orders_start *start, struct err *e)
{
    struct host_list h = {.names = malloc((start->peers.n + 1) * sizeof *h.names),
                          .workers = malloc((start->peers.n + 1) * sizeof *h.workers)};
    bool has_memory;

    n->machines = malloc((size_t)n->set.node_count * sizeof *n->machines);
    has_memory = n->machines && h.names && h.workers;
    for (int k = 0; has_memory && k < n->set.node_count; k++)
        n->machines[k] = k;
    if (has_memory)
        fill_machines(n->machines, n->set.node_count, start, &h);
    free(h.names);
    free(h.workers);
    return has_memory ? 0
                      : err_set(e, ERR_NOMEM, "no memory for the machines of %d workers", n->set.node_count);
}

static double vector_bytes_of(const struct node *n, size_t count)
{
    return (double)count * (double)net_n_params(n->net) * sizeof(float);
}

static double update_bytes(const struct node *n)
{
    return n->step.optimizer ? optimizer_bytes(n->step.optimizer) : 0;
}

static double accumulation_bytes(const struct node *n)
{
    return n->job.node >= 0 && n->set.accumulate > 1 ? vector_bytes_of(n, 1) : 0;
}

/* Gradients in shared memory are counted there, not with the network. */
static double shared_bytes(const struct node *n)
{
    if (n->shm_group)
        return (double)shm_group_bytes(net_n_params(n->net), shm_group_n(n->shm_group)) -
               vector_bytes_of(n, 1);
    return n->send_pool ? (double)send_pool_bytes(n->mesh->pool->limit, n->n_peers) : 0;
}

static int n_workers_here(const struct node *n)
{
    int count = 0;

    for (int k = 0; k < n->set.node_count; k++)
        count += n->job.node >= 0 && n->machines[k] == n->machines[n->job.node];
    if (count < n->job.workers_on_host) /* of a list without the workers */
        count = n->job.workers_on_host;
    return count > 0 ? count : 1;
}

/* Before the first step: logs the memory that this node's job will hold. The memory of the model and the
 * optimizer is allocated and written when they are made (nn/net.h), shared memory when it is made
 * (shm/sealed.h), but the vectors and messages of exchanges in the first steps, where the kernel would kill
 * the process. ERR_NOMEM: the machine has less for its workers' exchanges. */
static int check_memory(const struct node *n, struct err *e)
{
    double model = net_bytes(n->spec, n->max_batch) + update_bytes(n) + accumulation_bytes(n);
    double own = exchange_bytes(n->exchange) + (n->model ? vector_bytes_of(n, 1) : 0),
           shared = shared_bytes(n);
    double available = memory_shared();
    int n_here = n_workers_here(n);

    fprintf(stderr, "memory: %.3g GB, %.3g for the model and its optimizer, %.3g for exchanges\n",
            (model + own + shared) / 1e9, model / 1e9, (own + shared) / 1e9);
    if (own * n_here <= available)
        return 0;
    err_set(
        e, ERR_NOMEM,
        "the vectors of exchanges take %.3g GB in each of the job's %d workers on this machine, and there "
        "are %.3g GB",
        own / 1e9, n_here, available / 1e9);
    return err_hint(e, "A smaller model, fewer workers on a machine, or --path allreduce need less memory.");
}

/* The nodes, workers and servers, on the host of this one. */
static int n_nodes_here(const struct node *n, const struct orders_start *start)
{
    const char *own = NULL;
    int count = 0;

    for (size_t i = 0; i < start->peers.n; i++)
        own = start->peers.at[i].node == n->job.node ? start->peers.at[i].host : own;
    for (size_t i = 0; own && i < start->peers.n; i++)
        count += strcasecmp(start->peers.at[i].host, own) == 0;
    return count;
}

/* A transport without a descriptor to sleep on asks it again and again. The processors of all nodes of the
 * machine count, as a launcher may bind each node to one. */
static void warn_crowded(const struct node *n, const struct orders_start *start)
{
    const struct transport_traits *t = &transport_traits[n->set.transport];
    int n_here = n_nodes_here(n, start), n_processors = n->mesh->n_processors;
    char text[224];

    if (t->sleeps || n_processors == 0 || n_here <= n_processors ||
        (n->job.node >= 0 && n->machines[n->job.node] != n->job.node))
        return;
    snprintf(text, sizeof text,
             "%d nodes share the %d processor%s that they may use on the machine of node %d: over %s a node "
             "that waits takes processor time from the others",
             n_here, n_processors, n_processors == 1 ? "" : "s", n->job.node, t->name);
    report_warn(n->report, text);
}

/* The number of nodes to which the rule needs a link. */
static size_t count_links(const struct node *n)
{
    size_t count = 0;

    for (int k = -1 - n->set.server_count; k < n->set.node_count; k++)
        count += k != -1 && exchange_needs_link(n->exchange, k);
    return count;
}

/* Lists the peers that the rule needs, with the keys of their pairs. ERR_CONFIG: the order lacks one. */
static int choose_peers(struct node *n, struct mesh_peer *wanted, const struct orders_start *start,
                        struct err *e)
{
    struct data_key_job job = {.job = n->job.job, .attempt = start->attempt};
    size_t n_links = count_links(n);
    int rc = 0;

    memcpy(job.secret, start->secret, sizeof job.secret);
    for (size_t i = 0; rc == 0 && i < start->peers.n; i++) {
        const struct peer *p = &start->peers.at[i];
        struct mesh_peer *m = &wanted[n->n_peers];

        if (!exchange_needs_link(n->exchange, p->node))
            continue;
        *m = (struct mesh_peer){.node = p->node, .port = p->data_port};
        snprintf(m->host, sizeof m->host, "%s", p->host);
        rc = data_key_pair(m->key, &n->data_key, n->job.node, p->key, p->node, &job, e);
        n->peers[n->n_peers++] = p->node;
    }
    explicit_bzero(job.secret, sizeof job.secret);
    if (rc == 0 && n->n_peers < n_links)
        rc = err_set(e, ERR_CONFIG, "the start order has %zu of the %zu nodes to which the rule needs links",
                     n->n_peers, n_links);
    return rc;
}

int node_connect(struct node *n, const struct orders_start *start, int listen_fd, struct err *e)
{
    size_t n_nodes = (size_t)n->set.node_count + (size_t)n->set.server_count;
    struct mesh_peer *wanted = malloc((start->peers.n + 1) * sizeof *wanted);
    size_t limit = exchange_limit(n->exchange);
    struct mesh_tcp_address address = {.job = n->job.job,
                                       .attempt = (uint32_t)start->attempt,
                                       .listen_fd = listen_fd,
                                       .peers = wanted,
                                       .tls = tls_of[n->set.data_tls],
                                       .dialer = &n->dialer};
    struct mesh_mpi_address ranks = {.job = n->job.job,
                                     .attempt = (uint32_t)start->attempt,
                                     .n_workers = n->set.node_count,
                                     .n_servers = n->set.server_count,
                                     .piece = MESH_MPI_PIECE};
    struct mesh_spec spec = {.transport = &mesh_tcp,
                             .address = &address,
                             .node = n->job.node,
                             .limit = limit < SHM_AGREEMENT_BYTES ? SHM_AGREEMENT_BYTES : limit,
                             .deadline = clock_now() + connect_timeout(n_nodes),
                             .drops_stalled = exchange_never_waits(n->exchange),
                             .interrupted = &node_interrupted};
    int rc = 0;

    n->dialer = monitor_dialer(n->monitor);
    n->shm_source = monitor_source(n->monitor);
    n->peers = malloc((start->peers.n + 1) * sizeof *n->peers);
    if (!wanted || !n->peers) {
        free(wanted);
        return err_set(e, ERR_NOMEM, "no memory for %zu peers", start->peers.n);
    }
    if (find_machines(n, start, e) < 0 ||
        exchange_choose_links(n->exchange, n->machines, start->is_crowded, e) < 0 ||
        choose_peers(n, wanted, start, e) < 0) {
        explicit_bzero(wanted, start->peers.n * sizeof *wanted);
        free(wanted);
        return e->code;
    }
    address.n_peers = n->n_peers;
    if (n->set.transport == TRANSPORT_MPI) {
        ranks.peers = n->peers;
        ranks.n_peers = n->n_peers;
        spec.address = &ranks;
        rc = mpi_library_load(&spec.transport, NULL, e);
    }
    address.n_beside = n_workers_here(n) - 1;
    rc = rc < 0 ? rc : mesh_open(&n->mesh, &spec, e);
    explicit_bzero(wanted, address.n_peers * sizeof *wanted);
    free(wanted);
    if (rc == ERR_CODEC)
        return err_at(e, "%s %s", n->set.executor ? "executor" : "codec", node_codec_name(n));
    if (rc < 0)
        return rc;
    warn_crowded(n, start);
    exchange_attach(n->exchange, n->mesh, n->machines);
    if (share_memory(n, spec.transport, e) < 0 || (n->net && check_memory(n, e) < 0))
        return e->code;
    *exchange_watch(n->exchange) = (struct stopwatch){.since = n->started = clock_now(), .tracer = n->tracer};
    n->first_round = exchange_rounds(n->exchange);
    tracer_set_round(n->tracer, n->first_round + 1);
    return 0;
}
