/* The filter of system calls, seccomp(2), made by libseccomp.
 *
 * A call that is in no table fails with EPERM: libraries try some calls (affinity, NUMA policy, priorities,
 * another clone) and continue without them. A call in `programs` or `fatal` ends the process with SIGSYS,
 * because no codec or library that only computes makes it; the report of the node's end names the signal.
 *
 * Executable memory is allowed: oneDNN writes its kernels at run time, and dlopen() maps the codec.
 * Forbidding it protects a process from injected code, but a codec is foreign code anyway.
 *
 * The kernel does not log EPERM, because a codec could fill the log. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/sandbox/sandbox.h"

/* Names and not numbers: a name that this libseccomp does not know is left out. */
static const char *const allowed[] = {
    /* memory */
    "brk",
    "munmap",
    "mremap",
    "mprotect",
    "madvise",
    "mincore",
    "membarrier",
    "msync",
    /* threads, and the process itself */
    "futex_waitv",
    "set_robust_list",
    "rseq",
    "exit",
    "exit_group",
    "gettid",
    "getpid",
    "getppid",
    "getpgrp",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "sched_yield",
    "getcpu",
    "set_tid_address",
    "getrlimit",
    "ugetrlimit",
    "getrusage",
    "times",
    "uname",
    "sysinfo",
    "getrandom",
    "restart_syscall",
    /* files */
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "close",
    "close_range",
    "lseek",
    "_llseek",
    "fsync",
    "fdatasync",
    "ftruncate",
    "ftruncate64",
    "fadvise64",
    "fadvise64_64",
    "arm_fadvise64_64",
    "sync_file_range",
    "rename",
    "renameat",
    "unlink",
    "unlinkat",
    "access",
    "faccessat",
    "faccessat2",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "fstat",
    "fstat64",
    "fstatat64",
    "newfstatat",
    "statx",
    "statfs",
    "statfs64",
    "fstatfs",
    "fstatfs64",
    "getcwd",
    "chdir",
    "fchdir",
    "dup",
    "dup2",
    "dup3",
    "getdents",
    "getdents64",
    "readlink",
    "readlinkat",
    "sendfile",
    "sendfile64",
    "copy_file_range",
    "flock",
    "umask",
    /* connections that exist already: the monitor makes them (runner/monitor). Without shutdown(),
     * which would turn the listening socket into one that can connect */
    "recv",
    "recvfrom",
    "recvmsg",
    "getsockname",
    "getpeername",
    "accept4",
    "poll",
    "ppoll",
    "ppoll_time64",
    "select",
    "_newselect",
    "pselect6",
    "pselect6_time64",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "pipe",
    "pipe2",
    /* time */
    "clock_gettime",
    "clock_gettime64",
    "clock_getres",
    "clock_getres_time64",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "nanosleep",
    "gettimeofday",
    "time",
    "setitimer",
    "getitimer",
    "alarm",
    /* signals of its own */
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigreturn",
    "sigaltstack",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_sigtimedwait_time64",
    "rt_sigpending",
    "pause",
};

static const char *const programs[] = {"execve", "execveat"};

static const char *const fatal[] = {
    /* other processes */
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    /* other users and privileges */
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "setfsuid",
    "setfsgid",
    "capset",
    /* namespaces and file systems */
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fspick",
    "mount_setattr",
    "open_by_handle_at",
    "name_to_handle_at",
    "fanotify_init",
    "quotactl",
    "swapon",
    "swapoff",
    "acct",
    /* large parts of the kernel that no codec needs */
    "bpf",
    "perf_event_open",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "iopl",
    "ioperm",
    "modify_ldt",
    "vhangup",
    "syslog",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
};

/* Calls that a compiler, which consists of several programs, does not need. */
static const char *const not_for_compilers[] = {"socket", "socketpair", "connect", "bind",
                                                "listen", "sendto",     "sendmsg", "memfd_create"};

