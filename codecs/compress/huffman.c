/* huffman -- symbols in a Huffman code of their frequencies in the message. Huffman, "A Method for the
 * Construction of Minimum-Redundancy Codes", 1952.
 *
 *     u8 how             HOW_PACKED: symbols as without huffman, where a code would not be shorter
 *                        HOW_EQUAL: all symbols are the one that follows, u8
 *                        HOW_CODED:
 *     u4 lengths[]       code length of each symbol, even symbols in the low half; 0: does not occur
 *     u32 bytes[4]       lengths of the streams
 *     streams            quarters of the symbols, so that four are decoded side by side */
#include "codecs/compress/compress.h"

#include <string.h>

#include "codecs/compress/huffman_code.h"

enum { HOW_PACKED, HOW_EQUAL, HOW_CODED, STREAMS = 4, MASK = (1 << HUFFMAN_BITS) - 1 };
enum {
    AT_ONCE = 4 /* symbols that always fit into 64 bits after up to 7 pending bits */
};

static size_t quarter(size_t n, int stream)
{
    size_t most = n / STREAMS + (n % STREAMS > 0), begin = most * (size_t)stream;

    return begin >= n ? 0 : n - begin < most ? n - begin : most;
}

static size_t table_bytes(int alphabet)
{
    return (size_t)(alphabet + 1) / 2;
}

static size_t most_bytes(size_t n, int alphabet)
{
    return 1 + packed_bytes(n, alphabet);
}

static void huffman_count(uint32_t counts[STREAMS][HUFFMAN_SYMBOLS], const uint8_t *q, size_t n)
{
    const uint8_t *at[STREAMS];
    size_t shared = quarter(n, STREAMS - 1);

    memset(counts, 0, STREAMS * sizeof *counts);
    for (int k = 0; k < STREAMS; k++) {
        at[k] = q;
        q += quarter(n, k);
        shared = quarter(n, k) < shared ? quarter(n, k) : shared;
    }
    for (size_t i = 0; i < shared; i++)
        for (int k = 0; k < STREAMS; k++)
            counts[k][at[k][i]]++;
    for (int k = 0; k < STREAMS; k++)
        for (size_t i = shared; i < quarter(n, k); i++)
            counts[k][at[k][i]]++;
}

static void write_stream(uint8_t *to, const uint8_t *end, const uint8_t *q, size_t n, const uint16_t *codes,
                         const uint8_t *lengths)
{
    uint64_t bits = 0;
    int n_bits = 0;

    for (; n >= AT_ONCE && end - to >= 8; n -= AT_ONCE, q += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            bits |= (uint64_t)codes[q[i]] << n_bits;
            n_bits += lengths[q[i]];
        }
        memcpy(to, &bits, sizeof bits);
        to += n_bits / 8;
        bits >>= n_bits & ~7;
        n_bits &= 7;
    }
    for (; n > 0; n--, q++) {
        bits |= (uint64_t)codes[*q] << n_bits;
        for (n_bits += lengths[*q]; n_bits >= 8; n_bits -= 8, bits >>= 8)
            *to++ = (uint8_t)bits;
    }
    if (n_bits > 0)
        *to = (uint8_t)bits;
}

struct code_plan {
    uint32_t counts[STREAMS][HUFFMAN_SYMBOLS], total[HUFFMAN_SYMBOLS];
    uint8_t lengths[HUFFMAN_SYMBOLS];
    uint16_t codes[HUFFMAN_SYMBOLS];
    uint32_t bytes[STREAMS]; /* of each stream */
};

