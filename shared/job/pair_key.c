#include "shared/job/pair_key.h"

#include <stdio.h>

void pair_key(uint8_t out[SHA256_BYTES], const uint8_t data_key[SHA256_BYTES], const char *job, int attempt,
              int first, int second)
{
    char info[160];
    int n = snprintf(info, sizeof info, "psgd data plane 1|%s|%d|%d|%d", job, attempt, first, second);

    hkdf_sha256(out, SHA256_BYTES, data_key, SHA256_BYTES, NULL, 0, info, (size_t)n);
}
