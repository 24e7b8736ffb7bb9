/* monitor_trainer -- the job's training program, as a child of the monitor: its folder, its start, its end.
 *
 * Its folder is beside the node's, which is the monitor's working directory:
 *
 *   ../trainer/program/   the files of the package, and what the program makes; its working directory
 *   ../trainer/tmp/       $TMPDIR; removed when the program has ended
 *
 * The job process cannot open it in its sandbox. The agent removes it with the job.
 *
 * The program has a process group of its own, so that the agent's signals to the node do not reach it. It
 * ends with the monitor (PR_SET_PDEATHSIG). Processes that it has started become the monitor's children when
 * it ends (PR_SET_CHILD_SUBREAPER), and are killed then, whatever their group or session.
 *
 * A program that a launcher has started, and that has started the node (agent/folder/folder_node.h), is no
 * child of the monitor, which only watches its end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/process.h"
#include "shared/job/model_spec.h"
#include "shared/job/reason.h"
#include "shared/job/settings.h"
#include "shared/sandbox/sandbox.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_package.h"

static const char package_path[] = "../packages/" TRAINER_PACKAGE_NAME,
                  settings_path[] = "../packages/settings.json", folder_path[] = "../trainer",
                  program_path[] = "../trainer/program", temporary_path[] = "../trainer/tmp";

/* A job process that waits for the program sees the end of its socket at once, asks, and reports the
 * program's end in its own order. One that waits for something else, or is in a codec's call, does not. */
static const double UNASKED_S = 0.3, ASKED_S = 5;
static const double EXPLAIN_S = 1; /* in which a program ends that has closed its socket */
static const double END_S = 1;     /* between two looks of a job process that waits for the end */

/* The start: in the child, between fork and exec. */

/* What the program's process gets besides the command. */
struct program_setup {
    char temporary[PATH_MAX]; /* folder; "": the system's */
    int n_threads;            /* 0: as many as its libraries choose */
    bool is_confined;
    uid_t user; /* 0: the agent's */
    struct trainer_places places;
    char own[PATH_MAX], installation[PATH_MAX], environment[PATH_MAX], modules[PATH_MAX]; /* of places */
};

/* The monitor ignores some signals, which a program would inherit. */
static void restore_signals(void)
{
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The agent's limits of private memory and of the size of a file (agent/jobs/supervise.c) are for codecs: a
 * training program may reserve any amount of memory, and writes files of its own. Its hard limits are those
 * of the agent's own process. The limits of processor time, which counts for each process, and of descriptors
 * remain. Those of threads, locked memory and message queues are set in the job process only
 * (shared/sandbox/sandbox.c). */
static bool lift_limits(void)
{
    static const int of_codecs[] = {RLIMIT_DATA, RLIMIT_FSIZE};
    struct rlimit l;

    for (size_t i = 0; i < sizeof of_codecs / sizeof *of_codecs; i++) {
        if (getrlimit((unsigned)of_codecs[i], &l) < 0)
            return false;
        l.rlim_cur = l.rlim_max;
        if (setrlimit((unsigned)of_codecs[i], &l) < 0)
            return false;
    }
    return true;
}

/* OPENBLAS_NUM_THREADS is 1 for the runner, whose sandbox must come before its threads. Libraries keep files
 * in the user's home, which a confined program cannot open. */
static bool set_environment(const struct program_setup *s)
{
    char n[16];

    snprintf(n, sizeof n, "%d", s->n_threads);
    return trainer_command_set_environment(NULL) == 0 && unsetenv("OPENBLAS_NUM_THREADS") == 0 &&
           (s->n_threads == 0 || setenv("OMP_NUM_THREADS", n, 1) == 0) &&
           (!s->is_confined || setenv("HOME", s->own, 1) == 0) &&
           (s->temporary[0] ? setenv("TMPDIR", s->temporary, 1) : unsetenv("TMPDIR")) == 0;
}

static int prepare_program(void *arg)
{
    const struct program_setup *s = arg;

    restore_signals();
    return lift_limits() && set_environment(s) &&
                   (!s->is_confined || sandbox_trainer(&s->places, s->user) == 0)
               ? 0
               : -1;
}

/* The start: in the monitor. */

/* Writes the path of ../NAME without "..", because the program shows it. */
static int absolute_path(char out[PATH_MAX], const char *beside, struct err *e)
{
    char here[PATH_MAX], *slash;

    if (!getcwd(here, sizeof here))
        return err_errno(e, ERR_IO, "the node's folder");
    slash = strrchr(here, '/');
    *slash = '\0';
    return file_join(out, PATH_MAX, here, beside + strlen("../"), e);
}

/* The program's share of the processors, if other workers of the job compute on this machine: libraries
 * otherwise start a thread for each processor. 0: it has them all. */
static int share_of_processors(int n_workers)
{
    int n = n_workers > 1 ? sandbox_processors() / n_workers : 0;
    cpu_set_t own;

    if (n_workers > 1 && sched_getaffinity(0, sizeof own, &own) == 0 && CPU_COUNT(&own) < n)
        n = CPU_COUNT(&own);
    return n_workers > 1 && n < 1 ? 1 : n;
}

/* Processes of Python's multiprocessing, as PyTorch's loaders of data are, listen at Unix sockets below
 * $TMPDIR, whose addresses have little room. */
static bool has_room_for_sockets(const char *folder)
{
    static const char socket_name[] = "/pymp-xxxxxxxx/listener-xxxxxxxx";

    return strlen(folder) + sizeof socket_name <= sizeof((struct sockaddr_un *)0)->sun_path;
}

static int read_settings(struct settings *out, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_read(&doc, settings_path, MODEL_DOCUMENT_MAX, e) < 0)
        return e->code;
    rc = settings_parse(out, doc, e);
    json_decref(doc);
    return rc < 0 ? err_at(e, "settings") : 0;
}