/* Chooses the shortest form of n symbols and returns its length in bytes. */
static size_t make_plan(struct code_plan *p, const uint8_t *q, size_t n, int alphabet, int *how)
{
    size_t packed = most_bytes(n, alphabet), coded = 1 + table_bytes(alphabet) + sizeof p->bytes;

    *how = HOW_EQUAL;
    huffman_count(p->counts, q, n);
    for (int s = 0; s < alphabet; s++)
        p->total[s] = p->counts[0][s] + p->counts[1][s] + p->counts[2][s] + p->counts[3][s];
    if (p->total[q[0]] == n)
        return 2;
    huffman_lengths(p->lengths, p->total, alphabet);
    for (int k = 0; k < STREAMS; k++) {
        uint64_t n_bits = 0;

        for (int s = 0; s < alphabet; s++)
            n_bits += (uint64_t)p->counts[k][s] * p->lengths[s];
        p->bytes[k] = (uint32_t)((n_bits + 7) / 8);
        coded += p->bytes[k];
    }
    *how = coded < packed ? HOW_CODED : HOW_PACKED;
    return coded < packed ? coded : packed;
}

static void write_coded(struct code_plan *p, uint8_t *to, const uint8_t *end, const uint8_t *q, size_t n,
                        int alphabet)
{
    huffman_codes(p->codes, p->lengths, alphabet);
    for (int s = 0; s < alphabet; s += 2)
        *to++ = (uint8_t)(p->lengths[s] | (s + 1 < alphabet ? p->lengths[s + 1] << 4 : 0));
    memcpy(to, p->bytes, sizeof p->bytes);
    to += sizeof p->bytes;
    for (int k = 0; k < STREAMS; k++) {
        write_stream(to, end, q, quarter(n, k), p->codes, p->lengths);
        to += p->bytes[k];
        q += quarter(n, k);
    }
}

static void put_stream(struct compress_work *w, struct wire_out *out, const uint8_t *q, size_t n,
                       int alphabet)
{
    struct code_plan p;
    int how;
    size_t len = make_plan(&p, q, n, alphabet, &how);
    uint8_t *to = wire_put(out, len, 1);

    if (!to)
        return;
    w->report.n_symbols += (double)n;
    w->report.n_bits += 8 * (double)len;
    w->report.entropy += huffman_entropy(p.total, alphabet);
    *to = (uint8_t)how;
    if (how == HOW_EQUAL)
        to[1] = q[0];
    else if (how == HOW_PACKED)
        w->loops->pack(to + 1, q, n, alphabet);
    else
        write_coded(&p, to + 1, to + len, q, n, alphabet);
}

struct code { /* indexed by the next HUFFMAN_BITS bits */
    uint8_t symbol, length;
};

/* Reads the code lengths before a coded section into a table of all bit patterns. False: not a complete
 * code. */
static bool read_table(struct code *table, struct wire_in *in, int alphabet)
{
    const uint8_t *nibbles = wire_get(in, table_bytes(alphabet), 1);
    uint8_t lengths[HUFFMAN_SYMBOLS] = {0};
    uint16_t codes[HUFFMAN_SYMBOLS];

    if (!nibbles)
        return false;
    for (int s = 0; s < alphabet; s++)
        lengths[s] = s % 2 ? nibbles[s / 2] >> 4 : nibbles[s / 2] & 15;
    for (int s = 0; s < alphabet; s++)
        if (lengths[s] > HUFFMAN_BITS)
            return false;
    if (!huffman_codes(codes, lengths, alphabet))
        return false;
    for (int s = 0; s < alphabet; s++)
        if (lengths[s] > 0)
            for (uint32_t c = codes[s]; c <= MASK; c += 1u << lengths[s])
                table[c] = (struct code){(uint8_t)s, lengths[s]};
    return true;
}

struct bit_stream {
    const uint8_t *bytes;
    size_t len, at; /* bytes; bits */
    uint8_t *q;
    size_t n; /* symbols left */
};

/* Returns the bits from `at` on: at least 57 where eight bytes are left, else padded with zeros. */
static inline uint64_t look_at_bits(const struct bit_stream *s)
{
    uint64_t bits = 0;
    size_t byte = s->at / 8;

    if (byte < s->len)
        memcpy(&bits, s->bytes + byte, s->len - byte < 8 ? s->len - byte : 8);
    return bits >> s->at % 8;
}

