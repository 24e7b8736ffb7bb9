#include "agent/jobs/job_action.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/artifact.h"
#include "agent/jobs/job_end.h"
#include "agent/jobs/packages.h"
#include "agent/jobs/runner_events.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "shared/records/artifacts.h"

static const double RETURN_S = 30; /* lease after a restart of the agent, for the submitter to reconnect */

/* Returns whether the runner's files exceed the limits of a job, and writes the reason. */
static bool has_too_many_files(char *why, size_t size, const struct task *t)
{
    uint64_t most = t->jobs->job_disk;
    char path[sizeof t->dir + 8];
    struct folder_use use;

    if (most == 0)
        return false;
    snprintf(path, sizeof path, "%s/run", t->dir);
    use = artifact_folder_use(path, RUN_FILES_MAX);
    if (use.n_files > RUN_FILES_MAX)
        snprintf(why, size, "the node has written more than %d files", RUN_FILES_MAX);
    else
        snprintf(why, size, "the node's files occupy %.1f GiB of at most %.1f (agent --job-disk)",
                 (double)use.bytes / (1 << 30), (double)most / (1 << 30));
    return use.n_files > RUN_FILES_MAX || use.bytes > most;
}

static void check_limits(struct task *t, double now)
{
    char why[128];
    bool is_started = t->job.digest[0] || t->job.state == JOB_RUNNING;

    if (t->job.state == JOB_STOPPING)
        return;
    if (!is_started && t->n_streams == 0 && now > t->lease_at) {
        char message[64];

        snprintf(message, sizeof message, "no request of the submitter for %.0f s", t->lease_s);
        job_stop(t, REASON_LEASE_EXPIRED, message, STOP_GRACE_S);
    } else if (is_started && now > t->limit_at) {
        job_stop(t, REASON_TIME_LIMIT, "the job's time limit is over", LIMIT_GRACE_S);
    } else if (t->runner.pid && has_too_many_files(why, sizeof why, t)) {
        job_stop(t, REASON_DISK_FULL, why, 0);
    }
}

static void on_tick(void *arg)
{
    struct task *t = arg;
    double now = clock_now();

    timer_set(t->jobs->loop, &t->tick, now + JOB_TICK_S);
    if (job_is_pending(&t->job)) /* another user's turn may be over */
        job_schedule(t->jobs);
    runner_events_again(t); /* also for file systems without change notification */
    if (!job_state_is_terminal(t->job.state))
        check_limits(t, now);
    if (!job_state_is_terminal(t->job.state) && t->kill_at > 0 && now > t->kill_at)
        runner_signal(&t->runner, SIGKILL);
}

static void start_ticking(struct task *t, double at)
{
    t->tick = (struct timer){.due = on_tick, .arg = t};
    timer_set(t->jobs->loop, &t->tick, at);
}

/* Creates an empty file, so that it can be read from the first byte on. */
static int make_events_file(const struct task *t, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof path, "%s/run/%s", t->dir, artifact_name(ARTIFACT_EVENTS));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    close(fd);
    return 0;
}

static void on_order_pipe(void *arg, uint32_t events)
{
    struct task *t = arg;

    (void)events;
    if (runner_flush(&t->runner))
        loop_unwatch(t->jobs->loop, &t->order_watch);
}

/* A pipe holds 64 KiB, or one page if the user has many pipes, and the start document of thousands of nodes
 * has 1 MiB. The rest is written as the runner reads. */
static int order(struct task *t, const char *line, size_t len, struct err *e)
{
    if (runner_order(&t->runner, line, len, e) < 0)
        return e->code;
    if (t->runner.n_unsent == 0 || t->order_watch.on)
        return 0;
    t->order_watch = (struct watch){.fd = t->runner.control_fd, .ready = on_order_pipe, .arg = t};
    return loop_watch(t->jobs->loop, &t->order_watch, EPOLLOUT, e);
}

static void add_trainer_rules(json_t *order, const struct trainer_rules *r)
{
    json_object_set_new(order, "trainer_python", json_string(r->python));
    json_object_set_new(order, "trainer_isolation", json_string(trainer_isolation_name(r->isolation)));
    json_object_set_new(order, "trainer_data", json_string(r->data));
}

