/* hostile -- tries what a codec must not be able to do, when it is opened: all gentle acts one after the
 * other, or one of the deadly ones, which may end the process, so that each needs a job of its own.
 *
 * The verdicts are lines of acts.txt in the run folder: "NAME tries" before an act, then "NAME refused WHY"
 * or "NAME SUCCEEDED". An act returns 0 if it has succeeded, else errno; it undoes what it has done, and its
 * signals are SIGURG, which does nothing to a process that does not expect it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec.h"
#include "executor.h"

struct hostile {
    int act, pid; /* pid: of another process of the agent's user */
};

static const struct hostile *now;

/* What a system call returned, as the result of an act. */
static int result(long rc)
{
    return rc < 0 ? errno : 0;
}

static int opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    close(fd);
    if (flags & O_CREAT)
        unlink(path);
    return 0;
}

static int lists(const char *path)
{
    DIR *d = opendir(path);

    return d ? closedir(d) : errno;
}

static int opens_of_parent(const char *name, int flags)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)getppid(), name);
    return opens(path, flags);
}

/* Makes something in the run folder that is not a regular file. */
static int made(long rc, const char *name)
{
    int why = errno;

    unlink(name);
    return rc < 0 ? why : 0;
}

/* In the agent's folder, of which the run folder is jobs/ID/run. */
static int write_etc(void)
{
    return opens("/etc/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_tmp(void)
{
    return opens("/tmp/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_shm(void)
{
    return opens("/dev/shm/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_beside(void)
{
    return opens("../hostile", O_WRONLY | O_CREAT);
}
static int read_passwd(void)
{
    return opens("/etc/passwd", O_RDONLY);
}
static int read_by_proc(void)
{
    return opens("/proc/self/root/etc/passwd", O_RDONLY);
}
static int read_token(void)
{
    return opens("../../../token", O_RDONLY);
}
static int read_agent_id(void)
{
    return opens("../../../id", O_RDONLY);
}
static int read_tls_key(void)
{
    return opens("../../../tls.key", O_RDONLY);
}
static int read_other_job(void)
{
    return opens("../../j-other000/run/secret", O_RDONLY);
}
static int read_journal(void)
{
    return opens("../journal.jsonl", O_RDONLY);
}
static int write_journal(void)
{
    return opens("../journal.jsonl", O_WRONLY | O_APPEND);
}
static int write_package(void)
{
    return opens("../packages/settings.json", O_WRONLY);
}
static int list_jobs(void)
{
    return lists("../..");
}
static int list_root(void)
{
    return lists("/");
}
static int make_symlink(void)
{
    return made(symlink("/etc/passwd", "metrics.csv"), "metrics.csv");
}
static int make_hardlink(void)
{
    return made(link("node.log", "metrics.csv"), "metrics.csv");
}
static int make_fifo(void)
{
    return made(mkfifo("metrics.csv", 0600), "metrics.csv");
}
static int make_folder(void)
{
    return mkdir("folder", 0700) < 0 ? errno : rmdir("folder");
}
static int make_setuid(void)
{
    return result(chmod("acts.txt", 04755));
}
/* Of a new file, without chmod(). */
static int make_setuid_anew(void)
{
    int fd = open("metrics.csv", O_WRONLY | O_CREAT | O_CLOEXEC, 06755), why = result(fd);

    close(fd);
    unlink("metrics.csv");
    return why;
}
static int make_setuid_old_call(void)
{
    return made(syscall(SYS_creat, "metrics.csv", 06755), "metrics.csv");
}
static int make_setuid_unnamed(void)
{
    int fd = open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 06755), why = result(fd);

    close(fd);
    return why;
}
/* rename() that leaves a character device, of an overlay file system, in its place. */
static int make_device(void)
{
    enum { WHITEOUT = 4 };
    int fd = open("renamed", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    long rc = syscall(SYS_renameat2, AT_FDCWD, "renamed", AT_FDCWD, "metrics.csv", WHITEOUT);
    int why = made(rc, "metrics.csv");

    close(fd);
    unlink("renamed");
    return why;
}
static int rename_out(void)
{
    int why = result(rename("acts.txt", "../acts.txt"));

    rename("../acts.txt", "acts.txt");
    return why;
}
/* Whether there is a file, and what it is; Landlock does not forbid to ask. */
static int ask_stat(void)
{
    struct stat st;

    return result(stat("/etc/passwd", &st));
}
static int ask_statx(void)
{
    struct statx st;

    return result(statx(AT_FDCWD, "/etc/passwd", 0, STATX_SIZE, &st));
}
static int ask_access(void)
{
    return result(access("/etc/passwd", F_OK));
}
static int ask_path(void)
{
    return opens("/etc/passwd", O_PATH);
}
static int ask_size(void)
{
    struct statfs st;

    return result(statfs("/etc", &st));
}
static int ask_link(void)
{
    char to[64];

    return result(readlink("/etc/mtab", to, sizeof to));
}
static int ask_above(void)
{
    struct stat st;

    return result(stat("../../../id", &st));
}
static int ask_process(void)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d", now->pid);
    return opens(path, O_PATH);
}
/* By folders that are open, of which one could be of another tree. */
static int ask_by_folder(void)
{
    struct stat st;
    int rc = ENOENT;

    for (int fd = 0; fd < 1024; fd++)
        if (fstatat(fd, "../../../id", &st, 0) == 0)
            rc = 0;
    return rc;
}
/* Where chdir() has succeeded, it undoes that. */
static int go_elsewhere(void)
{
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int why = result(chdir("/etc"));

    if (here < 0 || fchdir(here) < 0)
        why = 0;
    close(here);
    return why;
}
static int go_above(void)
{
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), why;
    struct stat st;

    /* Of a tree of its own there are folders above this one, which are empty. */
    why = chdir("../../..") < 0 ? errno : result(stat("id", &st));
    if (here < 0 || fchdir(here) < 0)
        why = 0;
    close(here);
    return why;
}

/* To the size that it has. */
static int truncate_outside(void)
{
    struct stat st = {0};

    stat("../journal.jsonl", &st);
    return result(truncate("../journal.jsonl", st.st_size));
}
static int device_mem(void)
{
    return opens("/dev/mem", O_RDONLY);
}
static int device_kmsg(void)
{
    return opens("/dev/kmsg", O_RDWR);
}
static int parent_mem(void)
{
    return opens_of_parent("mem", O_RDWR);
}
static int parent_environ(void)
{
    return opens_of_parent("environ", O_RDONLY);
}
static int parent_root(void)
{
    return opens_of_parent("root/etc/passwd", O_RDONLY);
}

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
/* A thread with what the others do not have: a table of descriptors, which has a limit of its own, a
 * folder, a descriptor of a process. */
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
    return result(kill(now->pid, SIGURG));
}
static int signal_thread(void)
{
    return result(syscall(SYS_tgkill, now->pid, now->pid, SIGURG));
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

    return result(prlimit(now->pid, RLIMIT_CPU, &cpu, NULL));
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
    return pin(now->pid);
}
static int widen_own(void)
{
    cpu_set_t own;

    return sched_getaffinity(0, sizeof own, &own) < 0 ? errno
                                                      : result(sched_setaffinity(0, sizeof own, &own));
}
/* What calls tell of other processes, above all whether there is one of that number. */
static int look_affinity(void)
{
    cpu_set_t theirs;

    return result(sched_getaffinity(now->pid, sizeof theirs, &theirs));
}
static int look_policy(void)
{
    return result(sched_getscheduler(now->pid));
}
static int look_parameters(void)
{
    struct sched_param p;

    return result(sched_getparam(now->pid, &p));
}
static int look_group(void)
{
    return result(getpgid(now->pid));
}
static int look_session(void)
{
    return result(getsid(now->pid));
}
static int look_priority(void)
{
    errno = 0;
    return getpriority(PRIO_PROCESS, (id_t)now->pid) == -1 ? errno : 0;
}
static int look_io_priority(void)
{
    return result(syscall(SYS_ioprio_get, 1, now->pid));
}
static int look_limits(void)
{
    struct rlimit l;

    return result(prlimit(now->pid, RLIMIT_CPU, NULL, &l));
}
static int look_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = now->pid};
    struct __user_cap_data_struct theirs[2];

    return result(syscall(SYS_capget, &head, theirs));
}
static int look_robust_list(void)
{
    void *head;
    size_t len;

    return result(syscall(SYS_get_robust_list, now->pid, &head, &len));
}
/* To wait for a lock of another thread: ESRCH if there is none. */
static int look_lock(int operation)
{
    const struct timespec soon = {0, 1000000};
    int word = now->pid;
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

    return result(syscall(SYS_migrate_pages, now->pid, 8 * sizeof from, &from, &to));
}
static int queue_signal(void)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};

    return result(syscall(SYS_rt_sigqueueinfo, now->pid, SIGURG, &info));
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

