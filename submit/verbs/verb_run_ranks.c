/* run-ranks, also psgd-run: one process of a launcher, whose processes all run the same command; or of a
 * training program that a launcher has started, and that starts this one with its socket. Process 0
 * writes the job folder, each process becomes job_runner for its node, and process 0 collects the results.
 * The name of the folder is that of the launcher's job, so that a requeued job finds its folder, and so its
 * checkpoints, again. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/launch_rank.h"
#include "shared/trainer/trainer_link.h"
#include "submit/job/launcher_process.h"
#include "submit/launch/kubernetes.h"
#include "submit/launch/slurm.h"
#include "submit/options/options_table.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { CHILD_PROGRAM_FD = 3, LOOK_MS = 200, NUMBER = 12, NAME_OF_LAUNCH = 128 };
static const double AWAIT_S = 300, TELL_S = 10;
static const char folder_variable[] = "PSGD_JOB";

struct ranks {
    struct options opt;
    struct launch_rank at;
    char folder[PATH_MAX], launch[NAME_OF_LAUNCH], exe_dir[PATH_MAX];
    int program_end; /* readable when the program of --program-fd has ended; -1: there is none */
};

static const char *variable(const char *name)
{
    return getenv(name);
}

static int find_program(struct ranks *r, struct err *e)
{
    struct child program;

    r->program_end = -1;
    if (r->opt.program_fd == 0)
        return 0;
    if (child_adopt(&program, r->opt.program_fd) < 0)
        return err_errno(e, ERR_USAGE, "--program-fd %d", r->opt.program_fd);
    r->program_end = program.fd;
    return 0;
}

/* What all processes of this launch know of it. */
static void name_launch(struct ranks *r, char *name, size_t size)
{
    launch_name(name, size, variable);
    launch_identity(r->launch, sizeof r->launch, variable);
    if (!name[0] && launch_is_here(variable) && launcher_process_name(name, size, r->at.origin))
        snprintf(r->launch, sizeof r->launch, "%s", name);
}

/* DIR/psgd-JOB, where DIR is that in which the user submitted the launcher's job. */
static int name_folder(struct ranks *r, struct err *e)
{
    const char *in = getenv("SLURM_SUBMIT_DIR"), *given = getenv(folder_variable);
    char name[NAME_OF_LAUNCH], folder[NAME_OF_LAUNCH + 8];

    name_launch(r, name, sizeof name);
    if (!r->opt.output[0] && given)
        snprintf(r->opt.output, sizeof r->opt.output, "%s", given);
    if (r->opt.output[0])
        return file_absolute(r->folder, sizeof r->folder, r->opt.output, e);
    if (!name[0]) {
        err_set(e, ERR_USAGE,
                "a folder for the job is needed, -o DIR or PSGD_JOB=DIR: its launcher has no name for it");
        return err_hint(e, "It must be on a file system that all machines of the job share.");
    }
    snprintf(folder, sizeof folder, "psgd-%s", name);
    if (in ? file_join(r->folder, sizeof r->folder, in, folder, e) < 0
           : file_absolute(r->folder, sizeof r->folder, folder, e) < 0)
        return e->code;
    return file_absolute(r->opt.output, sizeof r->opt.output, r->folder, e);
}

/* Unless it is given, the launcher's number of processes is that of the job's nodes. */
static int find_nodes(struct ranks *r, struct err *e)
{
    struct options *o = &r->opt;

    if (launch_rank_find(&r->at, 0, o->rank, o->size, variable, e) < 0)
        return e->code;
    if (!options_is_given(o, offsetof(struct options, settings.node_count)) && r->at.size > o->servers)
        o->settings.node_count = r->at.size - o->servers;
    if (launch_rank_check(&r->at, o->settings.node_count + o->servers, e) < 0)
        return e->code;
    return o->settings.transport == TRANSPORT_MPI ? launch_rank_check_mpi(&r->at, variable, e) : 0;
}

static bool writes_checkpoints(const json_t *record)
{
    struct settings set;
    struct err ignored;

    return settings_parse(&set, json_object_get(record, "settings"), &ignored) == 0 &&
           settings_has_checkpoints(&set);
}

/* ERR_CONFLICT: the options of `now` differ from those of the job in the folder, whose record this is. */
static int compare_options(const struct ranks *r, const json_t *record, const json_t *now, struct err *e)
{
    const json_t *then = json_object_get(json_object_get(record, "facts"), "options");
    const bool saves = writes_checkpoints(record);
    const char *key;
    json_t *text;

    json_object_foreach((json_t *)now, key, text)
    {
        const char *was = json_text_at(then, key);

        if (json_equal(text, json_object_get(then, key)))
            continue;
        err_set(e, ERR_CONFLICT, "%s has a job with other options already: --%s is %s, and was %s", r->folder,
                key, json_string_value(text), was[0] ? was : "not given");
        return err_hint(
            e, "Repeat the options of that job to continue it, or name another folder, -o DIR%s%s%s.",
            saves ? ": --resume " : "", saves ? r->folder : "",
            saves ? "/results goes on there from its checkpoints" : "");
    }
    return 0;
}