static int send_job(struct task *t, struct err *e)
{
    const struct job_spec *s = &t->job.spec;
    json_t *o = json_pack("{s:s, s:i, s:i, s:s, s:i, s:f, s:s, s:b}", "job", s->id, "attempt", s->attempt,
                          "node", s->node, "role", s->role, "workers_on_host", s->workers_on_host,
                          "time_limit_s", s->time_limit_s, "require_isolation",
                          isolation_name(packages_isolation(t->jobs, t)), "own_tree",
                          (int)t->jobs->isolation.has_own_tree);
    char *line;
    int rc;

    if (t->jobs->ends_runners)
        json_object_set_new(o, "ends_with_agent", json_true());
    if (t->jobs->program_fd > 0)
        json_object_set_new(o, "program_runs", json_true());
    if (t->jobs->data_folders[0])
        json_object_set_new(o, "data_folders", json_string(t->jobs->data_folders));
    if (job_spec_has_program(s))
        add_trainer_rules(o, &t->jobs->trainers);
    line = json_line(o);
    json_decref(o);
    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for the order to a node");
    rc = order(t, line, strlen(line), e);
    free(line);
    return rc;
}

/* A second limit, for a runner that the agent cannot end at the time limit, which is of elapsed time. */
static uint64_t processor_time(const struct job_spec *s)
{
    const double slack_s = 60;

    return (uint64_t)((s->time_limit_s + slack_s) * (double)sysconf(_SC_NPROCESSORS_ONLN));
}

static int spawn(struct task *t, struct err *e)
{
    char run_dir[PATH_MAX];
    struct runner_plan plan = {.exe = t->jobs->runner_exe,
                               .run_dir = run_dir,
                               .data_fd = t->data_fd,
                               .program_fd = t->jobs->program_fd,
                               .max_memory = jobs_slot_memory(t->jobs),
                               .max_cpu_s = processor_time(&t->job.spec),
                               .max_files = runner_files(t->job.spec.node_count + t->job.spec.server_count),
                               .is_of_launcher = t->jobs->is_of_launcher};
    struct event note;
    cpu_set_t processors;

    snprintf(run_dir, sizeof run_dir, "%s/run", t->dir);
    if (jobs_slot_processors(&processors, t->jobs, t->job.slot))
        plan.processors = &processors;
    if (make_events_file(t, e) < 0 || runner_fork(&t->runner, &plan, e) < 0)
        return e->code;
    event_init(&note, NOTE_RUNNER);
    note.pid = t->runner.pid;
    note.start_ticks = t->runner.start_ticks;
    memcpy(note.boot, t->jobs->boot, sizeof note.boot);
    if (task_record(t, &note, e) < 0 || runner_events_start(t, e) < 0)
        return e->code;
    /* ERR_NOT_FOUND: the runner was killed before; its end is noticed as that of every runner. */
    if ((send_job(t, e) < 0 && e->code != ERR_NOT_FOUND) || runner_go(&t->runner, plan.exe, e) < 0)
        return e->code;
    /* From here on only the runner has the listening socket, so that its peers notice its death: connections
     * are refused. */
    close(t->data_fd);
    t->data_fd = -1;
    if (t->jobs->program_fd > 0) /* so that the program sees the runner's end */
        close(t->jobs->program_fd);
    t->jobs->program_fd = 0;
    return 0;
}

void job_advance(struct task *t)
{
    struct err e;

    if (t->job.state != JOB_PREPARING || t->unwritten.is_waiting || t->runner.pid ||
        !job_is_complete(&t->job))
        return;
    job_enter(t, JOB_PREPARING, REASON_LOADING_PACKAGES, "job_runner loads the packages");
    if (t->job.state == JOB_PREPARING && spawn(t, &e) < 0) {
        loop_unwatch(t->jobs->loop, &t->runner_watch);
        if (t->runner.pid) {
            char how[MESSAGE_MAX];

            runner_reap(&t->runner, how, sizeof how);
        }
        err_at(&e, "job_runner cannot be started");
        job_finish(t, JOB_FAILED, REASON_INTERNAL, e.text);
    }
}

