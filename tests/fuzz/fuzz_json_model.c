/* Any text as a model. If it is accepted and small, the net made from it has as many parameters, and its
 * initial weights give a loss that is not NaN. */
#include <math.h>
#include <stdlib.h>

#include "nn/net.h"
#include "shared/base/json.h"

enum { SMALL = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_net(const struct model_spec *m)
{
    static const float x[SMALL];
    const int32_t label = m->n_out == 1 ? 1 : m->n_out - 1;
    const struct tensor_view *t;
    struct net_score s = {0};
    size_t n, total = 0;
    struct net *net;
    struct err e;

    if (net_new(&net, m, 1, &e) < 0)
        abort();
    net_init(net, 1);
    net_train(net, &(struct net_batch){.x = x, .truth = {.labels = &label}, .n = 1}, &s);
    n = net_tensors(net, &t);
    for (size_t i = 0; i < n; i++)
        total += tensor_count(&t[i]);
    if (total != m->n_params || net_n_params(net) != total || !isfinite(s.loss))
        abort();
    net_free(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct model_spec m;
    json_t *doc;
    struct err e;

    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    if (model_spec_parse(&m, doc, &e) == 0 && m.n_params <= SMALL && m.n_in <= SMALL)
        try_net(&m);
    json_decref(doc);
    return 0;
}
