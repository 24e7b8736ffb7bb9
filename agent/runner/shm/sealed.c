#include "agent/runner/shm/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/compat.h"
#include "shared/memory.h"

enum { PAGE = 4096, SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

/* In whole pages; 0: none, or more than can be counted. */
static size_t size_of(size_t bytes)
{
    return bytes > SIZE_MAX / 2 ? 0 : (bytes + PAGE - 1) / PAGE * PAGE;
}

static int map(struct sealed *out, int fd, size_t size, int rights, struct err *e)
{
    void *p = mmap(NULL, size, rights, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (p == MAP_FAILED)
        return err_errno(e, ERR_NOMEM, "%zu bytes of memory shared by the nodes of this machine", size);
    *out = (struct sealed){p, size};
    return 0;
}

int sealed_make(struct sealed *out, int *fd, size_t bytes, int n_nodes, struct err *e)
{
    size_t size = size_of(bytes);

    *out = (struct sealed){0};
    *fd = -1;
    /* Sharing makes a job faster, and must not take what the job needs later: messages, and the test set. */
    if (!size || (double)size * n_nodes > memory_available() / 2)
        return err_set(e, ERR_NOMEM,
                       "%d nodes that share %zu bytes each do not fit into half of the memory that is free",
                       n_nodes, bytes);
    *fd = memfd_create("psgd-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    /* With every page there, no later store or load can fail for want of memory. */
    if (fallocate(*fd, 0, 0, (off_t)size) < 0) {
        err_errno(e, ERR_NOMEM, "%zu bytes of memory shared by the nodes of this machine", size);
        goto fail;
    }
    if (map(out, *fd, size, PROT_READ | PROT_WRITE, e) < 0)
        goto fail;
    if (fcntl(*fd, F_ADD_SEALS, SEALS) < 0) {
        if (errno == EINVAL)
            err_set(
                e, ERR_IO,
                "this kernel has no memory that its owner alone can write: F_SEAL_FUTURE_WRITE, which came "
                "with Linux 5.1");
        else
            err_errno(e, ERR_IO, "sealing the memory shared by the nodes of this machine");
        goto fail;
    }
    return 0;
fail:
    sealed_clear(out);
    close(*fd);
    *fd = -1;
    return e->code;
}

int sealed_attach(struct sealed *out, int fd, size_t least, size_t most, struct err *e)
{
    off_t from = (off_t)size_of(least), to = (off_t)size_of(most);
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    *out = (struct sealed){0};
    if (seals < 0 || (seals & SEALS) != SEALS)
        return err_set(e, ERR_PROTOCOL, "what it shares is not sealed memory");
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return err_errno(e, ERR_IO, "what it shares");
    if (from <= 0 || st.st_size < from || st.st_size > to)
        return err_set(e, ERR_PROTOCOL, "it shares %lld bytes, where %lld to %lld are right",
                       (long long)st.st_size, (long long)from, (long long)to);
    /* A page that is missing is made at the first load, which can fail: on huge pages soon. */
    if (fs.f_type != TMPFS_MAGIC || st.st_blocks < st.st_size / 512)
        return err_set(e, ERR_PROTOCOL, "what it shares has holes, or lies on huge pages");
    return map(out, fd, (size_t)st.st_size, PROT_READ, e);
}

void sealed_clear(struct sealed *s)
{
    if (s->start)
        munmap(s->start, s->size);
    *s = (struct sealed){0};
}
