#include "runner/shm/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/compat.h"
#include "shared/base/memory.h"

enum { PAGE = 4096, SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

/* Rounds up to whole pages. 0: `bytes` is 0, or too large. */
static size_t size_of(size_t bytes)
{
    return bytes > SIZE_MAX / 2 ? 0 : (bytes + PAGE - 1) / PAGE * PAGE;
}

static int map(struct sealed *out, int fd, size_t size, int rights, struct err *e)
{
    void *p = mmap(NULL, size, rights, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (p == MAP_FAILED)
        return err_call(e, ERR_NOMEM, CALL_MAP, "%zu bytes of memory shared by the nodes of this machine",
                        size);
    *out = (struct sealed){p, size};
    return 0;
}

int sealed_make(struct sealed *out, int *fd, const struct shm_source *source, size_t bytes, int n_nodes,
                struct err *e)
{
    size_t size = size_of(bytes);

    *out = (struct sealed){0};
    *fd = -1;
    /* Shared memory only makes a job faster. Enough memory must remain for what the job allocates later:
     * messages, the test set. */
    if (!size || (double)size * n_nodes > memory_available() / 2)
        return err_set(e, ERR_NOMEM,
                       "%d nodes that share %zu bytes each do not fit into half of the memory that is free",
                       n_nodes, bytes);
    *fd = source->memory(source->owner, size);
    if (*fd < 0)
        return err_errno(e, errno == ENOMEM ? ERR_NOMEM : ERR_IO,
                         "%zu bytes of memory shared by the nodes of this machine", size);
    if (map(out, *fd, size, PROT_READ | PROT_WRITE, e) < 0)
        goto fail;
    if (fcntl(*fd, F_ADD_SEALS, SEALS) < 0) {
        if (errno == EINVAL)
            err_set(e, ERR_IO,
                    "this kernel cannot make memory that only its owner can write: F_SEAL_FUTURE_WRITE needs "
                    "Linux 5.1");
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

int sealed_attach(struct sealed *out, int fd, size_t min_bytes, size_t max_bytes, struct err *e)
{
    off_t from = (off_t)size_of(min_bytes), to = (off_t)size_of(max_bytes);
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    *out = (struct sealed){0};
    if (seals < 0 || (seals & SEALS) != SEALS)
        return err_set(e, ERR_PROTOCOL, "the descriptor it sent is not sealed memory");
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return err_errno(e, ERR_IO, "the memory it shares");
    if (from <= 0 || st.st_size < from || st.st_size > to)
        return err_set(e, ERR_PROTOCOL, "it shares %lld bytes, expected %lld to %lld", (long long)st.st_size,
                       (long long)from, (long long)to);
    /* A missing page is allocated at the first load, which can fail, on huge pages soon. */
    if (fs.f_type != TMPFS_MAGIC || st.st_blocks < st.st_size / 512)
        return err_set(e, ERR_PROTOCOL, "the memory it shares has holes or is on huge pages");
    return map(out, fd, (size_t)st.st_size, PROT_READ, e);
}

void sealed_clear(struct sealed *s)
{
    if (s->start)
        munmap(s->start, s->size);
    *s = (struct sealed){0};
}
