#include "shared/base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 50, LISTED_MAX = 16, LISTED_ROUNDS = 50 };

int process_open(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool process_read(struct process *out, int fd)
{
    unsigned long long ticks;
    char buf[1024], *p, state;
    long n_threads;
    int parent;
    ssize_t n = pread(fd, buf, sizeof buf - 1, 0);

    if (n < 0)
        return false;
    buf[n] = '\0';
    /* The second field is the program's name and may contain ')': search for the last one. */
    p = strrchr(buf, ')');
    if (!p || sscanf(p + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                     &state, &parent, &n_threads, &ticks) != 4) {
        errno = EPROTO;
        return false;
    }
    /* The state is that of its first thread, which may end before the others. */
    *out = (struct process){.start_ticks = ticks,
                            .parent = parent,
                            .has_ended = strchr("ZXx", state) && n_threads <= 1,
                            .is_stopped = strchr("Tt", state)};
    return true;
}

bool process_look(struct process *out, pid_t pid)
{
    int fd = process_open(pid);
    bool is_there = fd >= 0 && process_read(out, fd);

    if (fd >= 0)
        close(fd);
    return is_there;
}

void process_boot(char out[PROCESS_BOOT])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, PROCESS_BOOT - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

int process_open_status(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Adds a line of a status file, "RssAnon:\t    1148 kB". */
static void take_line(struct process_memory *m, const char *line, bool *has_memory)
{
    const struct {
        const char *name;
        uint64_t *sum;
    } of[] = {
        {"RssAnon:", &m->private_bytes}, {"VmSwap:", &m->private_bytes}, {"HugetlbPages:", &m->private_bytes},
        {"VmPTE:", &m->table_bytes},     {"VmPMD:", &m->table_bytes},    {"VmData:", &m->data_bytes},
        {"VmStk:", &m->data_bytes}};
    const char *colon = strchr(line, ':');
    uint64_t value = colon ? strtoull(colon + 1, NULL, 10) : 0;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strncmp(line, of[i].name, strlen(of[i].name)) == 0) {
            *of[i].sum += value << 10;
            *has_memory = true;
        }
    if (strncmp(line, "Threads:", 8) == 0)
        m->n_threads = (int)value;
}

/* Reads in parts: the line "Groups:" alone can have hundreds of kilobytes. A line that is longer than the
 * buffer is skipped. */
static bool read_status(struct process_memory *out, int fd)
{
    struct process_memory m = {0};
    bool has_memory = false;
    char buf[4096];
    size_t kept = 0;
    off_t at = 0;
    ssize_t n;

    while ((n = pread(fd, buf + kept, sizeof buf - 1 - kept, at)) > 0) {
        char *line = buf, *end;

        at += n;
        kept += (size_t)n;
        buf[kept] = '\0';
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            take_line(&m, line, &has_memory);
        }
        kept = kept == sizeof buf - 1 && line == buf ? 0 : kept - (size_t)(line - buf);
        memmove(buf, line, kept);
    }
    if (n == 0 && has_memory)
        *out = m;
    else if (n == 0)
        errno = ESRCH;
    return n == 0 && has_memory;
}

/* The first thread may end before the others, and has no memory then. */
static bool read_any_thread(struct process_memory *out, pid_t pid)
{
    char path[64];
    const struct dirent *thread;
    bool is_found = false;
    DIR *all;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    all = opendir(path);
    while (all && !is_found && (thread = readdir(all))) {
        int fd;

        if (thread->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/status", (int)pid, thread->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        is_found = fd >= 0 && read_status(out, fd);
        if (fd >= 0)
            close(fd);
    }
    if (all)
        closedir(all);
    if (!is_found)
        errno = ESRCH;
    return is_found;
}

bool process_memory(struct process_memory *out, int fd, pid_t pid)
{
    return read_status(out, fd) || (errno == ESRCH && read_any_thread(out, pid));
}

struct process_entry {
    pid_t pid, parent;
    bool is_descendant;
};

struct process_table {
    struct process_entry *entries;
    size_t n, size;
};

static bool add_process(struct process_table *t, struct process_entry new)
{
    if (t->n == t->size) {
        size_t size = t->size ? 2 * t->size : 256;
        struct process_entry *more = realloc(t->entries, size * sizeof *more);

        if (!more)
            return false;
        t->entries = more;
        t->size = size;
    }
    t->entries[t->n++] = new;
    return true;
}

/* Lists the processes that have ended and were not waited for, or else those that have not ended. If memory
 * is short the list is incomplete. */
static void list_processes(struct process_table *t, bool have_ended)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;

    while (proc && (d = readdir(proc)) != NULL) {
        pid_t pid = isdigit((unsigned char)d->d_name[0]) ? (pid_t)atoi(d->d_name) : 0;
        struct process p;

        if (pid > 0 && process_look(&p, pid) && p.has_ended == have_ended &&
            !add_process(t, (struct process_entry){.pid = pid, .parent = p.parent}))
            break;
    }
    if (proc)
        closedir(proc);
}

