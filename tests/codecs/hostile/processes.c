/* Acts on processes: new ones, signals, limits and priorities, and facts about other processes. */
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "acts.h"

/* A child ends at once. */
static int child(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return result(pid);
}
static int do_fork(void)
{
    return child(fork());
}
static int do_clone(void)
{
    return child(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
static int clone_namespace(void)
{
    return child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}
static int do_clone3(void)
{
    unsigned long long args[8] = {0};

    args[4] = SIGCHLD;
    return child(syscall(SYS_clone3, args, sizeof args));
}
/* A thread that shares less with the others: it has its own table of descriptors, with a limit of its
 * own, its own folder, and a descriptor of a process. */
static int end_thread(void *arg)
{
    (void)arg;
    return (int)syscall(SYS_exit, 0);
}
static int thread_without(int shared, int more)
{
    enum { SIZE = 1 << 16 };
    static _Alignas(16) char stack[SIZE];
    static int fd;

    return result(clone(end_thread, stack + SIZE,
                        CLONE_VM | CLONE_SIGHAND | CLONE_THREAD |
                            ((CLONE_FILES | CLONE_FS | CLONE_SYSVSEM) & ~shared) | more,
                        NULL, &fd));
}
static int own_descriptors(void)
{
    return thread_without(CLONE_FILES, 0);
}
static int own_place(void)
{
    return thread_without(CLONE_FS, 0);
}
static int thread_descriptor(void)
{
    return thread_without(0, CLONE_PIDFD);
}
/* Children in sessions of their own, which outlive a process group. */
static int outlive(void)
{
    int why = 0, n = 0;

    for (int i = 0; i < 300; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            setsid();
            sleep(60);
            _exit(0);
        }
        n += pid > 0;
        why = pid < 0 ? errno : why;
    }
    return n > 0 ? 0 : why;
}
static int signal_parent(void)
{
    return result(kill(getppid(), SIGURG));
}
static int signal_all(void)
{
    return result(kill(-1, SIGURG));
}
static int signal_other(void)
{
    return result(kill(hostile_now->pid, SIGURG));
}
static int signal_thread(void)
{
    return result(syscall(SYS_tgkill, hostile_now->pid, hostile_now->pid, SIGURG));
}
static int signal_by_file(void)
{
    return result(fcntl(STDERR_FILENO, F_SETOWN, getppid()));
}
static int open_pidfd(void)
{
    return result(syscall(SYS_pidfd_open, getppid(), 0));
}
static int lower_others(void)
{
    struct rlimit cpu = {1000, 1000};

    return result(prlimit(hostile_now->pid, RLIMIT_CPU, &cpu, NULL));
}
static int raise_limit(void)
{
    struct rlimit l;

    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_max += l.rlim_max != RLIM_INFINITY;
    return result(setrlimit(RLIMIT_NOFILE, &l));
}
static int raise_priority(void)
{
    return result(setpriority(PRIO_PROCESS, 0, -10));
}
static int real_time(void)
{
    struct sched_param p = {.sched_priority = 1};

    return result(sched_setscheduler(0, SCHED_FIFO, &p));
}

/* The processors of another process, or of this one: a slot of the agent has some of them only. */
static int pin(int pid)
{
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    return result(sched_setaffinity(pid, sizeof first, &first));
}
static int pin_parent(void)
{
    return pin(getppid());
}
static int pin_other(void)
{
    return pin(hostile_now->pid);
}
static int widen_own(void)
{
    cpu_set_t own;

    return sched_getaffinity(0, sizeof own, &own) < 0 ? errno
                                                      : result(sched_setaffinity(0, sizeof own, &own));
}
/* Facts about other processes, above all whether one of that number exists. */
static int look_affinity(void)
{
    cpu_set_t theirs;

    return result(sched_getaffinity(hostile_now->pid, sizeof theirs, &theirs));
}
static int look_policy(void)
{
    return result(sched_getscheduler(hostile_now->pid));
}
static int look_parameters(void)
{
    struct sched_param p;

    return result(sched_getparam(hostile_now->pid, &p));
}
static int look_group(void)
{
    return result(getpgid(hostile_now->pid));
}
static int look_session(void)
{
    return result(getsid(hostile_now->pid));
}
static int look_priority(void)
{
    errno = 0;
    return getpriority(PRIO_PROCESS, (id_t)hostile_now->pid) == -1 ? errno : 0;
}
static int look_io_priority(void)
{
    return result(syscall(SYS_ioprio_get, 1, hostile_now->pid));
}
static int look_limits(void)
{
    struct rlimit l;

    return result(prlimit(hostile_now->pid, RLIMIT_CPU, NULL, &l));
}
static int look_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = hostile_now->pid};
    struct __user_cap_data_struct theirs[2];

    return result(syscall(SYS_capget, &head, theirs));
}
static int look_robust_list(void)
{
    void *head;
    size_t len;

    return result(syscall(SYS_get_robust_list, hostile_now->pid, &head, &len));
}
/* To wait for a lock of another thread: ESRCH if there is none. */
static int look_lock(int operation)
{
    const struct timespec soon = {0, 1000000};
    int word = hostile_now->pid;
    long rc = syscall(SYS_futex, &word, operation, 0, &soon, NULL, 0);

    return rc < 0 && (errno == EPERM || errno == ENOSYS) ? errno : 0;
}
static int look_lock_owner(void)
{
    return look_lock(FUTEX_LOCK_PI);
}
static int look_lock_private(void)
{
    return look_lock(FUTEX_LOCK_PI_PRIVATE);
}
static int look_lock_try(void)
{
    return look_lock(FUTEX_TRYLOCK_PI);
}
static int look_lock_again(void)
{
    enum { LOCK_PI2 = 13 }; /* since Linux 5.14 */

    return look_lock(LOCK_PI2);
}
static int move_memory(void)
{
    unsigned long from = 1, to = 1;

    return result(syscall(SYS_migrate_pages, hostile_now->pid, 8 * sizeof from, &from, &to));
}
static int queue_signal(void)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};

    return result(syscall(SYS_rt_sigqueueinfo, hostile_now->pid, SIGURG, &info));
}
/* A process that has stopped does nothing until its job's time limit. The signals that can be ignored come
 * first: they show what the last would do. */
