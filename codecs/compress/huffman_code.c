#include "codecs/compress/huffman_code.h"

#include <math.h>

/* Writes the symbols that occur to `order`, the rarest first; of equal ones the lower first. */
static int by_count(int *order, const uint32_t *counts, int n)
{
    int n_used = 0;

    for (int s = 0; s < n; s++) {
        int at = n_used;

        if (counts[s] == 0)
            continue;
        for (; at > 0 && counts[order[at - 1]] > counts[s]; at--)
            order[at] = order[at - 1];
        order[at] = s;
        n_used++;
    }
    return n_used;
}

/* Package-merge: a coin of width 2^-level for each symbol, and pairs of the coins of the level below, in
 * order of weight. is_leaf[level][i]: the i-th coin is a symbol's, not a pair. The 2 (n_used - 1) lightest
 * coins of the first level give the code: the length of a symbol is the number of its coins among them and
 * among the coins that their pairs consist of. */
void huffman_lengths(uint8_t *lengths, const uint32_t *counts, int n)
{
    bool is_leaf[HUFFMAN_BITS][2 * HUFFMAN_SYMBOLS];
    uint64_t pairs[HUFFMAN_SYMBOLS], row[2 * HUFFMAN_SYMBOLS];
    int order[HUFFMAN_SYMBOLS], n_used = by_count(order, counts, n), n_pairs = 0, n_taken;

    for (int level = HUFFMAN_BITS - 1; level >= 0; level--) {
        int leaf = 0, pair = 0, n_row = n_used + n_pairs;

        for (int i = 0; i < n_row; i++) {
            bool takes_leaf = pair == n_pairs || (leaf < n_used && counts[order[leaf]] <= pairs[pair]);

            is_leaf[level][i] = takes_leaf;
            row[i] = takes_leaf ? counts[order[leaf++]] : pairs[pair++];
        }
        n_pairs = n_row / 2;
        for (int i = 0; i < n_pairs; i++)
            pairs[i] = row[2 * i] + row[2 * i + 1];
    }
    for (int s = 0; s < n; s++)
        lengths[s] = 0;
    n_taken = 2 * (n_used - 1);
    for (int level = 0; level < HUFFMAN_BITS; level++) {
        int n_leaves = 0;

        for (int i = 0; i < n_taken; i++)
            if (is_leaf[level][i])
                lengths[order[n_leaves++]]++;
        n_taken = 2 * (n_taken - n_leaves);
    }
}

bool huffman_codes(uint16_t *codes, const uint8_t *lengths, int n)
{
    uint32_t next = 0;

    for (int length = 1; length <= HUFFMAN_BITS; length++) {
        next <<= 1;
        for (int s = 0; s < n; s++) {
            uint32_t reversed = 0;

            if (lengths[s] != length)
                continue;
            for (int b = 0; b < length; b++)
                reversed |= (next >> b & 1) << (length - 1 - b);
            codes[s] = (uint16_t)reversed;
            next++;
        }
        if (next > 1u << length)
            return false;
    }
    return next == 1u << HUFFMAN_BITS;
}

double huffman_entropy(const uint32_t *counts, int n)
{
    double total = 0, bits = 0;

    for (int s = 0; s < n; s++)
        total += counts[s];
    for (int s = 0; s < n; s++)
        if (counts[s] > 0)
            bits += counts[s] * log2(total / counts[s]);
    return bits;
}
