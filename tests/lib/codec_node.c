#include "tests/lib/codec_node.h"

#include "tests/unit/unit.h"

struct codec_calls codec_calls;

static const struct codec_layer layers[] = {
    {.name = "first", .offset = 0, .n = 6, .n_dims = 2, .shape = {2, 3}},
    {.name = "second", .offset = 6, .n = 2, .n_dims = 1, .shape = {2}},
    {.name = "third", .offset = 8, .n = 4, .n_dims = 2, .shape = {2, 2}},
};

static int open_codec(struct codec *c)
{
    codec_calls.codec = c;
    return codec_calls.act ? codec_calls.act(c) : CODEC_GO;
}

static int on_call(struct codec *c)
{
    codec_calls.n++;
    return codec_calls.act ? codec_calls.act(c) : CODEC_GO;
}

static int on_message(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return CODEC_WAIT;
}

static int on_lost(struct codec *c, int node)
{
    (void)c;
    codec_calls.n += 100 * (node + 1);
    return codec_calls.on_lost;
}

const struct codec_events codec_node_events = {
    .on_grad = on_call, .on_message = on_message, .on_lost = on_lost, .on_wake = on_call};

static int note_update(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, const double *norm,
                       struct err *err)
{
    struct codec_node *f = owner;

    (void)err, (void)norm;
    f->updated.from = from;
    f->updated.n = n;
    f->updated.step = step;
    f->updated.lr_factor = lr_factor;
    return 0;
}

static int note_record(void *owner, const struct codec *c, const char *name, double value, struct err *err)
{
    struct codec_node *f = owner;

    (void)err;
    snprintf(f->recorded, sizeof f->recorded, "%d %llu %s %g", c->run->node, (unsigned long long)c->run->step,
             name, value);
    return 0;
}

int codec_node_open(struct codec_node *f, const struct codec_plugin *plugin, int node, int n_servers,
                    struct err *e)
{
    codec_calls.n = 0;
    *f = (struct codec_node){.plugin = *plugin, .more = *plugin->more};
    f->plugin.more = &f->more;
    f->plugin.name = "made";
    f->plugin.open = open_codec;
    f->cfg = (struct exchange_config){.plugin = &f->plugin,
                                      .node = node,
                                      .n_workers = 2,
                                      .n_servers = n_servers,
                                      .blocks = &f->blocks,
                                      .is_sync = true,
                                      .local_steps = 1,
                                      .n_steps = 9,
                                      .n_params = CODEC_NODE_PARAMS,
                                      .params = f->params,
                                      .grads = f->grads,
                                      .layers = layers,
                                      .n_layers = N_OF(layers),
                                      .update = note_update,
                                      .record = note_record,
                                      .owner = f};
    assert_true(blocks_init(&f->blocks, BLOCKS_IID, 2, 1, e) >= 0);
    if (exchange_new(&f->x, &f->cfg, e) < 0) {
        blocks_clear(&f->blocks);
        return e->code;
    }
    f->codec = codec_calls.codec;
    f->net = mesh_mem_new(2, n_servers, exchange_limit(f->x), 1);
    exchange_attach(f->x, mesh_mem_node(f->net, node), NULL);
    return 0;
}

void codec_node_close(struct codec_node *f)
{
    exchange_free(f->x);
    mesh_mem_free(f->net);
    blocks_clear(&f->blocks);
    codec_calls.act = NULL;
}
