#include "shared/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"

/* Since Linux 6.3; required if vm.memfd_noexec is 2. It forbids exec of the file, not mapping it
 * executable. Older kernels refuse the flag. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static int make_sealed(void)
{
    int fd = memfd_create("psgd-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create("psgd-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

/* ERR_IO: an I/O error, or the file became shorter meanwhile. */
static int copy_bytes(int to, int from, size_t len, struct err *e)
{
    while (len > 0) {
        ssize_t n = sendfile(to, from, NULL, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_IO, "no copy in memory");
        if (n == 0)
            return err_set(e, ERR_IO, "the file became shorter while it was read");
        len -= (size_t)n;
    }
    return 0;
}

int memory_file_copy(const char *path, size_t most, struct err *e)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), to = -1;
    struct stat st;

    if (from < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(from, &st) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        goto done;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most) {
        err_set(e, ERR_CONFIG, "%s: not a regular file of at most %zu bytes", path, most);
        goto done;
    }
    to = make_sealed();
    if (to < 0) {
        err_errno(e, ERR_IO, "memfd_create");
    } else if (copy_bytes(to, from, (size_t)st.st_size, e) < 0 ||
               (fcntl(to, F_ADD_SEALS, seals) < 0 && err_errno(e, ERR_IO, "sealing a copy in memory") < 0)) {
        err_at(e, "%s", path);
        close(to);
        to = -1;
    }
done:
    close(from);
    return to < 0 ? e->code : to;
}

int memory_file_make(const void *bytes, size_t len, struct err *e)
{
    int fd = make_sealed();

    if (fd < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    if (file_write_all(fd, bytes, len, "a file in memory", e) == 0)
        return fd;
    close(fd);
    return e->code;
}

void memory_file_path(char out[MEMORY_FILE_PATH], int fd)
{
    snprintf(out, MEMORY_FILE_PATH, "/proc/self/fd/%d", fd);
}
