/* fp16 -- IEEE 754 half precision: 5 bits of exponent, 11 of precision.
 * Larger values become 65504 and not infinity, which would end a job. */
#include "codecs/compress/compress.h"
#include "codecs/compress/halves.h"

static void encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                   void *items)
{
    (void)o;
    (void)scales;
    w->loops->to_fp16(items, v, n);
}

static void decode(const void *o, struct compress_work *w, const float *scales, const void *items, float *out,
                   size_t n)
{
    (void)o;
    (void)scales;
    w->loops->from_fp16(out, items, n);
}

static void sum(const struct compress_work *w, void *out, const void *const *in, int n_in, size_t n,
                float scale)
{
    halves_sum(out, in, n_in, n, scale, w->loops->from_fp16, w->loops->to_fp16);
}

const struct compressor compress_fp16 = {
    .name = "fp16",
    .help = "half precision, 16 bits each: 2^-24 to 65504",
    .source = "IEEE 754-2008, binary16",
    .bound = "values of 2^-14 to 65504: each moves by at most 2^-11 of itself; smaller ones by at most "
             "2^-25, and larger ones become 65504",
    .kind = COMPRESS_VALUES,
    .item_bytes = sizeof(uint16_t),
    .encode = encode,
    .decode = decode,
    .sum = sum,
};
