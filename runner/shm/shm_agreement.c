#include "runner/shm/shm_agreement.h"

#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"

static const double TURN_S = 2; /* a longer turn of the wait loop means that this process was suspended */

enum local_message { LOCAL_INVITES, LOCAL_CAN, LOCAL_CANNOT, N_LOCAL };

static int node_of(const struct shm_agreement *p, int slot)
{
    return mesh_node_at(p->n_workers, slot);
}

static int send_answer_to(struct shm_agreement *p, int slot, enum local_message message, const void *bytes,
                          size_t len, struct err *e)
{
    const struct mesh_head h = {.kind = FRAME_LOCAL, .peer = node_of(p, slot), .index = (uint32_t)message};
    struct mesh_buf *b = mesh_buf_take(p->mesh);
    int rc;

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message of %zu bytes", len);
    if (len > 0)
        memcpy(b->bytes, bytes, len);
    b->len = len;
    rc = mesh_send(p->mesh, &h, b, e);
    mesh_buf_put(b);
    return rc;
}

/* Notes that this node cannot share memory, independent of the other nodes' reports. */
static void stop_sharing(struct shm_agreement *p, const struct err *why)
{
    shm_agreement_clear(p);
    p->cannot = true;
    p->all_can = false;
    p->why = *why;
}

static int invite_node(struct shm_agreement *p, int slot, struct err *e)
{
    uint8_t bytes[SHM_AGREEMENT_BYTES];
    int rc;

    memcpy(bytes, rendezvous_name(p->rendezvous), RENDEZVOUS_NAME_BYTES);
    random_bytes(bytes + RENDEZVOUS_NAME_BYTES, RENDEZVOUS_SECRET_BYTES);
    rendezvous_expect(p->rendezvous, p->place[slot], bytes + RENDEZVOUS_NAME_BYTES);
    rc = send_answer_to(p, slot, LOCAL_INVITES, bytes, sizeof bytes, e);
    explicit_bzero(bytes, sizeof bytes);
    return rc;
}

/* Does this node share memory with that node, if it can? */
static bool shares(const struct shm_agreement *p, int slot)
{
    return p->includes[slot] && p->place[slot] >= 0;
}

static bool all_are_local(const struct shm_agreement *p)
{
    for (int slot = 0; slot < p->n; slot++)
        if (shares(p, slot) && !mesh_is_local(p->mesh, node_of(p, slot)))
            return false;
    return true;
}

static int open_memory(struct shm_agreement *p, const struct shm_agreement_config *cfg, struct err *e)
{
    int nodes[RENDEZVOUS_MAX];
    bool includes[RENDEZVOUS_MAX];
    const struct rendezvous_config joined = {.n = p->n_places,
                                             .nodes = nodes,
                                             .me = p->place[p->me],
                                             .bytes = cfg->bytes,
                                             .min_bytes = cfg->min_bytes,
                                             .max_bytes = cfg->max_bytes,
                                             .includes = includes,
                                             .source = cfg->source};

    for (int slot = 0; slot < p->n; slot++)
        if (p->place[slot] >= 0) {
            nodes[p->place[slot]] = node_of(p, slot);
            includes[p->place[slot]] = p->includes[slot];
        }
    if (rendezvous_open(&p->rendezvous, &joined, e) < 0)
        return e->code;
    return mesh_watch(p->mesh, rendezvous_fd(p->rendezvous), e);
}

/* Places in the order of the slots. */
static void find_places(struct shm_agreement *p, const int *machines)
{
    for (int slot = 0; slot < p->n; slot++) {
        bool is_here = !machines ||
                       (slot < p->n_workers && p->me < p->n_workers && machines[slot] == machines[p->me]);

        p->place[slot] = is_here ? p->n_places++ : -1;
    }
}

int shm_agreement_begin(struct shm_agreement *p, struct mesh *m, const struct shm_agreement_config *cfg,
                        struct err *e)
{
    struct err why = {0};

    *p = (struct shm_agreement){.mesh = m,
                                .n_workers = cfg->n_workers,
                                .n = cfg->n_workers + cfg->n_servers,
                                .me = mesh_slot(cfg->n_workers, cfg->node),
                                .all_can = true};
    if (p->n > RENDEZVOUS_MAX) {
        err_set(&p->why, ERR_CONFIG, "%d nodes are more than the %d that can share memory", p->n,
                RENDEZVOUS_MAX);
        p->all_can = false;
        p->has_answered = true; /* no report is needed: all nodes know the number of nodes */
        return 0;
    }
    for (size_t i = 0; i < cfg->n_peers; i++)
        p->includes[mesh_slot(cfg->n_workers, cfg->peers[i])] = true;
    p->n_awaited = (int)cfg->n_peers;
    find_places(p, cfg->machines);
    if (!all_are_local(p))
        err_set(&why, ERR_UNREACHABLE, "not all nodes are on this machine");
    if (why.code || (p->n_places > 1 && open_memory(p, cfg, &why) < 0))
        stop_sharing(p, &why);
    p->polled_at = clock_now(); /* not earlier: allocating gigabytes takes a while */
    p->deadline = p->polled_at + cfg->join_s;
    for (int slot = p->me + 1; p->rendezvous && slot < p->n; slot++)
        if (shares(p, slot) && invite_node(p, slot, e) < 0)
            return e->code;
    return shm_agreement_advance(p, e);
}

static int set_peer_cannot(struct err *e)
{
    return err_set(e, ERR_UNREACHABLE, "another node cannot share memory");
}

