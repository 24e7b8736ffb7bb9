/* Any bytes as an IDX file: plain, and as a file that may be gzipped. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/data/data_formats.h"
#include "submit/data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_header(const uint8_t *bytes, size_t len, uint32_t magic)
{
    uint32_t dims[3] = {1, 1, 1};
    struct err e;
    int header = idx_check_header(bytes, len, magic, dims, &e);

    if (header >= 0 && (size_t)header + (size_t)dims[0] * dims[1] * dims[2] != len)
        abort();
}

static void read_file(const uint8_t *bytes, size_t len)
{
    int fd = memfd_create("idx", MFD_CLOEXEC);
    volatile uint8_t last = 0;
    uint8_t *pixels;
    int rows, cols;
    char path[64];
    struct err e;
    size_t n;

    if (fd < 0 || file_write_all(fd, bytes, len, "memfd", &e) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (idx_read_images(&pixels, &n, &rows, &cols, path, &e) == 0) {
        last = pixels[n * (size_t)rows * (size_t)cols - 1];
        free(pixels);
    }
    (void)last;
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_header(bytes, len, 0x803);
    check_header(bytes, len, 0x801);
    read_file(bytes, len);
    return 0;
}
