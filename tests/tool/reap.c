/* reap [-g FILE] [-t FILE] SECONDS COMMAND [ARGUMENT...]: runs the command and leaves none of its processes:
 * no child and no grandchild, in any session or process group. On a timeout, or when a signal asks reap to
 * end, all of them get SIGTERM, then SIGKILL. A command that ends by itself and leaves processes behind has
 * failed.
 *   -g FILE  the time starts anew whenever FILE, the command's output, has grown: a limit of progress
 *   -t FILE  writes "USER SYSTEM" to FILE: the seconds of processor time of all these processes
 *
 * Exit status: the command's own, 128 + N if signal N ended it; 124 on a timeout; 125 if it has left
 * processes; 128 + N if signal N ended reap; 126 if reap itself failed. SECONDS 0: no limit. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_OVER = 124, LEFT = 125, BROKEN = 126, PROCESSES_MAX = 1 << 16 };

/* Seconds that processes left behind have to end by themselves, within the command's limit, and the time
 * between SIGTERM and SIGKILL. */
static const double wait_s = 60, grace_s = 10;
/* Polling interval. A first SIGTERM may be lost: a shell's child has the shell's handlers until its exec. */
static const double look_s = 0.1;

struct process {
    pid_t pid, parent;
    bool is_zombie, is_ours;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* /proc/PID/stat: "PID (NAME) STATE PARENT ...", and a name may hold parentheses. */
static bool process_read(struct process *p, const char *pid)
{
    char path[64], text[512], state = '?';
    const char *behind_name;
    int parent = 0;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    behind_name = strrchr(text, ')');
    if (!behind_name || sscanf(behind_name + 1, " %c %d", &state, &parent) != 2)
        return false;
    *p = (struct process){
        .pid = (pid_t)atol(pid), .parent = (pid_t)parent, .is_zombie = strchr("ZXx", state) != NULL};
    return true;
}

/* All processes; returns how many. */
static size_t process_list(struct process *list, size_t most)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    size_t n = 0;

    while (proc && n < most && (entry = readdir(proc)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            n += process_read(&list[n], entry->d_name);
    if (proc)
        closedir(proc);
    return n;
}

/* Marks all living descendants of this process; returns how many. Orphans become its children
 * (PR_SET_CHILD_SUBREAPER), so everything that the command has started descends from here. */
static size_t mark_ours(struct process *list, size_t n)
{
    bool has_changed = true;
    size_t n_ours = 0;

    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < n; i++) {
            bool is_ours = list[i].parent == getpid();

            for (size_t k = 0; k < n && !is_ours && !list[i].is_ours; k++)
                is_ours = list[k].is_ours && list[k].pid == list[i].parent;
            has_changed = has_changed || (is_ours && !list[i].is_ours);
            list[i].is_ours = list[i].is_ours || is_ours;
        }
    }
    for (size_t i = 0; i < n; i++)
        n_ours += list[i].is_ours && !list[i].is_zombie;
    return n_ours;
}

static void process_print(const struct process *p)
{
    char path[64], text[200];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)p->pid);
    f = fopen(path, "re");
    if (f) {
        n = fread(text, 1, sizeof text, f);
        fclose(f);
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = ' ';
    fprintf(stderr, "reap: process %ld is left: %.*s\n", (long)p->pid, (int)n, text);
}

enum { PRINT = -1 };

/* Prints the command's live processes, or sends each of them a signal (0: none); returns how many. */
static size_t look(int sig)
{
    static struct process list[PROCESSES_MAX];
    size_t n = process_list(list, PROCESSES_MAX), n_alive = mark_ours(list, n);

    for (size_t i = 0; i < n; i++) {
        if (!list[i].is_ours || list[i].is_zombie)
            continue;
        if (sig == PRINT)
            process_print(&list[i]);
        else
            kill(list[i].pid, sig);
    }
    return n_alive;
}

/* Reaps all children that have ended. True once the command is among them; its status is in *status. */
static bool has_ended(pid_t command, int *status)
{
    int one;
    bool has = false;

    for (;;) {
        pid_t pid = waitpid(-1, &one, WNOHANG);

        if (pid <= 0)
            return has;
        if (pid == command) {
            *status = one;
            has = true;
        }
    }
}

