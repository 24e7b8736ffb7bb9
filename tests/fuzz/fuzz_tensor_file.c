/* Any bytes as a safetensors file. If they are accepted, the tensors must tile the data without a gap:
 * each is read to its last byte, and together they are as long as the data after the header.
 *
 * Then the same file as the checkpoint of a small node (tests/fuzz/corpus/tensor_file/checkpoint is one):
 * if it is accepted, the weights are finite and the codec's vectors are the host's own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/checkpoint.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/records/weights.h"

static const size_t size_of[N_TENSOR_TYPES] = {4, 1, 4, 8, 2, 2, 8};

static const char arch[] = "{\"version\": 1, \"name\": \"small\", \"input\": [2], \"layers\": "
                           "[{\"kind\": \"dense\", \"units\": 2}], \"loss\": \"mse\"}";

struct keeper {
    float *vector;
    uint64_t n;
};

static struct codec *opened;
static float *vector;

static int keeper_open(struct codec *c)
{
    struct keeper *k = c->state;

    opened = c;
    if (codec_zeros(c, &k->vector, c->n_params) < 0)
        return -1;
    vector = k->vector;
    return CODEC_GO;
}

static int no_encode(struct codec *c, struct wire_out *out)
{
    (void)c, (void)out;
    return CODEC_GO;
}

static int no_merge(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return CODEC_GO;
}

static const struct codec_round rounds = {.encode = no_encode, .merge = no_merge};
static const struct codec_plugin keeper = {.name = "keeper",
                                           .state_size = sizeof(struct keeper),
                                           .open = keeper_open,
                                           .more = CODEC_MORE(.round = &rounds)};

/* Made once: a restore sets everything that matters. */
static struct checkpoint *node(struct model_spec *spec)
{
    static struct settings set;
    static struct blocks blocks;
    static struct checkpoint c;
    json_t *doc;
    struct err e;

    if (c.net)
        return &c;
    settings_default(&set);
    strcpy(set.server_codec, set.codec);
    set.steps_per_epoch = 4;
    c = (struct checkpoint){.set = &set, .job = "j-abcdef", .arch = arch};
    if (json_parse(&doc, arch, strlen(arch), "arch", &e) < 0 || model_spec_parse(spec, doc, &e) < 0 ||
        blocks_init(&blocks, BLOCKS_IID, 1, 1, &e) < 0 || net_new(&c.net, spec, 1, &e) < 0 ||
        optimizer_new(&c.optimizer, &(struct optimizer_config){.kind = OPTIMIZER_ADAM}, net_n_trained(c.net),
                      &e) < 0 ||
        exchange_new(&c.exchange,
                     &(struct exchange_config){.plugin = &keeper,
                                               .n_workers = 1,
                                               .blocks = &blocks,
                                               .is_sync = true,
                                               .local_steps = 1,
                                               .n_steps = 8,
                                               .n_params = net_n_params(c.net),
                                               .params = net_params(c.net),
                                               .grads = net_grads(c.net)},
                     &e) < 0)
        abort();
    settings_set_optimizer(&set, OPTIMIZER_ADAM);
    json_decref(doc);
    return &c;
}

static void as_checkpoint(const struct tensor_file *f)
{
    static struct model_spec spec;
    struct checkpoint *c = node(&spec);
    struct keeper *k = opened->state;
    struct err e;

    k->vector = vector; /* a file refused halfway may have left it without one */
    if (checkpoint_restore(c, f, &spec, &e) < 0)
        return;
    for (size_t i = 0; i < net_n_params(c->net); i++)
        if (!isfinite(net_params(c->net)[i]))
            abort();
    if (c->epoch >= c->set->epochs || c->step != (uint64_t)c->epoch * 4)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    volatile uint8_t last = 0;
    volatile double value = 0;
    struct tensor_file f;
    size_t total = 0;
    uint64_t header;
    struct err e;

    memcpy(copy, bytes, len);
    if (tensor_file_parse(&f, copy, len, "input", &e) == 0) {
        for (size_t i = 0; i < f.n; i++) {
            const struct tensor_view *t = &f.tensors[i];
            size_t n = tensor_count(t) * size_of[t->type];
            char shape[TENSOR_SHAPE_TEXT];

            if (n > 0)
                last = ((const uint8_t *)t->data)[n - 1];
            if (n > 0)
                value = tensor_value(t, tensor_count(t) - 1);
            tensor_shape_text(shape, t);
            if (tensor_file_find(&f, t->name) != t)
                abort();
            total += n;
        }
        memcpy(&header, copy, sizeof header);
        if (8 + header + total != len)
            abort();
        tensor_file_meta(&f, "model");
        as_checkpoint(&f);
        tensor_file_close(&f);
    }
    (void)last;
    (void)value;
    free(copy);
    return 0;
}
