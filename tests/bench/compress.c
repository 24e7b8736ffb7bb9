/* compress [N] -- each compressor on N (1,000,000) normal values: GB of floats a second that one processor
 * encodes and decodes, the median of many runs, and bits for each value on the wire. For comparison: memcpy
 * of the same floats; for huffman also MB of symbols a second, and bits of a symbol against the entropy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codecs/compress/chain.h"

enum { TIMES = 31 };

static const char *const texts[] = {
    "none",
    "fp16",
    "bf16",
    "int8",
    "fixed8",
    "topk",
    "topk:ratio=0.1",
    "randomk",
    "qsgd",
    "qsgd:bits=8",
    "qsgd:norm=max",
    "tern",
    "tern:alpha=fit",
    "sgq",
    "sgq:bits=8",
    "sgq:alpha=fit",
    "onebit",
    "topk:ef=true",
    "int8:ef=true",
    "fixed8:ef=true",
    "qsgd:ef=true",
    "tern|huffman",
    "qsgd|huffman",
    "sgq|huffman",
    "int8|huffman",
    "bf16|huffman",
    "topk:ratio=0.01,ef=true|int8|huffman",
};

/* Processor time of this thread, so that other processes on the machine do not count. */
static double seconds_used(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *times)
{
    qsort(times, TIMES, sizeof *times, by_size);
    return times[TIMES / 2];
}

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

static void bench_memcpy(const float *v, float *to, size_t n)
{
    double times[TIMES];

    for (int t = 0; t < TIMES; t++) {
        double start = seconds_used();

        memcpy(to, v, n * sizeof *v);
        __asm__ volatile("" : : "r"(to) : "memory");
        times[t] = seconds_used() - start;
    }
    printf("%-38s%10.2f\n", "memcpy", 4e-9 * (double)n / median(times));
}

/* huffman's own time, on the symbols that the previous stage made. */
static void bench_symbols(struct chain *c, size_t n)
{
    const struct compressor *values = c->items.values;
    int alphabet = values->item_bytes > 0 ? 256 : values->alphabet(c->items.options);
    struct wire_out out = {.limit = compress_huffman.most_bytes(n, alphabet)};
    uint8_t *back = must(malloc(n));
    double put[TIMES], get[TIMES];

    out.bytes = must(malloc(out.limit));
    for (int t = 0; t < TIMES; t++) {
        struct wire_in in = {.bytes = out.bytes};
        double start = seconds_used(), middle;

        out.len = 0;
        c->work.report = (struct compress_report){0};
        compress_huffman.put(&c->work, &out, c->items.symbols, n, alphabet);
        in.len = out.len;
        middle = seconds_used();
        if (!compress_huffman.get(&c->work, &in, back, n, alphabet))
            exit(1);
        put[t] = middle - start;
        get[t] = seconds_used() - middle;
    }
    printf("  %6.0f%8.0f MB/s%7.3f of %.3f bits", 1e-6 * (double)n / median(put),
           1e-6 * (double)n / median(get), 8.0 * (double)out.len / (double)n,
           c->work.report.entropy / c->work.report.n_symbols);
    free(out.bytes);
    free(back);
}

static void bench(const char *text, const float *v, float *to, size_t n)
{
    double encode[TIMES], decode[TIMES];
    float *residual = must(calloc(n, sizeof *residual));
    struct wire_out out = {0};
    struct chain_spec spec;
    struct chain c;
    struct rng r;
    struct err e;

    if (chain_parse(&spec, text, &e) < 0 || chain_open(&c, &spec, n, NULL, 0, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    out.limit = chain_most_bytes(&c, n);
    out.bytes = must(malloc(out.limit));
    rng_init(&r, 1, 0, 0);
    for (int t = 0; t < TIMES; t++) {
        struct wire_in in = {.bytes = out.bytes};
        double start = seconds_used(), middle;

        out.len = 0;
        chain_encode(&c, &r, spec.ef ? residual : NULL, v, n, &out);
        in.len = out.len;
        middle = seconds_used();
        if (!chain_decode(&c, &in, to, n))
            exit(1);
        encode[t] = middle - start;
        decode[t] = seconds_used() - middle;
    }
    printf("%-38s%10.2f%10.2f%10.3f", text, 4e-9 * (double)n / median(encode),
           4e-9 * (double)n / median(decode), 8.0 * (double)out.len / (double)n);
    if (spec.is[COMPRESS_SYMBOLS] && !spec.is[COMPRESS_SELECT])
        bench_symbols(&c, n);
    printf("\n");
    fflush(stdout);
    chain_clear(&c);
    free(out.bytes);
    free(residual);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    float *v = must(malloc((n + 1) * sizeof *v)), *to = must(malloc((n + 1) * sizeof *to));
    struct rng r;

    if (n == 0 || n > CHAIN_VALUES_MAX) {
        fprintf(stderr, "usage: compress [N]\n");
        return 2;
    }
    rng_init(&r, 1, 0, 0);
    for (size_t i = 0; i < n; i++)
        v[i] = rng_normal(&r);
    printf("%-38s%10s%10s%10s  %s\n", "GB/s of floats", "encode", "decode", "bits", "symbols alone");
    bench_memcpy(v, to, n);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        bench(texts[i], v, to, n);
    free(v);
    free(to);
    return 0;
}
