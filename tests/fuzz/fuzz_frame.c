/* Any 64 bytes: refused, or a frame that packs to the same bytes again. */
#include <stdlib.h>
#include <string.h>

#include "runner/mesh/frame.h"
#include "shared/base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t in[FRAME_BYTES], out[FRAME_BYTES];
    struct frame f;
    struct err e;

    if (size < FRAME_BYTES)
        return 0;
    memcpy(in, data, FRAME_BYTES);
    if (size > FRAME_BYTES) { /* the checksum is corrected, so that the fuzzer gets past it */
        uint32_t crc = crc32c(in, 60);

        memcpy(in + 60, &crc, sizeof crc);
    }
    if (frame_unpack(&f, in, &e) < 0)
        return 0;
    frame_pack(out, &f);
    if (memcmp(in, out, FRAME_BYTES) != 0)
        abort();
    return 0;
}
