#include "agent/folder/folder_node.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/access/own_isolation.h"
#include "agent/base/log.h"
#include "agent/folder/folder_lead.h"
#include "agent/folder/folder_state.h"
#include "agent/folder/member_gone.h"
#include "agent/folder/node_address.h"
#include "agent/folder/node_orders.h"
#include "agent/folder/other_launch.h"
#include "agent/folder/rank_packages.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/job_end.h"
#include "agent/jobs/jobs_open.h"
#include "agent/jobs/peers.h"
#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/private.h"
#include "shared/base/utf8.h"
#include "shared/job/launch_rank.h"
#include "shared/job/peer_list.h"
#include "shared/job/reason.h"
#include "shared/trainer/trainer_link.h"

enum rank_status {
    EXIT_DONE = 0,
    EXIT_JOB_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_REFUSED = 4,
    EXIT_TIMEOUT = 5,
    EXIT_INVALID = 6,
    EXIT_CANCELLED = 8
};

/* From one look at a file of the meeting to the next, at first and at last; from one message about a wait to
 * the next; from one look at what other processes say to the next. */
static const double POLL_S = 0.01, POLL_MAX_S = 0.25, TELL_S = 10, LOOK_S = 0.5;
static const double FAILURE_S = 20; /* time for the others to come and to be told why this process ends */

/* Waiting. */

static void on_program_ended(void *arg, uint32_t events)
{
    struct node_process *f = arg;

    (void)events;
    f->has_program_ended = true;
    loop_unwatch(&f->loop, &f->program_watch);
}

/* The end of the program of --program-fd. The node's runner notices it itself. */
static int watch_program(struct node_process *f, struct err *e)
{
    struct child program;

    f->program_watch = (struct watch){.fd = -1, .ready = on_program_ended, .arg = f};
    if (f->opt.program_fd == 0)
        return 0;
    if (child_adopt(&program, f->opt.program_fd) < 0)
        return err_errno(e, ERR_USAGE, "--program-fd %d", f->opt.program_fd);
    f->program_watch.fd = program.fd;
    return loop_watch(&f->loop, &f->program_watch, EPOLLIN, e);
}

/* A process that was killed after all have met would be waited for in vain. */
static int check_members(struct node_process *f, struct err *e)
{
    int gone = member_gone_of_step(f);
    const struct meeting_member *k = gone >= 0 ? &f->meet.members[gone] : NULL;
    int rc = k ? meeting_start(&f->meet, e) : 0; /* it may have reported a failure before it ended */

    if (!k || rc != 0)
        return rc < 0 ? rc : 0;
    return err_set(e, ERR_LOST, "process %d (node %d) on %s was killed before the start", gone, k->node,
                   k->machine);
}

static int check_waiting(struct node_process *f, struct err *e)
{
    char reason[200];
    bool has_failed;

    if (f->signal)
        return err_set(e, ERR_CANCELLED, "%s before the start", strsignal(f->signal));
    if (f->has_program_ended && !f->task)
        return err_set(e, ERR_TRAINER, "its program has ended before the job has started");
    if (clock_now() - f->looked_at < LOOK_S)
        return 0;
    f->looked_at = clock_now();
    /* A follower that has read no offer yet may see a cancellation of an earlier launch. */
    if (f->meet.launch[0] && f->meet.attempt > 0 && meeting_is_stopped(&f->meet, reason, &has_failed))
        return err_set(e, ERR_CANCELLED, "%s", reason[0] ? reason : "cancelled before the start");
    return f->meet.attempt > 0 ? check_members(f, e) : other_launch_check(f, e);
}

static void text_of_hour(char out[16], double wall)
{
    time_t t = (time_t)wall;
    struct tm tm;

    localtime_r(&t, &tm);
    strftime(out, 16, "%H:%M:%S", &tm);
}

/* Once all have met, a process waits for nodes that load, and for a training program's start as long as their
 * runners do. */
static double wait_limit(const struct node_process *f)
{
    return f->opt.timeout_s + (f->meet.attempt > 0 && f->set.trainer[0] ? TRAINER_START_S : 0);
}

