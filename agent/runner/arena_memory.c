#include "agent/runner/arena_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/memory.h"

enum {
    PAGE = 4096,
    LINE_FLOATS = ARENA_LINE / sizeof(float),
    SLOTS_AT = PAGE,
    IN_AT = SLOTS_AT + 2 * ARENA_SMALL * sizeof(float),
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
};

_Static_assert(sizeof(struct arena_words) <= SLOTS_AT, "the words fit before the slots");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words between processes must not need a lock");

static size_t vector_bytes(size_t n_floats)
{
    return (n_floats + LINE_FLOATS - 1) / LINE_FLOATS * ARENA_LINE;
}

/* Bytes of a memory with two vectors of n_floats; 0: more than can be counted. */
static size_t memory_bytes(size_t n_floats)
{
    if (n_floats > SIZE_MAX / 64)
        return 0;
    return (IN_AT + 2 * vector_bytes(n_floats) + PAGE - 1) / PAGE * PAGE;
}

static int map(struct arena_view *out, int fd, size_t n_floats, int rights, struct err *e)
{
    size_t size = memory_bytes(n_floats);
    char *p = mmap(NULL, size, rights, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (p == MAP_FAILED)
        return err_errno(e, ERR_NOMEM, "%zu bytes of memory shared by the nodes of this machine", size);
    *out = (struct arena_view){
        .start = p,
        .size = size,
        .words = (struct arena_words *)(void *)p,
        .slots = {(float *)(void *)(p + SLOTS_AT), (float *)(void *)(p + SLOTS_AT) + ARENA_SMALL},
        .in = (float *)(void *)(p + IN_AT),
        .out = (float *)(void *)(p + IN_AT + vector_bytes(n_floats)),
    };
    return 0;
}

int arena_memory_make(struct arena_view *out, int *fd, size_t n_floats, int n_nodes, struct err *e)
{
    size_t size = memory_bytes(n_floats);

    *out = (struct arena_view){0};
    *fd = -1;
    if (!size || (double)size * n_nodes > memory_available())
        return err_set(e, ERR_NOMEM,
                       "%d nodes that share vectors of %zu numbers do not fit into the memory that is free",
                       n_nodes, n_floats);
    *fd = memfd_create("psgd-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    /* With every page there, no later store or load can fail for want of memory. */
    if (fallocate(*fd, 0, 0, (off_t)size) < 0) {
        err_errno(e, ERR_NOMEM, "%zu bytes of memory shared by the nodes of this machine", size);
        goto fail;
    }
    if (map(out, *fd, n_floats, PROT_READ | PROT_WRITE, e) < 0)
        goto fail;
    if (fcntl(*fd, F_ADD_SEALS, SEALS) < 0) {
        err_errno(e, ERR_IO, "sealing the memory shared by the nodes of this machine");
        goto fail;
    }
    return 0;
fail:
    arena_memory_clear(out);
    close(*fd);
    *fd = -1;
    return e->code;
}

int arena_memory_borrow(struct arena_view *out, int fd, size_t n_floats, struct err *e)
{
    size_t size = memory_bytes(n_floats);
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    *out = (struct arena_view){0};
    if (seals < 0 || (seals & SEALS) != SEALS)
        return err_set(e, ERR_PROTOCOL, "what it shares is not sealed memory");
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return err_errno(e, ERR_IO, "what it shares");
    if (!size || st.st_size != (off_t)size)
        return err_set(e, ERR_PROTOCOL, "it shares %lld bytes, where vectors of %zu numbers take %zu",
                       (long long)st.st_size, n_floats, size);
    /* A page that is missing is made at the first load, which can fail: on huge pages soon. */
    if (fs.f_type != TMPFS_MAGIC || (size_t)st.st_blocks < size / 512)
        return err_set(e, ERR_PROTOCOL, "what it shares has holes, or lies on huge pages");
    return map(out, fd, n_floats, PROT_READ, e);
}

void arena_memory_clear(struct arena_view *v)
{
    if (v->start)
        munmap(v->start, v->size);
    *v = (struct arena_view){0};
}