#define ONLY(nth, mask, value)                                                                               \
    {                                                                                                        \
        .arg = nth, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value                              \
    }
#define ANY_BITS (~0ULL)
/* An int without any bits but these. The kernel ignores the upper half of its register. */
#define NONE_BUT(nth, bits) ONLY(nth, 0xffffffffULL & ~(scmp_datum_t)(bits), 0)

enum {
    NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                 CLONE_NEWNET
};

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

enum { THREAD = CLONE_THREAD | CLONE_FILES | CLONE_FS, MAKES_FILE = O_CREAT | (O_TMPFILE & ~O_DIRECTORY) };

/* RLIMIT_DATA counts neither a stack that grows nor pages of the machine's pool of huge ones. */
enum { UNCOUNTED = MAP_GROWSDOWN | MAP_HUGETLB };

/* Without MSG_FASTOPEN, by which a TCP socket that is not connected connects. */
enum { SEND_FLAGS = MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE };

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* Calls that are allowed with certain arguments: a line for each alternative, and all conditions of a line
 * must hold. Unused ones are {0}. */
static const struct {
    const char *call;
    struct scmp_arg_cmp args[3];
    unsigned n;
} with_arguments[] = {
    /* A thread, not a process, that shares descriptors and working folder: another table of descriptors would
     * have a limit of its own. */
    {"clone", {ONLY(0, THREAD | NAMESPACES | CLONE_PIDFD, THREAD)}, 1},
    /* All but priority inheritance, by which a process can find out whether a thread's number is in use: the
     * operations 0 to 5, 9 and 10, below flags. */
    {"futex", {ONLY(1, 0x7c, 0)}, 1},
    {"futex", {ONLY(1, 0x7e, FUTEX_CMP_REQUEUE)}, 1},
    {"futex", {ONLY(1, 0x7f, FUTEX_WAIT_BITSET)}, 1},
    {"futex", {ONLY(1, 0x7f, FUTEX_WAKE_BITSET)}, 1},
    /* No set-user-id file is created; a call that creates no file may pass any mode. */
    {"open", {ONLY(1, MAKES_FILE, 0)}, 1},
    {"open", {ONLY(2, S_ISUID | S_ISGID, 0)}, 1},
    {"openat", {ONLY(2, MAKES_FILE, 0)}, 1},
    {"openat", {ONLY(3, S_ISUID | S_ISGID, 0)}, 1},
    {"creat", {ONLY(1, S_ISUID | S_ISGID, 0)}, 1},
    /* Without RENAME_WHITEOUT, which leaves a character device behind. */
    {"renameat2", {NONE_BUT(4, RENAME_NOREPLACE | RENAME_EXCHANGE)}, 1},
    /* Private memory counts against RLIMIT_DATA, shared memory against no limit: the mesh's is of a file. */
    {"mmap", {ONLY(3, UNCOUNTED | MAP_ANONYMOUS, 0)}, 1},
    {"mmap", {ONLY(3, UNCOUNTED | MAP_SHARED, 0)}, 1},
    {"mmap2", {ONLY(3, UNCOUNTED | MAP_ANONYMOUS, 0)}, 1},
    {"mmap2", {ONLY(3, UNCOUNTED | MAP_SHARED, 0)}, 1},
    /* RLIMIT_FSIZE limits the end of a file, not room that is kept beyond it: allowed is the room that the
     * runner's reports need (file_keep_room), below 4 GiB. */
    {"fallocate", {ONLY(1, ANY_BITS, 0)}, 1},
    {"fallocate",
     {ONLY(1, ANY_BITS, FALLOC_FL_KEEP_SIZE), ONLY(2, ~0xffffffffULL, 0), ONLY(3, ~0xfffffULL, 0)},
     3},
    {"send", {NONE_BUT(3, SEND_FLAGS)}, 1},
    {"sendto", {NONE_BUT(3, SEND_FLAGS), ONLY(4, ANY_BITS, 0)}, 2}, /* to no address */
    {"sendmsg", {NONE_BUT(2, SEND_FLAGS)}, 1}, /* a connected socket ignores the address in its structure */
    {"getsockopt", {ONLY(1, ANY_BITS, SOL_SOCKET), ONLY(2, ANY_BITS, SO_ERROR)}, 2},
    {"getsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_INFO)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, SOL_SOCKET), ONLY(2, ANY_BITS, SO_KEEPALIVE)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_NODELAY)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_KEEPIDLE)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_KEEPINTVL)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_KEEPCNT)}, 2},
    {"setsockopt", {ONLY(1, ANY_BITS, IPPROTO_TCP), ONLY(2, ANY_BITS, TCP_CONGESTION)}, 2},
    {"ioctl", {ONLY(1, ANY_BITS, FIONREAD)}, 1},
    {"ioctl", {ONLY(1, ANY_BITS, FIONBIO)}, 1},
    {"ioctl", {ONLY(1, ANY_BITS, TCGETS)}, 1}, /* isatty() */
    /* Without F_SETOWN, which has the kernel send signals to other processes. */
    {"fcntl", {ONLY(1, ANY_BITS, F_DUPFD)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_DUPFD_CLOEXEC)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_GETFD)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_SETFD)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_GETFL)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_SETFL)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_ADD_SEALS)}, 1},
    {"fcntl", {ONLY(1, ANY_BITS, F_GET_SEALS)}, 1},
    {"prctl", {ONLY(0, ANY_BITS, PR_SET_NAME)}, 1},
    {"prctl", {ONLY(0, ANY_BITS, PR_GET_NAME)}, 1},
    {"prctl", {ONLY(0, ANY_BITS, PR_SET_VMA)}, 1}, /* malloc() of glibc 2.38 names its memory */
    {"getpriority", {ONLY(0, ANY_BITS, PRIO_PROCESS), ONLY(1, ANY_BITS, 0)}, 2},
    {"prlimit64", {ONLY(0, ANY_BITS, 0), ONLY(2, ANY_BITS, 0)}, 2}, /* getrlimit() */
};