static int read_arguments(char **out, struct err *e)
{
    struct settings set;

    if (read_settings(&set, e) < 0)
        return e->code;
    *out = strdup(set.arguments);
    return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the training program's arguments");
}

/* Makes the folders, and the program's command. */
static int unpack_program(struct trainer_command *command, struct trainer_main *main, const char *python,
                          struct err *e)
{
    char folder[PATH_MAX], *arguments;
    int rc;

    if (access(package_path, F_OK) < 0)
        return err_errno(e, ERR_TRAINER, "the job's training program");
    if (file_mkdirs(temporary_path, 0700, e) < 0 ||
        trainer_package_unpack(main, package_path, program_path, e) < 0 ||
        absolute_path(folder, program_path, e) < 0)
        return e->code;
    if (main->is_python && !python[0])
        return err_set(
            e, ERR_TRAINER,
            "%s needs Python, and this agent has no interpreter: agent --trainer-python PATH names one",
            main->file);
    if (read_arguments(&arguments, e) < 0)
        return e->code;
    rc = trainer_command_init(command, main, folder, python, arguments, e);
    free(arguments);
    return rc;
}

/* The channels of a program: the first of each pair is the monitor's, or psgd's. */
struct program_channels {
    int wire[2], out[2], err[2];
};

static void close_channels(struct program_channels *c, int end)
{
    int *const pairs[] = {c->wire, c->out, c->err};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][end] >= 0)
            close(pairs[i][end]);
        pairs[i][end] = -1;
    }
}

