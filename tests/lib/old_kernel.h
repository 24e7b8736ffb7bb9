/* old_kernel -- makes this process and its descendants run as on a kernel that lacks calls: a seccomp
 * filter answers them (seccomp(2)). It cannot be removed: a test sets it in a child, or after everything
 * that needs the real kernel.
 *
 * A filter compares the architecture first, because numbers of calls mean nothing without it. x86-64 and
 * arm64 are known; calls of any other, as of 32-bit programs, pass. */
#ifndef PSGD_TEST_OLD_KERNEL_H
#define PSGD_TEST_OLD_KERNEL_H

/* On these architectures, and on all since Linux 5.1. */
enum { CALL_PIDFD_OPEN = 434, CALL_CLOSE_RANGE = 436, CALL_OPENAT2 = 437 };

/* As Linux 4.18: ENOSYS for each newer call, which are those from 424 up, and EINVAL for the seal
 * F_SEAL_FUTURE_WRITE of fcntl(2). -1: filters are not available here; errno has the reason. */
int old_kernel_begin(void);

/* Only this call is answered, with this errno. */
int old_kernel_refuse(int call, int why);

#endif
