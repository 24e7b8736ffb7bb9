/* items -- what a COMPRESS_VALUES makes of n values, as bytes: symbols packed or by a COMPRESS_SYMBOLS,
 * numbers as they are or each of their bytes by it, all first bytes first. */
#ifndef PSGD_COMPRESS_ITEMS_H
#define PSGD_COMPRESS_ITEMS_H

#include "codecs/compress/compress.h"

struct items {
    const struct compressor *values, *coder; /* coder NULL: packed, or as they are */
    const void *options;                     /* of `values` */
    uint8_t *symbols;                        /* (n) */
    uint8_t *numbers;                        /* (n item_bytes), where there is a coder */
};

/* `values` and `options` are set, for up to n values. ERR_NOMEM. */
int items_open(struct items *s, size_t n, struct err *e);
void items_clear(struct items *s);

size_t items_most_bytes(const struct items *s, size_t n);
/* Where n items are written to; then they are put. NULL: there is no room in the message. */
void *items_room(struct items *s, struct wire_out *out, size_t n);
void items_put(struct items *s, struct compress_work *w, struct wire_out *out, size_t n);
/* Borrowed from the message or from `s`; NULL: malformed. */
const void *items_get(struct items *s, struct compress_work *w, struct wire_in *in, size_t n);

#endif
