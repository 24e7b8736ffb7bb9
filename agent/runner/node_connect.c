/* How a node links up with its peers: connections first, then memory that nodes of one machine share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/mesh/tcp/mesh_tcp.h"
#include "agent/runner/node.h"
#include "agent/runner/shm/local_path.h"
#include "shared/clock.h"

static const double CONNECT_S =
    30; /* all nodes are ready before any connects: only a dead one takes this long */

/* Nodes that are linked join each other's memory within this time, and tell within as much again: only one
 * that hangs takes longer. Of --round-timeout, during which they may be waited for already, a quarter at
 * most. */
static double patience(const struct node *n)
{
    const double enough_s = 5;

    return fmin(enough_s, n->set.round_timeout_s / 4);
}

static enum mesh_tls which_tls(const char *word)
{
    return strcmp(word, "on") == 0 ? MESH_TLS_ON : strcmp(word, "off") == 0 ? MESH_TLS_OFF : MESH_TLS_AUTO;
}

/* This node can: the others hear of it when the mesh is polled next, and what they put onto their shelves
 * then is read. */
static int open_send_pool(struct node *n, struct local_path *p, struct err *e)
{
    if (n->send_pool || !local_path_has_joined(p))
        return 0;
    if (send_pool_open(&n->send_pool, local_path_take(p), n->mesh->limit, e) < 0)
        return e->code;
    for (size_t i = 0; i < n->n_peers; i++)
        mesh_tcp_attach(n->mesh, n->peers[i],
                        send_pool_memory(n->send_pool, mesh_slot(p->n_workers, n->peers[i])));
    return 0;
}

static int on_event(struct node *n, struct local_path *p, struct mesh_event *ev, struct err *e)
{
    if (ev->kind == MESH_MESSAGE && ev->head.kind == FRAME_LOCAL)
        return local_path_on_message(p, ev, e);
    if (exchange_on_event(n->exchange, ev, e) < 0)
        return e->code;
    return ev->kind == MESH_LOST || ev->kind == MESH_LEFT ? local_path_on_end(p, ev->head.peer, e)
                                                          : local_path_advance(p, e);
}

/* Until everybody has said whether it can. Collectives wait for all of them anyway; of words the rule knows
 * what to do without one. */