static int stop_itself(void)
{
    static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGSTOP};

    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        signal(stops[i], SIG_IGN);
        if (kill(getpid(), stops[i]) == 0 || raise(stops[i]) == 0 ||
            syscall(SYS_kill, getpid(), 1L << 40 | stops[i]) == 0 ||
            syscall(SYS_tkill, getpid(), stops[i]) == 0)
            return 0;
    }
    return errno;
}

static int be_dumpable(void)
{
    return result(prctl(PR_SET_DUMPABLE, 1));
}
static int end_with_parent(void)
{
    return result(prctl(PR_SET_PDEATHSIG, 0));
}
static int reap_others(void)
{
    return result(prctl(PR_SET_CHILD_SUBREAPER, 1));
}
static int leave_session(void)
{
    return result(setsid());
}

const struct act hostile_processes[] = {
    ACT(do_fork),
    ACT(do_clone),
    ACT(clone_namespace),
    ACT(do_clone3),
    ACT(outlive),
    ACT(signal_parent),
    ACT(signal_all),
    ACT(signal_other),
    ACT(signal_thread),
    ACT(signal_by_file),
    ACT(open_pidfd),
    ACT(lower_others),
    ACT(raise_limit),
    ACT(raise_priority),
    ACT(real_time),
    ACT(be_dumpable),
    ACT(end_with_parent),
    ACT(reap_others),
    ACT(leave_session),
    ACT(pin_parent),
    ACT(pin_other),
    ACT(widen_own),
    ACT(look_affinity),
    ACT(look_policy),
    ACT(look_parameters),
    ACT(look_group),
    ACT(look_session),
    ACT(look_priority),
    ACT(look_io_priority),
    ACT(look_limits),
    ACT(look_capabilities),
    ACT(look_robust_list),
    ACT(move_memory),
    ACT(queue_signal),
    ACT(stop_itself),
    ACT(own_descriptors),
    ACT(own_place),
    ACT(thread_descriptor),
    ACT(look_lock_owner),
    ACT(look_lock_private),
    ACT(look_lock_try),
    ACT(look_lock_again),
    {0},
};
