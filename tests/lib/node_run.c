#include "tests/lib/node_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/unit/unit.h"

void loop_for(double seconds)
{
    double until = clock_now() + seconds;
    volatile int busy = 1;

    while (clock_now() < until)
        (void)busy;
}

void block_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

void node_run_start(struct node_run *r, const char *log, void (*act)(struct node_process *),
                    struct node_process n)
{
    int control[2], data = open("/dev/null", O_RDONLY);
    char run[UNIT_FOLDER + 8];
    struct err e;

    *r = (struct node_run){.folder = unit_folder()};
    snprintf(run, sizeof run, "%s/run", r->folder);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(pipe2(control, O_CLOEXEC), 0);
    r->control = control[1];
    r->pid = fork();
    if (r->pid == 0) {
        setsid();
        close(control[1]);
        if (chdir(run) < 0 || report_open(&n.report, &e) < 0 || !freopen(log, "w", stderr) ||
            setvbuf(stderr, NULL, _IONBF, 0) != 0 ||
            monitor_start(&n.monitor, control[0], data, &n.report, &e) < 0)
            _exit(98);
        act(&n);
        _exit(7);
    }
    close(control[0]);
    close(data);
    assert_true(r->pid > 0);
}

void node_run_give(const struct node_run *r, const char *orders)
{
    assert_int_equal(write(r->control, orders, strlen(orders)), strlen(orders));
}

static void read_text(char **out, const char *folder, const char *name)
{
    enum { MOST = 32 << 20 };
    char path[128];
    struct err e;
    size_t len;

    snprintf(path, sizeof path, "%s/run/%s", folder, name);
    assert_ok(file_read(out, &len, path, MOST, &e));
}

void node_run_finish(struct node_run *r, const char *log)
{
    assert_int_equal(waitpid(r->pid, &r->status, 0), r->pid);
    if (r->control >= 0)
        close(r->control);
    read_text(&r->events, r->folder, "events.jsonl");
    if (log[0] != '/')
        read_text(&r->log, r->folder, log);
    unit_remove(r->folder);
}

void node_run_clear(struct node_run *r)
{
    free(r->events);
    free(r->log);
}

bool node_run_was_killed(const struct node_run *r)
{
    return WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGKILL;
}

struct orders node_process_read_start(struct node_process *n)
{
    static const atomic_bool never = false;
    struct orders_start s;
    struct orders_job job;
    struct orders o;
    struct err e;

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &job, &e) < 0 || orders_read_start(&o, &s, &never, &e) < 0)
        _exit(99);
    fprintf(stderr, "%s %zu %g", job.job, s.peers.n, job.time_limit_s);
    orders_start_clear(&s);
    return o;
}