/* Waits until none is left or the time is over; sends `sig` (0: none) at each interval. */
static bool all_gone(double seconds, int sig)
{
    double until = now_s() + seconds;
    int status;

    for (;;) {
        has_ended(-1, &status);
        if (look(sig) == 0)
            return true;
        if (now_s() > until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = (long)(look_s * 1e9)}, NULL);
    }
}

static bool is_ignored(int sig)
{
    struct sigaction act;

    return sigaction(sig, NULL, &act) == 0 && act.sa_handler == SIG_IGN;
}

/* The signals that sigtimedwait waits for. A signal that was ignored at the start, as SIGHUP is under nohup,
 * stays ignored. */
static void make_watched(sigset_t *set)
{
    static const int asks_to_end[] = {SIGTERM, SIGINT, SIGHUP};

    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof asks_to_end / sizeof *asks_to_end; i++)
        if (!is_ignored(asks_to_end[i]))
            sigaddset(set, asks_to_end[i]);
}

static off_t size_of(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 ? st.st_size : 0;
}

/* Waits until the command has ended, its time is over or a signal arrived; returns an exit status if reap
 * must end it. */
static int wait_for(pid_t command, int *status, double seconds, const char *grows, const sigset_t *watched)
{
    double until = now_s() + seconds;
    off_t size = size_of(grows);

    while (!has_ended(command, status)) {
        double left = fmin(until - now_s(), 3600);
        int sig;

        if (left <= 0) {
            off_t grown = size_of(grows);

            if (grown == size)
                return TIME_OVER;
            size = grown;
            until = now_s() + seconds;
            continue;
        }
        sig = sigtimedwait(watched, NULL,
                           &(struct timespec){(time_t)left, (long)((left - floor(left)) * 1e9)});
        if (sig > 0 && sig != SIGCHLD)
            return 128 + sig;
    }
    return 0;
}

/* qemu-user 7.2 has neither option: there, orphans are not found, and reap may outlive its parent. */
static bool is_set(int option, unsigned long value)
{
    return prctl(option, value) == 0 || errno == EINVAL;
}

static pid_t start(char **argv, const sigset_t *before)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    sigprocmask(SIG_SETMASK, before, NULL);
    execvp(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

/* All children have been reaped, and their times include those of the children that they have reaped. */
static void times_write(const char *path)
{
    FILE *f = fopen(path, "we");
    struct rusage r;

    getrusage(RUSAGE_CHILDREN, &r);
    if (!f || fprintf(f, "%.2f %.2f\n", (double)r.ru_utime.tv_sec + 1e-6 * (double)r.ru_utime.tv_usec,
                      (double)r.ru_stime.tv_sec + 1e-6 * (double)r.ru_stime.tv_usec) < 0)
        perror(path);
    if (f)
        fclose(f);
}

int main(int argc, char **argv)
{
    const char *grows = NULL, *times = NULL;
    double seconds = -1;
    sigset_t watched, before;
    int status = 0, ended_by, option;
    pid_t command;

    while ((option = getopt(argc, argv, "+g:t:")) == 'g' || option == 't')
        *(option == 'g' ? &grows : &times) = optarg;
    if (option == -1 && argc - optind >= 2)
        seconds = atof(argv[optind++]);
    if (seconds < 0) {
        fprintf(stderr, "usage: reap [-g FILE] [-t FILE] SECONDS COMMAND [ARGUMENT...]\n");
        return BROKEN;
    }
    argv += optind;
    make_watched(&watched);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &watched, &before);
    if (!is_set(PR_SET_CHILD_SUBREAPER, 1) || (!is_ignored(SIGHUP) && !is_set(PR_SET_PDEATHSIG, SIGTERM)) ||
        (command = start(argv, &before)) < 0) {
        perror("reap");
        return BROKEN;
    }
    ended_by = wait_for(command, &status, seconds > 0 ? seconds : INFINITY, grows, &watched);
    if (ended_by == 0 && !all_gone(seconds > 0 ? fmin(seconds, wait_s) : wait_s, 0)) {
        look(PRINT);
        ended_by = LEFT;
    }
    if (ended_by != 0 && !all_gone(grace_s, SIGTERM) && !all_gone(grace_s, SIGKILL))
        look(PRINT);
    if (times)
        times_write(times);
    if (ended_by == TIME_OVER)
        fprintf(stderr, "reap: %s has not %s within %g s\n", argv[0], grows ? "gone on" : "ended", seconds);
    if (ended_by != 0)
        return ended_by;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