static int has_socket(int family, int type, int protocol)
{
    int fd = socket(family, type, protocol);

    return fd < 0 ? errno : close(fd);
}
static int net_link(void)
{
    return has_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}
static int net_tcp(void)
{
    return has_socket(AF_INET, SOCK_STREAM, 0);
}
static int net_tcp6(void)
{
    return has_socket(AF_INET6, SOCK_STREAM, 0);
}
static int net_udp(void)
{
    return has_socket(AF_INET, SOCK_DGRAM, 0);
}
static int net_packets(void)
{
    return has_socket(AF_UNIX, SOCK_SEQPACKET, 0);
}

enum { DATA_FD = 4 }; /* the data socket, which listens */

/* A port of this machine. */
static const struct sockaddr_in elsewhere = {
    .sin_family = AF_INET, .sin_port = 256 /* 1 */, .sin_addr.s_addr = 0x0100007f /* 127.0.0.1 */};
static struct iovec one_byte = {(void *)(uintptr_t) "x", 1};
static const struct msghdr to_elsewhere = {.msg_name = (void *)(uintptr_t)&elsewhere,
                                           .msg_namelen = sizeof elsewhere,
                                           .msg_iov = &one_byte,
                                           .msg_iovlen = 1};

/* By each socket that is open. Any error but EPERM comes from a socket that has tried. */
static int by_any_socket(long (*call)(int fd))
{
    int rc = EPERM;

    for (int fd = 3; fd < 64; fd++)
        if (call(fd) >= 0 || (errno != EPERM && errno != EBADF && errno != ENOTSOCK))
            rc = 0;
    return rc;
}
static long connect_to(int fd)
{
    return connect(fd, (const struct sockaddr *)&elsewhere, sizeof elsewhere);
}
static int net_elsewhere(void)
{
    return by_any_socket(connect_to);
}
/* Data with a connection's first packet, tcp(7), from a socket that is not connected: the data socket after
 * shutdown(), or one of a connection that has failed. */
