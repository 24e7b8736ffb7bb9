/* run-ranks, also psgd-run: one process of a launcher, whose processes all run the same command. Process 0
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
#include "submit/options/options_table.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { LOOK_MS = 200, NUMBER = 12, NAME_OF_LAUNCH = 128, REFUSAL_MAX = 1 << 16 };
static const double AWAIT_S = 300, TELL_S = 10;
/* In the folder, of a process 0 whose job was refused: {"launch","sentence"}. srun lets the others wait. */
static const char refusal[] = "refused.json";

struct ranks {
    struct options opt;
    struct launch_rank at;
    char folder[PATH_MAX], launch[NAME_OF_LAUNCH], exe_dir[PATH_MAX];
};

static const char *variable(const char *name)
{
    return getenv(name);
}

/* DIR/psgd-JOB, where DIR is that in which the user submitted the launcher's job. */
static int name_folder(struct ranks *r, struct err *e)
{
    const char *in = getenv("SLURM_SUBMIT_DIR");
    char name[NAME_OF_LAUNCH], folder[NAME_OF_LAUNCH + 8];

    if (r->opt.output[0])
        return file_absolute(r->folder, sizeof r->folder, r->opt.output, e);
    launch_name(name, sizeof name, variable);
    if (!name[0]) {
        err_set(e, ERR_USAGE, "a folder for the job is needed, -o DIR: its launcher has no name for it");
        return err_hint(e, "It must be on a file system that all machines of the job share.");
    }
    snprintf(folder, sizeof folder, "psgd-%s", name);
    return file_join(r->folder, sizeof r->folder, in ? in : ".", folder, e) < 0 ||
                   file_absolute(r->opt.output, sizeof r->opt.output, r->folder, e) < 0
               ? e->code
               : file_absolute(r->folder, sizeof r->folder, r->opt.output, e);
}

/* Unless it is given, the launcher's number of processes is that of the job's nodes. */
static int find_nodes(struct ranks *r, struct err *e)
{
    struct options *o = &r->opt;

    if (launch_rank_find(&r->at, 0, o->rank, o->size, variable, e) < 0)
        return e->code;
    if (!options_is_given(o, offsetof(struct options, settings.node_count)) && r->at.size > o->servers)
        o->settings.node_count = r->at.size - o->servers;
    return launch_rank_check(&r->at, o->settings.node_count + o->servers, e);
}

/* ERR_CONFLICT: the options of `now` differ from `then`, those of the job in the folder. */
static int compare_options(const struct ranks *r, const json_t *then, const json_t *now, struct err *e)
{
    const char *key;
    json_t *text;

    json_object_foreach((json_t *)now, key, text)
    {
        const char *was = json_text_at(then, key);

        if (json_equal(text, json_object_get(then, key)))
            continue;
        err_set(e, ERR_CONFLICT, "%s has a job with other options already: --%s is %s, and was %s", r->folder,
                key, json_string_value(text), was[0] ? was : "not given");
        return err_hint(e, "Name another folder, -o DIR, or repeat the options of that job to continue it.");
    }
    return 0;
}

/* A folder that has a job already is that of an earlier launch of this command. */
static int check_same(const struct ranks *r, const json_t *document, struct err *e)
{
    const json_t *facts = json_object_get(json_object_get(document, "record"), "facts");
    struct submission s;
    json_t *now;
    int rc = submission_init(&s, &r->opt, e);

    if (rc == 0) {
        now = stage_read_options(&s);
        rc = now ? compare_options(r, json_object_get(facts, "options"), now, e)
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

    if (file_join(path, sizeof path, r->folder, refusal, e) < 0)
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
        file_join(path, sizeof path, r->folder, refusal, &ignored) == 0)
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

    if (!r->launch[0] || file_join(path, sizeof path, r->folder, refusal, &none) < 0 ||
        json_read(&o, path, REFUSAL_MAX, &none) < 0)
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

/* The job that process 0 writes. */
static int await_job(const struct ranks *r, struct err *e)
{
    double since = clock_now(), told = since;
    char until[TEXT_AMOUNT];

    text_hour(until, clock_wall() + AWAIT_S);
    *e = (struct err){0};
    while (!is_there(r)) {
        struct pollfd p = {.fd = interrupt_fd(), .events = POLLIN};

        if (interrupt_check(e) < 0 || check_refusal(r, e) < 0)
            return e->code;
        if (clock_now() > since + AWAIT_S) {
            err_set(e, ERR_TIMEOUT, "process 0 has not written the job into %s within %g s", r->folder,
                    AWAIT_S);
            return err_hint(
                e, "Is it on a file system that all machines of the job share? -o DIR names another one.");
        }
        if (clock_now() > told + TELL_S) {
            console_info("Process %d waits until %s for the job in %s, which process 0 writes.", r->at.rank,
                         until, r->folder);
            told = clock_now();
        }
        poll(&p, 1, LOOK_MS);
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

/* job_runner handles the signals of the launcher; those that reach this process alone are passed on. */
static int run_child(int *status, char *const *argv, struct err *e)
{
    const struct child_how how = {.argv = argv, .out = STDOUT_FILENO, .err = STDERR_FILENO};
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
    struct child c;

    if (child_start(&c, &how, e) < 0)
        return e->code;
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

/* Process 0 stays, to collect the results; another one becomes job_runner. */
static int run_node(struct ranks *r, struct err *e)
{
    char runner[PATH_MAX], submit[PATH_MAX], rank[NUMBER], size[NUMBER];
    char *const run[] = {runner,      "--job",  r->folder, "--rank",
                         rank,        "--size", size,      r->opt.host[0] ? "--host" : NULL,
                         r->opt.host, NULL};
    char *const collect[] = {submit, "collect", r->opt.json ? "--json" : "--quiet", r->folder, NULL};
    int of_job, of_results;

    snprintf(rank, sizeof rank, "%d", r->at.rank);
    snprintf(size, sizeof size, "%d", r->opt.settings.node_count + r->opt.servers);
    if (file_join(runner, sizeof runner, r->exe_dir, "job_runner", e) < 0 ||
        file_join(submit, sizeof submit, r->exe_dir, "job_submit", e) < 0)
        return e->code;
    if (r->at.rank != 0) {
        execv(runner, run);
        return err_errno(e, ERR_IO, "%s", runner);
    }
    if (run_child(&of_job, run, e) < 0 || run_child(&of_results, collect, e) < 0)
        return e->code;
    if (WIFEXITED(of_results) && WEXITSTATUS(of_results) == 0)
        console_info("The results are in %s/results.", r->folder);
    return status_of(status_of(of_job) ? of_job : of_results);
}

int verb_run_ranks(const struct options *o, struct err *e)
{
    static struct ranks r; /* static: it has arrays of paths */

    r.opt = *o;
    launch_identity(r.launch, sizeof r.launch, variable);
    if (verb_check_arguments(o, e) < 0 || file_exe_dir(r.exe_dir, sizeof r.exe_dir, e) < 0 ||
        find_nodes(&r, e) < 0 || name_folder(&r, e) < 0)
        return e->code;
    if (find_job(&r, e) < 0) {
        if (r.at.rank == 0)
            tell_refusal(&r, e);
        return e->code;
    }
    return run_node(&r, e);
}
