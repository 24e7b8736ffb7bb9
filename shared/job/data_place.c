#include "shared/job/data_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 1 << 20, PLACES = 1024, PLACE_BYTES = 4096 };

int data_place_check(const char *path, struct err *e)
{
    const char *at = path;
    bool is_part = false;

    if (strlen(path) >= DATA_PATH_MAX)
        return err_set(e, ERR_CONFIG, "the path of the data set has %zu bytes, at most %d are allowed",
                       strlen(path), DATA_PATH_MAX - 1);
    while (*at == '/') {
        size_t n = strcspn(++at, "/");

        is_part = n > 2 || (n > 0 && strncmp(at, "..", n) != 0);
        if (!is_part)
            break;
        at += n;
    }
    if (is_part && !*at)
        return 0;
    return err_set(e, ERR_CONFIG, "%s is not an absolute path without empty parts, \".\" and \"..\"", path);
}

/* Opens the file by each part of `rest`, none of which may be a symbolic link. Takes `folder`. */
static int open_below(int folder, const char *rest, const char *path, struct err *e)
{
    char part[DATA_PATH_MAX];
    int fd = folder;

    while (fd >= 0 && *rest) {
        size_t n = strcspn(rest, "/");
        int below, how = rest[n] ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK | O_NOCTTY;

        memcpy(part, rest, n);
        part[n] = '\0';
        below = openat(fd, part, how | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 && (errno == ELOOP || errno == ENOTDIR))
            err_set(e, ERR_REFUSED, "%s: \"%s\" is a symbolic link or no folder; name the file itself", path,
                    part);
        else if (below < 0 && errno == ENOENT)
            err_set(e, ERR_NOT_FOUND, "%s does not exist on this machine", path);
        else if (below < 0)
            err_errno(e, ERR_IO, "%s", path);
        close(fd);
        fd = below;
        rest += rest[n] ? n + 1 : n;
    }
    return fd >= 0 ? fd : e->code;
}

static int check_file(int fd, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_REFUSED, "%s is no regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0 && !(st.st_mode & S_IROTH))
        return err_set(e, ERR_REFUSED, "%s belongs to another user (%u), and not everybody may read it", path,
                       (unsigned)st.st_uid);
    return 0;
}

/* The part of `path` below the folder of n bytes; NULL: it is not below it. */
static const char *part_below(const char *path, const char *folder, size_t n)
{
    while (n > 0 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

int data_place_open(const char *path, const char *folders, struct err *e)
{
    const char *at = folders, *rest = NULL;
    char folder[DATA_FOLDERS_MAX];
    int fd;

    if (data_place_check(path, e) < 0)
        return e->code;
    while (!rest && *at) {
        size_t n = strcspn(at, ":");

        rest = n > 0 && n < sizeof folder ? part_below(path, at, n) : NULL;
        snprintf(folder, sizeof folder, "%.*s", (int)n, at);
        at += at[n] ? n + 1 : n;
    }
    if (!rest)
        return err_set(e, ERR_REFUSED,
                       "%s is in no folder of which this agent lets jobs read data (agent --data-folder)",
                       path);
    fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_IO, "the agent's --data-folder %s", folder);
    fd = open_below(fd, rest, path, e);
    if (fd >= 0 && check_file(fd, path, e) < 0) {
        close(fd);
        return e->code;
    }
    return fd;
}

/* Adds `n` bytes from `at`, fewer at the end of the file. */
static int add_bytes(struct sha256_sum *sum, unsigned char *room, int fd, const char *path, uint64_t at,
                     size_t n, struct err *e)
{
    while (n > 0) {
        ssize_t k = pread(fd, room, n, (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_errno(e, ERR_IO, "%s", path);
        if (k == 0)
            break;
        sha256_add(sum, room, (size_t)k);
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static int add_places(struct sha256_sum *sum, unsigned char *room, int fd, const char *path, uint64_t bytes,
                      struct err *e)
{
    unsigned char length[8];

    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)(bytes >> (8 * i));
    sha256_add(sum, length, sizeof length);
    if (add_bytes(sum, room, fd, path, 0, HEAD_BYTES, e) < 0)
        return e->code;
    for (uint64_t k = 1; bytes > HEAD_BYTES && k <= PLACES; k++) { /* the last one ends the file */
        uint64_t end = HEAD_BYTES + (bytes - HEAD_BYTES) / PLACES * k +
                       (bytes - HEAD_BYTES) % PLACES * k / PLACES;
        uint64_t from = end > HEAD_BYTES + PLACE_BYTES ? end - PLACE_BYTES : HEAD_BYTES;

        if (add_bytes(sum, room, fd, path, from, (size_t)(end - from), e) < 0)
            return e->code;
    }
    return 0;
}

int data_place_fingerprint(char out[DATA_FINGERPRINT], int fd, const char *path, struct err *e)
{
    struct sha256_sum *sum = sha256_start();
    unsigned char *room = malloc(HEAD_BYTES);
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct stat st;
    int rc = 0;

    if (!sum || !room)
        rc = err_set(e, ERR_NOMEM, "no memory for a hash");
    else if (fstat(fd, &st) < 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    else
        rc = add_places(sum, room, fd, path, (uint64_t)st.st_size, e);
    sha256_end(sum, rc == 0 ? digest : NULL);
    free(room);
    if (rc < 0)
        return rc;
    hex_encode(hex, digest, sizeof digest);
    snprintf(out, DATA_FINGERPRINT, "%" PRIu64 ":%s", (uint64_t)st.st_size, hex);
    return 0;
}

int data_place_compare(int fd, const char *path, const char *fingerprint, struct err *e)
{
    char here[DATA_FINGERPRINT];
    size_t n = strcspn(fingerprint, ":");

    if (data_place_fingerprint(here, fd, path, e) < 0)
        return e->code;
    if (strcmp(here, fingerprint) == 0)
        return 0;
    if (strncmp(here, fingerprint, n + 1) == 0)
        return err_set(e, ERR_CONFIG,
                       "%s has other contents here than where the job was submitted, and the same length",
                       path);
    return err_set(e, ERR_CONFIG, "%s has %.*s bytes here, and %.*s where the job was submitted", path,
                   (int)strcspn(here, ":"), here, (int)n, fingerprint);
}