/* Says whom it waits for, and until when; ERR_TIMEOUT: the time is over. */
static int tell_waiting(struct node_process *f, struct err *e)
{
    struct meeting *m = &f->meet;
    double now = clock_now(), left = m->waits_since + wait_limit(f) - now;
    char who[400], until[16], text[512];

    meeting_missing(m, who, sizeof who);
    if (left < 0) {
        err_set(e, ERR_TIMEOUT, "%s %s within %g s", who, m->attempt > 0 ? "was not ready" : "did not come",
                wait_limit(f));
        return err_hint(e,
                        "Are all %d processes started, and is %s the same folder for all? --timeout S of "
                        "job_runner waits longer.",
                        f->n_nodes, f->folder);
    }
    if (now - m->told_at < TELL_S)
        return 0;
    m->told_at = now;
    text_of_hour(until, clock_wall() + left);
    snprintf(text, sizeof text, "waits until %s for %s", until, who);
    log_line(LOG_LEVEL_INFO, "node", f->spec.id, "%s", text);
    if (!f->task)
        folder_state_wait(f, text);
    return 0;
}

/* And not because another node has failed. */
static bool was_cancelled(const struct job *j)
{
    return j->state == JOB_CANCELLED && strcmp(j->reason, REASON_JOB_FAILED) != 0;
}

/* The node has ended before the start. */
static int end_early(const struct node_process *f, struct err *e)
{
    const struct job *j = &f->task->job;

    return err_set(e, was_cancelled(j) ? ERR_CANCELLED : ERR_LOST, "%s: %s", j->reason, j->message);
}

/* Repeats a step of the meeting until it is done. */
static int await(struct node_process *f, int (*step)(struct meeting *m, struct err *e), struct err *e)
{
    double pause = POLL_S;
    int rc;

    while ((rc = step(&f->meet, e)) == 0) {
        if (tell_waiting(f, e) < 0 || check_waiting(f, e) < 0)
            return e->code;
        loop_turn(&f->loop, pause);
        if (f->task)
            folder_state_write(f);
        pause = fmin(1.2 * pause, POLL_MAX_S);
        if (node_process_is_over(f))
            return end_early(f, e);
    }
    return rc < 0 ? rc : 0;
}

/* The node's folder. */

