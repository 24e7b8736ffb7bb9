/* fail_call -- lets the n-th call of a function fail, once or from then on; loaded by LD_PRELOAD.
 *
 *   PSGD_FAIL_CALL=CALL:N:ERRNO:once|on[:STACK]  CALL is one of the names below. With STACK the n-th call of
 *                                                malloc from that chain of callers
 *   PSGD_FAIL_COUNT=PATH                         a file in which the calls are counted, as struct found; it
 *                                                is right however the process ends
 *
 * Tens of thousands of calls of malloc come from some thousand chains of callers, by their last three or
 * four. Calls of one chain differ as the elements of an array do. A chain is known by a hash of the return
 * addresses, each as its offset in its library, so that it is the same in every process.
 *
 * Children of the process are left alone. Calls of the C library inside itself are not seen, and memory for
 * cryptography is always there: GMP ends the process without, and GnuTLS crashes. */
#include <errno.h>
#include <execinfo.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "preload.h"

enum call { MALLOC, WRITE, SYNC, RENAME, OPEN, ACCEPT, FORK, PIPE, CONNECT, N_CALLS };
static const char *const names[N_CALLS] = {"malloc", "write", "sync", "rename", "open",
                                           "accept", "fork",  "pipe", "connect"};

enum { STACKS_MAX = 1 << 14, DEPTH = 5 };

struct found {
    atomic_uint_least64_t counts[N_CALLS]; /* in the order of the names */
    atomic_uint_least64_t n_stacks;
    uint64_t stacks[STACKS_MAX]; /* of malloc, each once */
};

static struct found own, *found = &own;
static bool is_counting;
static uint64_t wanted_stack; /* 0: whatever */
static atomic_uint_least64_t n_from_there;
static __thread bool is_inside __attribute__((tls_model("initial-exec")));
static enum call wanted = N_CALLS;
static unsigned long wanted_n;
static int wanted_errno;
static bool is_persistent;
static pid_t owner;

__attribute__((constructor)) static void read_environment(void)
{
    const char *plan = getenv("PSGD_FAIL_CALL"), *path = getenv("PSGD_FAIL_COUNT");
    int fd = path ? real_open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    char name[16] = "", mode[8] = "";
    void *first[1];

    is_inside = true;
    backtrace(first, 1); /* loads the library that unwinds */
    is_inside = false;
    if (fd >= 0 && ftruncate(fd, sizeof own) == 0) {
        void *p = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (p != MAP_FAILED)
            found = p;
        is_counting = true;
    }
    if (fd >= 0)
        close(fd);
    owner = getpid();
    if (plan && sscanf(plan, "%15[a-z]:%lu:%d:%7[a-z]:%" SCNx64, name, &wanted_n, &wanted_errno, mode,
                       &wanted_stack) >= 4)
        for (int i = 0; i < N_CALLS; i++)
            if (strcmp(name, names[i]) == 0)
                wanted = (enum call)i;
    is_persistent = strcmp(mode, "on") == 0;
    unsetenv("PSGD_FAIL_CALL");
    unsetenv("PSGD_FAIL_COUNT");
    unsetenv("LD_PRELOAD");
}

static bool is_own_process(void)
{
    return owner != 0 && (pid_t)syscall(SYS_getpid) == owner;
}

/* FNV-1a over offsets of return addresses, after those in this library. */
static uint64_t hash_stack(void)
{
    uint64_t h = 0xcbf29ce484222325;
    void *at[DEPTH];
    int n = backtrace(at, DEPTH);
    Dl_info own_at, in;

    if (!dladdr(&own, &own_at))
        return 0;
    for (int i = 0; i < n; i++)
        if (dladdr(at[i], &in) && in.dli_fbase != own_at.dli_fbase)
            h = (h ^ (uint64_t)((char *)at[i] - (char *)in.dli_fbase)) * 0x100000001b3;
    return h;
}

