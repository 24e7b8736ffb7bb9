#include "shared/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/compat.h"

enum { N_FDS = 4, FIRST_FREE = 16 };

/* Resets the signal handlers of this program, and SIGPIPE, which it ignores. Other ignored signals were
 * inherited, e.g. from nohup, and stay ignored. */
static void drop_handlers(void)
{
    struct sigaction has;

    for (int s = 1; s < NSIG; s++)
        if (s == SIGPIPE || (sigaction(s, NULL, &has) == 0 && has.sa_handler != SIG_IGN))
            signal(s, SIG_DFL);
}

/* The parent-death signal is kept across exec. A compiler removes its temporary files on SIGTERM; a codec
 * may ignore it. */
static void begin_child(pid_t parent, bool is_foreign)
{
    if (is_foreign)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, is_foreign ? SIGKILL : SIGTERM);
    if (getppid() != parent) /* the parent ended before the line above */
        _exit(127);
    drop_handlers();
    if (is_foreign) /* a terminal with tostop would silently stop a writer from another group */
        signal(SIGTTOU, SIG_IGN);
}

int child_fork(struct child *c, bool is_foreign, struct err *e)
{
    pid_t parent = getpid();

    *c = (struct child){.pid = fork(), .fd = -1, .is_foreign = is_foreign};
    if (c->pid < 0)
        return err_call(e, ERR_IO, CALL_FORK, "fork");
    if (c->pid == 0) {
        begin_child(parent, is_foreign);
        return 1;
    }
    if (is_foreign) /* in the parent as well, so that the group exists before any signal to it */
        setpgid(c->pid, c->pid);
    c->fd = compat_pidfd_open(c->pid);
    if (c->fd >= 0)
        return 0;
    err_call(e, ERR_IO, CALL_THREAD, "process %d cannot be watched", (int)c->pid);
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return e->code;
}

/* Never more than this process' own limit. */
static struct rlimit at_most(uint64_t most, struct rlimit own)
{
    rlim_t max = own.rlim_max < most ? own.rlim_max : (rlim_t)most;

    return (struct rlimit){max, max};
}

static void set_limits(const struct child_how *how)
{
    struct rlimit cpu, memory;

    if (getrlimit(RLIMIT_CPU, &cpu) < 0 || getrlimit(RLIMIT_AS, &memory) < 0)
        return;
    if (how->cpu_s > 0)
        cpu = at_most((uint64_t)how->cpu_s, cpu);
    if (how->memory_size > 0)
        memory = at_most(how->memory_size, memory);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_AS, &memory);
}

static int above_targets(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);

    if (high < 0 && errno == EINVAL) /* FIRST_FREE is beyond the limit of descriptors */
        errno = EMFILE;
    return high;
}

/* Duplicates all descriptors above their targets first, then to the targets: any of them may have the
 * number of another's target. */
static int set_descriptors(const struct child_how *how)
{
    const int wanted[N_FDS] = {-1, how->out, how->err, how->extra > 0 ? how->extra : -1};
    int n = how->extra > 0 ? N_FDS : N_FDS - 1;
    int high[N_FDS];

    for (int i = 0; i < n; i++) {
        high[i] = above_targets(wanted[i]);
        if (high[i] < 0 && errno == EBADF) /* no descriptor was given, or it is closed */
            high[i] = above_targets(open("/dev/null", i == STDIN_FILENO ? O_RDONLY : O_WRONLY));
        if (high[i] < 0)
            return -1;
    }
    for (int i = 0; i < n; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    compat_close_from(n, true);
    return how->kept >= N_FDS ? fcntl(how->kept, F_SETFD, 0) : 0;
}

/* In the child, between fork and exec. */
static _Noreturn void become(const struct child_how *how, int gate)
{
    int high_gate = above_targets(gate), why;

    gate = high_gate < 0 ? gate : high_gate;
    if (high_gate >= 0 && set_descriptors(how) == 0 && (!how->folder || chdir(how->folder) == 0) &&
        (!how->confine || how->confine(how->confine_arg) == 0)) {
        set_limits(how); /* last, because a sanitizer's own memory is beyond them until exec */
        execvp(how->argv[0], how->argv);
    }
    why = errno;
    _exit(write(gate, &why, sizeof why) < 0 ? 126 : 127);
}

int child_start(struct child *c, const struct child_how *how, struct err *e)
{
    int gate[2], why = 0, rc;
    ssize_t n;

    if (pipe2(gate, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    rc = child_fork(c, how->is_foreign, e);
    if (rc > 0)
        become(how, gate[1]);
    close(gate[1]);
    /* End of file means success: exec closed the other end. */
    do
        n = rc == 0 ? read(gate[0], &why, sizeof why) : 0;
    while (n < 0 && errno == EINTR);
    close(gate[0]);
    if (n <= 0)
        return rc;
    child_wait(c);
    errno = why;
    return err_errno(e, ERR_IO, "cannot run %s", how->argv[0]);
}

int child_adopt(struct child *c, int fd)
{
    struct ucred maker;
    socklen_t len = sizeof maker;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &len) < 0)
        return -1;
    *c = (struct child){.pid = maker.pid, .fd = compat_pidfd_open(maker.pid)};
    return c->fd < 0 ? -1 : 0;
}

int child_wait(struct child *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int status = 0;

    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    if (c->is_foreign) /* before waitpid(): until then no other group can get its number */
        kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(c->fd);
    *c = (struct child){.fd = -1};
    return status;
}

int child_end(struct child *c, double grace_s)
{
    pid_t target = c->is_foreign ? -c->pid : c->pid;
    double until = clock_now() + grace_s, left = grace_s;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    if (grace_s > 0)
        kill(target, SIGTERM);
    while (left > 0 && poll(&p, 1, (int)(left * 1e3) + 1) <= 0)
        left = until - clock_now();
    kill(target, SIGKILL); /* harmless if it has ended */
    return child_wait(c);
}
