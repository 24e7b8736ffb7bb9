/* items -- the bytes of the n items that a COMPRESS_VALUES compressor makes. Symbols: packed, or coded by a
 * COMPRESS_SYMBOLS compressor. Numbers: unchanged, or each of their bytes coded by it, all first bytes
 * first. */
#ifndef PSGD_COMPRESS_ITEMS_H
#define PSGD_COMPRESS_ITEMS_H

#include "codecs/compress/compress.h"

struct items {
    const struct compressor *values, *coder; /* coder NULL: symbols packed, numbers unchanged */
    const void *options;                     /* of `values` */
    uint8_t *symbols;                        /* (n) */
    uint8_t *numbers;                        /* (n item_bytes), where there is a coder */
};

/* Allocates for up to n values; `values`, `coder` and `options` are set. ERR_NOMEM. */
int items_open(struct items *s, size_t n, struct err *e);
void items_clear(struct items *s);

size_t items_most_bytes(const struct items *s, size_t n);
/* Returns where to write n items before items_put(). NULL: the message has no room. */
void *items_room(struct items *s, struct wire_out *out, size_t n);
void items_put(struct items *s, struct compress_work *w, struct wire_out *out, size_t n);
/* Returns a pointer into the message or `s`; NULL: malformed. */
const void *items_get(struct items *s, struct compress_work *w, struct wire_in *in, size_t n);

#endif