static int settle(struct node *n, struct local_path *p, bool collects, struct err *e)
{
    while (!local_path_is_settled(p)) {
        struct mesh_event ev;
        double now = clock_now();

        if (!collects && open_send_pool(n, p, e) < 0)
            return e->code;
        if (local_path_is_late(p, collects ? CONNECT_S : patience(n), now))
            return collects ? local_path_late(p, e) : local_path_go_on(p, e);
        if (mesh_poll(n->mesh, &ev, now + 0.5, e) < 0)
            return e->code;
        if (flag_is_up(&node_interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop");
        if (on_event(n, p, &ev, e) < 0)
            return e->code;
    }
    return collects ? 0 : open_send_pool(n, p, e);
}

/* Collectives of all, or none: gradients then lie in shared memory. */
static int share_vectors(struct node *n, struct local_path *p, struct err *e)
{
    struct rendezvous *joined = local_path_take(p);

    if (joined && p->all_can) {
        if (shm_group_open(&n->shm_group, joined, net_n_params(n->net), e) < 0)
            return e->code;
        exchange_share(n->exchange, n->shm_group);
        net_use_grads(n->net, shm_group_in(n->shm_group));
        fprintf(stderr, "collectives go through memory that all %d workers share\n", n->set.node_count);
        return mesh_watch(n->mesh, shm_group_fd(n->shm_group), e);
    }
    fprintf(stderr, "collectives go over connections: %s\n", p->why.text);
    if (mesh_watch(n->mesh, -1, e) < 0)
        return e->code;
    rendezvous_close(joined);
    return 0;
}

/* Words to each that can. */
static int share_messages(struct node *n, struct local_path *p, struct err *e)
{
    size_t n_can = 0;

    for (size_t i = 0; n->send_pool && i < n->n_peers; i++)
        if (p->can[mesh_slot(p->n_workers, n->peers[i])]) {
            mesh_tcp_expose(n->mesh, n->peers[i], send_pool_memory(n->send_pool, p->me));
            n_can++;
        }
    if (n_can > 0)
        send_pool_attach(n->send_pool, n->mesh);
    if (n_can == n->n_peers)
        fprintf(stderr, "words go through memory shared with all linked nodes\n");
    else
        fprintf(stderr, "words to %zu of %zu linked nodes go over connections: %s\n", n->n_peers - n_can,
                n->n_peers, p->why.text);
    return mesh_watch(n->mesh, -1, e);
}

/* Lets nodes of one machine share memory for their collectives, or else for their words, if they can. */
static int share_memory(struct node *n, struct err *e)
{
    bool collects = exchange_collects(n->exchange);
    size_t bytes = collects ? shm_group_bytes(net_n_params(n->net))
                            : send_pool_bytes(n->mesh->limit, n->n_peers);
    struct local_path p;

    if ((!collects && !exchange_has_messages(n->exchange)) || n->n_peers == 0 ||
        strcmp(n->set.local_path, "off") == 0)
        return 0;
    /* A server's shelf is for its range and a worker's for the longest, nearly the same; but who has one peer
     * has half as many places. */
    if (local_path_begin(&p, n->mesh,
                         &(struct local_path_config){.n_workers = n->set.node_count,
                                                     .n_servers = n->set.server_count,
                                                     .node = n->job.node,
                                                     .peers = n->peers,
                                                     .n_peers = n->n_peers,
                                                     .bytes = bytes,
                                                     .least = collects ? bytes : bytes / 4,
                                                     .most = collects ? bytes : 4 * bytes,
                                                     .join_s = patience(n)},
                         e) < 0 ||
        settle(n, &p, collects, e) < 0)
        return e->code;
    return collects ? share_vectors(n, &p, e) : share_messages(n, &p, e);
}

/* Is every node of the job reached by the same name? All have the same list, and so the same answer. */
static bool has_one_host(const struct orders_start *start)
{
    for (size_t i = 1; i < start->n_peers; i++)
        if (strcmp(start->peers[i].host, start->peers[0].host) != 0)
            return false;
    return true;
}

int node_connect(struct node *n, const struct orders_start *start, int listen_fd, struct err *e)
{
    struct mesh_peer *wanted = malloc((start->n_peers + 1) * sizeof *wanted);
    size_t limit = exchange_limit(n->exchange);
    struct mesh_tcp_config cfg = {.job = n->job.job,
                                  .attempt = (uint32_t)start->attempt,
                                  .node = n->job.node,
                                  .listen_fd = listen_fd,
                                  .peers = wanted,
                                  .tls = which_tls(n->set.data_tls),
                                  .limit = limit < LOCAL_PATH_BYTES ? LOCAL_PATH_BYTES : limit,
                                  .deadline = clock_now() + CONNECT_S,
                                  .interrupted = &node_interrupted};
    int rc;

    n->peers = malloc((start->n_peers + 1) * sizeof *n->peers);
    if (!wanted || !n->peers) {
        free(wanted);
        return err_set(e, ERR_NOMEM, "no memory for %zu peers", start->n_peers);
    }
    for (size_t i = 0; i < start->n_peers; i++)
        if (exchange_talks_to(n->exchange, start->peers[i].node)) {
            n->peers[n->n_peers++] = start->peers[i].node;
            wanted[cfg.n_peers++] = start->peers[i];
        }
    rc = mesh_tcp_open(&n->mesh, &cfg, e);
    explicit_bzero(wanted, cfg.n_peers * sizeof *wanted);
    free(wanted);
    if (rc < 0)
        return rc;
    n->mesh->is_one_machine = has_one_host(start);
    exchange_attach(n->exchange, n->mesh);
    if (share_memory(n, e) < 0)
        return e->code;
    *exchange_watch(n->exchange) = (struct stopwatch){.since = n->started = clock_now(), .tracer = n->tracer};
    if (n->tracer)
        n->tracer->round = exchange_rounds(n->exchange) + 1;
    return 0;
}
