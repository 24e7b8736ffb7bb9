/* crc32c -- Castagnoli's CRC-32 (RFC 3720, appendix B.4), as fast as the processor's instructions allow. */
#ifndef PSGD_CRC32C_H
#define PSGD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t len);

/* The checksum of what `crc` is of, followed by these bytes; 0 is that of nothing. */
uint32_t crc32c_more(uint32_t crc, const void *bytes, size_t len);

/* As crc32c_more, where the processor has less: no VPCLMULQDQ, and not even an instruction for CRC-32C. */
uint32_t crc32c_by_instruction(uint32_t crc, const void *bytes, size_t len);
uint32_t crc32c_by_tables(uint32_t crc, const void *bytes, size_t len);

#endif
