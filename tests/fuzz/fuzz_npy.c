/* Any bytes as an array, as a zip file of arrays, and as a whole data set. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void read_array(const uint8_t *bytes, size_t len)
{
    struct npy_array a;
    volatile double sum = 0;
    struct err e;

    if (npy_parse(&a, bytes, len, &e) < 0)
        return;
    if (a.data + a.n > bytes + len)
        abort();
    for (size_t i = 0; i < a.n; i++)
        sum = sum + npy_value(&a, i) + (npy_is_float(&a) ? 0 : (double)npy_integer(&a, i));
}

static void read_set(const uint8_t *bytes, size_t len, const char *name)
{
    int fd = memfd_create("npz", MFD_CLOEXEC);
    struct dataset d;
    char path[64];
    struct err e;

    if (fd < 0 || file_write_all(fd, bytes, len, "memfd", &e) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (dataset_open(&d, name, path, &e) == 0) {
        for (size_t i = 0; d.train_y && i < d.n_train; i++)
            if (d.train_y[i] < 0 || d.train_y[i] >= d.n_classes)
                abort();
        if (d.train_t && dataset_take_labels(&d, &e) == 0)
            for (size_t i = 0; i < d.n_test; i++)
                if (d.test_y[i] < 0 || d.test_y[i] >= d.n_classes)
                    abort();
        dataset_check_classes(&d);
        dataset_clear(&d);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint8_t *member;
    struct err e;
    size_t n;

    read_array(bytes, len);
    if (zip_member(&member, &n, bytes, len, "x_train.npy", &e) == 0) {
        read_array(member, n);
        free(member);
    }
    read_set(bytes, len, "npz");
    read_set(bytes, len, "npz:vocab=5");
    return 0;
}