/* A stack that two threads find at once may be there twice. */
static void note_stack(uint64_t hash)
{
    static atomic_uint_least64_t seen[2 * STACKS_MAX];
    size_t i = hash % (2 * STACKS_MAX);
    uint64_t n;

    while (seen[i] && seen[i] != hash)
        i = (i + 1) % (2 * STACKS_MAX);
    if (seen[i] == hash || found->n_stacks == STACKS_MAX)
        return;
    seen[i] = hash;
    n = atomic_fetch_add(&found->n_stacks, 1);
    if (n < STACKS_MAX)
        found->stacks[n] = hash;
}

/* Says once where the call that fails is, for the log of a violation. */
static void show_stack(void)
{
    static bool is_shown;
    void *at[32];

    if (is_shown)
        return;
    is_shown = is_inside = true;
    backtrace_symbols_fd(at, backtrace(at, 32), STDERR_FILENO);
    is_inside = false;
}

/* Whether this call of malloc fails for where it comes from: the n-th from there, or any one after it. */
static bool is_from_there(void)
{
    uint64_t hash;

    if (is_inside || !is_own_process())
        return false;
    is_inside = true;
    hash = hash_stack();
    if (is_counting)
        note_stack(hash);
    if (wanted_stack == hash)
        n_from_there++;
    is_inside = false;
    if (!wanted_stack || n_from_there < wanted_n || (!is_persistent && n_from_there > wanted_n) ||
        (!is_persistent && hash != wanted_stack))
        return false;
    show_stack();
    errno = wanted_errno;
    return true;
}

/* Counts the call; returns whether it fails, with errno set. */
static bool fails(enum call c)
{
    uint64_t n;

    if (!is_own_process() || is_inside)
        return false;
    n = atomic_fetch_add(&found->counts[c], 1) + 1;
    if (wanted_stack || c != wanted || n < wanted_n || (n > wanted_n && !is_persistent))
        return false;
    show_stack();
    errno = wanted_errno;
    return true;
}

static bool is_of_cryptography(const void *caller)
{
    static const char *const libraries[] = {"libgmp",     "libgnutls",  "libnettle",
                                            "libhogweed", "libp11-kit", "libtasn1"};
    const char *name;
    Dl_info at;

    if (dladdr(caller, &at) == 0 || !at.dli_fname)
        return false;
    name = strrchr(at.dli_fname, '/');
    for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++)
        if (strncmp(name + 1, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

static bool lacks_memory(void)
{
    bool is_hit = fails(MALLOC);

    return ((is_counting || wanted_stack) && is_from_there()) || is_hit;
}

/* Whether there is no memory for the caller of this library. */
#define NO_MEMORY (!is_of_cryptography(__builtin_return_address(0)) && lacks_memory())

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    return NO_MEMORY ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return NO_MEMORY ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return NO_MEMORY ? NULL : __libc_realloc(p, size);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return fails(WRITE) ? -1 : syscall(SYS_write, fd, bytes, len);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    return fails(WRITE) ? -1 : syscall(SYS_writev, fd, parts, n);
}

int fsync(int fd)
{
    return fails(SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fails(SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    return fails(OPEN) ? -1 : real_open_at(dir, path, flags, mode);
}

OPEN_FUNCTIONS

/* The C library's types of these parameters are unions if _GNU_SOURCE is defined. */
int accept4(int fd, __SOCKADDR_ARG peer, socklen_t *len, int flags)
{
    return fails(ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, peer.__sockaddr__, len, flags);
}

int accept(int fd, __SOCKADDR_ARG peer, socklen_t *len)
{
    return accept4(fd, peer, len, 0);
}

int pipe2(int fds[2], int flags)
{
    return fails(PIPE) ? -1 : (int)syscall(SYS_pipe2, fds, flags);
}

int connect(int fd, __CONST_SOCKADDR_ARG peer, socklen_t len)
{
    return fails(CONNECT) ? -1 : (int)syscall(SYS_connect, fd, peer.__sockaddr__, len);
}

pid_t fork(void)
{
    REAL(fork);
    return fails(FORK) ? -1 : real();
}
