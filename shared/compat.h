/* compat -- what younger kernels and libraries have, for older ones too.
 *
 * psgd builds with the versions of Debian 11: gcc 10, glibc 2.31, curl 7.74, libmicrohttpd 0.9.72, headers of
 * Linux 5.10. It runs on Linux 4.18, RHEL 8's: calls of the kernel are made by number, whatever the headers
 * know, and where the running kernel lacks one, an older way serves:
 *
 *   call                   since  the older way
 *   pidfd_open             5.3    a thread that waits for the child, or looks at /proc ten times a second
 *   openat2                5.6    openat for each component, O_NOFOLLOW, the device compared
 *   close_range            5.9    /proc/self/fd; each number below RLIMIT_NOFILE where /proc cannot be read
 *     CLOSE_RANGE_CLOEXEC  5.11   the same
 *   F_SEAL_FUTURE_WRITE    5.1    none: nodes of one machine use connections (agent/runner/shm/sealed.h)
 *
 * The tests of what stands on these calls run both ways on any machine, the second time beneath a seccomp
 * filter (tests/lib/old_kernel.h). A kernel that lacks a call says ENOSYS. The filter of a container that is
 * older than the call may say EPERM, which the calls themselves never do.
 *
 * Other names that older libraries lack stand at the end, but for libmicrohttpd's (agent/http.c) and
 * compilers' (nn/kernels/cpu.h). */
#ifndef PSGD_COMPAT_H
#define PSGD_COMPAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

/* A descriptor that poll() finds readable once the process has ended, whether or not its parent has waited
 * for it: a child, or another process that this one sees in /proc. The caller closes it and reads nothing
 * from it. The older way is a thread that takes no signal; it ends with the process or, where that is no
 * child, soon after the descriptor was closed. -1 and errno: ESRCH, there is no such process; EMFILE, ENOMEM,
 * EAGAIN. */
int compat_pidfd_open(pid_t pid);

/* openat() with O_CLOEXEC for reading, where every component of `path` lies beneath `dir_fd`. -1 and errno:
 * ELOOP, one is a link, be it the last; EXDEV, one is on another file system, or `path` begins with '/' or
 * has a component ".."; or as openat(). The older way knows a file system by its device: it does not notice a
 * folder of the same one that root has mounted there, and refuses a subvolume of btrfs. */
int compat_open_beneath(int dir_fd, const char *path, int flags);

/* Closes every descriptor from `first` up, or has the next exec close them. It takes no memory and no lock,
 * so that it may stand between fork and exec. Where /proc cannot be read, those above RLIMIT_NOFILE stay. */
void compat_close_from(int first, bool at_exec);

/* glibc 2.28 does not name it. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Before 7.85 curl takes a request's protocols as bits. For who has included <curl/curl.h>. */
#ifdef LIBCURL_VERSION_NUM
#if LIBCURL_VERSION_NUM < 0x075500
#define COMPAT_CURLOPT_PROTOCOLS CURLOPT_PROTOCOLS
#define COMPAT_CURL_HTTP         ((long)CURLPROTO_HTTP)
#define COMPAT_CURL_HTTP_HTTPS   ((long)(CURLPROTO_HTTP | CURLPROTO_HTTPS))
#else
#define COMPAT_CURLOPT_PROTOCOLS CURLOPT_PROTOCOLS_STR
#define COMPAT_CURL_HTTP         "http"
#define COMPAT_CURL_HTTP_HTTPS   "http,https"
#endif
#endif

#endif
