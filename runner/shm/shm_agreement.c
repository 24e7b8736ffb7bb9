#include "runner/shm/shm_agreement.h"

#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"

static const double TURN_S = 2; /* a longer turn of the wait loop means that this process was suspended */

enum local_message { LOCAL_INVITES, LOCAL_CAN, LOCAL_CANNOT, N_LOCAL };

static int node_of(const struct shm_agreement *a, int slot)
{
    return mesh_node_at(a->n_workers, slot);
}

static int send_answer_to(struct shm_agreement *a, int slot, enum local_message message, const void *bytes,
                          size_t len, struct err *e)
{
    const struct mesh_head h = {.kind = FRAME_LOCAL, .peer = node_of(a, slot), .index = (uint32_t)message};
    struct mesh_buf *b = mesh_buf_take(a->mesh);
    int rc;

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message of %zu bytes", len);
    if (len > 0)
        memcpy(b->bytes, bytes, len);
    b->len = len;
    rc = mesh_send(a->mesh, &h, b, e);
    mesh_buf_put(b);
    return rc;
}

/* Notes that this node cannot share memory, independent of the other nodes' reports. */
static void stop_sharing(struct shm_agreement *a, const struct err *why)
{
    shm_agreement_clear(a);
    a->cannot = true;
    a->all_can = false;
    a->why = *why;
}

static int invite_node(struct shm_agreement *a, int slot, struct err *e)
{
    uint8_t bytes[SHM_AGREEMENT_BYTES];
    int rc;

    memcpy(bytes, rendezvous_name(a->rendezvous), RENDEZVOUS_NAME_BYTES);
    random_bytes(bytes + RENDEZVOUS_NAME_BYTES, RENDEZVOUS_SECRET_BYTES);
    rendezvous_expect(a->rendezvous, a->place[slot], bytes + RENDEZVOUS_NAME_BYTES);
    rc = send_answer_to(a, slot, LOCAL_INVITES, bytes, sizeof bytes, e);
    explicit_bzero(bytes, sizeof bytes);
    return rc;
}

/* Does this node share memory with that node, if it can? */
static bool shares(const struct shm_agreement *a, int slot)
{
    return a->includes[slot] && a->place[slot] >= 0;
}

static bool all_are_local(const struct shm_agreement *a)
{
    for (int slot = 0; slot < a->n; slot++)
        if (shares(a, slot) && !mesh_is_local(a->mesh, node_of(a, slot)))
            return false;
    return true;
}

static int open_memory(struct shm_agreement *a, const struct shm_agreement_config *cfg, struct err *e)
{
    int nodes[RENDEZVOUS_MAX];
    bool includes[RENDEZVOUS_MAX];
    const struct rendezvous_config joined = {.n = a->n_places,
                                             .nodes = nodes,
                                             .me = a->place[a->me],
                                             .bytes = cfg->bytes,
                                             .min_bytes = cfg->min_bytes,
                                             .max_bytes = cfg->max_bytes,
                                             .includes = includes,
                                             .source = cfg->source};

    for (int slot = 0; slot < a->n; slot++)
        if (a->place[slot] >= 0) {
            nodes[a->place[slot]] = node_of(a, slot);
            includes[a->place[slot]] = a->includes[slot];
        }
    if (rendezvous_open(&a->rendezvous, &joined, e) < 0)
        return e->code;
    return mesh_watch(a->mesh, rendezvous_fd(a->rendezvous), e);
}

/* Places in the order of the slots. */
static void find_places(struct shm_agreement *a, const int *machines)
{
    for (int slot = 0; slot < a->n; slot++) {
        bool is_here = !machines ||
                       (slot < a->n_workers && a->me < a->n_workers && machines[slot] == machines[a->me]);

        a->place[slot] = is_here ? a->n_places++ : -1;
    }
}

int shm_agreement_begin(struct shm_agreement *a, struct mesh *m, const struct shm_agreement_config *cfg,
                        struct err *e)
{
    struct err why = {0};

    *a = (struct shm_agreement){.mesh = m,
                                .n_workers = cfg->n_workers,
                                .n = cfg->n_workers + cfg->n_servers,
                                .me = mesh_slot(cfg->n_workers, cfg->node),
                                .all_can = true};
    if (a->n > RENDEZVOUS_MAX) {
        err_set(&a->why, ERR_CONFIG, "%d nodes are more than the %d that can share memory", a->n,
                RENDEZVOUS_MAX);
        a->all_can = false;
        a->has_answered = true; /* no report is needed: all nodes know the number of nodes */
        return 0;
    }
    for (size_t i = 0; i < cfg->n_peers; i++)
        a->includes[mesh_slot(cfg->n_workers, cfg->peers[i])] = true;
    a->n_awaited = (int)cfg->n_peers;
    find_places(a, cfg->machines);
    if (!all_are_local(a))
        err_set(&why, ERR_UNREACHABLE, "not all nodes are on this machine");
    if (why.code || (a->n_places > 1 && open_memory(a, cfg, &why) < 0))
        stop_sharing(a, &why);
    a->polled_at = clock_now(); /* not earlier: allocating gigabytes takes a while */
    a->deadline = a->polled_at + cfg->join_s;
    for (int slot = a->me + 1; a->rendezvous && slot < a->n; slot++)
        if (shares(a, slot) && invite_node(a, slot, e) < 0)
            return e->code;
    return shm_agreement_advance(a, e);
}

static int set_peer_cannot(struct err *e)
{
    return err_set(e, ERR_UNREACHABLE, "another node cannot share memory");
}

