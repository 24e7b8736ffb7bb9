#include "runner/exchange/layers.h"

#include <stdlib.h>
#include <string.h>

static int by_offset(const void *a, const void *b)
{
    const struct codec_layer *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static const float *first_parameter(const struct tensor_view *t, size_t n)
{
    const float *first = t[0].data;

    for (size_t i = 1; i < n; i++)
        if ((const float *)t[i].data < first)
            first = t[i].data;
    return first;
}

int layers_list(struct codec_layer **out, const struct tensor_view *t, size_t n, struct err *e)
{
    struct codec_layer *layers = calloc(n + 1, sizeof *layers);
    const float *first = first_parameter(t, n);

    *out = layers;
    if (!layers)
        return err_set(e, ERR_NOMEM, "no memory for a list of %zu layers", n);
    for (size_t i = 0; i < n; i++) {
        layers[i] = (struct codec_layer){.name = t[i].name,
                                         .offset = (size_t)((const float *)t[i].data - first),
                                         .n = tensor_count(&t[i]),
                                         .n_dims = t[i].n_dims};
        memcpy(layers[i].shape, t[i].shape, sizeof layers[i].shape);
    }
    qsort(layers, n, sizeof *layers, by_offset);
    return 0;
}