/* Whether this peer may send this message now. */
static bool is_expected(const struct shm_agreement *p, const struct mesh_head *h, size_t len)
{
    int slot = mesh_slot(p->n_workers, h->peer);

    return slot >= 0 && slot < p->n && p->includes[slot] && !p->answered[slot] && h->index < N_LOCAL &&
           len == (h->index == LOCAL_INVITES ? SHM_AGREEMENT_BYTES : 0) &&
           (h->index != LOCAL_INVITES || (slot < p->me && shares(p, slot) && !shm_agreement_has_joined(p)));
}

static void on_answer(struct shm_agreement *p, int slot, bool can)
{
    p->answered[slot] = true;
    p->n_awaited--;
    p->can[slot] = can;
    p->all_can = p->all_can && can;
    if (!can && !p->why.code)
        set_peer_cannot(&p->why);
}

static int take_message(struct shm_agreement *p, const struct mesh_head *h, const struct mesh_buf *b,
                        struct err *e)
{
    int slot = mesh_slot(p->n_workers, h->peer);
    struct err why = {0};

    if (!is_expected(p, h, b->len))
        return err_set(e, ERR_PROTOCOL, "node %d sent an unexpected message about shared memory", h->peer);
    if (h->index == LOCAL_INVITES) {
        if (p->rendezvous && rendezvous_connect(p->rendezvous, p->place[slot], b->bytes,
                                                b->bytes + RENDEZVOUS_NAME_BYTES, &why) < 0)
            stop_sharing(p, &why);
        return 0;
    }
    on_answer(p, slot, h->index == LOCAL_CAN);
    return 0;
}

int shm_agreement_on_message(struct shm_agreement *p, struct mesh_event *ev, struct err *e)
{
    int rc = take_message(p, &ev->head, ev->buf, e);

    mesh_buf_put(ev->buf);
    return rc < 0 ? rc : shm_agreement_advance(p, e);
}

int shm_agreement_on_end(struct shm_agreement *p, int node, struct err *e)
{
    int slot = mesh_slot(p->n_workers, node);

    if (!p->answered[slot])
        on_answer(p, slot, false);
    return shm_agreement_advance(p, e);
}

bool shm_agreement_is_late(struct shm_agreement *p, double seconds, double now)
{
    if (now - p->polled_at > TURN_S)
        p->suspended_s += now - p->polled_at;
    p->polled_at = now;
    return now > p->deadline + p->suspended_s + seconds;
}

int shm_agreement_late(const struct shm_agreement *p, struct err *e)
{
    int slot = 0;

    while (slot < RENDEZVOUS_MAX - 1 && (!p->includes[slot] || p->answered[slot]))
        slot++;
    return err_set(e, ERR_TIMEOUT, "node %d did not report in time whether it can share memory",
                   node_of(p, slot));
}

int shm_agreement_stop_waiting(struct shm_agreement *p, struct err *e)
{
    if (!p->why.code)
        shm_agreement_late(p, &p->why);
    for (int slot = 0; slot < p->n && slot < RENDEZVOUS_MAX; slot++)
        if (p->includes[slot] && !p->answered[slot])
            on_answer(p, slot, false);
    return shm_agreement_advance(p, e);
}

/* 1: the memory of all nodes is mapped; 0: not yet; < 0: the error because of which it cannot be. */
static int join_group(struct shm_agreement *p, struct err *e)
{
    int rc = rendezvous_advance(p->rendezvous, e);

    if (!p->all_can)
        return set_peer_cannot(e);
    return rc == 0 && clock_now() >= p->deadline ? rendezvous_late(p->rendezvous, e) : rc;
}

static int send_answer(struct shm_agreement *p, struct err *e)
{
    struct err why = {0};
    int joined = p->rendezvous ? join_group(p, &why) : 1;

    if (joined == 0)
        return 0;
    if (joined < 0)
        stop_sharing(p, &why);
    p->has_answered = true;
    for (int slot = 0; slot < p->n; slot++)
        if (p->includes[slot] &&
            send_answer_to(p, slot, p->cannot ? LOCAL_CANNOT : LOCAL_CAN, NULL, 0, e) < 0)
            return e->code;
    return 0;
}

/* After its report a peer may train; its messages are received once this node has settled. */
static void pause_answered_peers(struct shm_agreement *p)
{
    for (int slot = 0; slot < p->n && slot < RENDEZVOUS_MAX; slot++)
        if (p->answered[slot])
            mesh_pause(p->mesh, node_of(p, slot), !shm_agreement_is_settled(p));
}

int shm_agreement_advance(struct shm_agreement *p, struct err *e)
{
    if (!p->has_answered && send_answer(p, e) < 0)
        return e->code;
    pause_answered_peers(p);
    return 0;
}

bool shm_agreement_is_settled(const struct shm_agreement *p)
{
    return p->has_answered && p->n_awaited == 0;
}

bool shm_agreement_has_joined(const struct shm_agreement *p)
{
    return p->has_answered && p->rendezvous;
}

struct rendezvous *shm_agreement_take(struct shm_agreement *p)
{
    struct rendezvous *r = shm_agreement_has_joined(p) ? p->rendezvous : NULL;

    if (r)
        p->rendezvous = NULL;
    return r;
}

void shm_agreement_clear(struct shm_agreement *p)
{
    struct err ignored = {0};

    if (p->rendezvous)
        mesh_watch(p->mesh, -1, &ignored);
    rendezvous_close(p->rendezvous);
    p->rendezvous = NULL;
}