/* A folder that has a job already is that of an earlier launch of this command. */
static int check_same(const struct ranks *r, const json_t *document, struct err *e)
{
    char output[ARGS_NAME];
    struct submission s;
    json_t *now;
    int rc = submission_init(&s, &r->opt, e);

    if (rc == 0) {
        memcpy(s.job_folder, r->folder, sizeof s.job_folder);
        now = stage_read_options(&s);
        options_name(output, offsetof(struct options, output));
        json_object_del(now, output); /* the folder may have several paths */
        rc = now ? compare_options(r, json_object_get(document, "record"), now, e)
                 : err_set(e, ERR_NOMEM, "no memory for the options");
        json_decref(now);
    }
    submission_clear(&s);
    return rc;
}

static int pack_job(struct ranks *r, struct err *e)
{
    struct submission s;
    char path[PATH_MAX];
    int rc;

    if (file_join(path, sizeof path, r->folder, JOB_FOLDER_REFUSAL, e) < 0)
        return e->code;
    if (unlink(path) == 0)
        rmdir(r->folder);
    rc = submission_init(&s, &r->opt, e);
    if (rc == 0 && (rc = verb_pack_job(&s, e)) == 0)
        console_info("Job %s is in %s.", s.id, r->folder);
    submission_clear(&s);
    return rc;
}

/* The other processes of srun would wait for the folder. */
static void tell_refusal(const struct ranks *r, const struct err *why)
{
    json_t *o = json_pack("{s:s, s:o}", "launch", r->launch, "sentence", json_text(why->text, 900));
    char path[PATH_MAX], *text = o ? json_line(o) : NULL;
    struct err ignored;

    if (text && r->launch[0] && !job_folder_is(r->folder) && file_mkdirs(r->folder, 0700, &ignored) == 0 &&
        file_join(path, sizeof path, r->folder, JOB_FOLDER_REFUSAL, &ignored) == 0)
        file_write(path, text, strlen(text), 0600, &ignored);
    free(text);
    json_decref(o);
}

/* ERR_REFUSED: process 0 of this launch has refused the job. */
static int check_refusal(const struct ranks *r, struct err *e)
{
    struct err none;
    char path[PATH_MAX];
    json_t *o;

    if (!r->launch[0] || file_join(path, sizeof path, r->folder, JOB_FOLDER_REFUSAL, &none) < 0 ||
        json_read(&o, path, JOB_FOLDER_REFUSAL_MAX, &none) < 0)
        return 0;
    if (strcmp(json_text_at(o, "launch"), r->launch) == 0)
        err_set(e, ERR_REFUSED, "process 0 has refused the job: %.900s", json_text_at(o, "sentence"));
    json_decref(o);
    return e->code;
}

/* Opening the folder makes a network file system look at it again. */
static bool is_there(const struct ranks *r)
{
    DIR *d = opendir(r->folder);

    if (d)
        closedir(d);
    return job_folder_is(r->folder);
}

/* The job that process 0 writes, which starts the training program before, so that it describes itself. */
static int await_job(const struct ranks *r, struct err *e)
{
    const double limit = AWAIT_S + (r->opt.trainer[0] ? TRAINER_START_S : 0);
    double since = clock_now(), told = since;
    char until[TEXT_AMOUNT];

    text_hour(until, clock_wall() + limit);
    *e = (struct err){0};
    while (!is_there(r)) {
        struct pollfd p[] = {{.fd = interrupt_fd(), .events = POLLIN},
                             {.fd = r->program_end, .events = POLLIN}};

        if (interrupt_check(e) < 0 || check_refusal(r, e) < 0)
            return e->code;
        if (clock_now() > since + limit) {
            err_set(e, ERR_TIMEOUT, "process 0 has not written the job into %s within %g s", r->folder,
                    limit);
            return err_hint(
                e, "Is it on a file system that all machines of the job share? -o DIR names another one.");
        }
        if (clock_now() > told + TELL_S) {
            console_info("Process %d waits until %s for the job in %s, which process 0 writes; all machines "
                         "of the job must share the file system of that folder.",
                         r->at.rank, until, r->folder);
            told = clock_now();
        }
        if (poll(p, 2, LOOK_MS) > 0 && p[1].revents)
            return err_set(e, ERR_TRAINER, "%s has ended before its job was there", r->opt.trainer);
    }
    return 0;
}

