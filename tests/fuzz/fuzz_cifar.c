/* Any bytes as records of CIFAR-10 and CIFAR-100. */
#include <stdlib.h>

#include "submit/data/data_formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct cifar_form forms[] = {{1, 0, 10}, {2, 1, 100}, {2, 0, 20}};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct err e;
        uint8_t *x;
        int32_t *y;
        size_t n;

        if (cifar_count(&n, len, &forms[i], &e) < 0)
            continue;
        x = malloc(n * 3072);
        y = malloc(n * sizeof *y);
        if (!x || !y)
            abort();
        if (cifar_unpack(x, y, bytes, n, &forms[i], &e) == 0)
            for (size_t k = 0; k < n; k++)
                if (y[k] < 0 || y[k] >= forms[i].n_classes)
                    abort();
        free(x);
        free(y);
    }
    return 0;
}
