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

#endif