static int add_call_rule(scmp_filter_ctx c, uint32_t action, const char *call, unsigned n,
                         const struct scmp_arg_cmp *args)
{
    int nr = seccomp_syscall_resolve_name(call);
    int rc = nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add_array(c, action, nr, n, args);

    return rc == -EDOM ? 0 : rc; /* this architecture has no such call */
}

static int add_all(scmp_filter_ctx c, uint32_t action, const char *const *calls, size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_call_rule(c, action, calls[i], 0, NULL);
    return rc;
}
#define ADD_ALL(c, action, calls) add_all(c, action, calls, sizeof(calls) / sizeof *(calls))

/* The first argument is a process or thread: 0 is the caller. */
static const char *const of_itself[] = {"getpgid", "getsid", "sched_getaffinity", "sched_getparam",
                                        "sched_getscheduler"};

/* All signals but the four that stop a process (19 to 22 on all architectures): a stopped codec exceeds no
 * limit of a call, so it would hold up its job until the job's time limit. The patterns are of all 64 bits of
 * the register, because "less than" would pass a number whose upper half the kernel ignores. */
static const struct scmp_arg_cmp not_stopping[] = {
    ONLY(1, ~15ULL, 0),        ONLY(1, ~1ULL, 16), ONLY(1, ANY_BITS, SIGCONT),
    ONLY(1, ANY_BITS, SIGURG), ONLY(1, ~7ULL, 24), ONLY(1, ~31ULL, 32),
};
_Static_assert(SIGCONT == 18 && SIGSTOP == 19 && SIGTSTP == 20 && SIGTTIN == 21 && SIGTTOU == 22 &&
                   SIGURG == 23,
               "not_stopping has all other signals");