static int open_channels(struct program_channels *c, struct err *e)
{
    *c = (struct program_channels){{-1, -1}, {-1, -1}, {-1, -1}};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, c->wire) == 0 &&
        pipe2(c->out, O_CLOEXEC) == 0 && pipe2(c->err, O_CLOEXEC) == 0 &&
        fcntl(c->out[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(c->err[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    err_call(e, ERR_IO, CALL_PIPE, "the training program's channels");
    close_channels(c, 0);
    close_channels(c, 1);
    return e->code;
}

/* As the job process does: if memory runs out, the kernel kills it before the agent. From here, because the
 * child is not dumpable before it is the program, and may not write its own files in /proc. */
static void offer_to_oom_killer(pid_t pid)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", (long)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : write(fd, "500", 3);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        fprintf(stderr, "cannot set oom_score_adj of the training program\n");
}

/* Cuts "/bin/python3" off. "": nothing else is left. */
static void cut_prefix(char *path)
{
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');

        if (slash)
            *slash = '\0';
    }
}

/* An interpreter of a virtual environment is a link to that of the installation, and needs both folders. */
static int find_places(struct program_setup *s, const struct orders_job *job, struct err *e)
{
    if (landlock_version() < 0)
        return err_errno(e, ERR_TRAINER,
                         "this agent confines training programs, and the kernel has no Landlock");
    if (absolute_path(s->own, folder_path, e) < 0)
        return e->code;
    snprintf(s->environment, sizeof s->environment, "%s", job->trainer_python);
    if (!realpath(job->trainer_python, s->installation))
        s->installation[0] = '\0';
    cut_prefix(s->environment);
    cut_prefix(s->installation);
    if (file_exe_dir(s->modules, sizeof s->modules - sizeof "/python", e) < 0)
        return e->code;
    strcat(s->modules, "/python");
    s->is_confined = true;
    s->places = (struct trainer_places){.own = s->own,
                                        .prefixes = {s->environment, s->installation},
                                        .read_only = {s->modules, job->trainer_data}};
    return 0;
}

static int prepare_setup(struct program_setup *s, const struct orders_job *job, struct err *e)
{
    s->n_threads = share_of_processors(job->workers_on_host);
    if (absolute_path(s->temporary, temporary_path, e) < 0 ||
        (job->trainer_isolation != TRAINER_ISOLATION_NONE && find_places(s, job, e) < 0))
        return e->code;
    if (job->trainer_isolation == TRAINER_ISOLATION_USER) {
        if (geteuid() != 0)
            return err_set(e, ERR_TRAINER,
                           "this agent gives each training program a user of its own, and only root can");
        s->user = sandbox_user_id(getpid()); /* the monitor is there as long as the program */
    }
    if (!s->is_confined && !has_room_for_sockets(s->temporary))
        s->temporary[0] = '\0';
    return 0;
}

static int start_program(struct monitor_trainer *t, struct program_channels *c,
                         const struct trainer_command *command, const struct orders_job *job, struct err *e)
{
    struct program_setup setup = {0};
    const struct child_how how = {.argv = command->argv,
                                  .folder = program_path,
                                  .out = c->out[1],
                                  .err = c->err[1],
                                  .extra = c->wire[1],
                                  .is_foreign = true,
                                  .confine = prepare_program,
                                  .confine_arg = &setup};

    if (prepare_setup(&setup, job, e) < 0)
        return e->code;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_errno(e, ERR_IO, "PR_SET_CHILD_SUBREAPER");
    if (child_start(&t->child, &how, e) < 0)
        return e->code;
    offer_to_oom_killer(t->child.pid);
    return 0;
}

static void log_start(const struct monitor_trainer *t, const struct trainer_command *command,
                      const struct orders_job *job)
{
    fprintf(stderr, "%s runs as process %ld, isolation %s:", t->name, (long)t->child.pid,
            trainer_isolation_name(job->trainer_isolation));
    for (char **arg = command->argv; *arg; arg++)
        fprintf(stderr, " %s", *arg);
    fputc('\n', stderr);
}

/* Without the lock. Sets *t and returns psgd's end of the socket. */
static int make_program(struct monitor_trainer *t, const struct orders_job *job, struct err *e)
{
    struct trainer_command command = {0};
    struct program_channels c;
    struct trainer_main main;
    int rc = unpack_program(&command, &main, job->trainer_python, e);

    if (rc == 0)
        rc = open_channels(&c, e);
    if (rc < 0) {
        trainer_command_clear(&command);
        return rc;
    }
    snprintf(t->name, sizeof t->name, "%s", main.file);
    rc = start_program(t, &c, &command, job, e);
    close_channels(&c, 1);
    if (rc < 0) {
        close_channels(&c, 0);
    } else {
        log_start(t, &command, job);
        monitor_output_open(&t->output, c.out[0], c.err[0], STDERR_FILENO);
        rc = c.wire[0];
    }
    trainer_command_clear(&command);
    return rc;
}

/* The program has made the socket. */
static int adopt_program(struct monitor_trainer *t, struct err *e)
{
    struct settings set;

    if (read_settings(&set, e) < 0)
        return e->code;
    snprintf(t->name, sizeof t->name, "%.*s", (int)sizeof t->name - 1, set.trainer);
    t->is_adopted = true;
    t->output.fds[OUTPUT_STDOUT] = t->output.fds[OUTPUT_STDERR] = -1;
    if (fcntl(ORDERS_PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0 || child_adopt(&t->child, ORDERS_PROGRAM_FD) < 0)
        return err_errno(e, ERR_TRAINER, "the process of %s, which has started this node", t->name);
    fprintf(stderr, "%s has started this node, and runs as process %ld\n", t->name, (long)t->child.pid);
    return ORDERS_PROGRAM_FD;
}

int monitor_trainer_start(struct monitor_state *m, struct err *e)
{
    struct monitor_trainer *t;
    int rc;

    if (m->trainer)
        return err_set(e, ERR_TRAINER, "the job's training program runs already");
    t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for the training program's output");
    pthread_mutex_unlock(&m->lock);
    /* No other thread writes the order: it was the first. */
    rc = m->job_order.program_runs ? adopt_program(t, e) : make_program(t, &m->job_order, e);
    pthread_mutex_lock(&m->lock);
    if (rc < 0)
        free(t);
    else
        m->trainer = t;
    return rc;
}

/* The end. */

static bool is_kept(void *arg, pid_t child)
{
    (void)arg;
    (void)child;
    return false;
}

static void describe_signal(struct monitor_trainer *t, int signal)
{
    struct rusage use;
    size_t n;

    snprintf(t->why, sizeof t->why, "%s was killed by signal %d (%s)", t->name, signal, strsignal(signal));
    n = strlen(t->why);
    if (signal == SIGKILL && getrusage(RUSAGE_CHILDREN, &use) == 0)
        snprintf(t->why + n, sizeof t->why - n, "; it has used %.1f GiB of memory",
                 (double)use.ru_maxrss / (1 << 20));
}

static void describe_exit(struct monitor_trainer *t, const char *python, int status)
{
    const char *said = monitor_output_reason(&t->output, status);
    bool lacks_module = strstr(said, "No module named");

    if (status == 0)
        snprintf(t->why, sizeof t->why,
                 "%s has ended, and the job has not: does it ask psgd for steps until there are no more?",
                 t->name);
    else if (!said[0])
        snprintf(t->why, sizeof t->why, "%s ended with status %d, and wrote nothing to stderr", t->name,
                 status);
    else
        snprintf(t->why, sizeof t->why, "%s ended with status %d: %s%s%.120s%s", t->name, status, said,
                 lacks_module ? " (" : "", lacks_module ? python : "", lacks_module ? ")" : "");
}

/* Kills what the program has left, or also the program, if it has not been waited for. */
static void clean_up(struct monitor_trainer *t)
{
    t->has_ended = true;
    t->term_at = t->kill_at = 0;
    if (t->is_adopted)
        return;
    process_end_orphans(is_kept, NULL);
    monitor_output_close(&t->output);
}

static void remove_temporary_files(void)
{
    file_remove_tree(temporary_path, &(struct err){0});
}

/* Its status is known to the launcher only. */
static void take_end_of_adopted(struct monitor_state *m, double now)
{
    struct monitor_trainer *t = m->trainer;

    close(t->child.fd);
    clean_up(t);
    snprintf(t->why, sizeof t->why,
             "%s, process %ld, has ended, and the job has not: does it ask psgd for steps until there are no "
             "more?",
             t->name, (long)t->child.pid);
    if (!t->is_released)
        t->report_at = now + UNASKED_S;
    pthread_cond_broadcast(&m->trainer_ended);
}

/* Releases the lock meanwhile. */
static void take_end(struct monitor_state *m, double now)
{
    struct monitor_trainer *t = m->trainer;
    int status = child_wait(&t->child);

    clean_up(t);
    if (t->is_late)
        snprintf(t->why, sizeof t->why, "%s had not ended %g s after its job, and was ended", t->name,
                 t->grace_s);
    else if (WIFSIGNALED(status))
        describe_signal(t, WTERMSIG(status));
    else
        describe_exit(t, m->job_order.trainer_python, WEXITSTATUS(status));
    t->has_broken = status != 0;
    if (!t->is_released)
        t->report_at = now + UNASKED_S;
    else if (t->has_broken && !t->has_failed)
        report_warn(&m->report, t->why);
    pthread_cond_broadcast(&m->trainer_ended);
    pthread_mutex_unlock(&m->lock); /* it may have written many files */
    remove_temporary_files();
    pthread_mutex_lock(&m->lock);
}

void monitor_trainer_poll(const struct monitor_state *m, struct pollfd p[TRAINER_POLLS])
{
    const struct monitor_trainer *t = m->trainer;
    bool runs = t && !t->has_ended;

    p[0] = (struct pollfd){.fd = runs ? t->child.fd : -1, .events = POLLIN};
    for (int i = 0; i < N_OUTPUTS; i++)
        p[1 + i] = (struct pollfd){.fd = runs ? t->output.fds[i] : -1, .events = POLLIN};
}

void monitor_trainer_follow(struct monitor_state *m, const struct pollfd p[TRAINER_POLLS], double now)
{
    for (int i = 0; i < N_OUTPUTS; i++)
        if (p[1 + i].revents)
            monitor_output_copy(&m->trainer->output, i);
    if (p[0].revents && m->trainer->is_adopted)
        take_end_of_adopted(m, now);
    else if (p[0].revents)
        take_end(m, now);
}

/* Whether that time has come; it comes once. */
static bool is_due(double *at, double now)
{
    bool is = *at > 0 && now >= *at;

    if (is)
        *at = 0;
    return is;
}

/* A program may have moved to the group of a process that it has started. */
static void signal_program(const struct monitor_trainer *t, int signal)
{
    kill(-t->child.pid, signal);
    if (getpgid(t->child.pid) != t->child.pid)
        kill(t->child.pid, signal);
}

bool monitor_trainer_check(struct monitor_state *m, double now)
{
    struct monitor_trainer *t = m->trainer;

    if (!t)
        return false;
    if (is_due(&t->term_at, now)) {
        t->is_late = true;
        signal_program(t, SIGTERM);
        signal_program(t, SIGCONT); /* a program that is stopped ends by SIGTERM only when it continues */
    }
    if (is_due(&t->kill_at, now))
        signal_program(t, SIGKILL);
    if (!is_due(&t->report_at, now))
        return false;
    monitor_report(m, REASON_TRAINER_FAILED, t->why);
    return true;
}

double monitor_trainer_due(const struct monitor_state *m)
{
    const struct monitor_trainer *t = m->trainer;
    const double times[] = {t ? t->term_at : 0, t ? t->kill_at : 0, t ? t->report_at : 0};
    double first = 0;

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] > 0 && (first == 0 || times[i] < first))
            first = times[i];
    return first;
}