static int bind_data_socket(struct task *t, struct err *e)
{
    struct sockaddr_storage at = t->jobs->data.at;
    socklen_t len = t->jobs->data.len;
    struct event note;

    t->data_fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->data_fd < 0)
        return err_errno(e, ERR_IO, "data socket");
    /* For nodes of this machine, before the first of them connects. The runner reverts it for other nodes
     * (tcp_link.c has the reason). A kernel without cubic has no algorithm that paces either. */
    setsockopt(t->data_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (bind(t->data_fd, (struct sockaddr *)&at, len) < 0 || listen(t->data_fd, SOMAXCONN) < 0 ||
        getsockname(t->data_fd, (struct sockaddr *)&at, &len) < 0)
        return err_errno(e, ERR_IO, "data socket");
    event_init(&note, NOTE_SOCKET);
    note.data_port = address_port(&at);
    /* A job that is active was restored, by an agent that may have fewer slots now. */
    note.slot = job_is_active(&t->job) ? t->job.slot % t->jobs->opt->slots : jobs_free_slot(t->jobs);
    return task_record(t, &note, e);
}

/* Assigns a free slot to the job. */
static void promote(struct task *t)
{
    struct err e;

    if (!t->tick.on)
        start_ticking(t, clock_now() + JOB_TICK_S);
    t->slot_since = clock_now();
    if (bind_data_socket(t, &e) < 0 ||
        job_move(t, JOB_PREPARING, REASON_WAITING_FOR_PACKAGES, "waits for its packages", &e) < 0)
        job_finish(t, JOB_FAILED, job_reason_of(&e), e.text);
    else
        job_advance(t);
}

static void say_why_it_waits(struct task *t)
{
    if (t->jobs->is_draining)
        job_enter(t, JOB_PENDING, REASON_DRAINING, "waits in the queue until the agent is resumed");
    else
        job_enter(t, JOB_PENDING, REASON_AGENT_BUSY, "waits in the queue for the agent's slot");
}

/* For a job that has to wait: reserved just now, or before the agent was restarted. */
static void enter_queue(struct task *t)
{
    start_ticking(t, clock_now() + JOB_TICK_S);
    say_why_it_waits(t);
}

void job_supersede(struct jobs *jobs)
{
    char message[64];

    for (struct task *t = jobs->first; t; t = t->next) {
        const struct job_spec *last = &task_find(jobs, t->job.spec.id)->job.spec;

        if (t->job.spec.attempt == last->attempt)
            continue;
        snprintf(message, sizeof message, "attempt %d was reserved", last->attempt);
        job_stop(t, REASON_SUPERSEDED, message, 0);
    }
}

static bool is_fenced(const struct task *t)
{
    for (const struct task *u = t->jobs->first; u; u = u->next)
        if (strcmp(u->job.spec.id, t->job.spec.id) == 0 && u->job.spec.attempt < t->job.spec.attempt &&
            !job_state_is_terminal(u->job.state))
            return true;
    return false;
}

double jobs_used_by(const void *arg, const char *user, double now)
{
    const struct jobs *jobs = arg;
    double used_s = turns_used(&jobs->turns, user, now);

    for (const struct task *t = jobs->first; t; t = t->next) {
        char of_task[TURN_USER];

        turns_user(of_task, t->job.owner, t->job.spec.submitter);
        if (job_is_active(&t->job) && t->slot_since > 0 && strcmp(of_task, user) == 0)
            used_s += now - t->slot_since;
    }
    return used_s;
}

bool job_may_take_slot(const struct jobs *jobs, const struct turn_claim *c, char *why, size_t size)
{
    struct turn_claim whole = *c;
    double now = clock_now();
    int n_free = jobs->opt->slots - (int)task_count(jobs, job_is_active);

    whole.used_s = jobs_used_by(jobs, c->user, now);
    return turns_may_take(&jobs->turns, &whole, n_free, now, jobs_used_by, jobs, why, size);
}

/* A job that has slots of other agents, and waits for this one, gets it as soon as it is free: other users
 * may wait for the slots that it has. */
static bool may_be_next(const struct task *t)
{
    char user[TURN_USER], why[256];
    const struct turn_claim c = {.user = user, .job = t->job.spec.id, .holds_others = t->job.spec.holds > 0};

    if (!job_is_pending(&t->job) || t->unwritten.is_waiting || is_fenced(t))
        return false;
    turns_user(user, t->job.owner, t->job.spec.submitter);
    return (t->job.spec.holds > 0 && !t->job.spec.no_queue) ||
           job_may_take_slot(t->jobs, &c, why, sizeof why);
}

/* Jobs are taken by their users' use of the agent, the least first, and those of one user in the order of
 * their reservations. */
struct task *job_next_pending(const struct jobs *jobs)
{
    struct task *next = NULL;
    double least = INFINITY, now = clock_now(); /* one time: jobs of one user have the same use */

