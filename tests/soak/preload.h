/* preload -- common plumbing of the libraries that stand in for functions of the C library, loaded by
 * LD_PRELOAD. */
#ifndef PSGD_TESTS_PRELOAD_H
#define PSGD_TESTS_PRELOAD_H

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* `real`: the function that this library hides. */
#define REAL(name)                                                                                           \
    static __typeof__(name) *real;                                                                           \
    if (!real)                                                                                               \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

/* The functions that open a file, in terms of one: int open_at(int dir, const char *path, int flags,
 * mode_t mode). */
#define OPEN_AS(name, dir_parameter, dir)                                                                    \
    int name(dir_parameter const char *path, int flags, ...)                                                 \
    {                                                                                                        \
        va_list ap;                                                                                          \
        mode_t mode = 0;                                                                                     \
                                                                                                             \
        va_start(ap, flags);                                                                                 \
        if (flags & (O_CREAT | O_TMPFILE))                                                                   \
            mode = (mode_t)va_arg(ap, unsigned);                                                             \
        va_end(ap);                                                                                          \
        return open_at(dir, path, flags, mode);                                                              \
    }
#define NO_DIR
#define A_DIR int at,
/* The first two are what _FORTIFY_SOURCE makes of those after them. */
#define OPEN_FUNCTIONS                                                                                       \
    int __open_2(const char *path, int flags);                                                               \
    int __openat_2(int dir, const char *path, int flags);                                                    \
    int __open_2(const char *path, int flags)                                                                \
    {                                                                                                        \
        return open_at(AT_FDCWD, path, flags, 0);                                                            \
    }                                                                                                        \
    int __openat_2(int dir, const char *path, int flags)                                                     \
    {                                                                                                        \
        return open_at(dir, path, flags, 0);                                                                 \
    }                                                                                                        \
    OPEN_AS(open, NO_DIR, AT_FDCWD)                                                                          \
    OPEN_AS(open64, NO_DIR, AT_FDCWD)                                                                        \
    OPEN_AS(openat, A_DIR, at)                                                                               \
    OPEN_AS(openat64, A_DIR, at)

static inline int real_open_at(int dir, const char *path, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#endif