static long send_fast(int fd)
{
    return sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (const struct sockaddr *)&elsewhere,
                  sizeof elsewhere);
}
static int net_fast(void)
{
    return by_any_socket(send_fast);
}
static long send_fast_message(int fd)
{
    return sendmsg(fd, &to_elsewhere, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_message(void)
{
    return by_any_socket(send_fast_message);
}
static long send_fast_messages(int fd)
{
    struct mmsghdr m[1] = {{.msg_hdr = to_elsewhere}};

    return sendmmsg(fd, m, 1, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_messages(void)
{
    return by_any_socket(send_fast_messages);
}
/* The kernel ignores the upper half of the register that holds the flags. */
static long send_fast_wide(int fd)
{
    return syscall(SYS_sendto, fd, "x", 1, 1L << 40 | MSG_FASTOPEN | MSG_NOSIGNAL, &elsewhere,
                   sizeof elsewhere);
}
static int net_fast_wide(void)
{
    return by_any_socket(send_fast_wide);
}
static long send_message_wide(int fd)
{
    return syscall(SYS_sendmsg, fd, &to_elsewhere, 1L << 40 | MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_message_wide(void)
{
    return by_any_socket(send_message_wide);
}
static long send_to(int fd)
{
    return sendto(fd, "x", 1, MSG_NOSIGNAL, (const struct sockaddr *)&elsewhere, sizeof elsewhere);
}
static int net_address(void)
{
    return by_any_socket(send_to);
}
/* As connect() to no address does it. */
static long disconnect(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    return connect(fd, &none, sizeof none);
}
static int net_disconnect(void)
{
    return by_any_socket(disconnect);
}
static int net_shutdown(void)
{
    return result(shutdown(DATA_FD, SHUT_RDWR));
}
static int sets(int level, int option, const void *value, socklen_t size)
{
    return result(setsockopt(DATA_FD, level, option, value, size));
}
static int net_filter(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffff)};
    const struct sock_fprog program = {1, all};

    return sets(SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}
static int net_filter_port(void)
{
    struct sock_filter first[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {1, first};

    return sets(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
static int net_fast_connect(void)
{
    const int on = 1;

    return sets(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on);
}
static int net_repair(void)
{
    const int on = 1;

    return sets(IPPROTO_TCP, TCP_REPAIR, &on, sizeof on);
}
static int net_protocol(void)
{
    return sets(IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls");
}
static int net_device(void)
{
    return sets(SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo");
}
static int net_buffer(void)
{
    const int bytes = 64 << 20;

    return sets(SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}
static int net_bind(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return result(bind(DATA_FD, (struct sockaddr *)&at, sizeof at));
}
static int net_listen(void)
{
    return result(listen(DATA_FD, 1));
}
static int net_raw(void)
{
    return has_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}
static int net_packet(void)
{
    return has_socket(AF_PACKET, SOCK_RAW, 0);
}
static int net_vsock(void)
{
    return has_socket(AF_VSOCK, SOCK_STREAM, 0);
}
static int net_unix(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/private"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), why;

    if (fd < 0)
        return errno;
    why = result(connect(fd, (struct sockaddr *)&at, sizeof at));
    close(fd);
    return why;
}
static int net_pair(void)
{
    int fds[2];

    return result(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

/* Memory that no limit of private memory counts. */
static int memory_file(void)
{
    return result(memfd_create("hostile", 0));
}
static int share_memory(void)
{
    return mmap(NULL, (size_t)3 << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int take_memory(void)
{
    return mmap(NULL, (size_t)3 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int map(int flags)
{
    return mmap(NULL, (size_t)2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int grow_down(void)
{
    return map(MAP_GROWSDOWN);
}
static int huge_pages(void)
{
    return map(MAP_HUGETLB | MAP_NORESERVE);
}
static int share_segment(void)
{
    return result(shmget(IPC_PRIVATE, 1 << 20, 0600));
}
static int lock_memory(void)
{
    return result(mlock(now, sizeof *now));
}
/* A file of 8 GiB, most of which is a hole. */
static int large_file(void)
{
    int fd = open("large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : result(ftruncate(fd, (off_t)8 << 30));

    if (fd >= 0)
        close(fd);
    unlink("large");
    return why;
}

/* Room beyond a file's end, which the limit of its size does not count. */
static int reserve_disk(void)
{
    int fd = open("reserved", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : result(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)5 << 30));

    if (fd >= 0)
        close(fd);
    unlink("reserved");
    return why;
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
static int watch_files(void)
{
    return result(inotify_init());
}
static int leave_session(void)
{
    return result(setsid());
}
static int secret_memory(void)
{
    enum { CALL_MEMFD_SECRET = 447 }; /* since Linux 5.14 */

    return result(syscall(CALL_MEMFD_SECRET, 0));
}

/* A descriptor of a regular file or folder elsewhere than in the job's folder was left open. */
static int stolen_file(void)
{
    char here[4096], link[64], at[4096];
    int rc = EBADF;
    size_t n;

    if (!getcwd(here, sizeof here))
        return errno;
    n = strlen(here) - strlen("/run"); /* the job's folder */
    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;
        ssize_t len;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        len = readlink(link, at, sizeof at - 1);
        if (len < 0 || fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
            continue;
        at[len] = '\0';
        /* Figures about memory are read from /proc and /sys, the codec from a copy in memory. */
        if (strncmp(at, here, n) != 0 && strncmp(at, "/proc/", 6) != 0 && strncmp(at, "/sys/", 5) != 0 &&
            strncmp(at, "/memfd:psgd", 11) != 0)
            rc = 0;
    }
    return rc;
}

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
    struct iovec v = {(void *)(uintptr_t)now, sizeof *now};

    return result(process_vm_readv(getppid(), &v, 1, &v, 1, 0));
}
static int write_parent(void)
{
    struct iovec v = {(void *)(uintptr_t)now, sizeof *now};

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

struct act {
    const char *name;
    int (*run)(void);
};
#define ACT(name)                                                                                            \
    {                                                                                                        \
#name, name                                                                                          \
    }

static const struct act gentle[] = {
    ACT(write_etc),
    ACT(write_tmp),
    ACT(write_shm),
    ACT(write_beside),
    ACT(read_passwd),
    ACT(read_by_proc),
    ACT(read_token),
    ACT(read_agent_id),
    ACT(read_tls_key),
    ACT(read_other_job),
    ACT(read_journal),
    ACT(write_journal),
    ACT(write_package),
    ACT(list_jobs),
    ACT(list_root),
    ACT(make_symlink),
    ACT(make_hardlink),
    ACT(make_fifo),
    ACT(make_folder),
    ACT(make_setuid),
    ACT(rename_out),
    ACT(device_mem),
    ACT(device_kmsg),
    ACT(parent_mem),
    ACT(parent_environ),
    ACT(parent_root),
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
    ACT(net_tcp),
    ACT(net_tcp6),
    ACT(net_udp),
    ACT(net_packets),
    ACT(net_elsewhere),
    ACT(memory_file),
    ACT(net_bind),
    ACT(net_listen),
    ACT(net_link),
    ACT(net_raw),
    ACT(net_packet),
    ACT(net_vsock),
    ACT(net_unix),
    ACT(net_pair),
    ACT(share_memory),
    ACT(take_memory),
    ACT(share_segment),
    ACT(lock_memory),
    ACT(large_file),
    ACT(be_dumpable),
    ACT(end_with_parent),
    ACT(reap_others),
    ACT(watch_files),
    ACT(leave_session),
    ACT(secret_memory),
    ACT(stolen_file),
    ACT(net_fast),
    ACT(net_fast_message),
    ACT(net_fast_messages),
    ACT(net_fast_wide),
    ACT(net_fast_message_wide),
    ACT(net_address),
    ACT(net_disconnect),
    ACT(net_shutdown),
    ACT(net_filter),
    ACT(net_filter_port),
    ACT(net_fast_connect),
    ACT(net_repair),
    ACT(net_protocol),
    ACT(net_device),
    ACT(net_buffer),
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
    ACT(ask_stat),
    ACT(ask_statx),
    ACT(ask_access),
    ACT(ask_path),
    ACT(ask_size),
    ACT(ask_link),
    ACT(ask_above),
    ACT(ask_process),
    ACT(ask_by_folder),
    ACT(go_elsewhere),
    ACT(go_above),
    ACT(reserve_disk),
    ACT(grow_down),
    ACT(huge_pages),
    ACT(truncate_outside),
    ACT(make_setuid_anew),
    ACT(make_setuid_old_call),
    ACT(make_setuid_unnamed),
    ACT(make_device),
    ACT(own_descriptors),
    ACT(own_place),
    ACT(thread_descriptor),
    ACT(look_lock_owner),
    ACT(look_lock_private),
    ACT(look_lock_try),
    ACT(look_lock_again),
};

static const struct act deadly[] = {
    ACT(exec_shell),      ACT(exec_itself), ACT(debug_parent),  ACT(read_parent),       ACT(write_parent),
    ACT(take_descriptor), ACT(be_root),     ACT(be_root_group), ACT(have_capabilities), ACT(new_namespace),
    ACT(other_namespace), ACT(mount_tmpfs), ACT(change_root),   ACT(open_handle),       ACT(load_bpf),
    ACT(measure_kernel),  ACT(start_uring), ACT(fault_handler), ACT(use_keys),
};

enum { N_GENTLE = sizeof gentle / sizeof *gentle, N_DEADLY = sizeof deadly / sizeof *deadly };

static const struct codec_option options[] = {
    CODEC_OPTION(struct hostile, act, 0, 0, N_DEADLY, "0: all gentle acts; else the number of a deadly one"),
    CODEC_OPTION(struct hostile, pid, 1, 1, 1 << 30, "of another process of the agent's user"),
    {0},
};

static void attempt(const struct act *a, int fd)
{
    int why;

    dprintf(fd, "%s tries\n", a->name);
    why = a->run();
    if (why == 0)
        dprintf(fd, "%s SUCCEEDED\n", a->name);
    else
        dprintf(fd, "%s refused %s\n", a->name, strerror(why));
}

/* False: errno. */
static bool act_as(struct hostile *h)
{
    int fd = open("acts.txt", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    now = h;
    if (now->act > 0)
        attempt(&deadly[now->act - 1], fd);
    for (int i = 0; now->act == 0 && i < N_GENTLE; i++)
        attempt(&gentle[i], fd);
    close(fd);
    return true;
}

static int hostile_open(struct codec *c)
{
    return act_as(c->state) ? CODEC_GO : codec_fail(c, "acts.txt: %s", strerror(errno));
}

static int hostile_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events hostile = {.on_step = hostile_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "hostile", .source = "a test", .state_size = sizeof(struct hostile), .options = options,
             .open = hostile_open, .events = &hostile)

/* The same as an executor, with `act` and `pid` as arguments. */
static int hostile_run(struct executor *x)
{
    static struct hostile h;

    h.act = x->n_args > 0 ? atoi(x->args[0]) : 0;
    h.pid = x->n_args > 1 ? atoi(x->args[1]) : 1;
    return act_as(&h) ? 0 : x->host->fail(x, "acts.txt: %s", strerror(errno));
}

EXECUTOR_PLUGIN(.name = "hostile", .run = hostile_run)
