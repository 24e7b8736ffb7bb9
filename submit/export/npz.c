/* A file for numpy.load: a zip archive without compression, one .npy (version 1.0) per
 * tensor. Sources: NumPy, numpy.lib.format; PKWARE, .ZIP File Format Specification 6.3.10, 4.3.7, 4.3.12,
 * 4.3.16. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "shared/base/file.h"
#include "submit/export/export.h"

enum {
    NPY_HEADER = 512, /* the longest: eight dimensions of 20 digits each, and 60 bytes around them */
    NPY_ALIGN = 64,
    ENTRY_NAME = TENSOR_NAME + 4,
    VERSION = 20,   /* zip version needed to read the file: 2.0 */
    DOS_DATE = 0x21 /* 1 January 1980: equal tensors make equal files */
};

static const char *const descr[N_TENSOR_TYPES] = {
    [TENSOR_F32] = "<f4", [TENSOR_U8] = "|u1",  [TENSOR_I32] = "<i4", [TENSOR_I64] = "<i8",
    [TENSOR_F16] = "<f2", [TENSOR_F64] = "<f8", [TENSOR_U16] = "<u2",
};

/* One file of the archive. */
struct zip_entry {
    const struct tensor_view *t;
    char name[ENTRY_NAME];
    char header[NPY_HEADER];
    size_t header_len, at;
    uint32_t crc;
};

struct out {
    unsigned char *bytes;
    size_t len;
};

static void put_bytes(struct out *o, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(o->bytes + o->len, bytes, len);
    o->len += len;
}

static void put_le(struct out *o, size_t v, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        o->bytes[o->len++] = (unsigned char)(v >> (8 * i));
}

static void npy_header(struct zip_entry *x)
{
    const struct tensor_view *t = x->t;
    char *h = x->header;
    size_t n;

    memcpy(h, "\x93NUMPY\1\0", 8);
    n = 10 + (size_t)sprintf(h + 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[t->type]);
    for (int i = 0; i < t->n_dims; i++)
        n += (size_t)sprintf(h + n, "%zu,%s", t->shape[i], i + 1 < t->n_dims ? " " : "");
    n += (size_t)sprintf(h + n, "), }");
    while ((n + 1) % NPY_ALIGN)
        h[n++] = ' ';
    h[n++] = '\n';
    h[8] = (char)((n - 10) & 255);
    h[9] = (char)((n - 10) >> 8);
    x->header_len = n;
}

/* crc32() takes the length as an unsigned int. */
static uint32_t crc_of(uint32_t crc, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        uInt n = len < (1u << 30) ? (uInt)len : 1u << 30;

        crc = (uint32_t)crc32(crc, bytes, n);
        bytes += n;
        len -= n;
    }
    return crc;
}

static size_t content_len(const struct zip_entry *x)
{
    return x->header_len + tensor_bytes(x->t);
}

/* Writes the fields that a file's own header and the directory share, from "version needed" to the name's
 * length. */
static void put_common(struct out *o, const struct zip_entry *x)
{
    put_le(o, VERSION, 2);
    put_le(o, 0, 2); /* flags */
    put_le(o, 0, 2); /* method: stored */
    put_le(o, 0, 2); /* time */
    put_le(o, DOS_DATE, 2);
    put_le(o, x->crc, 4);
    put_le(o, content_len(x), 4); /* packed */
    put_le(o, content_len(x), 4); /* unpacked */
    put_le(o, strlen(x->name), 2);
    put_le(o, 0, 2); /* extra field */
}

static void put_file(struct out *o, struct zip_entry *x)
{
    x->at = o->len;
    put_le(o, 0x04034b50, 4);
    put_common(o, x);
    put_bytes(o, x->name, strlen(x->name));
    put_bytes(o, x->header, x->header_len);
    put_bytes(o, x->t->data, tensor_bytes(x->t));
}

static void put_directory(struct out *o, const struct zip_entry *x, size_t n)
{
    size_t at = o->len, len;

    for (size_t i = 0; i < n; i++) {
        put_le(o, 0x02014b50, 4);
        put_le(o, VERSION, 2); /* made by */
        put_common(o, &x[i]);
        put_le(o, 0, 2); /* comment */
        put_le(o, 0, 2); /* disk */
        put_le(o, 0, 2); /* internal attributes */
        put_le(o, 0, 4); /* external attributes */
        put_le(o, x[i].at, 4);
        put_bytes(o, x[i].name, strlen(x[i].name));
    }
    len = o->len - at;
    put_le(o, 0x06054b50, 4);
    put_le(o, 0, 2); /* this disk */
    put_le(o, 0, 2); /* the directory's disk */
    put_le(o, n, 2);
    put_le(o, n, 2);
    put_le(o, len, 4);
    put_le(o, at, 4);
    put_le(o, 0, 2); /* comment */
}

/* Computes names, headers and checksums of n entries, and the length of the archive. */
static int prepare_entries(struct zip_entry *x, const struct tensor_view *t, size_t n, size_t *total,
                           struct err *e)
{
    *total = 22;
    for (size_t i = 0; i < n; i++) {
        if (!descr[t[i].type])
            return err_set(e, ERR_CONFIG, "tensor \"%s\" is %s, a type that numpy does not have", t[i].name,
                           tensor_type_name(t[i].type));
        x[i].t = &t[i];
        snprintf(x[i].name, sizeof x[i].name, "%s.npy", t[i].name);
        npy_header(&x[i]);
        x[i].crc = crc_of(0, (const unsigned char *)x[i].header, x[i].header_len);
        x[i].crc = crc_of(x[i].crc, t[i].data, tensor_bytes(&t[i]));
        /* The tensors are in memory: their sum does not overflow. */
        *total += 30 + 46 + 2 * strlen(x[i].name) + content_len(&x[i]);
    }
    if (*total > UINT32_MAX)
        return err_set(e, ERR_CONFIG, "the archive would have %zu bytes, but a plain .npz has at most 4 GiB",
                       *total);
    return 0;
}

int npz_write(const char *path, const struct tensor_view *t, size_t n, struct err *e)
{
    struct zip_entry *x = calloc(n + 1, sizeof *x);
    struct out o = {0};
    size_t total = 0;
    int rc = x ? prepare_entries(x, t, n, &total, e) : err_set(e, ERR_NOMEM, "no memory for %zu tensors", n);

    if (rc == 0 && !(o.bytes = malloc(total)))
        rc = err_set(e, ERR_NOMEM, "no memory for %zu bytes", total);
    for (size_t i = 0; rc == 0 && i < n; i++)
        put_file(&o, &x[i]);
    if (rc == 0) {
        put_directory(&o, x, n);
        rc = file_write(path, o.bytes, o.len, 0644, e);
    }
    free(o.bytes);
    free(x);
    return rc;
}
