/* job_runner -- one node of one job. The agent starts it with the control pipe on fd 3 and the listening
 * data socket on fd 4 in the job's working folder (docs/protocol.md §2). With --job DIR, which a launcher or
 * a user gives, it becomes the program that does an agent's part for one node (agent/folder/folder_node.h),
 * and that starts it again as its runner. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec_events.h"
#include "codecs/executor.h"
#include "nn/kernels/blas.h"
#include "runner/executor/node_execute.h"
#include "runner/mesh/frame.h"
#include "runner/mesh/tcp/tcp_dial.h"
#include "runner/monitor/monitor.h"
#include "runner/node.h"
#include "runner/trainer/node_trainer.h"
#include "shared/base/file.h"
#include "shared/base/helper.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "shared/sandbox/sandbox.h"

/* If memory runs out, the kernel kills this process before others, above all before the agent. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, "500", 3) != 3)
        fprintf(stderr, "cannot set oom_score_adj\n");
    if (fd >= 0)
        close(fd);
}

/* The node's folder and machine, for the message of a full disk; read before the sandbox forbids it. */
static char folder[512], machine[256];

static void find_place(void)
{
    if (!getcwd(folder, sizeof folder))
        snprintf(folder, sizeof folder, "the node's folder");
    gethostname(machine, sizeof machine - 1);
}

static int report_failure(struct report *r, const char *reason, const struct err *failure)
{
    const struct report_ending *of_code = report_ending(failure->code);
    const char *state = reason ? "failed" : of_code->state;
    const char *why = reason ? reason : of_code->reason;
    struct err with_place, *e = &with_place;

    *e = *failure;
    if (e->code == ERR_NOSPACE)
        err_set(e, ERR_NOSPACE, "%s; free space on the disk of %s on %s", failure->text, folder, machine);
    if (e->code == ERR_CANCELLED) /* SIGTERM carries no reason: the agent sends it for a time limit, too */
        fprintf(stderr, "%s; the agent's log has the reason\n", e->text);
    else
        fprintf(stderr, "%s: %s\n", why, e->text);
    if (e->hint[0])
        fprintf(stderr, "hint: %s\n", e->hint);
    report_end(r, state, why, e->text);
    return 1;
}

static void announce_engine(struct report *r, const char *warning)
{
    char engine[200];

    blas_describe(engine, sizeof engine);
    report_engine(r, engine);
    fprintf(stderr, "computes with %s\n", engine);
    if (warning)
        report_warn(r, warning);
}

static json_t *facts_json(void)
{
    char engine[200];

    blas_describe(engine, sizeof engine);
    return json_pack("{s:o, s:i, s:i}", "engine", json_text(engine, sizeof engine), "codec_abi", CODEC_ABI,
                     "frame_version", FRAME_VERSION);
}

/* Takes `o`. Returns the exit status. */
static int print_line(json_t *o)
{
    char *line = o ? json_line(o) : NULL;

    if (line)
        fputs(line, stdout);
    json_decref(o);
    free(line);
    return line && fflush(stdout) == 0 ? 0 : 1;
}

static const char *kind_of(const struct node *n)
{
    return n->set.executor ? "executor" : "codec";
}

static const char *name_of(const struct node *n)
{
    return n->set.executor ? n->codec.executor->name : n->codec.plugin->name;
}

static int connect_and_work(struct node *n, struct orders *orders, struct err *e)
{
    struct orders_start start;
    int rc;

    if (orders_read_start(orders, &start, &node_interrupted, e) < 0)
        return e->code == ERR_LOST ? monitor_explain_end(n->monitor, e) : e->code;
    if (node_connect(n, &start, ORDERS_LISTEN_FD, e) < 0) {
        orders_start_clear(&start);
        return e->code;
    }
    orders_start_clear(&start);
    fprintf(stderr, "connected to %zu node%s\n", n->n_peers, n->n_peers == 1 ? "" : "s");
    rc = n->executing       ? n->execution->run(n, e)
         : n->program       ? n->training->run(n, e)
         : n->job.node >= 0 ? node_train(n, e)
                            : node_serve(n, e);
    phase_enter(n->monitor->watch, PHASE_COMPUTE); /* an error may have left a call of the codec */
    if (rc < 0 || node_finish(n, e) < 0)
        return e->code;
    return n->program ? n->training->end(n, false, e) : 0;
}

/* A monitor that was killed, or hangs, counts as a runner that was killed. What else has failed follows from
 * that. */
static int end_node(struct node *n, const char *reason, const struct err *e)
{
    struct err ignored, why = *e;
    int status;

    if (n->program)
        n->training->stop(n, e);
    if (n->monitor->is_lost)
        monitor_explain_loss(n->monitor, &why);
    status = report_failure(n->report, n->monitor->is_lost ? REASON_RUNNER_DIED : reason, &why);
    if (n->program)
        n->training->end(n, true, &ignored);
    return status;
}

