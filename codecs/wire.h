/* wire -- how a codec writes and reads its messages.
 *
 * Numbers are little-endian. Each is aligned to its own size, relative to the start of the message, with
 * zero bytes as padding, so that a receiver uses them in place.
 *
 * A write past the message's limit and a read past its end only set a flag: write or read the whole
 * message, then check wire_ok() once. A read that fails returns 0, or NULL for a vector: check before use. */
#ifndef PSGD_WIRE_H
#define PSGD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_out {
    unsigned char *bytes;
    size_t len, limit;
    bool bad; /* a write exceeded the limit */
};

struct wire_in {
    const unsigned char *bytes;
    size_t len, at;
    bool bad; /* a read exceeded the end */
};

/* Appends room for `n` items of `size` bytes, which the caller fills. Returns NULL and sets the flag where
 * it exceeds the limit. */
static inline void *wire_put(struct wire_out *w, size_t n, size_t size)
{
    size_t start = (w->len + size - 1) / size * size;

    if (w->bad || start > w->limit || n > (w->limit - start) / size) {
        w->bad = true;
        return NULL;
    }
    memset(w->bytes + w->len, 0, start - w->len);
    w->len = start + n * size;
    return w->bytes + start;
}

static inline const void *wire_get(struct wire_in *w, size_t n, size_t size)
{
    size_t start = (w->at + size - 1) / size * size;

    if (w->bad || start > w->len || n > (w->len - start) / size) {
        w->bad = true;
        return NULL;
    }
    w->at = start + n * size;
    return w->bytes + start;
}

/* True when no read failed and nothing is left over. */
static inline bool wire_ok(const struct wire_in *w)
{
    return !w->bad && w->at == w->len;
}

static inline void wire_put_f32s(struct wire_out *w, const float *v, size_t n)
{
    void *p = wire_put(w, n, sizeof *v);

    if (p && n > 0)
        memcpy(p, v, n * sizeof *v);
}

static inline void wire_put_f32(struct wire_out *w, float v)
{
    wire_put_f32s(w, &v, 1);
}

static inline void wire_put_u32(struct wire_out *w, uint32_t v)
{
    void *p = wire_put(w, 1, sizeof v);

    if (p)
        memcpy(p, &v, sizeof v);
}

/* Returns a pointer into the message, valid until the callback returns. */
static inline const float *wire_get_f32s(struct wire_in *w, size_t n)
{
    return wire_get(w, n, sizeof(float));
}

static inline float wire_get_f32(struct wire_in *w)
{
    const float *p = wire_get_f32s(w, 1);

    return p ? *p : 0;
}

static inline uint32_t wire_get_u32(struct wire_in *w)
{
    const uint32_t *p = wire_get(w, 1, sizeof *p);

    return p ? *p : 0;
}

/* Numbers of a few bits, 1 to 32, packed from the lowest bit of a 32-bit word on; one may lie in two words. A
 * run of them begins with {0}, and ends, when it is written, with wire_put_last_bits(). */
struct wire_bits {
    uint64_t word;
    int n; /* bits in it that are not written yet, or not read */
};

static inline void wire_put_bits(struct wire_out *w, struct wire_bits *b, uint32_t v, int n_bits)
{
    b->word |= (uint64_t)v << b->n;
    b->n += n_bits;
    if (b->n >= 32) {
        wire_put_u32(w, (uint32_t)b->word);
        b->word >>= 32;
        b->n -= 32;
    }
}

static inline void wire_put_last_bits(struct wire_out *w, struct wire_bits *b)
{
    if (b->n > 0)
        wire_put_u32(w, (uint32_t)b->word);
    *b = (struct wire_bits){0};
}

static inline uint32_t wire_get_bits(struct wire_in *w, struct wire_bits *b, int n_bits)
{
    uint32_t v;

    if (b->n < n_bits) {
        b->word |= (uint64_t)wire_get_u32(w) << b->n;
        b->n += 32;
    }
    v = (uint32_t)(b->word & (((uint64_t)1 << n_bits) - 1));
    b->word >>= n_bits;
    b->n -= n_bits;
    return v;
}

#endif
