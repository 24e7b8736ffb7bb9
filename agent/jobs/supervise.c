#include "agent/jobs/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/compat.h"
#include "shared/base/compiler.h"
#include "shared/base/file.h"
#include "shared/base/process.h"
#include "shared/records/artifacts.h"

enum { CONTROL_FD = 3, DATA_FD = 4, GATE_FD = 5, LAUNCHER_FD = 6, PROGRAM_FD = 7 };

enum {
    FILES_OF_ITS_OWN = 256, /* records and data files, unauthenticated connections to its data socket,
                             * shared memory */
    FILES_LEAST = 1024
};

/* Limits how much of the disk a codec that logs in a loop can fill with one file. */
static const rlim_t runner_max_file_bytes = (rlim_t)4 << 30;

extern char **environ;

static bool sets(const char *entry, const char *name)
{
    size_t len = strlen(name);

    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static bool is_kept(const char *entry)
{
    return sets(entry, "PATH") || sets(entry, "LANG") || sets(entry, "GLIBC_TUNABLES") ||
           sets(entry, "CUDA_VISIBLE_DEVICES") ||
           (strncmp(entry, "OPENBLAS_", strlen("OPENBLAS_")) == 0 && !sets(entry, "OPENBLAS_NUM_THREADS"));
}

/* Of the environment that a launcher's MPI needs. */
static bool is_replaced(const char *entry)
{
    return sets(entry, "OPENBLAS_NUM_THREADS") || sets(entry, "PMI_FD");
}

/* The descriptor by which the launcher talks to an MPI; -1: none. */
static int launcher_fd(const struct runner_plan *plan)
{
    const char *text = plan->is_of_launcher ? getenv("PMI_FD") : NULL;
    int fd = text ? atoi(text) : -1;

    return fd > STDERR_FILENO && fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

static bool is_set(char *const env[], const char *name)
{
    while (*env && !sets(*env, name))
        env++;
    return *env;
}

/* Returns the runner's environment: only what the dynamic loader, locale and OpenBLAS use, and which GPUs
 * a training program may use. Its temporary files are in its folder. It begins with one thread: its
 * sandbox must come before the others, whose number is a setting of the job. Unless the agent's
 * environment sets otherwise, it copies memory without `rep movsb`, which on AMD's Zen 3 and 4 takes
 * fourteen times as long if the target begins a few bytes after the source, modulo 4,096 (docs/engine.md). */
static char **runner_environment(const struct runner_plan *plan, int launcher)
{
    static char pmi[sizeof "PMI_FD=" + 12];
    static char one_thread[] = "OPENBLAS_NUM_THREADS=1", here[] = "TMPDIR=.",
                plain_copies[] = "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=2147483647";
    size_t n = 0, n_out = 0;
    char **out;

    while (environ[n])
        n++;
    out = calloc(n + 5, sizeof *out);
    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (plan->is_of_launcher ? !is_replaced(environ[i]) : is_kept(environ[i]))
            out[n_out++] = environ[i];
    out[n_out++] = one_thread;
    if (!is_set(out, "GLIBC_TUNABLES"))
        out[n_out++] = plain_copies;
    if (!plan->is_of_launcher)
        out[n_out++] = here;
    snprintf(pmi, sizeof pmi, "PMI_FD=%d", LAUNCHER_FD);
    if (launcher >= 0)
        out[n_out++] = pmi;
    return out;
}

/* Duplicates a descriptor to its final number; numbers from 10 up were made free of clashes before. */
static bool move_fd(int fd, int at)
{
    return dup2(fd, at) == at;
}

static bool open_standard_files(const char *run_dir)
{
    int in = open("/dev/null", O_RDONLY);
    int log;

    if (chdir(run_dir) < 0 || in < 0)
        return false;
    log = open(artifact_name(ARTIFACT_LOG), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    return log >= 0 && move_fd(in, STDIN_FILENO) && move_fd(log, STDOUT_FILENO) &&
           move_fd(log, STDERR_FILENO);
}

/* The hard limit remains the agent's, so that the runner's monitor can start a training program without the
 * limits that are for codecs. The job process lowers it before it loads one (shared/sandbox/sandbox.c). */
static bool lower_limit(int what, rlim_t most)
{
    struct rlimit l;

    if (getrlimit((unsigned)what, &l) < 0)
        return false;
    l.rlim_cur = l.rlim_max < most ? l.rlim_max : most;
    return setrlimit((unsigned)what, &l) == 0;
}

/* RLIMIT_DATA counts a process's private memory: its heap, its stacks, its private writable mappings.
 * Files mapped read-only do not count; for memory that nodes share, its monitor lowers the limit. A
 * sanitizer build has terabytes of private mappings from the start. */
static bool limit_memory(uint64_t most)
{
    return most == 0 || IS_SANITIZED || lower_limit(RLIMIT_DATA, most);
}

uint64_t runner_files(int n_nodes)
{
    uint64_t n = FILES_OF_ITS_OWN + 2 * (uint64_t)n_nodes;

    return n > FILES_LEAST ? n : FILES_LEAST;
}

static void forget_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        sigaction(s, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool take_limits(const struct runner_plan *plan)
{
    return (!plan->processors || sched_setaffinity(0, sizeof *plan->processors, plan->processors) == 0) &&
           lower_limit(RLIMIT_CORE, 0) && lower_limit(RLIMIT_NOFILE, plan->max_files) &&
           lower_limit(RLIMIT_FSIZE, runner_max_file_bytes) &&
           (plan->max_cpu_s == 0 || lower_limit(RLIMIT_CPU, plan->max_cpu_s)) &&
           limit_memory(plan->max_memory) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* Moves it to its final number; if there is none, -1, closes what has that number. */
static bool move_optional(int fd, int at)
{
    if (fd < 0)
        close(at);
    return fd < 0 || move_fd(fd, at);
}

/* Closes all other descriptors of the agent; exec closes the gate. `launcher` and `program` may be -1. */
static bool move_descriptors(int control, int data, int gate, int launcher, int program)
{
    if (!move_fd(control, CONTROL_FD) || !move_fd(data, DATA_FD) || !move_fd(gate, GATE_FD) ||
        fcntl(GATE_FD, F_SETFD, FD_CLOEXEC) < 0 || !move_optional(launcher, LAUNCHER_FD) ||
        !move_optional(program, PROGRAM_FD))
        return false;
    compat_close_from(PROGRAM_FD + 1, false);
    return true;
}

/* End of file: the agent has ended, and no process knows this child. */
static void await_go(void)
{
    char go;

    if (read(GATE_FD, &go, 1) != 1)
        _exit(0);
}

/* In the child, between fork and exec: ends only by exec or _exit. */
static void become_runner(const struct runner_plan *plan, int control, int gate, int launcher, char **env)
{
    int safe_control = fcntl(control, F_DUPFD, 10), safe_gate = fcntl(gate, F_DUPFD, 10);
    int safe_data = fcntl(plan->data_fd, F_DUPFD, 10);
    int safe_launcher = launcher < 0 ? -1 : fcntl(launcher, F_DUPFD, 10);
    int safe_program = plan->program_fd > 0 ? fcntl(plan->program_fd, F_DUPFD, 10) : -1;
    char *argv[] = {(char *)(uintptr_t) "job_runner", NULL};
    int why;

    forget_signals();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* its monitor finds all that it has started */
    if (setsid() >= 0 && open_standard_files(plan->run_dir) &&
        move_descriptors(safe_control, safe_data, safe_gate, safe_launcher, safe_program)) {
        safe_gate = GATE_FD;
        /* Set after the other descriptors are closed: some of their numbers could be beyond the limit. */
        if (take_limits(plan)) {
            await_go();
            execve(plan->exe, argv, env);
        }
    }
    why = errno;
    if (write(safe_gate, &why, sizeof why) < 0)
        _exit(127);
    _exit(127);
}

/* Orders are written to the control pipe; the gate lets the runner exec, and returns errno if that fails.
 * control[0] and gate[1] are the runner's ends. */
struct channels {
    int control[2], gate[2];
};

static int open_channels(struct channels *l, struct err *e)
{
    if (pipe2(l->control, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->gate) < 0) {
        err_errno(e, ERR_IO, "socketpair");
        close(l->control[0]);
        close(l->control[1]);
        return e->code;
    }
    fcntl(l->control[1], F_SETFL, O_NONBLOCK);
    return 0;
}

/* Gets what distinguishes this process from a later one with the same pid. ERR_IO: the process has been
 * ended. */
static int identify(struct runner *r, struct err *e)
{
    struct process now;
    pid_t pid = r->pid;
    bool is_hidden;

    r->pidfd = compat_pidfd_open(pid);
    if (r->pidfd >= 0 && process_look(&now, pid)) {
        r->start_ticks = now.start_ticks;
        return 0;
    }
    is_hidden = r->pidfd >= 0 && errno == ENOENT;
    err_call(e, ERR_IO, CALL_THREAD, "process %d cannot be watched", (int)pid);
    if (is_hidden)
        err_set(e, ERR_IO,
                "/proc hides the agent's own processes (mounted with hidepid, or ProtectProc of a service)");
    runner_clear(r); /* closes the gate: the child ends */
    waitpid(pid, NULL, 0);
    return e->code;
}

int runner_fork(struct runner *r, const struct runner_plan *plan, struct err *e)
{
    int launcher = launcher_fd(plan);
    char **env = runner_environment(plan, launcher);
    struct channels l;
    pid_t pid;

    if (!env)
        return err_set(e, ERR_NOMEM, "no memory for job_runner's environment");
    if (open_channels(&l, e) < 0) {
        free(env);
        return e->code;
    }
    pid = fork();
    if (pid == 0)
        become_runner(plan, l.control[0], l.gate[1], launcher, env);
    if (pid < 0)
        err_call(e, ERR_IO, CALL_FORK, "fork");
    free(env);
    close(l.control[0]);
    close(l.gate[1]);
    *r = (struct runner){.pid = pid,
                         .pidfd = -1,
                         .control_fd = l.control[1],
                         .gate_fd = l.gate[0],
                         .is_child = true,
                         .max_memory = plan->max_memory};
    if (pid > 0)
        return identify(r, e);
    runner_clear(r);
    return e->code;
}

int runner_go(struct runner *r, const char *exe, struct err *e)
{
    int why = 0;
    ssize_t n;

    /* A child that could not prepare itself has written why and ended, perhaps before this signal: it is read
     * even if the signal cannot be sent. End of file means success: exec closed the other end. */
    n = send(r->gate_fd, "g", 1, MSG_NOSIGNAL);
    if (n == 1 || errno == EPIPE)
        do
            n = recv(r->gate_fd, &why, sizeof why, MSG_WAITALL);
        while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ECONNRESET) /* it was killed: its end is found by pidfd */
        n = 0;
    close(r->gate_fd);
    r->gate_fd = -1;
    if (n == 0)
        return 0;
    errno = n == (ssize_t)sizeof why ? why : errno;
    err_errno(e, ERR_IO, "%s", exe);
    waitpid(r->pid, NULL, 0);
    runner_clear(r);
    return e->code;
}

int runner_adopt(struct runner *r, pid_t pid, uint64_t start_ticks, struct err *e)
{
    int fd = compat_pidfd_open(pid);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    struct process now;

    /* The start time is read while the descriptor is held: the pid can no longer become another
     * process's. */
    if (fd < 0 || !process_look(&now, pid) || now.start_ticks != start_ticks || poll(&ended, 1, 0) > 0) {
        if (fd >= 0)
            close(fd);
        return err_set(e, ERR_NOT_FOUND, "process %d is gone", (int)pid);
    }
    *r = (struct runner){
        .pid = pid, .start_ticks = start_ticks, .pidfd = fd, .control_fd = -1, .gate_fd = -1};
    return 0;
}

/* Orders hold the job's key. */
static void forget_orders(struct runner *r)
{
    if (r->unsent)
        explicit_bzero(r->unsent, r->n_unsent);
    free(r->unsent);
    r->unsent = NULL;
    r->n_unsent = 0;
}

static int keep_order(struct runner *r, const char *line, size_t len, struct err *e)
{
    char *all = malloc(r->n_unsent + len);

    if (!all)
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of orders", len);
    if (r->unsent)
        memcpy(all, r->unsent, r->n_unsent);
    memcpy(all + r->n_unsent, line, len);
    len += r->n_unsent;
    forget_orders(r);
    r->unsent = all;
    r->n_unsent = len;
    return 0;
}

int runner_order(struct runner *r, const char *line, size_t len, struct err *e)
{
    ssize_t n = 0;

    if (r->control_fd < 0)
        return err_set(e, ERR_INTERNAL, "the pipe to job_runner is closed");
    if (r->n_unsent == 0)
        n = write(r->control_fd, line, len);
    if (n < 0 && errno == EPIPE)
        return err_set(e, ERR_NOT_FOUND, "job_runner has just ended");
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return err_errno(e, ERR_IO, "the pipe to job_runner");
    n = n < 0 ? 0 : n;
    return (size_t)n == len ? 0 : keep_order(r, line + n, len - (size_t)n, e);
}

bool runner_flush(struct runner *r)
{
    ssize_t n = 0;

    if (r->n_unsent > 0)
        n = write(r->control_fd, r->unsent, r->n_unsent);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0 || (size_t)n == r->n_unsent) {
        forget_orders(r);
        return true;
    }
    r->n_unsent -= (size_t)n;
    memmove(r->unsent, r->unsent + n, r->n_unsent);
    explicit_bzero(r->unsent + r->n_unsent, (size_t)n);
    return false;
}

void runner_signal(const struct runner *r, int signal)
{
    struct process now;

    if (r->pid <= 1)
        return;
    /* init may have reaped the dead leader of an adopted group, and its pid may have been reused since. */
    if (!r->is_child && process_look(&now, r->pid) && now.start_ticks != r->start_ticks)
        return;
    kill(-r->pid, signal);
}

void runner_ask(const struct runner *r, int signal)
{
    struct process now;

    if (r->pid > 1 && process_look(&now, r->pid) && now.start_ticks == r->start_ticks)
        kill(r->pid, signal);
}

/* Adds the peak memory: a codec that allocates without end seldom checks the result, and ends by a signal
 * that does not show the cause. */
static void add_memory(char *how, size_t size, uint64_t had, uint64_t most)
{
    size_t n = strlen(how);

    if (most > 0 && had > most / 2 && n < size)
        snprintf(how + n, size - n, "; it used %.1f GiB of memory, of the %.1f GiB that a job may use here",
                 (double)had / 0x1p30, (double)most / 0x1p30);
}

void runner_reap(struct runner *r, char *how, size_t size)
{
    struct rusage use = {0};
    int status;

    if (r->gate_fd >= 0) { /* it has not reached exec: this ends it */
        close(r->gate_fd);
        r->gate_fd = -1;
    }
    runner_signal(r, SIGKILL); /* before the leader is reaped: until then its pid cannot be reused */
    if (!r->is_child)
        snprintf(how, size,
                 "job_runner ended; its exit status is unknown, the agent was restarted meanwhile");
    else if (wait4(r->pid, &status, 0, &use) < 0)
        snprintf(how, size, "job_runner ended; its exit status is unknown: %s", strerror(errno));
    else if (WIFEXITED(status))
        snprintf(how, size, "job_runner exited with status %d", WEXITSTATUS(status));
    else
        snprintf(how, size, "job_runner was killed by signal %d (%s)%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGSYS ? ": its codec made a call that no codec may make" : "");
    add_memory(how, size, (uint64_t)use.ru_maxrss << 10, r->max_memory);
    runner_clear(r);
}

void runner_clear(struct runner *r)
{
    if (r->pid) {
        int fds[] = {r->pidfd, r->control_fd, r->gate_fd};

        for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
    forget_orders(r);
    *r = (struct runner){0};
}
