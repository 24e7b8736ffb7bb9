/* Any bytes as a safetensors file. Where they are taken, the tensors must tile the data without a gap: each
 * is read to its last byte, and together they are as long as what stands behind the header. */
#include <stdlib.h>
#include <string.h>

#include "shared/tensor_file.h"

static const size_t size_of[N_TENSOR_TYPES] = {4, 1, 4, 8, 2, 2, 8};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    volatile uint8_t last = 0;
    struct tensor_file f;
    size_t total = 0;
    uint64_t header;
    struct err e;

    memcpy(copy, bytes, len);
    if (tensor_file_parse(&f, copy, len, "input", &e) == 0) {
        for (size_t i = 0; i < f.n; i++) {
            const struct tensor_view *t = &f.tensors[i];
            size_t n = tensor_count(t) * size_of[t->type];

            if (n > 0)
                last = ((const uint8_t *)t->data)[n - 1];
            if (tensor_file_find(&f, t->name) != t)
                abort();
            total += n;
        }
        memcpy(&header, copy, sizeof header);
        if (8 + header + total != len)
            abort();
        tensor_file_meta(&f, "model");
        tensor_file_close(&f);
    }
    (void)last;
    free(copy);
    return 0;
}
