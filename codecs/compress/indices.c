#include "codecs/compress/indices.h"

static int low_bits(size_t n, size_t k)
{
    int l = 0;

    while (k <= n >> (l + 1))
        l++;
    return l;
}

static size_t low_bytes(size_t n, size_t k)
{
    return (k * (size_t)low_bits(n, k) + 7) / 8;
}

static size_t high_bytes(size_t n, size_t k)
{
    return (((n - 1) >> low_bits(n, k)) + k + 7) / 8;
}

size_t indices_bytes(size_t n, size_t k)
{
    return k == n ? 0 : low_bytes(n, k) + high_bytes(n, k);
}

void indices_put(struct wire_out *out, const uint32_t *at, size_t n, size_t k)
{
    int l = low_bits(n, k), n_bits = 0;
    size_t len = indices_bytes(n, k);
    uint8_t *low = wire_put(out, len, 1), *high;
    uint64_t bits = 0;

    if (!low || len == 0)
        return;
    memset(low, 0, len);
    high = low + low_bytes(n, k);
    for (size_t i = 0; i < k; i++) {
        size_t bit = (at[i] >> l) + i;

        high[bit / 8] |= (uint8_t)(1 << bit % 8);
        bits |= (uint64_t)(at[i] & ((1u << l) - 1)) << n_bits;
        for (n_bits += l; n_bits >= 8; n_bits -= 8, bits >>= 8)
            *low++ = (uint8_t)bits;
    }
    if (n_bits > 0)
        *low = (uint8_t)bits;
}

/* Loads up to eight bytes; len is at least 1. */
static uint64_t word_at(const uint8_t *bytes, size_t len)
{
    uint64_t w = 0;

    memcpy(&w, bytes, len < 8 ? len : 8);
    return w;
}

/* Reads the high bits of each index, not yet shifted. False: not exactly k indices. */
static bool read_high(const uint8_t *bytes, size_t len, uint32_t *at, size_t k)
{
    size_t i = 0;

    for (size_t byte = 0; byte < len; byte += 8)
        for (uint64_t w = word_at(bytes + byte, len - byte); w; w &= w - 1, i++) {
            if (i == k)
                return false;
            at[i] = (uint32_t)(8 * byte + (size_t)__builtin_ctzll(w) - i);
        }
    return i == k;
}

bool indices_get(struct wire_in *in, uint32_t *at, size_t n, size_t k)
{
    size_t len = indices_bytes(n, k), n_low;
    const uint8_t *low = wire_get(in, len, 1);
    int l = low_bits(n, k);
    bool is_right = true;

    if (!low)
        return false;
    if (k == n) {
        for (size_t i = 0; i < k; i++)
            at[i] = (uint32_t)i;
        return true;
    }
    n_low = low_bytes(n, k);
    if (!read_high(low + n_low, len - n_low, at, k))
        return false;
    for (size_t i = 0; i < k; i++) {
        size_t bit = i * (size_t)l;
        uint64_t bits = l > 0 ? word_at(low + bit / 8, len - bit / 8) >> bit % 8 : 0;
        uint64_t index = (uint64_t)at[i] << l | (bits & ((1u << l) - 1));

        at[i] = (uint32_t)index;
        is_right &= index < n && (i == 0 || at[i] > at[i - 1]);
    }
    return is_right;
}
