/* Common functions of the readers of data files: packed files, and finding files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/base/file.h"
#include "submit/data/data_sets.h"

bool data_is_bomb(uint64_t unpacked, uint64_t packed)
{
    return unpacked > UNPACKED_FREE && unpacked / UNPACKED_RATIO > packed;
}

/* A file that is being read into `buf`, of which `len` of `size` bytes are filled. */
struct file_reading {
    gzFile file;
    uint8_t *buf;
    size_t size, len, max;
    bool is_promised; /* `max` is what the file's own header says */
};

static int more_than(const struct file_reading *r, struct err *e)
{
    if (r->is_promised)
        return err_set(e, ERR_CONFIG, "%zu bytes expected by its header, and more follow", r->max);
    err_set(e, ERR_CONFIG, "more than %zu bytes", r->max);
    return r->max == DATA_BYTES_MAX ? data_hint_large(e) : e->code;
}

int data_hint_large(struct err *e)
{
    return err_hint(
        e, "A file, or an array of an .npz, may be at most 1 GiB, unpacked, as a data set is held in "
           "memory. NumPy's float32 or uint8 (--dataset npz) take less room than text; else leave "
           "out rows or columns.");
}

/* Fills the buffer, as far as there is more to read; *is_end: nothing is left. */
static int fill_buffer(struct file_reading *r, bool *is_end, struct err *e)
{
    size_t room = r->size - r->len;
    int k = gzread(r->file, r->buf + r->len, room < INT_MAX ? (unsigned)room : INT_MAX);
    int code;

    if (k < 0)
        return err_set(e, ERR_CONFIG, "cannot be unpacked: %s", gzerror(r->file, &code));
    r->len += (size_t)k;
    if (r->len > r->max)
        return more_than(r, e);
    if (!gzdirect(r->file) && data_is_bomb(r->len, (uint64_t)gzoffset(r->file))) {
        err_set(e, ERR_CONFIG, "unpacks to more than %d times its size: its first %lld bytes are %zu",
                UNPACKED_RATIO, (long long)gzoffset(r->file), r->len);
        return err_hint(e, "If that is meant, unpack it with gunzip.");
    }
    *is_end = k == 0 && room > 0;
    return 0;
}

/* Doubles the size, up to one byte more than the maximum, as long as there is more to read: sizes stored in
 * the file are not trusted. */
static int read_rest(struct file_reading *r, struct err *e)
{
    bool is_end = false;

    while (!is_end) {
        uint8_t *more;

        if (fill_buffer(r, &is_end, e) < 0)
            return e->code;
        if (r->len < r->size)
            continue;
        r->size = r->size <= r->max / 2 ? 2 * r->size : r->max + 1;
        more = realloc(r->buf, r->size);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu bytes", r->size);
        r->buf = more;
    }
    return 0;
}

/* Reads the file's beginning, and from then on one byte more than that promises at most. */
static int read_head(struct file_reading *r, data_promise promise, struct err *e)
{
    size_t size = r->size;
    bool is_end = false;
    uint64_t whole;

    r->size = DATA_HEAD;
    while (!is_end && r->len < r->size)
        if (fill_buffer(r, &is_end, e) < 0)
            return e->code;
    if (promise(&whole, r->buf, r->len, e) < 0)
        return e->code;
    if (whole > r->max) {
        err_set(e, ERR_CONFIG, "%llu bytes by its header, of at most %zu", (unsigned long long)whole, r->max);
        return data_hint_large(e);
    }
    r->max = (size_t)whole;
    r->is_promised = true;
    r->size = size <= r->max ? size : r->max + 1;
    return r->len > r->max ? more_than(r, e) : 0;
}

static int read_file(uint8_t **out, size_t *len, size_t max, data_promise promise, const char *path,
                     struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct file_reading r = {.max = max};
    struct stat st;
    int rc = 0;

    *len = 0;
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(r.file = gzdopen(fd, "rb"))) {
        close(fd);
        return err_set(e, ERR_IO,
                       data_is_folder(path) ? "%s: is a folder, expected a file" : "%s: not a readable file",
                       path);
    }
    r.size = (uint64_t)st.st_size < max ? (size_t)st.st_size + 1 : max + 1;
    if (promise && r.size < DATA_HEAD)
        r.size = DATA_HEAD;
    r.buf = malloc(r.size);
    if (!r.buf)
        rc = err_set(e, ERR_NOMEM, "no memory for %zu bytes", r.size);
    if (rc == 0 && promise)
        rc = read_head(&r, promise, e);
    if (rc == 0)
        rc = read_rest(&r, e);
    if (gzclose_r(r.file) != Z_OK && rc == 0)
        rc = err_set(e, ERR_CONFIG, "cannot be unpacked: its end is missing, %zu bytes unpacked until there",
                     r.len);
    if (rc < 0) {
        free(r.buf);
        return err_at(e, "%s", path);
    }
    *out = r.buf;
    *len = r.len;
    return 0;
}

int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e)
{
    return read_file(out, len, max, NULL, path, e);
}

int data_read_promised(uint8_t **out, size_t *len, data_promise promise, const char *path, struct err *e)
{
    return read_file(out, len, DATA_BYTES_MAX, promise, path, e);
}

int data_read(uint8_t **out, size_t *len, const char *path, struct err *e)
{
    return data_read_at_most(out, len, DATA_BYTES_MAX, path, e);
}

int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e)
{
    char packed[512];
    bool is_folder;

    if (file_join(path, PATH_MAX, dir, name, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 && !data_is_folder(path))
        return 0;
    is_folder = data_is_folder(path);
    snprintf(packed, sizeof packed, "%s.gz", name);
    if (file_join(path, PATH_MAX, dir, packed, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 && !data_is_folder(path))
        return 0;
    return err_set(e, ERR_NOT_FOUND,
                   is_folder ? "%s/%s is a folder, expected a file"
                             : "%s/%s: not found, neither plain nor with .gz",
                   dir, name);
}

bool data_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
