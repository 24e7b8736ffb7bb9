#include "tests/lib/old_kernel.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "shared/base/compat.h"

#if defined __x86_64__
#define HERE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define HERE AUDIT_ARCH_AARCH64
#else
#define HERE 0
#endif

enum { FIRST_SINCE_4_18 = 424 };

#define LOAD(field)        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value)      BPF_STMT(BPF_RET | BPF_K, value)
#define REFUSE(why)        ANSWER(SECCOMP_RET_ERRNO | ((why)&SECCOMP_RET_DATA))
#define UNLESS_EQ(k, n)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, n) /* skips the next n */
#define UNLESS_LEAST(k, n) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, k, 0, n)
#define UNLESS_BITS(k, n)  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, 0, n)

static int set(struct sock_filter *f, size_t n)
{
    struct sock_fprog program = {.len = (unsigned short)n, .filter = f};

    if (HERE == 0) {
        errno = ENOTSUP;
        return -1;
    }
    /* What an ordinary user must promise first. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int old_kernel_refuse(int call, int why)
{
    struct sock_filter f[] = {
        LOAD(arch),
        UNLESS_EQ(HERE, 3),
        LOAD(nr),
        UNLESS_EQ((unsigned)call, 1),
        REFUSE((unsigned)why),
        ANSWER(SECCOMP_RET_ALLOW),
    };

    return set(f, sizeof f / sizeof f[0]);
}

/* Both machines are little-endian: an argument's first half is its lower one. */
int old_kernel_begin(void)
{
    struct sock_filter f[] = {
        LOAD(arch),     UNLESS_EQ(HERE, 9),
        LOAD(nr),       UNLESS_LEAST(FIRST_SINCE_4_18, 1),
        REFUSE(ENOSYS), UNLESS_EQ(SYS_fcntl, 5),
        LOAD(args[1]),  UNLESS_EQ(F_ADD_SEALS, 3),
        LOAD(args[2]),  UNLESS_BITS(F_SEAL_FUTURE_WRITE, 1),
        REFUSE(EINVAL), ANSWER(SECCOMP_RET_ALLOW),
    };

    return set(f, sizeof f / sizeof f[0]);
}