/* A process of an earlier launch may still be ending its node. */
static bool take_lock(const struct node_process *f)
{
    double until = clock_now() + NODE_PROCESS_LOCK_S;

    while (flock(f->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return true; /* this file system has no locks */
        if (clock_now() > until)
            return false;
        usleep(100000);
    }
    return true;
}

static int lock_node(struct node_process *f, struct err *e)
{
    char path[PATH_MAX], text[600] = "";
    ssize_t n = 0;

    if (file_join(path, sizeof path, f->agent.dir, "lock", e) < 0)
        return e->code;
    f->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock_fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (!take_lock(f)) {
        n = pread(f->lock_fd, text, sizeof text - 1, 0);
        err_set(e, ERR_CONFLICT, "another process runs %s of this job: %.*s", f->name,
                n > 0 ? (int)strcspn(text, "\n") : 12, n > 0 ? text : "not known");
        return err_hint(e, "Wait for its end, or cancel the job: job_submit cancel %s.", f->folder);
    }
    snprintf(text, sizeof text, "process %ld on %s%s%s\n", (long)getpid(), f->machine,
             f->launch[0] ? ", of launch " : "", f->launch);
    if (ftruncate(f->lock_fd, 0) < 0 || pwrite(f->lock_fd, text, strlen(text), 0) < 0)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

/* Takes the node for this process. */
static int claim_node(struct node_process *f, struct err *e)
{
    char path[PATH_MAX], *no_arguments[] = {f->name, NULL};

    if (agent_options_parse(&f->agent, AGENT_RUN, 1, no_arguments, e) < 0 ||
        file_join(path, sizeof path, f->folder, job_folder_node_name(f->name, f->spec.node), e) < 0)
        return e->code;
    if (snprintf(f->agent.dir, sizeof f->agent.dir, "%s", path) >= (int)sizeof f->agent.dir)
        return err_set(e, ERR_CONFIG, "%s: path too long", path);
    /* The codec and the program are those of the user who runs this process, from a folder of that user. */
    f->agent.codecs = CODECS_ANY;
    f->agent.trainers = TRAINERS_ANY;
    f->agent.require_isolation = ISOLATION_NONE;
    f->agent.job_memory_gib = f->opt.job_memory_gib;
    memcpy(f->agent.trainer_python, f->opt.trainer_python, sizeof f->agent.trainer_python);
    log_rename(f->name);
    if (file_mkdirs(f->agent.dir, 0700, e) < 0 || other_launch_await(f, e) < 0 || lock_node(f, e) < 0)
        return e->code;
    return loop_open(&f->loop, e);
}

/* Before anything else that can fail, so that the others learn of it. */
static int open_meeting(struct node_process *f, struct err *e)
{
    struct meeting_member mine = {.node = f->spec.node};
    const json_t *nodes = json_object_get(f->document, "nodes");

    memcpy(mine.machine, f->machine, sizeof mine.machine);
    memcpy(mine.launch, f->launch, sizeof mine.launch);
    memcpy(mine.given, f->opt.host, sizeof mine.given);
    process_boot(mine.boot);
    node_address_own(mine.address);
    if (meeting_open(&f->meet, f->folder, f->rank, f->n_nodes, &mine, e) < 0)
        return e->code;
    for (int r = 0; r < f->n_nodes; r++)
        f->meet.members[r].node = (int)json_integer_value(
            json_object_get(json_object_get(json_array_get(nodes, (size_t)r), "reservation"), "node"));
    return 0;
}

static int open_node(struct node_process *f, struct err *e)
{
    char exe_dir[PATH_MAX - 16];
    struct agent_isolation isolation;

    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 ||
        own_isolation_find(&isolation, f->agent.require_isolation, e) < 0)
        return e->code;
    file_remove_temporary(f->agent.dir);
    snprintf(f->address, sizeof f->address, "process %d", f->rank);
    f->jobs = (struct jobs){.opt = &f->agent,
                            .loop = &f->loop,
                            .address = f->address,
                            .notify.loop = &f->loop,
                            .isolation = isolation,
                            .dir_fd = -1,
                            .is_of_launcher = f->set.transport == TRANSPORT_MPI,
                            .program_fd = f->opt.program_fd,
                            .ends_runners = true};
    if (jobs_open(&f->jobs, e) < 0 || node_orders_open(f, e) < 0 || watch_program(f, e) < 0)
        return e->code;
    strcpy(f->jobs.data_folders, "/"); /* a rank reads what its user may read */
    snprintf(f->jobs.runner_exe, sizeof f->jobs.runner_exe, "%s/job_runner", exe_dir);
    snprintf(f->jobs.codecs.builtin_dir, sizeof f->jobs.codecs.builtin_dir, "%s/codecs", exe_dir);
    f->jobs.is_subreaper = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    return 0;
}

static void close_node(struct node_process *f)
{
    meeting_close(&f->meet);
    if (f->jobs.opt)
        jobs_close(&f->jobs);
    if (f->stop_watch.fd > 0)
        close(f->stop_watch.fd);
    if (f->program_watch.fd > 0)
        close(f->program_watch.fd);
    if (f->loop.epoll_fd > 0)
        loop_close(&f->loop);
    if (f->lock_fd >= 0)
        close(f->lock_fd);
    json_decref(f->document);
}

/* The job. */

static const char *variable(const char *name)
{
    return getenv(name);
}

/* Processes whose numbers a person gives may have variables of several launches. */
static void find_launch(struct node_process *f)
{
    if (f->opt.launch[0])
        memcpy(f->launch, f->opt.launch, sizeof f->launch);
    else if (f->opt.rank < 0)
        launch_identity(f->launch, sizeof f->launch, variable);
    if (!utf8_is_clean(f->launch))
        f->launch[0] = '\0';
}

static int find_node(struct node_process *f, struct err *e)
{
    const json_t *nodes = json_object_get(f->document, "nodes");
    const json_t *settings = json_object_get(json_object_get(f->document, "record"), "settings");
    struct launch_rank r;

    f->n_nodes = (int)json_array_size(nodes);
    if (launch_rank_find(&r, f->n_nodes, f->opt.rank, f->opt.size, variable, e) < 0)
        return e->code;
    if (launch_rank_check(&r, f->n_nodes, e) < 0)
        return err_hint(e,
                        "Start %d process%s, servers included, as with mpirun -n %d or srun -n %d; another "
                        "number of workers needs a job folder of its own: job_submit resume %.150s.",
                        f->n_nodes, f->n_nodes == 1 ? "" : "es", f->n_nodes, f->n_nodes, f->folder);
    f->rank = r.rank;
    find_launch(f);
    f->entry = json_array_get(nodes, (size_t)f->rank);
    if (job_spec_parse(&f->spec, json_object_get(f->entry, "reservation"), e) < 0 ||
        settings_parse(&f->set, settings, e) < 0)
        return err_at(e, "%s/" JOB_FOLDER_DOCUMENT, f->folder);
    return f->set.transport == TRANSPORT_MPI ? launch_rank_check_mpi(&r, variable, e) : 0;
}

/* First of all, because it is of the folder's user, and no other one can run the job. */
static int read_secret(struct node_process *f, struct err *e)
{
    char path[PATH_MAX], *text;
    size_t len;
    int rc;

    if (file_join(path, sizeof path, f->folder, JOB_FOLDER_SECRET, e) < 0 ||
        private_read(&text, &len, path, SHA256_HEX, e) < 0)
        return e->code;
    rc = hex_decode(f->secret, SHA256_BYTES, text)
             ? 0
             : err_set(e, ERR_CONFIG, "%s: not 64 hexadecimal digits", path);
    secret_free(text);
    return rc;
}

static int read_job(struct node_process *f, struct err *e)
{
    gethostname(f->machine, sizeof f->machine - 1);
    if (!realpath(f->opt.job, f->folder)) {
        if (errno != ENOENT)
            return err_errno(e, ERR_IO, "--job %s", f->opt.job);
        err_set(e, ERR_NOT_FOUND, "--job %s: %s has no such folder", f->opt.job, f->machine);
        return err_hint(e, "job_submit pack -o DIR writes it, on a file system that all machines of the job "
                           "share.");
    }
    if (job_folder_read(&f->document, f->folder, e) < 0 || read_secret(f, e) < 0)
        return e->code;
    return find_node(f, e);
}

/* Reads what earlier attempts have left; a runner of theirs that was killed has an end from now on. */
static int restore_attempts(struct node_process *f, struct err *e)
{
    if (task_read_all(&f->jobs, e) < 0)
        return e->code;
    job_restore_all(&f->jobs);
    for (struct task *t = f->jobs.first; t; t = t->next) {
        job_stop(t, REASON_AGENT_RESTARTED, "its process ended before the job was started", 0);
        folder_state_write_ended(f, t);
    }
    f->has_read_attempts = true;
    return 0;
}

static int meet_others(struct node_process *f, struct err *e)
{
    struct meeting_member *mine = &f->meet.members[f->rank];
    const struct task *last = task_find(&f->jobs, f->spec.id);

    mine->attempt = last ? last->job.spec.attempt : 0;
    mine->state = last ? last->job.state : JOB_PENDING;
    rank_checkpoints_list(mine, &f->jobs, f->spec.id);
    folder_state_wait(f, "waits for the other processes");
    if (await(f, meeting_gather, e) < 0)
        return e->code;
    member_gone_begin(f);
    return 0;
}

static int n_workers_here(const struct node_process *f)
{
    int n = 0;

    for (int r = 0; r < f->spec.node_count; r++)
        n += meeting_is_one_machine(&f->meet.members[r], &f->meet.members[f->rank]);
    return n;
}

/* Waits until the runner has loaded all, unless another node fails before. */
static int await_ready(struct node_process *f, struct err *e)
{
    double looked_at = clock_now();

    while (!node_process_is_over(f) && f->task->job.state != JOB_READY) {
        loop_turn(&f->loop, LOOK_S);
        folder_state_write(f);
        node_orders_follow(f);
        if (clock_now() - looked_at < LOOK_S)
            continue;
        looked_at = clock_now();
        if (meeting_start(&f->meet, e) < 0 || check_members(f, e) < 0)
            return e->code;
    }
    return node_process_is_over(f) ? end_early(f, e) : 0;
}

/* Gives the node its slot, its packages and so its runner, which loads all. */
static int prepare(struct node_process *f, struct err *e)
{
    const struct meeting *m = &f->meet;

    f->spec.attempt = m->attempt;
    f->spec.workers_on_host = n_workers_here(f);
    f->spec.weights |= m->resumes;
    if (node_address_listen(f, e) < 0 || task_add(&f->jobs, &f->spec, "", "", &f->task, e) < 0)
        return e->code;
    job_stream_opened(f->task); /* no client has to renew the reservation */
    job_supersede(&f->jobs);
    job_schedule(&f->jobs);
    folder_state_begin(f);
    if (m->resumes)
        log_line(LOG_LEVEL_INFO, "node", f->spec.id, "attempt %d goes on from step %lld", m->attempt,
                 (long long)m->resume.step);
    else if (m->attempt > 1)
        log_line(LOG_LEVEL_INFO, "node", f->spec.id, "attempt %d begins anew: %s", m->attempt,
                 settings_has_checkpoints(&f->set)
                     ? "there are no checkpoints of all nodes"
                     : "without --checkpoint-every or --checkpoint-steps there are no checkpoints");
    if (!node_process_is_over(f) &&
        rank_packages_take(f->task, f->folder, json_object_get(f->entry, "packages"),
                           m->resumes ? &m->resume : NULL, e) < 0) {
        job_stop(f->task, REASON_INTERNAL, e->text, 0);
        return e->code;
    }
    return await_ready(f, e);
}

/* The entries of all nodes; NULL: no memory. */
static char *list_peers(const struct node_process *f)
{
    char *text = malloc((size_t)f->n_nodes * PEER_TEXT + 1), *end = text;

    for (int r = 0; text && r < f->n_nodes; r++) {
        const struct meeting_member *k = &f->meet.members[r];
        char address[MEETING_NAME + 16];
        struct peer p = {.node = k->node, .data_port = k->port, .address = address, .host = k->host};

        snprintf(address, sizeof address, strchr(k->host, ':') ? "[%s]:%d" : "%s:%d", k->host, k->port);
        hex_decode(p.key, sizeof p.key, k->data_key);
        if (r > 0)
            *end++ = ';';
        end += peer_print(end, &p);
    }
    return text;
}

static int start(struct node_process *f, struct err *e)
{
    uint8_t secret[SHA256_BYTES];
    char hex[SHA256_HEX], *peers = list_peers(f);
    struct start_document d;
    json_t *order;
    int rc;

    meeting_key(secret, &f->meet, f->secret);
    hex_encode(hex, secret, sizeof secret);
    explicit_bzero(f->secret, sizeof f->secret);
    explicit_bzero(secret, sizeof secret);
    order = peers ? json_pack("{s:i, s:s, s:s}", "attempt", f->meet.attempt, "secret", hex, "peers", peers)
                  : NULL;
    explicit_bzero(hex, sizeof hex);
    free(peers);
    rc = order ? start_document_parse(&d, order, &f->spec, e)
               : err_set(e, ERR_NOMEM, "no memory for an order");
    if (rc == 0) {
        rc = job_start(f->task, d.line, d.digest, e);
        start_document_clear(&d);
    }
    json_decref(order);
    return rc;
}

static void run_to_end(struct node_process *f)
{
    while (!node_process_is_over(f)) {
        loop_turn(&f->loop, LOOK_S);
        folder_state_write(f);
        if (node_process_is_over(f))
            break;
        node_orders_follow(f);
        folder_lead(f);
    }
    folder_state_write(f);
    folder_lead_take_own(f);
    meeting_say_ended(&f->meet, f->task->job.state, f->task->job.reason, f->task->job.message);
    if (f->rank == 0)
        folder_lead_await(f);
}

/* What another attempt would do. Process 0 does not see which checkpoints the others have. */
static const char *say_next(struct node_process *f)
{
    struct meeting_member *mine = &f->meet.members[f->rank];

    rank_checkpoints_list(mine, &f->jobs, f->spec.id);
    if (mine->n_points > 0)
        return "goes on from the last checkpoints that all nodes have";
    return settings_has_checkpoints(&f->set) ? "begins it anew, as there is no checkpoint yet"
                                             : "begins it anew, as it was packed without checkpoints";
}

/* Exit status and the last line. */
static enum rank_status conclude(struct node_process *f)
{
    const struct job *j = &f->task->job;
    int cause = f->rank == 0 ? folder_lead_cause(f) : -1;
    const struct meeting_member *k = cause >= 0 ? &f->meet.members[cause] : NULL;
    const char *collect = f->opt.is_collected ? "" : ". next: job_submit collect ";
    int n_left = f->rank == 0 && !k ? folder_lead_running(f) : 0;

    if (n_left > 0) {
        log_line(LOG_LEVEL_ERROR, "node", f->spec.id,
                 "%s came before %d of the %d nodes had ended; job_submit status %s shows them",
                 strsignal(f->signal), n_left, f->n_nodes, f->folder);
        return EXIT_CANCELLED;
    }
    if (f->rank == 0 && !k)
        log_line(LOG_LEVEL_INFO, "node", f->spec.id, "the job has succeeded%s%s", collect,
                 f->opt.is_collected ? "" : f->folder);
    if (k)
        log_line(LOG_LEVEL_ERROR, "node", f->spec.id,
                 "the job %s: node(%d) on %s, %s: %s%s%s; the launcher's command again, for this folder, "
                 "%s",
                 k->end == JOB_CANCELLED ? "was cancelled" : "has failed", k->node, k->machine, k->reason,
                 k->message, collect, f->opt.is_collected ? "" : f->folder, say_next(f));
    if (k)
        return k->end == JOB_CANCELLED ? EXIT_CANCELLED : EXIT_JOB_FAILED;
    if (j->state == JOB_SUCCEEDED || f->rank == 0)
        return EXIT_DONE;
    return was_cancelled(j) ? EXIT_CANCELLED : EXIT_JOB_FAILED;
}

/* The others must not wait for a node that does not come. */
static void tell_others(struct node_process *f, const struct err *e)
{
    /* Processes that have not come yet are waited for only if they would wait for this one: a launcher that
     * asks this process to end asks all, and a launch that is refused has no others. */
    bool is_brief = e->code == ERR_CANCELLED || e->code == ERR_TIMEOUT || e->code == ERR_CONFLICT;
    double until = clock_now() + (is_brief ? 0 : FAILURE_S);

    if (f->rank != 0 && e->code == ERR_TIMEOUT)
        return; /* process 0 has a limit of its own */
    while (!meeting_tell_failure(&f->meet, e) && clock_now() < until && !f->signal)
        loop_turn(&f->loop, POLL_MAX_S);
}

static void report_failure(struct node_process *f, const struct err *e)
{
    if (!f->meet.members)
        return;
    tell_others(f, e);
    if (f->task && !node_process_is_over(f)) {
        job_stop(f->task, e->code == ERR_CANCELLED ? REASON_USER_CANCELLED : REASON_JOB_FAILED, e->text, 1);
        while (!node_process_is_over(f))
            loop_turn(&f->loop, LOOK_S);
    }
    if (f->task)
        folder_state_write(f);
    else if (f->has_read_attempts)
        folder_state_restore(f, e->text);
}

static int run_node(struct node_process *f, struct err *e)
{
    if (read_job(f, e) < 0 || claim_node(f, e) < 0 || open_meeting(f, e) < 0 || open_node(f, e) < 0 ||
        restore_attempts(f, e) < 0 || meet_others(f, e) < 0 || prepare(f, e) < 0 ||
        meeting_say_ready(&f->meet, f->task->job.data_port, f->task->job.data_key, e) < 0 ||
        await(f, meeting_start, e) < 0 || start(f, e) < 0)
        return e->code;
    run_to_end(f);
    return 0;
}

static enum rank_status exit_status_of(int code)
{
    switch (code) {
    case ERR_USAGE:
        return EXIT_USAGE;
    case ERR_CONFIG:
    case ERR_NOT_FOUND:
    case ERR_AUTH:
        return EXIT_INVALID;
    case ERR_CONFLICT:
    case ERR_REFUSED:
        return EXIT_REFUSED;
    case ERR_TIMEOUT:
        return EXIT_TIMEOUT;
    case ERR_CANCELLED:
        return EXIT_CANCELLED;
    default:
        return EXIT_JOB_FAILED;
    }
}

int folder_node_main(int argc, char **argv)
{
    static struct node_process f = {.lock_fd = -1}; /* static: it has arrays of paths */
    enum rank_status status;
    struct err e = {0};

    if (rank_options_parse(&f.opt, argc, argv, &e) == 0) {
        if (f.opt.wants_help)
            rank_options_usage(stdout);
        else if (f.opt.wants_version)
            puts("job_runner (psgd) " PSGD_VERSION);
        if (f.opt.wants_help || f.opt.wants_version)
            return fflush(stdout) == 0 ? EXIT_DONE : EXIT_JOB_FAILED;
        run_node(&f, &e);
    }
    if (e.code < 0) {
        fprintf(stderr, "job_runner: %s%s%s\n%s%s", f.name[0] ? f.name : "", f.name[0] ? ": " : "", e.text,
                e.hint, e.hint[0] ? "\n" : "");
        report_failure(&f, &e);
        status = exit_status_of(e.code);
    } else {
        status = conclude(&f);
    }
    close_node(&f);
    return (int)status;
}
