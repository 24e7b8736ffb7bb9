/* wire -- how a codec writes and reads its messages. Numbers are little-endian; each lies at a multiple of
 * its own size from the message's start, with zero bytes between where needed, so that a receiver uses them
 * in place.
 *
 * Writing past the message's limit and reading past its end change nothing but a flag: write or read all of a
 * message, then ask wire_ok() once. A read that failed gives 0, or NULL for a vector: ask before using it. */
#ifndef PSGD_WIRE_H
#define PSGD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_out {
    unsigned char *bytes;
    size_t len, limit;
    bool bad; /* something did not fit */
};

struct wire_in {
    const unsigned char *bytes;
    size_t len, at;
    bool bad; /* something was not there */
};

/* Room for `n` items of `size` bytes, or NULL and the flag set. The caller fills it. */
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

/* A message is right when everything read was there and nothing is left over. */
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

/* Borrowed from the message: gone when the callback returns. */
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
