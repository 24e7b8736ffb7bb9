#include "shared/crc32c.h"

#include <string.h>

static const uint32_t POLYNOMIAL = 0x82f63b78; /* bit-reversed */

static uint32_t by_nibble(uint32_t crc, const uint8_t *p, size_t len)
{
    uint32_t table[16];

    for (uint32_t i = 0; i < 16; i++) {
        uint32_t c = i;

        for (int k = 0; k < 4; k++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[i] = c;
    }
    for (; len > 0; len--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t c = crc;

    for (; len >= 8; len -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; len > 0; len--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

uint32_t crc32c(const void *bytes, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_instruction(~0u, bytes, len);
#endif
    return ~by_nibble(~0u, bytes, len);
}
