#include "shared/base/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/process.h"

enum { ROUNDS = 50 };

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

/* Lists the processes that have ended, and were not waited for, or those that have not. Without memory the
 * list is incomplete. */
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

static bool has_descendant(const struct process_table *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].pid == pid)
            return t->entries[i].is_descendant;
    return false;
}

/* A parent may be listed after its child: repeats until nothing changes. */
static size_t mark(struct process_table *t, pid_t root, bool (*is_kept)(void *, pid_t), void *arg)
{
    size_t n_marked = 0, before;

    do {
        before = n_marked;
        for (size_t i = 0; i < t->n; i++) {
            struct process_entry *p = &t->entries[i];
            bool is_child = p->parent == root && !(is_kept && is_kept(arg, p->pid));

            if (p->is_descendant || p->pid == root || !(is_child || has_descendant(t, p->parent)))
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

size_t process_tree_kill(pid_t root, bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    struct process_table t = {0};
    size_t n;

    list_processes(&t, false);
    n = mark(&t, root, is_kept, arg);
    signal_all(&t, SIGSTOP);
    signal_all(&t, SIGKILL);
    free(t.entries);
    return n;
}

static void reap(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    struct process_table t = {0};

    list_processes(&t, true);
    for (size_t i = 0; i < t.n; i++)
        if (t.entries[i].parent == getpid() && !is_kept(arg, t.entries[i].pid))
            waitpid(t.entries[i].pid, NULL, WNOHANG);
    free(t.entries);
}

/* Waits for the children that have ended, up to one that is kept, and returns whether any child is left.
 * Asked before /proc is read, which takes longer, the more processes the machine has: most runners leave no
 * process but their monitor, which ends with them. */
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

void process_end_orphans(bool (*is_kept)(void *arg, pid_t child), void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000}; /* for the kernel to end those that were killed */
    bool is_done = false;

    for (int i = 0; i < ROUNDS && !is_done && has_child(is_kept, arg); i++) {
        is_done = process_tree_kill(getpid(), is_kept, arg) == 0;
        reap(is_kept, arg);
        if (!is_done)
            nanosleep(&pause, NULL);
    }
}