static int find_job(struct ranks *r, struct err *e)
{
    json_t *document;
    int rc;

    if (r->at.rank == 0 && !job_folder_is(r->folder))
        return pack_job(r, e);
    if (r->at.rank != 0 && await_job(r, e) < 0)
        return e->code;
    if (job_folder_read(&document, r->folder, e) < 0)
        return e->code;
    rc = check_same(r, document, e);
    json_decref(document);
    return rc;
}

/* job_runner handles the signals of the launcher; those that reach this process alone are passed on.
 * `program_fd`: becomes descriptor 3 of the child, and only of it, so that the program sees its end; 0:
 * none. */
static int run_child(int *status, char *const *argv, int program_fd, struct err *e)
{
    const char *pmi = getenv("PMI_FD"); /* by which an MPI talks to its launcher (--transport mpi) */
    const struct child_how how = {.argv = argv,
                                  .out = STDOUT_FILENO,
                                  .err = STDERR_FILENO,
                                  .extra = program_fd,
                                  .kept = pmi ? atoi(pmi) : 0};
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
    struct child c;

    if (child_start(&c, &how, e) < 0)
        return e->code;
    if (program_fd > 0)
        close(program_fd);
    p[0].fd = c.fd;
    while (poll(p, 2, -1) < 0 || !(p[0].revents & POLLIN)) {
        if (!(p[1].revents & POLLIN))
            continue;
        interrupt_drain();
        kill(c.pid, interrupt_signal());
    }
    *status = child_wait(&c);
    return 0;
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void requeue_preempted(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    bool is_requeued;
    struct err e;

    if (!job)
        return;
    if (slurm_requeue_preempted(&is_requeued, job, &e) < 0)
        console_error("%s", e.text);
    else if (is_requeued)
        console_info("Slurm has preempted job %s: it is requeued, and goes on when Slurm runs it again.",
                     job);
}

/* Process 0 stays, to collect the results; another one becomes job_runner. */
static int run_node(struct ranks *r, struct err *e)
{
    char runner[PATH_MAX], submit[PATH_MAX], rank[NUMBER], size[NUMBER], program[NUMBER];
    char *run[20] = {runner, "--job", r->folder, "--rank", rank, "--size", size};
    size_t n = 7;
    char *const collect[] = {submit, "collect", r->opt.json ? "--json" : "--quiet", r->folder, NULL};
    int of_job, of_results;

    if (r->at.rank == 0)
        run[n++] = "--collected";
    if (r->opt.host[0]) {
        run[n++] = "--host";
        run[n++] = r->opt.host;
    }
    if (r->launch[0] && r->opt.rank < 0) {
        run[n++] = "--launch";
        run[n++] = r->launch;
    }
    if (r->opt.program_fd > 0) {
        run[n++] = "--program-fd";
        run[n++] = program;
    }
    if (r->opt.trainer[0]) {
        run[n++] = "--trainer-python";
        run[n++] = r->opt.trainer_python;
    }
    snprintf(program, sizeof program, "%d", r->at.rank == 0 ? CHILD_PROGRAM_FD : r->opt.program_fd);
    snprintf(rank, sizeof rank, "%d", r->at.rank);
    snprintf(size, sizeof size, "%d", r->opt.settings.node_count + r->opt.servers);
    if (file_join(runner, sizeof runner, r->exe_dir, "job_runner", e) < 0 ||
        file_join(submit, sizeof submit, r->exe_dir, "job_submit", e) < 0)
        return e->code;
    if (r->at.rank != 0) {
        execv(runner, run);
        return err_errno(e, ERR_IO, "%s", runner);
    }
    if (run_child(&of_job, run, r->opt.program_fd, e) < 0 || run_child(&of_results, collect, 0, e) < 0)
        return e->code;
    if (WIFEXITED(of_results) && WEXITSTATUS(of_results) == 0)
        console_info("The results are in %s/results.", r->folder);
    if (status_of(of_job) == EXIT_CANCELLED)
        requeue_preempted();
    return status_of(status_of(of_job) ? of_job : of_results);
}

int verb_run_ranks(const struct options *o, struct err *e)
{
    static struct ranks r; /* static: it has arrays of paths */

    if (o->kubernetes[0])
        return err_set(e, ERR_USAGE, "--kubernetes is an option of pack: its pods run job_runner");
    r.opt = *o;
    if (kubernetes_check(o, e) < 0 || verb_check_arguments(o, e) < 0 || find_program(&r, e) < 0 ||
        file_exe_dir(r.exe_dir, sizeof r.exe_dir, e) < 0 || find_nodes(&r, e) < 0 || name_folder(&r, e) < 0)
        return e->code;
    if (find_job(&r, e) < 0) {
        if (r.at.rank == 0)
            tell_refusal(&r, e);
        return e->code;
    }
    return run_node(&r, e);
}
