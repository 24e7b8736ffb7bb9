/* old_kernel -- this process, and all that it starts, as on a kernel that lacks calls: a seccomp filter
 * answers them (seccomp(2)). It is there for good: a test sets it in a child, or behind all that wants the
 * kernel as it is.
 *
 * A filter compares the architecture first, for numbers of calls mean nothing without it. x86-64 and arm64
 * are known; calls of any other, as of 32-bit programs, pass. */
#ifndef PSGD_TEST_OLD_KERNEL_H
#define PSGD_TEST_OLD_KERNEL_H

/* Of these architectures, and of every one since Linux 5.1. */
enum { CALL_PIDFD_OPEN = 434, CALL_CLOSE_RANGE = 436, CALL_OPENAT2 = 437 };

/* As Linux 4.18: ENOSYS for each call that is younger, which are those from 424 up, and EINVAL for the seal
 * F_SEAL_FUTURE_WRITE of fcntl(2). -1: there are no filters here, and errno says why. */
int old_kernel_begin(void);

/* This call alone is answered, with this errno. */
int old_kernel_refuse(int call, int why);

#endif