    for (struct task *t = jobs->first; t; t = t->next) {
        char user[TURN_USER];
        double used_s;

        if (!may_be_next(t))
            continue;
        turns_user(user, t->job.owner, t->job.spec.submitter);
        used_s = jobs_used_by(jobs, user, now);
        if (used_s < least) {
            least = used_s;
            next = t;
        }
    }
    return next;
}

void job_schedule(struct jobs *jobs)
{
    struct task *t;

    if (jobs->is_stopping)
        return;
    turns_expire(&jobs->turns, clock_now());
    /* Again, as a promoted job may end at once and free its slot. */
    while (!jobs->is_draining && jobs_free_slot(jobs) >= 0 && (t = job_next_pending(jobs)) != NULL)
        promote(t);
    for (t = jobs->first; t; t = t->next)
        if (job_is_pending(&t->job) && !t->tick.on)
            enter_queue(t);
}

/* Schedules, and states to the jobs that still wait why they do. */
static void requeue(struct jobs *jobs)
{
    job_schedule(jobs);
    for (struct task *t = jobs->first; t; t = t->next)
        if (job_is_pending(&t->job) && !t->unwritten.is_waiting)
            say_why_it_waits(t);
}

static int drain_mark_path(char out[PATH_MAX], const struct jobs *jobs, struct err *e)
{
    return file_join(out, PATH_MAX, jobs->opt->dir, "draining", e);
}

