/* IDX, the format of MNIST (LeCun, Cortes, Burges): a magic number whose last byte counts the dimensions, the
 * dimensions, then bytes row by row; numbers are 32 bits, most significant byte first. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/dataset.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, SIDE_MAX = 4096 };

/* The most that a file may unpack to: small files can unpack to a thousand times their size. */
static const size_t max_bytes = (size_t)1 << 30;

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int idx_check_header(const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3], struct err *e)
{
    size_t n_dims = magic & 0xff;
    size_t header = 4 + 4 * n_dims;
    uint64_t want = 1;

    if (len < header)
        return err_set(e, ERR_CONFIG, "not an IDX file: a header of %zu bytes expected, %zu bytes found",
                       header, len);
    if (be32(bytes) != magic)
        return err_set(e, ERR_CONFIG, "not an IDX file of %s: it begins with 0x%08x, expected 0x%08x",
                       magic == MAGIC_IMAGES ? "images" : "labels", be32(bytes), magic);
    for (size_t i = 0; i < n_dims; i++) {
        dims[i] = be32(bytes + 4 + 4 * i);
        if (dims[i] == 0 || (i > 0 && dims[i] > SIDE_MAX))
            return err_set(e, ERR_CONFIG, "dimension %zu of its header is %u", i, dims[i]);
        want *= dims[i]; /* at most 2^32 x 2^12 x 2^12 */
    }
    if (len - header != want)
        return err_set(e, ERR_CONFIG, "%llu bytes expected (%zu of header, %u items), %zu bytes found",
                       (unsigned long long)want + header, header, dims[0], len);
    return (int)header;
}

/* Doubles *size as long as there is more to read; the file's own numbers are believed in nothing. */
static int read_rest(gzFile f, uint8_t **buf, size_t *size, size_t *len, struct err *e)
{
    for (;;) {
        size_t room = *size - *len;
        int k = gzread(f, *buf + *len, room < INT_MAX ? (unsigned)room : INT_MAX);
        uint8_t *more;
        int code;

        if (k < 0)
            return err_set(e, ERR_CONFIG, "cannot be unpacked: %s", gzerror(f, &code));
        *len += (size_t)k;
        if (*len < *size) {
            if (k > 0)
                continue;
            return 0;
        }
        if (*size > max_bytes)
            return err_set(e, ERR_CONFIG, "more than %zu bytes", max_bytes);
        *size *= 2;
        more = realloc(*buf, *size);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu bytes", *size);
        *buf = more;
    }
}

/* The whole file, unpacked if it is packed: zlib hands plain bytes through. */
static int read_unpacked(uint8_t **out, size_t *len, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t *buf = NULL;
    size_t size;
    struct stat st;
    gzFile f;
    int rc;

    *len = 0;
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(f = gzdopen(fd, "rb"))) {
        close(fd);
        return err_set(e, ERR_IO, "%s: not a readable file", path);
    }
    size = st.st_size < (off_t)max_bytes ? (size_t)st.st_size + 1 : max_bytes + 1;
    buf = malloc(size);
    rc = buf ? read_rest(f, &buf, &size, len, e) : err_set(e, ERR_NOMEM, "no memory for %zu bytes", size);
    if (gzclose_r(f) != Z_OK && rc == 0)
        rc = err_set(e, ERR_CONFIG, "cannot be unpacked: its end is missing, %zu bytes unpacked until there",
                     *len);
    if (rc < 0) {
        free(buf);
        return err_at(e, "%s", path);
    }
    *out = buf;
    return 0;
}

static int read_idx(uint8_t **out, uint32_t dims[3], uint32_t magic, const char *path, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    int header;

    if (read_unpacked(&bytes, &len, path, e) < 0)
        return e->code;
    header = idx_check_header(bytes, len, magic, dims, e);
    if (header < 0) {
        free(bytes);
        return err_at(e, "%s", path);
    }
    memmove(bytes, bytes + header, len - (size_t)header);
    *out = bytes;
    return 0;
}

int idx_read_images(uint8_t **pixels, size_t *n, int *rows, int *cols, const char *path, struct err *e)
{
    uint32_t dims[3];

    if (read_idx(pixels, dims, MAGIC_IMAGES, path, e) < 0)
        return e->code;
    *n = dims[0];
    *rows = (int)dims[1];
    *cols = (int)dims[2];
    return 0;
}

int idx_read_labels(int32_t **labels, size_t *n, const char *path, struct err *e)
{
    uint8_t *bytes;
    uint32_t dims[3];

    if (read_idx(&bytes, dims, MAGIC_LABELS, path, e) < 0)
        return e->code;
    *labels = malloc(dims[0] * sizeof **labels);
    for (uint32_t i = 0; *labels && i < dims[0]; i++)
        (*labels)[i] = bytes[i];
    free(bytes);
    *n = dims[0];
    return *labels ? 0 : err_set(e, ERR_NOMEM, "no memory for %u labels", dims[0]);
}
