/* huffman_code -- prefix codes of at most HUFFMAN_BITS bits: the shortest under that limit, canonical, so
 * that the lengths determine the code. */
#ifndef PSGD_HUFFMAN_CODE_H
#define PSGD_HUFFMAN_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum { HUFFMAN_BITS = 12, HUFFMAN_SYMBOLS = 256 };

/* Computes lengths[s] for counts[s] > 0, 0 for others; at least two of the n symbols occur. Package-merge:
 * Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes", J. ACM 1990. */
void huffman_lengths(uint8_t *lengths, const uint32_t *counts, int n);

/* Computes the codes of these lengths, the first bit lowest. False: not the lengths of a complete code. */
bool huffman_codes(uint16_t *codes, const uint8_t *lengths, int n);

/* Returns the bits of an ideal code of one symbol at a time: sum of count log2(total / count). */
double huffman_entropy(const uint32_t *counts, int n);

#endif
