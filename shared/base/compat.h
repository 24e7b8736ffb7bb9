/* compat -- features of newer kernels and libraries, also on older ones.
 *
 * psgd builds with the versions of Debian 11: gcc 10, glibc 2.31, curl 7.74, libmicrohttpd 0.9.72, headers
 * of Linux 5.10. It runs on Linux 4.18, RHEL 8's: system calls are made by number, independently of the
 * headers, with a fallback if the running kernel lacks one:
 *
 *   call                   since  fallback
 *   pidfd_open             5.3    a thread that waits for the child, or polls /proc ten times a second
 *   openat2                5.6    openat for each component, O_NOFOLLOW, the device compared
 *   close_range            5.9    /proc/self/fd; each number below RLIMIT_NOFILE if /proc cannot be read
 *     CLOSE_RANGE_CLOEXEC  5.11   the same
 *   F_SEAL_FUTURE_WRITE    5.1    none: nodes of one machine use connections (runner/shm/sealed.h)
 *
 * The tests of code that uses these calls run both ways on any machine, the second time under a seccomp
 * filter (tests/lib/old_kernel.h). A kernel that lacks a call returns ENOSYS. A container's filter that is
 * older than the call may return EPERM, which the calls themselves never do.
 *
 * Other names that older libraries lack are at the end, except libmicrohttpd's (shared/http/) and
 * compilers' (nn/kernels/cpu.h). */
#ifndef PSGD_COMPAT_H
#define PSGD_COMPAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

/* Returns a descriptor that is readable for poll() after the process has ended, whether or not its parent
 * has waited for it. The process is a child, or another one visible in /proc. The caller closes the
 * descriptor and must not read from it. The fallback is a thread that blocks all signals; it ends with the
 * process or, if that is not a child, soon after the descriptor is closed. Returns -1 and sets errno:
 * ESRCH, no such process; EMFILE, ENOMEM, EAGAIN. */
int compat_pidfd_open(pid_t pid);

/* openat() with O_CLOEXEC for reading, if every component of `path` is beneath `dir_fd`. Returns -1 and
 * sets errno: ELOOP, a component, even the last, is a link; EXDEV, one is on another file system, or `path`
 * begins with '/' or has a component ".."; or as openat(). The fallback identifies a file system by its
 * device: it does not detect a bind mount of the same file system, and refuses a btrfs subvolume. */
int compat_open_beneath(int dir_fd, const char *path, int flags);

/* Closes every descriptor from `first` on, or marks them close-on-exec. Allocates no memory and takes no
 * lock, so it may be called between fork and exec. If /proc cannot be read, descriptors above RLIMIT_NOFILE
 * stay open. */
void compat_close_from(int first, bool at_exec);

/* Not defined by glibc 2.28. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Before 7.85 curl takes a request's protocols as bits. Only if <curl/curl.h> is included. */
#ifdef LIBCURL_VERSION_NUM
#if LIBCURL_VERSION_NUM < 0x075500
#define COMPAT_CURLOPT_PROTOCOLS CURLOPT_PROTOCOLS
#define COMPAT_CURL_HTTP         ((long)CURLPROTO_HTTP)
#define COMPAT_CURL_HTTPS        ((long)CURLPROTO_HTTPS)
#define COMPAT_CURL_HTTP_HTTPS   ((long)(CURLPROTO_HTTP | CURLPROTO_HTTPS))
#else
#define COMPAT_CURLOPT_PROTOCOLS CURLOPT_PROTOCOLS_STR
#define COMPAT_CURL_HTTP         "http"
#define COMPAT_CURL_HTTPS        "https"
#define COMPAT_CURL_HTTP_HTTPS   "http,https"
#endif
#endif

#endif