/* Whether this peer may send this message now. */
static bool is_expected(const struct shm_agreement *a, const struct mesh_head *h, size_t len)
{
    int slot = mesh_slot(a->n_workers, h->peer);

    return slot >= 0 && slot < a->n && a->includes[slot] && !a->answered[slot] && h->index < N_LOCAL &&
           len == (h->index == LOCAL_INVITES ? SHM_AGREEMENT_BYTES : 0) &&
           (h->index != LOCAL_INVITES || (slot < a->me && shares(a, slot) && !shm_agreement_has_joined(a)));
}

static void on_answer(struct shm_agreement *a, int slot, bool can)
{
    a->answered[slot] = true;
    a->n_awaited--;
    a->can[slot] = can;
    a->all_can = a->all_can && can;
    if (!can && !a->why.code)
        set_peer_cannot(&a->why);
}

static int take_message(struct shm_agreement *a, const struct mesh_head *h, const struct mesh_buf *b,
                        struct err *e)
{
    int slot = mesh_slot(a->n_workers, h->peer);
    struct err why = {0};

    if (!is_expected(a, h, b->len))
        return err_set(e, ERR_PROTOCOL, "node %d sent an unexpected message about shared memory", h->peer);
    if (h->index == LOCAL_INVITES) {
        if (a->rendezvous && rendezvous_connect(a->rendezvous, a->place[slot], b->bytes,
                                                b->bytes + RENDEZVOUS_NAME_BYTES, &why) < 0)
            stop_sharing(a, &why);
        return 0;
    }
    on_answer(a, slot, h->index == LOCAL_CAN);
    return 0;
}

int shm_agreement_on_message(struct shm_agreement *a, struct mesh_event *ev, struct err *e)
{
    int rc = take_message(a, &ev->head, ev->buf, e);

    mesh_buf_put(ev->buf);
    return rc < 0 ? rc : shm_agreement_advance(a, e);
}

int shm_agreement_on_end(struct shm_agreement *a, int node, struct err *e)
{
    int slot = mesh_slot(a->n_workers, node);

    if (!a->answered[slot])
        on_answer(a, slot, false);
    return shm_agreement_advance(a, e);
}

bool shm_agreement_is_late(struct shm_agreement *a, double seconds, double now)
{
    if (now - a->polled_at > TURN_S)
        a->suspended_s += now - a->polled_at;
    a->polled_at = now;
    return now > a->deadline + a->suspended_s + seconds;
}

int shm_agreement_late(const struct shm_agreement *a, struct err *e)
{
    int slot = 0;

    while (slot < RENDEZVOUS_MAX - 1 && (!a->includes[slot] || a->answered[slot]))
        slot++;
    return err_set(e, ERR_TIMEOUT, "node %d did not report in time whether it can share memory",
                   node_of(a, slot));
}

int shm_agreement_stop_waiting(struct shm_agreement *a, struct err *e)
{
    if (!a->why.code)
        shm_agreement_late(a, &a->why);
    for (int slot = 0; slot < a->n && slot < RENDEZVOUS_MAX; slot++)
        if (a->includes[slot] && !a->answered[slot])
            on_answer(a, slot, false);
    return shm_agreement_advance(a, e);
}

/* 1: the memory of all nodes is mapped; 0: not yet; < 0: the error because of which it cannot be. */
static int join_group(struct shm_agreement *a, struct err *e)
{
    int rc = rendezvous_advance(a->rendezvous, e);

    if (!a->all_can)
        return set_peer_cannot(e);
    return rc == 0 && clock_now() >= a->deadline ? rendezvous_late(a->rendezvous, e) : rc;
}

static int send_answer(struct shm_agreement *a, struct err *e)
{
    struct err why = {0};
    int joined = a->rendezvous ? join_group(a, &why) : 1;

    if (joined == 0)
        return 0;
    if (joined < 0)
        stop_sharing(a, &why);
    a->has_answered = true;
    for (int slot = 0; slot < a->n; slot++)
        if (a->includes[slot] &&
            send_answer_to(a, slot, a->cannot ? LOCAL_CANNOT : LOCAL_CAN, NULL, 0, e) < 0)
            return e->code;
    return 0;
}

/* After its report a peer may train; its messages are received once this node has settled. */
static void pause_answered_peers(struct shm_agreement *a)
{
    for (int slot = 0; slot < a->n && slot < RENDEZVOUS_MAX; slot++)
        if (a->answered[slot])
            mesh_pause(a->mesh, node_of(a, slot), !shm_agreement_is_settled(a));
}

int shm_agreement_advance(struct shm_agreement *a, struct err *e)
{
    if (!a->has_answered && send_answer(a, e) < 0)
        return e->code;
    pause_answered_peers(a);
    return 0;
}

bool shm_agreement_is_settled(const struct shm_agreement *a)
{
    return a->has_answered && a->n_awaited == 0;
}

bool shm_agreement_has_joined(const struct shm_agreement *a)
{
    return a->has_answered && a->rendezvous;
}

struct rendezvous *shm_agreement_take(struct shm_agreement *a)
{
    struct rendezvous *r = shm_agreement_has_joined(a) ? a->rendezvous : NULL;

    if (r)
        a->rendezvous = NULL;
    return r;
}

void shm_agreement_clear(struct shm_agreement *a)
{
    struct err ignored = {0};

    if (a->rendezvous)
        mesh_watch(a->mesh, -1, &ignored);
    rendezvous_close(a->rendezvous);
    a->rendezvous = NULL;
}
