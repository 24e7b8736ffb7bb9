/* none -- unchanged values: after a selection, or before huffman. */
#include "codecs/compress/compress.h"

#include <string.h>

static void none_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    (void)o;
    (void)w;
    (void)scales;
    memcpy(items, v, n * sizeof *v);
}

static void none_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    (void)o;
    (void)w;
    (void)scales;
    memcpy(out, items, n * sizeof *out);
}

const struct compressor compress_none = {
    .name = "none",
    .help = "unchanged values, 32 bits each",
    .source = "-",
    .kind = COMPRESS_VALUES,
    .item_bytes = sizeof(float),
    .encode = none_encode,
    .decode = none_decode,
};