/* Decodes the remaining symbols one by one. False: the stream is too short or too long. */
static bool read_rest(struct bit_stream *s, const struct code *table)
{
    for (; s->n > 0 && s->at <= 8 * s->len; s->n--) {
        struct code c = table[look_at_bits(s) & MASK];

        *s->q++ = c.symbol;
        s->at += c.length;
    }
    return s->n == 0 && (s->at + 7) / 8 == s->len;
}

static bool has_more(const struct bit_stream *s)
{
    return s->n >= AT_ONCE && s->at / 8 + 8 <= s->len;
}

/* Decodes the four streams side by side while each has enough symbols and bytes. */
static void read_together(struct bit_stream streams[STREAMS], const struct code *table)
{
    struct bit_stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];

#define READ_ONE(s, bits)                                                                                    \
    do {                                                                                                     \
        struct code found = table[(bits)&MASK];                                                              \
                                                                                                             \
        *s.q++ = found.symbol;                                                                               \
        bits >>= found.length;                                                                               \
        s.at += found.length;                                                                                \
    } while (0)
    while (has_more(&a) && has_more(&b) && has_more(&c) && has_more(&d)) {
        uint64_t u, v, x, y;

        memcpy(&u, a.bytes + a.at / 8, sizeof u);
        memcpy(&v, b.bytes + b.at / 8, sizeof v);
        memcpy(&x, c.bytes + c.at / 8, sizeof x);
        memcpy(&y, d.bytes + d.at / 8, sizeof y);
        u >>= a.at % 8;
        v >>= b.at % 8;
        x >>= c.at % 8;
        y >>= d.at % 8;
        for (int i = 0; i < AT_ONCE; i++) {
            READ_ONE(a, u);
            READ_ONE(b, v);
            READ_ONE(c, x);
            READ_ONE(d, y);
        }
        a.n -= AT_ONCE;
        b.n -= AT_ONCE;
        c.n -= AT_ONCE;
        d.n -= AT_ONCE;
    }
#undef READ_ONE
    streams[0] = a;
    streams[1] = b;
    streams[2] = c;
    streams[3] = d;
}

static bool read_coded(struct wire_in *in, uint8_t *q, size_t n, int alphabet)
{
    struct code table[MASK + 1];
    struct bit_stream streams[STREAMS];
    uint32_t bytes[STREAMS];
    const void *sizes;
    bool is_right = true;

    if (!read_table(table, in, alphabet))
        return false;
    sizes = wire_get(in, sizeof bytes, 1);
    if (!sizes)
        return false;
    memcpy(bytes, sizes, sizeof bytes);
    for (int k = 0; k < STREAMS; k++) {
        streams[k] = (struct bit_stream){wire_get(in, bytes[k], 1), bytes[k], 0, q, quarter(n, k)};
        if (!streams[k].bytes)
            return false;
        q += quarter(n, k);
    }
    read_together(streams, table);
    for (int k = 0; k < STREAMS; k++)
        is_right &= read_rest(&streams[k], table);
    return is_right;
}

static bool get(struct compress_work *w, struct wire_in *in, uint8_t *q, size_t n, int alphabet)
{
    const uint8_t *how = wire_get(in, 1, 1), *body;

    if (!how)
        return false;
    if (*how == HOW_CODED)
        return read_coded(in, q, n, alphabet);
    body = wire_get(in, *how == HOW_EQUAL ? 1 : packed_bytes(n, alphabet), 1);
    if (!body || *how > HOW_EQUAL)
        return false;
    if (*how == HOW_EQUAL)
        memset(q, *body, n);
    else
        w->loops->unpack(q, body, n, alphabet);
    return w->loops->largest_symbol(q, n) < alphabet;
}

const struct compressor compress_huffman = {
    .name = "huffman",
    .help = "entropy coding of symbols, or of the bytes of numbers, by their frequency",
    .source = "Huffman 1952; Larmore and Hirschberg 1990",
    .kind = COMPRESS_SYMBOLS,
    .most_bytes = most_bytes,
    .put = put_stream,
    .get = get,
};