static bool is_marked(const struct process_table *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].pid == pid)
            return t->entries[i].is_descendant;
    return false;
}

/* A parent may be listed after its child: repeats until nothing changes. */
static size_t mark_descendants(struct process_table *t, pid_t root, bool (*is_kept)(void *, pid_t), void *arg)
{
    size_t n_marked = 0, before;

    do {
        before = n_marked;
        for (size_t i = 0; i < t->n; i++) {
            struct process_entry *p = &t->entries[i];
            bool is_child = p->parent == root && !(is_kept && is_kept(arg, p->pid));

            if (p->is_descendant || p->pid == root || !(is_child || is_marked(t, p->parent)))
                continue;
            p->is_descendant = true;
            n_marked++;
        }
    } while (n_marked > before);
    return n_marked;
}

static void signal_all(const struct process_table *t, int signal)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].is_descendant)
            kill(t->entries[i].pid, signal);
}

size_t process_kill_descendants(pid_t root, bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    struct process_table t = {0};
    size_t n;

    list_processes(&t, false);
    n = mark_descendants(&t, root, is_kept, arg);
    signal_all(&t, SIGSTOP);
    signal_all(&t, SIGKILL);
    free(t.entries);
    return n;
}

static void wait_for_ended(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    struct process_table t = {0};

    list_processes(&t, true);
    for (size_t i = 0; i < t.n; i++)
        if (t.entries[i].parent == getpid() && !is_kept(arg, t.entries[i].pid))
            waitpid(t.entries[i].pid, NULL, WNOHANG);
    free(t.entries);
}

/* Waits for the children that have ended, up to the first that is kept, and returns whether any child is
 * left. It is called before /proc is read, which takes long on a machine with many processes: most runners
 * leave no process but their monitor, which ends with them. */
static bool has_child(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    siginfo_t ended;

    do {
        ended.si_pid = 0;
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0)
            return errno != ECHILD;
    } while (ended.si_pid > 0 && !is_kept(arg, ended.si_pid) && waitpid(ended.si_pid, NULL, WNOHANG) > 0);
    return true;
}

/* Kills the children that the kernel lists for this thread, which takes no longer on a machine with thousands
 * of processes, and waits briefly until they have ended: mostly one, a monitor that has not ended yet. The
 * list may lack some (proc(5)), and there is none where the kernel has no CONFIG_PROC_CHILDREN. */
static void end_listed_children(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pid_t killed[LISTED_MAX];
    FILE *list = fopen("/proc/thread-self/children", "re");
    size_t n = 0;
    long pid;

    while (list && n < LISTED_MAX && fscanf(list, "%ld", &pid) == 1)
        if (!is_kept(arg, (pid_t)pid) && kill((pid_t)pid, SIGKILL) == 0)
            killed[n++] = (pid_t)pid;
    if (list)
        fclose(list);
    for (int i = 0; n > 0 && i < LISTED_ROUNDS; i++) {
        if (waitpid(killed[n - 1], NULL, WNOHANG) != 0)
            n--;
        else
            nanosleep(&pause, NULL);
    }
}

void process_end_orphans(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000}; /* so that the kernel ends the killed processes */
    bool is_done = false;

    if (has_child(is_kept, arg))
        end_listed_children(is_kept, arg);
    for (int i = 0; i < ROUNDS_MAX && !is_done && has_child(is_kept, arg); i++) {
        is_done = process_kill_descendants(getpid(), is_kept, arg) == 0;
        wait_for_ended(is_kept, arg);
        if (!is_done)
            nanosleep(&pause, NULL);
    }
}
