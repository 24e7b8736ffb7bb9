#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

#define COMPRESSOR(name) &compress_##name,
const struct compressor *const compressors[] = {COMPRESSORS(COMPRESSOR) NULL};
#undef COMPRESSOR

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
