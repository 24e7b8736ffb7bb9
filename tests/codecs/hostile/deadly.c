/* Acts that no codec has a reason for: each ends the process. */
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "acts.h"

static int exec_shell(void)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo >executed", NULL};

    return result(execv("/bin/sh", argv));
}
static int exec_itself(void)
{
    return result(syscall(SYS_execveat, -1, "/proc/self/exe", NULL, NULL, 0));
}
static int debug_parent(void)
{
    return result(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
}
static int read_parent(void)
{
    struct iovec v = {(void *)(uintptr_t)hostile_now, sizeof *hostile_now};

    return result(process_vm_readv(getppid(), &v, 1, &v, 1, 0));
}
static int write_parent(void)
{
    struct iovec v = {(void *)(uintptr_t)hostile_now, sizeof *hostile_now};

    return result(process_vm_writev(getppid(), &v, 1, &v, 1, 0));
}
static int take_descriptor(void)
{
    return result(syscall(SYS_pidfd_getfd, -1, 0, 0));
}
static int be_root(void)
{
    return result(setresuid(0, 0, 0));
}
static int be_root_group(void)
{
    return result(setresgid(0, 0, 0));
}
static int have_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0u, ~0u, 0}, {~0u, ~0u, 0}};

    return result(syscall(SYS_capset, &head, all));
}
static int new_namespace(void)
{
    return result(unshare(CLONE_NEWUSER | CLONE_NEWNS));
}
static int other_namespace(void)
{
    return result(setns(-1, 0));
}
static int mount_tmpfs(void)
{
    return result(mount("none", "/tmp", "tmpfs", 0, NULL));
}
static int change_root(void)
{
    return result(chroot("."));
}
static int open_handle(void)
{
    return result(syscall(SYS_open_by_handle_at, -1, NULL, 0));
}
static int load_bpf(void)
{
    return result(syscall(SYS_bpf, 0, NULL, 0));
}
static int measure_kernel(void)
{
    return result(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}
static int start_uring(void)
{
    return result(syscall(SYS_io_uring_setup, 1, NULL));
}
static int fault_handler(void)
{
    return result(syscall(SYS_userfaultfd, 0));
}
static int use_keys(void)
{
    return result(syscall(SYS_keyctl, 0, -3, 0));
}

const struct act hostile_deadly[] = {
    ACT(exec_shell),      ACT(exec_itself), ACT(debug_parent),  ACT(read_parent),       ACT(write_parent),
    ACT(take_descriptor), ACT(be_root),     ACT(be_root_group), ACT(have_capabilities), ACT(new_namespace),
    ACT(other_namespace), ACT(mount_tmpfs), ACT(change_root),   ACT(open_handle),       ACT(load_bpf),
    ACT(measure_kernel),  ACT(start_uring), ACT(fault_handler), ACT(use_keys),          {0},
};
