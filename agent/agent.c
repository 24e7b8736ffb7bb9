/* agent -- the daemon: one thread, one event loop. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/access/own_isolation.h"
#include "agent/access/token_verb.h"
#include "agent/agent_open.h"
#include "agent/base/listen.h"
#include "agent/base/log.h"
#include "agent/folder/folder_node.h"
#include "agent/http/api_server.h"
#include "agent/jobs/job_end.h"
#include "agent/jobs/retention.h"
#include "shared/base/address.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/reason.h"

enum exit_status { EXIT_CLEAN = 0, EXIT_USAGE = 2, EXIT_INVALID = 6, EXIT_INSECURE = 7, EXIT_SYSTEM = 71 };

#define FLUSH_S 0.5 /* time for the last events to reach their readers */

/* SIGTERM and SIGINT, as events of the loop. */
struct stop_signal {
    struct watch watch;
    sigset_t set;
    bool is_received;
};

static void on_signal(void *arg, uint32_t events)
{
    struct stop_signal *s = arg;
    struct signalfd_siginfo info;

    (void)events;
    if (read(s->watch.fd, &info, sizeof info) == sizeof info)
        s->is_received = true;
}

static int stop_signal_open(struct stop_signal *s, struct loop *l, struct err *e)
{
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGINT);
    sigprocmask(SIG_BLOCK, &s->set, NULL);
    /* An inherited SIG_IGN would discard the runners' exit statuses. */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    s->watch = (struct watch){
        .fd = signalfd(-1, &s->set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .arg = s};
    if (s->watch.fd < 0)
        return err_errno(e, ERR_IO, "signalfd");
    return loop_watch(l, &s->watch, EPOLLIN, e);
}

static void turn(struct agent *a, struct api_server *s, double wait_s)
{
    double max_wait = http_server_max_wait(s->http);

    loop_turn(&a->loop, max_wait < wait_s ? max_wait : wait_s);
    http_server_turn(s->http);
    retention_trim(&a->jobs);
}

static bool job_is_alive(const struct job *j)
{
    return !job_state_is_terminal(j->state);
}

static bool may_keep_running(const struct agent *a, const struct task *t)
{
    return a->opt.leave_running && (t->job.state == JOB_RUNNING || t->job.state == JOB_STOPPING);
}

static size_t n_to_stop(const struct agent *a)
{
    size_t n = 0;

    for (const struct task *t = a->jobs.first; t; t = t->next)
        n += job_is_alive(&t->job) && !t->unwritten.is_waiting && !may_keep_running(a, t);
    return n;
}

/* Stops cleanly: accepts no new connections, ends every process, and lets the readers of events receive the
 * last ones. */
static void shut_down(struct agent *a, struct api_server *s)
{
    double until;

    log_line(LOG_LEVEL_INFO, "agent", NULL, "stopping");
    a->jobs.is_stopping = true;
    http_server_quiesce(s->http);
    for (struct task *t = a->jobs.first; t; t = t->next)
        if (!may_keep_running(a, t))
            job_stop(t, REASON_AGENT_STOPPED, "the agent was stopped", END_GRACE_S);
    while (n_to_stop(a) > 0)
        turn(a, s, 1);
    for (until = clock_now() + FLUSH_S; http_server_is_busy(s->http) && clock_now() < until;)
        turn(a, s, 0.05);
}

static void log_start(const struct agent *a)
{
    log_line(LOG_LEVEL_INFO, "agent", NULL, "psgd agent " PSGD_VERSION " listens on %s%s, dir %s, token %s",
             a->address, a->allows_plain ? "" : " with TLS only", a->opt.dir,
             a->opt.no_token ? "(none required)" : a->opt.token_file);
    if (a->jobs.codecs.policy == CODECS_ALLOWLIST)
        log_line(LOG_LEVEL_INFO, "agent", NULL, "codecs: the built-in ones and those listed in %s",
                 a->jobs.codecs.list);
    if (a->jobs.trainers.policy == TRAINERS_ANY)
        log_line(LOG_LEVEL_INFO, "agent", NULL,
                 "training programs: any, as this agent's user, isolation %s (--trainers)",
                 trainer_isolation_name(a->jobs.trainers.isolation));
    if (a->jobs.trainers.policy == TRAINERS_ALLOWLIST)
        log_line(LOG_LEVEL_INFO, "agent", NULL,
                 "training programs: those listed in %s, as this agent's user, isolation %s",
                 a->jobs.trainers.list, trainer_isolation_name(a->jobs.trainers.isolation));
    log_line(a->jobs.isolation.level < ISOLATION_DEFAULT ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "agent", NULL,
             "isolation of codecs: %s%s%s", isolation_name(a->jobs.isolation.level),
             a->jobs.isolation.lacks[0] ? "; " : "", a->jobs.isolation.lacks);
    if (a->opt.no_token)
        log_line(LOG_LEVEL_WARN, "agent", NULL,
                 "--no-token: every user of this machine can run code through this agent");
    if (a->is_insecure)
        log_line(LOG_LEVEL_WARN, "agent", NULL,
                 "--insecure-no-tls: %s is reachable from other machines, and the token is sent unencrypted",
                 a->address);
}

/* Makes the processes that runners leave children of this process, so that it can end them. Not where other
 * processes would be among its children: process 1 inherits those of the whole machine, and a program that
 * has become this one by exec may have had some. */