/* Signals to this process only: abort(), and raise() by name or by thread. */
static int add_signals(scmp_filter_ctx c, scmp_datum_t me)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof not_stopping / sizeof *not_stopping; i++) {
        const struct scmp_arg_cmp args[] = {ONLY(0, ANY_BITS, me), not_stopping[i]};
        /* tgkill(process, thread, signal) */
        struct scmp_arg_cmp of_thread[] = {args[0], args[1]};

        of_thread[1].arg = 2;
        rc = add_call_rule(c, SCMP_ACT_ALLOW, "kill", 2, args);
        if (rc == 0)
            rc = add_call_rule(c, SCMP_ACT_ALLOW, "tgkill", 2, of_thread);
    }
    return rc;
}

static int add_of_itself(scmp_filter_ctx c, scmp_datum_t me)
{
    const struct scmp_arg_cmp zero = ONLY(0, ANY_BITS, 0), own = ONLY(0, ANY_BITS, me);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof of_itself / sizeof *of_itself; i++) {
        rc = add_call_rule(c, SCMP_ACT_ALLOW, of_itself[i], 1, &zero);
        if (rc == 0)
            rc = add_call_rule(c, SCMP_ACT_ALLOW, of_itself[i], 1, &own);
    }
    return rc;
}

static int add_arguments(scmp_filter_ctx c)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof with_arguments / sizeof *with_arguments; i++)
        rc = add_call_rule(c, SCMP_ACT_ALLOW, with_arguments[i].call, with_arguments[i].n,
                           with_arguments[i].args);
    return rc;
}

/* SSB: without it, kernels before 5.16 switch speculation off in a process with a filter, which slows
 * computing; the sandbox does not promise to close side channels. OPTIMIZE 2: a binary tree. */
static int set_attributes(scmp_filter_ctx c)
{
    int rc = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    if (rc == 0)
        rc = seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rc == 0)
        seccomp_attr_set(c, SCMP_FLTATR_CTL_SSB, 1);
    if (rc == 0)
        seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return rc;
}

static int add_rules(scmp_filter_ctx c)
{
    int rc = ADD_ALL(c, SCMP_ACT_ALLOW, allowed);

    if (rc == 0)
        rc = ADD_ALL(c, SCMP_ACT_KILL_PROCESS, programs);
    if (rc == 0)
        rc = ADD_ALL(c, SCMP_ACT_KILL_PROCESS, fatal);
    if (rc == 0)
        rc = add_arguments(c);
    if (rc == 0)
        rc = add_signals(c, (scmp_datum_t)getpid());
    if (rc == 0)
        rc = add_of_itself(c, (scmp_datum_t)getpid());
    /* The flags of clone3 are behind a pointer, which a filter cannot follow: after ENOSYS, glibc uses
     * clone. */
    return rc < 0 ? rc : add_call_rule(c, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
}

int sandbox_seccomp(char *why, size_t size, struct err *e)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    /* The library asks the kernel whether it has these attributes; the kernel that valgrind simulates has
     * none. */
    int unsupported = c ? set_attributes(c) : 0;
    int rc = !c ? -ENOMEM : unsupported ? 0 : add_rules(c);

    if (rc < 0) {
        seccomp_release(c);
        errno = -rc;
        return err_errno(e, ERR_IO, "the filter of system calls");
    }
    rc = unsupported ? unsupported : seccomp_load(c);
    seccomp_release(c);
    if (rc == 0)
        return 1;
    snprintf(why, size, "this kernel accepts no filter of system calls (%s)", strerror(-rc));
    return 0;
}

int seccomp_for_compiler(void)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    int rc = c ? ADD_ALL(c, SCMP_ACT_ERRNO(EPERM), not_for_compilers) : -ENOMEM;

    if (rc == 0)
        rc = ADD_ALL(c, SCMP_ACT_ERRNO(EPERM), fatal);
    if (rc == 0)
        rc = seccomp_load(c);
    seccomp_release(c);
    if (rc == -EINVAL || rc == -ENOSYS || rc == -ECANCELED) /* this kernel has no filters */
        return 0;
    errno = -rc;
    return rc < 0 ? -1 : 0;
}
