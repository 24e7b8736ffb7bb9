#include "shared/plugin/codec_layer.h"

enum { CODEC_LAYER_DIMS = sizeof((struct codec_layer){0}.shape) / sizeof(size_t) };

struct codec_layer codec_layer_of(const char *name, const size_t *shape, int n_dims, size_t offset,
                                  bool is_statistic)
{
    struct codec_layer l = {
        .name = name, .offset = offset, .n = 1, .n_dims = 1, .is_statistic = is_statistic, .shape = {1}};

    for (int i = 0; i < n_dims; i++) {
        l.n *= shape[i];
        if (i < CODEC_LAYER_DIMS)
            l.shape[i] = shape[i];
        else
            l.shape[CODEC_LAYER_DIMS - 1] *= shape[i];
    }
    if (n_dims > 0)
        l.n_dims = n_dims < CODEC_LAYER_DIMS ? n_dims : CODEC_LAYER_DIMS;
    return l;
}