static bool become_subreaper(void)
{
    siginfo_t info;

    return getpid() != 1 && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD &&
           prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

static int run_agent(struct agent *a, int listen_fd, struct err *e)
{
    struct stop_signal stop = {.watch.fd = -1};
    struct api_server *s;
    struct err link;

    a->jobs.is_subreaper = become_subreaper();
    if (api_server_open(&s, a, listen_fd, e) < 0)
        return e->code;
    if (stop_signal_open(&stop, &a->loop, e) < 0 || agent_restore(a, e) < 0) {
        api_server_close(s);
        return e->code;
    }
    if (a->is_local &&
        token_link(a->opt.no_token ? "" : a->opt.token_file, a->auth.identity.pin, a->opt.port, &link) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "token: %s", link.text);
    log_start(a);
    if (agent_invite(a, &link) < 0)
        log_line(LOG_LEVEL_ERROR, "agent", NULL, "no invitation: %s", link.text);
    while (!stop.is_received)
        turn(a, s, 3600);
    shut_down(a, s);
    if (a->is_local && !a->opt.no_token)
        token_unlink(a->opt.token_file, a->opt.port);
    api_server_close(s);
    close(stop.watch.fd);
    log_line(LOG_LEVEL_INFO, "agent", NULL, "stopped");
    return 0;
}

static int start_agent(struct agent_options *o, struct err *e)
{
    char exe_dir[PATH_MAX - 16];
    struct listener l;
    struct agent_isolation isolation;
    struct address data;
    static struct agent a;
    int rc;

    if (listener_open(&l, o, e) < 0)
        return e->code;
    if (data_address_find(&data, o, e) < 0 || own_isolation_find(&isolation, o->require_isolation, e) < 0) {
        close(l.fd);
        return e->code;
    }
    o->port = l.port;
    if (o->codecs < 0)
        o->codecs = l.is_loopback ? CODECS_ANY : CODECS_ALLOWLIST;
    if (o->trainers < 0) /* without a token any user of the machine would become the agent's user */
        o->trainers = l.is_loopback && !o->no_token ? TRAINERS_ANY : TRAINERS_NONE;
    if (agent_default_folder(o, e) < 0 || /* with --port 0 the port is known only now */
        file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 || agent_open(&a, o, e) < 0) {
        close(l.fd);
        return e->code;
    }
    a.jobs.data = data;
    a.jobs.isolation = isolation;
    a.allows_plain = l.allows_plain;
    a.is_insecure = !l.is_loopback && l.allows_plain;
    a.is_local = l.is_loopback || l.is_any;
    memcpy(a.host, l.host, sizeof a.host);
    memcpy(a.address, l.address, sizeof a.address);
    snprintf(a.jobs.runner_exe, sizeof a.jobs.runner_exe, "%s/job_runner", exe_dir);
    snprintf(a.exe, sizeof a.exe, "/proc/self/exe"); /* works also after the file was replaced */
    snprintf(a.jobs.codecs.builtin_dir, sizeof a.jobs.codecs.builtin_dir, "%s/codecs", exe_dir);
    rc = trainer_rules_check(&a.jobs.trainers, &a.jobs.isolation, e);
    if (rc < 0)
        close(l.fd);
    else
        rc = run_agent(&a, l.fd, e);
    agent_close(&a);
    return rc;
}

static enum exit_status exit_status_of(int code, bool is_token)
{
    if (is_token && (code == ERR_CONFLICT || code == ERR_NOT_FOUND))
        return EXIT_INVALID;
    return code == 0           ? EXIT_CLEAN
           : code == ERR_USAGE ? EXIT_USAGE
           : code == ERR_AUTH  ? EXIT_INSECURE
                               : EXIT_SYSTEM;
}

/* If the parent closed some of descriptors 0 to 2, sockets and the lock file would get these numbers, and
 * log lines would be written to them. */
static void fill_stdio(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct rlimit no_core = {0, 0};
    bool is_token = argc > 1 && strcmp(argv[1], "token") == 0;
    uint64_t verb = is_token ? AGENT_TOKEN : AGENT_RUN;
    struct agent_options o;
    struct err e = {0};
    int rc;

    fill_stdio();
    if (argc > 1 && strcmp(argv[1], "curves") == 0)
        return curve_main(argc, argv);
    /* No core file and no debugger of the same user, as the process holds the keys of jobs for a moment. */
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0);
    umask(077);
    if (argc > 1 && strcmp(argv[1], "rank") == 0) /* of job_runner --job */
        return folder_node_main(argc - 1, argv + 1);
    rc = agent_options_parse(&o, verb, argc - is_token, argv + is_token, &e);
    if (rc == 0 && o.wants_help)
        agent_usage(stdout, verb, program_invocation_short_name);
    else if (rc == 0 && o.wants_version)
        puts("agent (psgd) " PSGD_VERSION);
    else if (rc == 0)
        rc = is_token ? token_verb(&o, &e) : start_agent(&o, &e);
    if (rc == 0 && fflush(stdout) != 0)
        rc = err_errno(&e, ERR_IO, "standard output");
    if (rc < 0)
        fprintf(stderr, "agent: %s\n%s%s", e.text, e.hint, e.hint[0] ? "\n" : "");
    return (int)exit_status_of(rc, is_token);
}