int job_read_draining(struct jobs *jobs, struct err *e)
{
    char path[PATH_MAX];

    if (drain_mark_path(path, jobs, e) < 0)
        return e->code;
    jobs->is_draining = access(path, F_OK) == 0;
    if (!jobs->is_draining && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

static int write_drain_mark(const struct jobs *jobs, bool is_draining, struct err *e)
{
    char path[PATH_MAX];

    if (drain_mark_path(path, jobs, e) < 0)
        return e->code;
    if (is_draining)
        return file_write(path, "", 0, 0600, e);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return file_sync_folder(jobs->opt->dir, e);
}

int job_set_draining(struct jobs *jobs, bool is_draining, struct err *e)
{
    if (jobs->is_draining == is_draining)
        return 0;
    if (write_drain_mark(jobs, is_draining, e) < 0)
        return e->code;
    jobs->is_draining = is_draining;
    log_line(LOG_LEVEL_INFO, "agent", NULL, is_draining ? "drained: takes no new jobs" : "resumed");
    turns_freed(&jobs->turns, clock_now());
    jobs->n_changes++;
    requeue(jobs);
    return 0;
}

int job_start(struct task *t, const char *line, const char *digest, struct err *e)
{
    struct event ev;
    int rc;

    if (t->job.state != JOB_READY)
        return err_set(e, ERR_CONFLICT, "%s is %s, not ready", t->job.spec.id, job_state_name(t->job.state));
    rc = order(t, line, strlen(line), e);
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_CONFLICT, "%s: its job_runner has just ended", t->job.spec.id);
    if (rc < 0) { /* a part may be written, so the runner cannot continue */
        err_at(e, "start");
        job_stop(t, REASON_INTERNAL, e->text, 0);
        return e->code;
    }
    event_init(&ev, NOTE_START);
    snprintf(ev.digest, sizeof ev.digest, "%s", digest);
    ev.monotonic_s = clock_now();
    if (task_record(t, &ev, e) < 0 || job_move(t, JOB_RUNNING, "", "started", e) < 0) {
        job_stop(t, job_reason_of(e), e->text, STOP_GRACE_S);
        return e->code;
    }
    t->limit_at = ev.monotonic_s + t->job.spec.time_limit_s;
    return 0;
}

static void renew_lease(struct task *t, double seconds)
{
    t->lease_s = seconds;
    t->lease_at = clock_now() + seconds;
}

void job_touch(struct task *t)
{
    renew_lease(t, LEASE_S);
}

void job_reserved(struct task *t)
{
    renew_lease(t, FIRST_LEASE_S);
}

void job_stream_opened(struct task *t)
{
    t->n_streams++;
}

void job_stream_closed(struct task *t)
{
    if (t->n_streams > 0)
        t->n_streams--;
    if (t->n_streams == 0)
        renew_lease(t, BROKEN_LEASE_S);
}

static bool is_of_another_boot(const struct task *t)
{
    return t->job.pid && strcmp(t->job.boot, t->jobs->boot) != 0;
}

/* A pid of an earlier boot may be another process's now. */
static int find_runner(struct task *t, struct err *e)
{
    const struct job *j = &t->job;

    if (!j->pid || is_of_another_boot(t))
        return err_set(e, ERR_NOT_FOUND, "the machine was restarted, which ended it");
    return runner_adopt(&t->runner, j->pid, j->start_ticks, e);
}

/* Adopts a runner that kept running without an agent. */
static void adopt(struct task *t)
{
    struct job *j = &t->job;
    /* CLOCK_MONOTONIC: the wall clock may have been changed. */
    double ran = j->started_monotonic > 0 ? clock_now() - j->started_monotonic : 0;
    struct err e;

    t->n_skip = j->n_copied;
    if (j->state == JOB_STOPPING)
        job_remember_stop(t, j->reason, j->message);
    if (find_runner(t, &e) < 0) {
        runner_events_past(t);
        if (is_of_another_boot(t))
            runner_events_conclude(t, REASON_INTERRUPTED, "the machine was restarted while it ran");
        else
            runner_events_conclude(t, REASON_RUNNER_DIED,
                                   "job_runner ended while no agent was running; its exit status is unknown");
        return;
    }
    log_line(LOG_LEVEL_INFO, "agent", j->spec.id, "runner: process %d still runs and is adopted", j->pid);
    t->slot_since = clock_now() - ran;
    t->limit_at = clock_now() + j->spec.time_limit_s - ran;
    start_ticking(t, clock_now());
    if (runner_events_start(t, &e) < 0)
        job_stop(t, REASON_INTERNAL, e.text, STOP_GRACE_S);
    else if (j->state == JOB_STOPPING)
        job_stop(t, j->reason, j->message, STOP_GRACE_S);
}

static void end_runner(struct task *t)
{
    struct err e;
    struct pollfd gone;

    if (find_runner(t, &e) < 0)
        return;
    gone = (struct pollfd){.fd = t->runner.pidfd, .events = POLLIN};
    runner_signal(&t->runner, SIGKILL);
    poll(&gone, 1, 2000);
}

/* A started job: adopts its runner. No runner yet: keeps the reservation for job_schedule. A runner that was
 * never started: ends the job. */
static void restore(struct task *t)
{
    /* Every reservation has a time limit, and every job beyond `preparing` has a process: what lacks it was
     * lost. */
    bool is_lost = t->job.has_gap &&
                   (t->job.spec.time_limit_s == 0 ||
                    (!t->job.pid && t->job.state != JOB_PENDING && t->job.state != JOB_PREPARING));

    t->job.has_gap = false;
    if (is_lost) {
        end_runner(t);
        job_finish(t, JOB_FAILED, REASON_JOURNAL_DAMAGED,
                   "lines of the agent's journal are damaged, without which the job cannot go on");
        return;
    }
    if (t->job.state == JOB_RUNNING || t->job.state == JOB_STOPPING) {
        adopt(t);
        return;
    }
    if (!t->job.pid) {
        /* The job keeps its slot, too. Submitters reserve agents in one global order, so that they cannot
         * wait for each other in a cycle; while a submitter waits for another agent, it must not lose the
         * slots that it has. */
        renew_lease(t, RETURN_S);
        if (t->job.state == JOB_PREPARING)
            promote(t);
        return;
    }
    /* A runner that was not started ends with its agent, and may still be exiting. */
    end_runner(t);
    job_finish(t, JOB_FAILED, REASON_AGENT_RESTARTED, "the agent was restarted before the job was started");
}

/* The use of a job that ended before the agent was started. */
static void charge_ended(struct jobs *jobs, const struct job *j)
{
    double age_s = fmax(0, clock_wall() - j->finished_at);
    char user[TURN_USER];

    if (j->started_at <= 0 || j->finished_at < j->started_at)
        return;
    turns_user(user, j->owner, j->spec.submitter);
    turns_charge(&jobs->turns, user, (j->finished_at - j->started_at) * exp2(-age_s / HALF_S), clock_now());
}

void job_restore_all(struct jobs *jobs)
{
    jobs->slot_freed = job_schedule;
    jobs->is_stopping = true; /* no scheduling: the end of a job must not start one that is ended next */
    for (struct task *t = jobs->first; t; t = t->next)
        if (!job_state_is_terminal(t->job.state))
            restore(t);
        else
            charge_ended(jobs, &t->job);
    job_supersede(jobs);
    jobs->is_stopping = false;
    job_schedule(jobs);
}