void monitor_trainer_kill(struct monitor_state *m)
{
    struct monitor_trainer *t = m->trainer;

    if (!t || t->has_ended)
        return;
    clean_up(t);
    remove_temporary_files();
}

/* The job process's requests, in the second thread. */

/* Waits until the program has ended, for `seconds` at most; releases the lock meanwhile. */
static void await_end(struct monitor_state *m, double seconds)
{
    double until = clock_now() + seconds;
    const struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};

    while (!m->trainer->has_ended && pthread_cond_timedwait(&m->trainer_ended, &m->lock, &at) == 0)
        continue;
}

void monitor_trainer_explain(struct monitor_state *m, char *text, size_t size)
{
    struct monitor_trainer *t = m->trainer;

    if (t)
        await_end(m, EXPLAIN_S);
    if (!t) {
        snprintf(text, size, "no training program runs");
    } else if (!t->has_ended) {
        snprintf(text, size, "%s has closed its connection to psgd, and still runs", t->name);
    } else {
        snprintf(text, size, "%s", t->why);
        if (t->report_at > 0)
            t->report_at = clock_now() + ASKED_S;
    }
}

void monitor_trainer_release(struct monitor_state *m, bool has_failed)
{
    struct monitor_trainer *t = m->trainer;

    if (!t)
        return;
    t->is_released = true;
    t->has_failed = has_failed;
    if (t->report_at == 0)
        return;
    /* It has ended meanwhile. After a success that is no failure, and the node may take long to end. */
    t->report_at = has_failed ? clock_now() + ASKED_S : 0;
    if (t->has_broken && !has_failed)
        report_warn(&m->report, t->why);
}

/* The first call counts, and a later one with less time. */
static void set_end(struct monitor_trainer *t, double grace_s)
{
    double now = clock_now();

    if (t->is_ending && grace_s >= t->grace_s)
        return;
    t->is_released = t->is_ending = true;
    t->grace_s = grace_s;
    if (!t->is_late)
        t->term_at = now + grace_s;
    t->kill_at = now + 2 * grace_s;
}

bool monitor_trainer_end(struct monitor_state *m, double grace_s)
{
    struct monitor_trainer *t = m->trainer;

    if (!t || t->has_ended)
        return true;
    if (t->is_adopted) {
        t->is_released = true;
        return true;
    }
    set_end(t, grace_s);
    await_end(m, END_S);
    return t->has_ended;
}
