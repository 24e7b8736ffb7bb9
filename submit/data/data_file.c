/* Common functions of the readers of data files: packed files, and finding files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/file.h"
#include "submit/data/data_sets.h"

bool data_is_bomb(uint64_t unpacked, uint64_t packed)
{
    return unpacked > UNPACKED_FREE && unpacked / UNPACKED_RATIO > packed;
}

/* Reads to the end of the file; doubles *size, up to one byte more than `max`, as long as there is more to
 * read: sizes stored in the file are not trusted. */
static int read_rest(gzFile f, uint8_t **buf, size_t *size, size_t *len, size_t max, struct err *e)
{
    for (;;) {
        size_t room = *size - *len;
        int k = gzread(f, *buf + *len, room < INT_MAX ? (unsigned)room : INT_MAX);
        uint8_t *more;
        int code;

        if (k < 0)
            return err_set(e, ERR_CONFIG, "cannot be unpacked: %s", gzerror(f, &code));
        *len += (size_t)k;
        if (*len > max)
            return err_set(e, ERR_CONFIG, "more than %zu bytes", max);
        if (!gzdirect(f) && data_is_bomb(*len, (uint64_t)gzoffset(f))) {
            err_set(e, ERR_CONFIG, "unpacks to more than %d times its size: its first %lld bytes are %zu",
                    UNPACKED_RATIO, (long long)gzoffset(f), *len);
            return err_hint(e, "If that is meant, unpack it with gunzip.");
        }
        if (*len < *size) {
            if (k > 0)
                continue;
            return 0;
        }
        *size = *size <= max / 2 ? 2 * *size : max + 1;
        more = realloc(*buf, *size);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu bytes", *size);
        *buf = more;
    }
}

int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e)
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
    size = (uint64_t)st.st_size < max ? (size_t)st.st_size + 1 : max + 1;
    buf = malloc(size);
    rc = buf ? read_rest(f, &buf, &size, len, max, e)
             : err_set(e, ERR_NOMEM, "no memory for %zu bytes", size);
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

int data_read(uint8_t **out, size_t *len, const char *path, struct err *e)
{
    return data_read_at_most(out, len, DATA_BYTES_MAX, path, e);
}

int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e)
{
    char packed[512];

    if (file_join(path, PATH_MAX, dir, name, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0)
        return 0;
    snprintf(packed, sizeof packed, "%s.gz", name);
    if (file_join(path, PATH_MAX, dir, packed, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0)
        return 0;
    return err_set(e, ERR_NOT_FOUND, "%s/%s: not found, neither plain nor with .gz", dir, name);
}

bool data_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
