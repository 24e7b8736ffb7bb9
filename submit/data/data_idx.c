/* IDX, the format of MNIST (LeCun, Cortes, Burges): a magic number whose last byte counts the dimensions, the
 * dimensions, then bytes row by row; numbers are 32 bits, most significant byte first. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_kind.h"
#include "submit/data/data_sets.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, SIDE_MAX = 4096 };

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The name of a type of IDX; NULL: there is none. */
static const char *type_name(uint8_t type)
{
    static const struct {
        uint8_t type;
        const char *name;
    } types[] = {{0x08, "unsigned bytes"},      {0x09, "signed bytes"}, {0x0b, "integers of 2 bytes"},
                 {0x0c, "integers of 4 bytes"}, {0x0d, "floats"},       {0x0e, "doubles"}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].name;
    return NULL;
}

/* Another magic number: a set of other values, or another format. */
static int refuse_magic(const uint8_t *bytes, size_t len, uint32_t magic, struct err *e)
{
    const char *what = magic == MAGIC_IMAGES ? "images" : "labels", *type = type_name(bytes[2]);

    if (bytes[0] == 0 && bytes[1] == 0 && type)
        return err_set(e, ERR_CONFIG, "it has %u dimension%s of %s, expected %u of unsigned bytes for %s",
                       bytes[3], bytes[3] == 1 ? "" : "s", type, magic & 0xff, what);
    if (data_refuse_kind(bytes, len, e) < 0)
        return err_at(e, "not an IDX file");
    return err_set(e, ERR_CONFIG, "not an IDX file of %s: it begins with 0x%08x, expected 0x%08x", what,
                   be32(bytes), magic);
}

/* Returns the header's length; *whole is that of the file. */
static int check_head(uint64_t *whole, const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3],
                      struct err *e)
{
    size_t n_dims = magic & 0xff;
    size_t header = 4 + 4 * n_dims;
    uint64_t want = 1;

    if (len < header)
        return err_set(e, ERR_CONFIG, "not an IDX file: a header of %zu bytes expected, %zu bytes found",
                       header, len);
    if (be32(bytes) != magic)
        return refuse_magic(bytes, len, magic, e);
    for (size_t i = 0; i < n_dims; i++) {
        dims[i] = be32(bytes + 4 + 4 * i);
        if (i == 0 && dims[i] == 0)
            return err_set(e, ERR_CONFIG, "it has no samples");
        if (dims[i] == 0 || (i > 0 && dims[i] > SIDE_MAX))
            return err_set(e, ERR_CONFIG, "dimension %zu of its header is %u", i, dims[i]);
        want *= dims[i]; /* at most 2^32 x 2^12 x 2^12 */
    }
    *whole = want + header;
    return (int)header;
}

int idx_check_header(const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3], struct err *e)
{
    uint64_t whole;
    int header = check_head(&whole, bytes, len, magic, dims, e);

    if (header >= 0 && len != whole)
        return err_set(e, ERR_CONFIG, "%llu bytes expected (%d of header, %u items), %zu bytes found",
                       (unsigned long long)whole, header, dims[0], len);
    return header;
}

static int images_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e)
{
    uint32_t dims[3];

    return check_head(whole, bytes, len, MAGIC_IMAGES, dims, e);
}

static int labels_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e)
{
    uint32_t dims[3];

    return check_head(whole, bytes, len, MAGIC_LABELS, dims, e);
}

static int read_idx(uint8_t **out, uint32_t dims[3], uint32_t magic, const char *path, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    int header;

    if (data_read_promised(&bytes, &len, magic == MAGIC_IMAGES ? images_promise : labels_promise, path, e) <
        0)
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
