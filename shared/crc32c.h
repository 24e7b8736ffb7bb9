/* crc32c -- Castagnoli's CRC-32 (RFC 3720, appendix B.4), with the CPU's instruction where it has one. */
#ifndef PSGD_CRC32C_H
#define PSGD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t len);

/* The checksum of what `crc` is of, followed by these bytes; 0 is that of nothing. */
uint32_t crc32c_more(uint32_t crc, const void *bytes, size_t len);

/* As crc32c_more, by tables alone: what a CPU without the instruction uses. */
uint32_t crc32c_by_tables(uint32_t crc, const void *bytes, size_t len);

#endif
