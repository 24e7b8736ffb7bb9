/* Any bytes as the text of chains, or as a message of them: refused, or a vector; nothing is read or written
 * out of bounds. The first byte chooses the chain, or that the input is a text; the second the length. */
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
    "a.0=topk:ratio=0.2,ef=true|huffman;b=sgq:bits=3;*=none|huffman",
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
    struct chain_list l;
    struct err e;

    memcpy(text, data, size);
    text[size] = '\0';
    chain_list_parse(&l, text, &e);
    free(text);
}

static void read_message(const char *text, size_t n, const uint8_t *data, size_t size)
{
    static const struct codec_layer layers[] = {
        {.name = "a.0"}, {.name = "a.1"}, {.name = "b.0"}, {.name = "c"}};
    const size_t starts[] = {0, n / 3, n / 3, n / 2};
    uint8_t *message = must(malloc(size + 1));
    float *out = must(malloc(n * sizeof *out + 1));
    struct wire_in in = {.bytes = message, .len = size};
    struct chain_list l;
    struct chains c;
    struct err e;

    memcpy(message, data, size);
    if (chain_list_parse(&l, text, &e) < 0 || chains_open(&c, &l, n, layers, starts, 4, &e) < 0)
        abort();
    if (chains_decode(&c, &in, out, n) != !in.bad || in.at > in.len)
        abort();
    chains_clear(&c);
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
