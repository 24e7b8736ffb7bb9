/* Any bytes as a chain's text, or as a message of one: refused, or a vector; nothing is read or written out
 * of bounds. The first byte chooses the chain, or that the input is a text; the second the length. */
#include <stdlib.h>
#include <string.h>

#include "codecs/compress/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {
    "none",
    "fp16",
    "bf16",
    "int8:block=16",
    "topk:ratio=0.1",
    "topk:ratio=1",
    "randomk:ratio=0.3,unbiased=true",
    "qsgd:bits=2,bucket=16,ef=true",
    "qsgd:bits=7,bucket=32",
    "tern",
    "sgq:bits=5",
    "sgq:bits=8,per=layer",
    "onebit:bucket=16",
    "none|huffman",
    "tern|huffman",
    "int8:per=layer|huffman",
    "sgq|huffman",
    "fp16|huffman",
    "topk:ratio=0.2,per=layer|qsgd:bits=3|huffman",
    "randomk:ratio=0.01,ef=true|fp16|huffman",
    "fixed8:block=16",
    "fixed8:ef=true|huffman",
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static const size_t lengths[] = {0, 1, 2, 31, 64, 257, 1000, 3000};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void read_text(const uint8_t *data, size_t size)
{
    char *text = must(malloc(size + 1));
    struct chain_spec s;
    struct err e;

    memcpy(text, data, size);
    text[size] = '\0';
    chain_parse(&s, text, &e);
    free(text);
}

static void read_message(const char *text, size_t n, const uint8_t *data, size_t size)
{
    const size_t starts[] = {0, n / 3, n / 3, n / 2};
    uint8_t *message = must(malloc(size + 1));
    float *out = must(malloc(n * sizeof *out + 1));
    struct wire_in in = {.bytes = message, .len = size};
    struct chain_spec s;
    struct chain c;
    struct err e;

    memcpy(message, data, size);
    if (chain_parse(&s, text, &e) < 0 || chain_open(&c, &s, n, starts, 4, &e) < 0)
        abort();
    if (chain_decode(&c, &in, out, n) != !in.bad || in.at > in.len)
        abort();
    chain_clear(&c);
    free(message);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[0] == 0xff)
        read_text(data + 1, size - 1);
    else
        read_message(texts[data[0] % N_TEXTS], lengths[data[1] % 8], data + 2, size - 2);
    return 0;
}