/* Runs the node from its packages to the end of the job, and reports the end. Returns the exit status. */
static int run_node(struct node *n, struct orders *orders, const char *warning)
{
    const char *reason = NULL;
    struct err e = {0}, also;

    if (node_prepare(n, &reason, &e) < 0)
        return end_node(n, reason, &e);
    announce_engine(n->report, warning);
    data_key_make(&n->data_key);
    if (report_ready(n->report, n->codec_sha256, n->net ? net_n_params(n->net) : 0, n->data_key.published,
                     &e) < 0)
        return report_failure(n->report, NULL, &e);
    fprintf(stderr, "ready: %s %s, %zu parameters\n", kind_of(n), name_of(n),
            n->net ? net_n_params(n->net) : 0);
    if (connect_and_work(n, orders, &e) < 0) {
        node_flush_records(n, &also); /* the rows so far are written before the end is reported */
        node_close_trace(n);
        return end_node(n, NULL, &e);
    }
    report_end(n->report, "succeeded", NULL, "all steps are done");
    return 0;
}

static void handle_signals(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    node_handle_stop_signals();
    sigaction(SIGPIPE, &ignore, NULL);
    node_handle_snapshot_signal();
    sigaction(SIGXFSZ, &ignore, NULL); /* a write beyond the file size limit then fails, as on a full disk */
}

/* `job_runner --isolation`: what this kernel allows this user. */
static int print_isolation(void)
{
    struct sandbox s;
    struct err e;

    if (sandbox_enter(&s, -1, ISOLATION_NONE, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    return print_line(sandbox_json(&s));
}

/* Without --job only the agent starts it, and a person who asks for help means a job folder. */
static bool is_of_folder(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return true;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--job") == 0 || strncmp(argv[i], "--job=", 6) == 0)
            return true;
    return false;
}

/* The process stays the launcher's own, so that it gets the launcher's signals. */
static int become_rank(int argc, char **argv)
{
    char dir[PATH_MAX - 16], exe[PATH_MAX], verb[] = "rank", **args = calloc((size_t)argc + 2, sizeof *args);
    struct err e;

    if (!args)
        err_set(&e, ERR_NOMEM, "no memory for %d arguments", argc);
    if (!args || file_exe_dir(dir, sizeof dir, &e) < 0) {
        fprintf(stderr, "job_runner: %s\n", e.text);
        free(args);
        return 1;
    }
    snprintf(exe, sizeof exe, "%s/agent", dir);
    args[0] = argv[0];
    args[1] = verb;
    memcpy(args + 2, argv + 1, (size_t)(argc - 1) * sizeof *args);
    execv(exe, args);
    fprintf(stderr, "job_runner: %s: %s; it is installed beside job_runner\n", exe, strerror(errno));
    free(args);
    return 1;
}

int main(int argc, char **argv)
{
    static struct node n; /* static: a failed node's mesh stays open, and reachable, until the process ends */
    const char *warning;
    struct monitor monitor;
    struct report report;
    struct orders orders;
    struct err e = {0};
    int status;

    if (is_of_folder(argc, argv))
        return become_rank(argc, argv);
    warning = blas_choose_core();
    if (argc == 2 && strcmp(argv[1], "--isolation") == 0)
        return print_isolation();
    if (argc == 2 && strcmp(argv[1], "--about") == 0)
        return print_line(facts_json());
    if (argc > 1 || fcntl(ORDERS_FD, F_GETFD) < 0 || fcntl(ORDERS_LISTEN_FD, F_GETFD) < 0)
        return helper_main(argc, argv, "job_runner", "the agent, or with --job DIR by a launcher");
    if (report_open(&report, &e) < 0 ||
        monitor_start(&monitor, ORDERS_FD, ORDERS_LISTEN_FD, &report, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    tcp_learn_system();
    offer_to_oom_killer(); /* this process, not its monitor */
    handle_signals();
    find_place();
    n.execution = &node_execute;
    n.training = &node_trainer;
    n.report = &report;
    n.monitor = &monitor;
    orders_open(&orders, monitor.orders_fd);
    if (orders_read_job(&orders, &n.job, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    if (n.job.program_runs) /* the monitor has it, and passes it on when it is wanted */
        close(ORDERS_PROGRAM_FD);
    fprintf(stderr, "job %s, attempt %d, node %d (%s), pid %ld\n", n.job.job, n.job.attempt, n.job.node,
            n.job.role, (long)getpid());
    status = run_node(&n, &orders, warning);
    node_clear(&n);
    orders_close(&orders);
    report_close(&report);
    monitor_allow_exit();
    phase_call(monitor.watch, PHASE_APPLY, STOPWATCH_UNLOAD);
    return status;
}
