#include "agent/runner/local_path.h"

#include <string.h>

#include "shared/clock.h"
#include "shared/crypto.h"

static const double JOIN_S = 5; /* workers are linked already: only one that hangs takes so long */

enum word { INVITES, CAN, CANNOT, N_WORDS };

static int tell(struct local_path *p, int node, enum word word, const void *bytes, size_t len, struct err *e)
{
    const struct mesh_head h = {.kind = FRAME_LOCAL, .peer = node, .word = (uint32_t)word};
    struct mesh_buf *b = mesh_buf_take(p->mesh);
    int rc;

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message of %zu bytes", len);
    if (len > 0)
        memcpy(b->bytes, bytes, len);
    b->len = len;
    rc = mesh_send(p->mesh, &h, b, e);
    mesh_buf_put(p->mesh, b);
    return rc;
}

/* This worker cannot, whatever the others say. */
static void give_up(struct local_path *p, const struct err *why)
{
    struct err ignored = {0};

    mesh_watch(p->mesh, -1, &ignored);
    meeting_close(p->meeting);
    p->meeting = NULL;
    p->all_can = false;
    p->why = *why;
}

static int invite(struct local_path *p, int node, struct err *e)
{
    uint8_t bytes[LOCAL_PATH_BYTES];
    int rc;

    memcpy(bytes, meeting_name(p->meeting), MEETING_NAME_BYTES);
    random_bytes(bytes + MEETING_NAME_BYTES, MEETING_SECRET_BYTES);
    meeting_expect(p->meeting, node, bytes + MEETING_NAME_BYTES);
    rc = tell(p, node, INVITES, bytes, sizeof bytes, e);
    explicit_bzero(bytes, sizeof bytes);
    return rc;
}

static bool all_are_near(const struct local_path *p)
{
    for (int node = 0; node < p->n_workers; node++)
        if (node != p->me && !mesh_is_near(p->mesh, node))
            return false;
    return true;
}

static int open_memory(struct local_path *p, size_t bytes, struct err *e)
{
    struct meeting_config cfg = {.n = p->n_workers, .me = p->me, .bytes = bytes};
    int nodes[MEETING_MAX];

    for (int node = 0; node < p->n_workers; node++)
        nodes[node] = node;
    cfg.nodes = nodes;
    if (meeting_open(&p->meeting, &cfg, e) < 0)
        return e->code;
    return mesh_watch(p->mesh, meeting_fd(p->meeting), e);
}

int local_path_begin(struct local_path *p, struct mesh *m, int n_workers, int me, size_t bytes, struct err *e)
{
    struct err why = {0};

    *p = (struct local_path){
        .mesh = m, .n_workers = n_workers, .me = me, .all_can = true, .deadline = clock_now() + JOIN_S};
    if (n_workers > MEETING_MAX) {
        err_set(&p->why, ERR_CONFIG, "%d workers are more than the %d that can share memory", n_workers,
                MEETING_MAX);
        p->has_said = true; /* everybody knows: nobody has to hear it */
        p->n_heard = n_workers - 1;
        return 0;
    }
    if (!all_are_near(p))
        err_set(&why, ERR_UNREACHABLE, "not all workers are on this machine");
    if (why.code || open_memory(p, bytes, &why) < 0)
        give_up(p, &why);
    for (int node = me + 1; p->meeting && node < n_workers; node++)
        if (invite(p, node, e) < 0)
            return e->code;
    return local_path_advance(p, e);
}

static int on_word(struct local_path *p, const struct mesh_head *h, const struct mesh_buf *b, struct err *e)
{
    struct err why = {0};
    size_t len = h->word == INVITES ? LOCAL_PATH_BYTES : 0;

    if (h->peer < 0 || h->peer >= p->n_workers || h->word >= N_WORDS || b->len != len || p->heard[h->peer] ||
        (h->word == INVITES && h->peer > p->me))
        return err_set(e, ERR_PROTOCOL, "node %d sent a word about shared memory that is not its to say",
                       h->peer);
    if (h->word == INVITES) {
        if (p->meeting &&
            meeting_connect(p->meeting, h->peer, b->bytes, b->bytes + MEETING_NAME_BYTES, &why) < 0)
            give_up(p, &why);
        return 0;
    }
    p->heard[h->peer] = true;
    p->n_heard++;
    p->all_can = p->all_can && h->word == CAN;
    return 0;
}

int local_path_on_message(struct local_path *p, struct mesh_event *ev, struct err *e)
{
    int rc = on_word(p, &ev->head, ev->buf, e);

    mesh_buf_put(p->mesh, ev->buf);
    return rc < 0 ? rc : local_path_advance(p, e);
}

static int another_cannot(struct err *e)
{
    return err_set(e, ERR_UNREACHABLE, "another worker cannot share memory");
}

/* 1: everybody's memory is here; 0: not yet; or why it will not be. */
static int join(struct local_path *p, struct err *e)
{
    int rc = meeting_hear(p->meeting, e);

    if (!p->all_can)
        return another_cannot(e);
    return rc == 0 && clock_now() >= p->deadline ? meeting_late(p->meeting, e) : rc;
}

int local_path_advance(struct local_path *p, struct err *e)
{
    struct err why = {0};
    int joined;

    if (p->has_said)
        return 0;
    joined = p->meeting ? join(p, &why) : 1;
    if (joined == 0)
        return 0;
    if (joined < 0)
        give_up(p, &why);
    p->has_said = true;
    for (int node = 0; node < p->n_workers; node++)
        if (node != p->me && tell(p, node, p->meeting ? CAN : CANNOT, NULL, 0, e) < 0)
            return e->code;
    return 0;
}

bool local_path_is_settled(const struct local_path *p)
{
    return p->has_said && p->n_heard == p->n_workers - 1;
}

struct meeting *local_path_take(struct local_path *p)
{
    struct err why = {0};
    struct meeting *m;

    if (p->meeting && !p->all_can) {
        another_cannot(&why);
        give_up(p, &why);
    }
    m = p->meeting;
    p->meeting = NULL;
    return m;
}
