/* crc32c -- Castagnoli's CRC-32 (RFC 3720, appendix B.4), with the CPU's instruction where it has one. */
#ifndef PSGD_CRC32C_H
#define PSGD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t len);

#endif
