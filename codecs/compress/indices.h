/* indices -- k ascending indices below n in few bits: Elias and Fano's code. With l = floor(log2(n / k)),
 * the low l bits of each index lie one after another; the high bits, which ascend, are a row of bits where
 * the i-th index sets bit (index >> l) + i. That is within half a bit for each index of the best there is,
 * and its length depends on n and k alone. Elias, "Efficient Storage and Retrieval by Content and Address of
 * Static Files", J. ACM 1974. */
#ifndef PSGD_COMPRESS_INDICES_H
#define PSGD_COMPRESS_INDICES_H

#include "codecs/wire.h"

size_t indices_bytes(size_t n, size_t k); /* 0 where k is n: all of them */
void indices_put(struct wire_out *out, const uint32_t *at, size_t n, size_t k);
/* False, and anything in `at`: those bytes are no such indices. */
bool indices_get(struct wire_in *in, uint32_t *at, size_t n, size_t k);

#endif
