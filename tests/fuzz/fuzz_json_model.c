/* Any text as a model. If it is accepted and small, the net made from it has as many parameters, which its
 * tensors tile without a gap under names that all differ, and the initial weights of layers give a loss that
 * is not NaN. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/net.h"
#include "shared/base/json.h"

enum { SMALL = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static int by_offset(const void *a, const void *b)
{
    const struct model_tensor *s = a, *t = b;

    return (s->offset > t->offset) - (s->offset < t->offset);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct model_tensor *)a)->name, ((const struct model_tensor *)b)->name);
}

/* Sorts the tensors. */
static void try_tensors(struct model_spec *m)
{
    size_t n = (size_t)m->n_tensors, at = 0;

    qsort(m->tensors, n, sizeof *m->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&m->tensors[i - 1], &m->tensors[i]) == 0)
            abort();
    qsort(m->tensors, n, sizeof *m->tensors, by_offset);
    for (size_t i = 0; i < n; i++) {
        if (m->tensors[i].offset != at || m->tensors[i].n == 0 ||
            m->tensors[i].is_statistic != (at >= m->n_trained) || !m->tensors[i].name[0])
            abort();
        at += m->tensors[i].n;
    }
    if (at != m->n_params || m->n_trained == 0)
        abort();
}

static void try_net(const struct model_spec *m)
{
    static const float x[SMALL];
    static int32_t labels[SMALL];
    const struct tensor_view *t;
    struct net_score s = {0};
    size_t n, total = 0;
    struct net *net;
    struct err e;

    if (net_new(&net, m, 1, &e) < 0)
        abort();
    for (int i = 0; !m->has_trainer && i < model_spec_labels(m); i++)
        labels[i] = m->n_out == 1 ? 1 : model_spec_classes(m) - 1;
    net_init(net, 1);
    if (!m->has_trainer)
        net_train(net, &(struct net_batch){.x = x, .truth = {.labels = labels}, .n = 1}, &s);
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
    if (model_spec_parse(&m, doc, &e) == 0) {
        if (m.n_params <= SMALL && m.n_in <= SMALL && (m.has_trainer || model_spec_labels(&m) <= SMALL))
            try_net(&m);
        try_tensors(&m);
    }
    model_spec_clear(&m);
    json_decref(doc);
    return 0;
}
