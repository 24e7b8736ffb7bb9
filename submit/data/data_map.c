#include "submit/data/data_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/base/file.h"
#include "submit/files/temp.h"

enum { BUFFER = 1 << 20, BLOCK = 64 << 10 };

bool data_is_bomb(uint64_t unpacked, uint64_t packed)
{
    return unpacked > UNPACKED_FREE && unpacked / UNPACKED_RATIO > packed;
}

int data_refuse_bomb(uint64_t unpacked, uint64_t packed, struct err *e)
{
    err_set(e, ERR_CONFIG, "unpacks to more than %d times its size: its first %llu bytes are %llu",
            UNPACKED_RATIO, (unsigned long long)packed, (unsigned long long)unpacked);
    return err_hint(e, "If that is meant, unpack it with gunzip.");
}

static int map_fd(struct data_map *m, int fd, size_t len, const char *what, struct err *e)
{
    *m = (struct data_map){0};
    if (len == 0)
        return 0;
    m->at = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    m->len = len;
    if (m->at != MAP_FAILED)
        return 0;
    *m = (struct data_map){0};
    return err_call(e, ERR_IO, CALL_MAP, "%s", what);
}

static int unpack(struct data_spool *s, gzFile from, struct err *e)
{
    uint8_t block[BLOCK];
    int code, n;

    while ((n = gzread(from, block, sizeof block)) > 0) {
        if (data_spool_put(s, block, (size_t)n, e) < 0)
            return e->code;
        if (data_is_bomb(s->n, (uint64_t)gzoffset(from)))
            return data_refuse_bomb(s->n, (uint64_t)gzoffset(from), e);
    }
    return n < 0 ? err_set(e, ERR_CONFIG, "cannot be unpacked: %s", gzerror(from, &code)) : 0;
}

/* Takes `fd`. */
static int map_unpacked(struct data_map *m, int fd, struct err *e)
{
    gzFile from = gzdopen(fd, "rb");
    struct data_spool s;
    int rc;

    if (!from) {
        close(fd);
        return err_set(e, ERR_NOMEM, "no memory to unpack it");
    }
    rc = data_spool_open(&s, e);
    if (rc == 0)
        rc = unpack(&s, from, e);
    if (gzclose_r(from) != Z_OK && rc == 0)
        rc = err_set(e, ERR_CONFIG, "cannot be unpacked: its end is missing, %zu bytes unpacked until there",
                     s.n);
    if (rc == 0)
        return data_spool_map(m, &s, e);
    data_spool_close(&s);
    return rc;
}

static bool is_packed(int fd)
{
    uint8_t head[2];

    return pread(fd, head, sizeof head, 0) == sizeof head && head[0] == 0x1f && head[1] == 0x8b;
}

int data_map_open(struct data_map *m, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
    struct stat st;

    *m = (struct data_map){0};
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_IO, "%s: not a readable file", path);
    }
    if (is_packed(fd))
        return map_unpacked(m, fd, e) < 0 ? err_at(e, "%s", path) : 0;
    rc = map_fd(m, fd, (size_t)st.st_size, path, e);
    close(fd);
    return rc;
}

void data_map_close(struct data_map *m)
{
    if (m->at)
        munmap(m->at, m->len);
    *m = (struct data_map){0};
}

int data_map_walk(const struct data_map *m,
                  int (*look)(void *arg, const uint8_t *bytes, size_t at, size_t n, struct err *e), void *arg,
                  struct err *e)
{
    uint8_t *bytes = m->at;

    for (size_t at = 0; at < m->len; at += DATA_BLOCK) {
        size_t n = m->len - at < DATA_BLOCK ? m->len - at : DATA_BLOCK;
        int rc = look(arg, bytes + at, at, n, e);

        data_map_release(bytes + at, n);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void data_map_release(const uint8_t *from, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)from + page - 1) / page * page, end = ((uintptr_t)from + n) / page * page;

    if (end > begin)
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* private and never written: the file has them */
}

int data_spool_open(struct data_spool *s, struct err *e)
{
    *s = (struct data_spool){.fd = -1, .buffer = malloc(BUFFER)};
    if (!s->buffer)
        return err_set(e, ERR_NOMEM, "no memory for a buffer");
    if (temp_file(&s->fd, temp_where(), e) == 0)
        return 0;
    data_spool_close(s);
    return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
}

static int flush(struct data_spool *s, struct err *e)
{
    size_t len = s->len;

    s->len = 0;
    if (file_write_all(s->fd, s->buffer, len, temp_where(), e) == 0)
        return 0;
    return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
}

int data_spool_put(struct data_spool *s, const void *bytes, size_t n, struct err *e)
{
    if (s->len + n > BUFFER && flush(s, e) < 0)
        return e->code;
    if (n > BUFFER && file_write_all(s->fd, bytes, n, temp_where(), e) < 0)
        return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
    if (n <= BUFFER) {
        memcpy(s->buffer + s->len, bytes, n);
        s->len += n;
    }
    s->n += n;
    return 0;
}

int data_spool_map(struct data_map *m, struct data_spool *s, struct err *e)
{
    int rc = flush(s, e);

    if (rc == 0)
        rc = map_fd(m, s->fd, s->n, temp_where(), e);
    data_spool_close(s);
    return rc;
}

void data_spool_close(struct data_spool *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->buffer);
    *s = (struct data_spool){.fd = -1};
}
