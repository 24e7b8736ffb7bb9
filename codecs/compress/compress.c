#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

const struct compressor *const compressors[] = {
    &compress_none, &compress_fp16, &compress_bf16, &compress_int8,   &compress_topk,    &compress_randomk,
    &compress_qsgd, &compress_tern, &compress_sgq,  &compress_onebit, &compress_huffman, NULL,
};

const struct compressor *compressor_find(const char *name)
{
    for (const struct compressor *const *c = compressors; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

float compress_scale(float most, float scale)
{
    return most < COMPRESS_TINY ? 0 : isfinite(scale) ? scale : NAN;
}

size_t compress_share(float ratio, size_t n)
{
    double k = round((double)ratio * (double)n);

    return k < 1 ? 1 : k > (double)n ? n : (size_t)k;
}
