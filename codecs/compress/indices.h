/* indices -- k ascending indices below n in few bits: the Elias-Fano code. With l = floor(log2(n / k)), the
 * low l bits of each index are stored one after another; the high bits, which ascend, are stored as a bit
 * vector in which the i-th index sets bit (index >> l) + i. This takes at most half a bit per index more
 * than the optimum, and the length depends only on n and k. Elias, "Efficient Storage and Retrieval by
 * Content and Address of Static Files", J. ACM 1974. */
#ifndef PSGD_COMPRESS_INDICES_H
#define PSGD_COMPRESS_INDICES_H

#include "codecs/wire.h"

size_t indices_bytes(size_t n, size_t k); /* 0 where k is n */
void indices_put(struct wire_out *out, const uint32_t *at, size_t n, size_t k);
/* Returns false, with `at` undefined, for bytes that are not such indices. */
bool indices_get(struct wire_in *in, uint32_t *at, size_t n, size_t k);

#endif
