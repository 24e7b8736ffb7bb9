/* crc32c -- Castagnoli's CRC-32 (RFC 3720, appendix B.4), with the processor's fastest instructions. */
#ifndef PSGD_CRC32C_H
#define PSGD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t len);

/* Returns the checksum of the data with checksum `crc` followed by these bytes; that of no data is 0. */
uint32_t crc32c_more(uint32_t crc, const void *bytes, size_t len);

/* As crc32c_more(), for processors without VPCLMULQDQ, and without an instruction for CRC-32C. */
uint32_t crc32c_by_instruction(uint32_t crc, const void *bytes, size_t len);
uint32_t crc32c_by_tables(uint32_t crc, const void *bytes, size_t len);

#endif
