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
#include <linux/netlink.h>
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
static int rename_out(void)
{
    return result(rename("acts.txt", "../acts.txt"));
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
/* The data socket and what else is open, to a port of this machine. */
static int net_elsewhere(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int rc = EPERM;

    for (int fd = 3; fd < 64; fd++)
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ||
            (errno != EPERM && errno != EBADF && errno != ENOTSOCK))
            rc = 0;
    return rc;
}
static int net_bind(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return result(bind(4, (struct sockaddr *)&at, sizeof at)); /* 4: the data socket */
}
static int net_listen(void)
{
    return result(listen(4, 1));
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
    ACT(write_etc),      ACT(write_tmp),       ACT(write_shm),     ACT(write_beside),    ACT(read_passwd),
    ACT(read_by_proc),   ACT(read_token),      ACT(read_agent_id), ACT(read_tls_key),    ACT(read_other_job),
    ACT(read_journal),   ACT(write_journal),   ACT(write_package), ACT(list_jobs),       ACT(list_root),
    ACT(make_symlink),   ACT(make_hardlink),   ACT(make_fifo),     ACT(make_folder),     ACT(make_setuid),
    ACT(rename_out),     ACT(device_mem),      ACT(device_kmsg),   ACT(parent_mem),      ACT(parent_environ),
    ACT(parent_root),    ACT(do_fork),         ACT(do_clone),      ACT(clone_namespace), ACT(do_clone3),
    ACT(outlive),        ACT(signal_parent),   ACT(signal_all),    ACT(signal_other),    ACT(signal_thread),
    ACT(signal_by_file), ACT(open_pidfd),      ACT(lower_others),  ACT(raise_limit),     ACT(raise_priority),
    ACT(real_time),      ACT(net_tcp),         ACT(net_tcp6),      ACT(net_udp),         ACT(net_packets),
    ACT(net_elsewhere),  ACT(memory_file),     ACT(net_bind),      ACT(net_listen),      ACT(net_link),
    ACT(net_raw),        ACT(net_packet),      ACT(net_vsock),     ACT(net_unix),        ACT(net_pair),
    ACT(share_memory),   ACT(take_memory),     ACT(share_segment), ACT(lock_memory),     ACT(large_file),
    ACT(be_dumpable),    ACT(end_with_parent), ACT(reap_others),   ACT(watch_files),     ACT(leave_session),
    ACT(secret_memory),  ACT(stolen_file),
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
