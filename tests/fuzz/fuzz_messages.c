/* Any bytes as the messages a node receives: its codec refuses them with an error or ends with a finite
 * state, and nothing is read beyond a message. The first byte chooses the rule; then come messages: kind,
 * peer, index, round, length, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_step.h"
#include "runner/exchange/finish_vote.h"
#include "runner/exchange/stop_vote.h"
#include "tests/lib/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_PARAMS = 5 };

static const struct cluster_config rules[] = {
    {.codec = "plain", .path = COMBINE_PATH_GATHER, .n_workers = 2, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "plain", .n_workers = 2, .n_steps = 2, .n_params = N_PARAMS, .is_asgd = true},
    {.codec = "fedavg", .path = COMBINE_PATH_GATHER, .n_workers = 2, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "fedavg", .n_workers = 2, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "ps", .n_workers = 2, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS, .is_asgd = true},
    {.codec = "easgd", .n_workers = 2, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "gossip", .n_workers = 2, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "plain", .n_workers = 3, .n_steps = 2, .n_params = N_PARAMS, .goes_on = 1},
    {.codec = "scaffold", .path = COMBINE_PATH_GATHER, .n_workers = 2, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "scaffold", .n_workers = 2, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS, .goes_on = 1},
    {.codec = "fednova", .n_workers = 2, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS},
    {.codec = "fedavg",
     .path = COMBINE_PATH_GATHER,
     .n_workers = 3,
     .n_steps = 2,
     .n_params = N_PARAMS,
     .n_drawn = 2},
    {.codec = "fedavg", .n_workers = 3, .n_servers = 1, .n_steps = 2, .n_params = N_PARAMS, .n_drawn = 1},
    {.codec = "fednova",
     .path = COMBINE_PATH_GATHER,
     .aggregate = {AGGREGATE_KRUM, 1},
     .n_workers = 5,
     .n_steps = 2,
     .n_params = N_PARAMS},
    {.codec = "fedavg", .n_workers = 3, .n_servers = 2, .n_steps = 9, .n_params = N_PARAMS, .patience = 1},
    {.codec = "plain",
     .n_workers = 3,
     .n_steps = 9,
     .n_params = N_PARAMS,
     .goes_on = 1,
     .patience = 1,
     .path = COMBINE_PATH_GATHER},
    {.codec = "ps",
     .n_workers = 3,
     .n_servers = 2,
     .is_asgd = true,
     .is_fed = true,
     .n_steps = 9,
     .n_params = N_PARAMS},
    {.codec = "ps",
     .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
     .clip_norm = 1,
     .n_workers = 2,
     .n_servers = 2,
     .n_steps = 2,
     .n_params = N_PARAMS},
    {.codec = "ps",
     .clip_norm = 1,
     .n_workers = 2,
     .n_servers = 2,
     .n_steps = 2,
     .n_params = N_PARAMS,
     .is_asgd = true},
    {.codec = "plain",
     .n_workers = 3,
     .n_steps = 2,
     .n_params = N_PARAMS,
     .is_asgd = true,
     .goes_on = 1,
     .has_trainer = true},
};
enum { N_RULES = sizeof rules / sizeof *rules };

static size_t receive(const struct cluster_config *cfg, struct cluster_node *n, const uint8_t *data,
                      size_t size)
{
    static const enum frame_kind kinds[] = {FRAME_CONTRIBUTION, FRAME_REPLY,     FRAME_EVENT, FRAME_LOSS,
                                            FRAME_BARRIER,      FRAME_STOP_VOTE, FRAME_FEED,  FRAME_PART};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    int slot;
    struct mesh_event ev = {.kind = MESH_MESSAGE};
    size_t len;

    if (size < 5)
        return 0;
    slot = data[1] % (cfg->n_workers + cfg->n_servers);
    ev.head = (struct mesh_head){.kind = kinds[data[0] % N_KINDS],
                                 .peer = mesh_node_at(cfg->n_workers, slot),
                                 .index = data[2],
                                 .round = data[3] % 4,
                                 .channel = data[0] / 64};
    if (ev.head.peer == n->node)
        ev.head.peer = 1;
    len = data[4] < size - 5 ? data[4] : size - 5;
    ev.buf = mesh_buf_take(n->mesh);
    if (len > n->mesh->pool->limit)
        len = n->mesh->pool->limit;
    ev.buf->len = len;
    memcpy(ev.buf->bytes, data + 5, len);
    return exchange_on_event(n->x, &ev, &n->e) < 0 ? 0 : 5 + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster c;
    struct cluster_node *n;
    size_t used = 1;

    if (size < 1)
        return 0;
    cluster_open(&c, &rules[data[0] % N_RULES]);
    n = &c.nodes[data[0] / N_RULES % 2 && c.cfg.n_servers > 0 ? c.n_nodes - 1
                                                              : 0]; /* the worker, or the server */
    if (n->node >= 0) {
        if (exchange_wants_blocks(n->x))
            exchange_on_block(n->x, 0, &n->e);
        if (exchange_on_grad(n->x, 1, &n->e) >= 0)
            exchange_on_step(n->x, &n->e);
        if (stop_vote_is_used(n->x))
            stop_vote_share(n->x, 1, 1, 0.5, &n->e);
        if (finish_vote_is_used(n->x))
            exchange_set_finished(n->x, &n->e);
    }
    while (used < size) {
        size_t k = receive(&c.cfg, n, data + used, size - used);

        if (k == 0)
            break;
        used += k;
    }
    cluster_close(&c);
    return 0;
}
