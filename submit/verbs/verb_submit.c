/* submit: runs the stages in order. A failure before the start releases all reservations and removes the
 * result folder; after the start the job does not need this process. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "submit/compat/classic/classic.h"
#include "submit/job/outcome.h"
#include "submit/results/job_index.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/results/why.h"
#include "submit/stages/folder_attempts.h"
#include "submit/stages/retry.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/queued_job.h"
#include "submit/verbs/slurm_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static int prepare_submission(struct submission *s, struct err *e)
{
    if (submission_check_time(s, e) < 0 || stage_read(s, e) < 0 || submission_check_time(s, e) < 0 ||
        stage_check(s, e) < 0 || submission_check_time(s, e) < 0)
        return e->code;
    return stage_place(s, e);
}

int verb_undo(struct submission *s, struct err *e)
{
    char reason[160];

    snprintf(reason, sizeof reason, "%.150s", e->text);
    if (s->n_nodes > 0)
        submission_release(s, reason);
    results_abandon(s);
    if (interrupt_signal())
        console_info("The job was not started; all reservations are released.");
    return e->code;
}

void verb_print_next_commands(const struct submission *s)
{
    const bool is_folder = s->job_folder[0];
    const char *which = is_folder ? s->job_folder : s->id;
    char command[PATH_MAX + 64];

    if (submitted_job_is_unlaunched(s)) {
        console_plain("No process of job %s has been started. next:", s->id);
        console_plain("  %s", submitted_job_launch_command(command, sizeof command, s));
        console_plain("  job_submit wait %s      shows its progress and collects the results", which);
        return;
    }
    console_plain(
        s->opt->detach && s->opt->retries > 0 && !is_folder
            ? "Job %s is watched in the background, for --retries; its log is in the result folder. next:"
            : "Job %s continues without this program. next:",
        s->id);
    console_plain("  job_submit wait %s      shows its progress and %s the results", which,
                  is_folder ? "collects" : "fetches");
    if (is_folder)
        console_plain("  job_submit collect %s   collects the results so far", which);
    else
        console_plain("  job_submit fetch %s     fetches the results so far", which);
    console_plain("  job_submit cancel %s    ends it", which);
}

int verb_exit_status(const struct submission *s)
{
    if (s->state == JOB_SUCCEEDED)
        return s->is_complete ? 0 : EXIT_INCOMPLETE;
    return s->state == JOB_CANCELLED ? EXIT_CANCELLED : EXIT_JOB_FAILED;
}

static const char *fact(const json_t *codec, const char *key)
{
    const char *text = json_string_value(json_object_get(codec, key));

    return text ? text : "not known";
}

/* Prints what the node that decided the failure ran, and its last log lines. */
static void print_last_log(const struct submission *s, const struct job_node *n)
{
    const json_t *codec = submission_codec_facts(s, n);
    json_t *line;
    size_t i;

    if (strcmp(n->view.reason, REASON_TRAINER_FAILED) == 0)
        console_info("The node ran %s; its package has the SHA-256 %s.", s->settings.trainer,
                     fact(json_object_get(s->facts, "trainer"), "sha256"));
    else
        console_info("The node ran %s %s, SHA-256 %s.", s->settings.executor ? "executor" : "codec",
                     fact(codec, "name"), fact(codec, "sha256"));
    if (json_array_size(s->last_log) > 0)
        console_info("The last lines of its log:");
    json_array_foreach(s->last_log, i, line) console_info("\t %s", json_string_value(line));
}

/* Prints the next command that `why` recommends. */
static void print_next(const struct submission *s)
{
    json_t *run = run_json(s), *why = NULL;
    struct err ignored;

    if (run && why_json(&why, run, &ignored) == 0)
        console_info("The records so far are kept. next: %s",
                     json_string_value(json_object_get(why, "next")));
    json_decref(why);
    json_decref(run);
}

static void report_end(const struct submission *s)
{
    const struct job_node *n = s->cause >= 0 ? &s->nodes[s->cause] : NULL;

    if (n)
        console_error("Job %s %s: node(%d)%s%s, %s%s%s", s->id, job_state_name(s->state), n->at.node,
                      s->job_folder[0] ? " on " : "", s->job_folder[0] ? n->at.address : "", n->view.reason,
                      n->view.message[0] ? ": " : "", n->view.message);
    if (n && s->state == JOB_FAILED)
        print_last_log(s, n);
    if (n)
        print_next(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        if (outcome_tolerates(s, &s->nodes[i]))
            console_info("The job continued without node(%d): %s.", s->nodes[i].at.node,
                         s->nodes[i].view.reason);
    if (!s->is_complete)
        console_error("Some results could not be fetched; job_submit fetch %s tries again.", s->id);
}

void verb_show_run(bool ok, const struct submission *s)
{
    if (s->opt->json)
        stdout_json(ok, run_json(s), NULL, NULL);
    else
        run_json_print(stdout, s);
}

/* The chief's own agent ends with it, so its job cannot continue. */
static void cancel_with_chief(struct submission *s)
{
    submission_cancel(s, "the chief has ended", false);
    console_info("Job %s is cancelled, because its chief ends.", s->id);
}

int verb_conclude(struct submission *s, struct err *e)
{
    struct err ignored;

    if (folder_attempts_collect(s, e) < 0 || stage_collect(s, e) < 0) {
        job_index_save(s, &ignored);
        err_hint(e, "job_submit fetch %s -o FOLDER puts the results into another folder.", s->id);
        console_failure(e, "INCOMPLETE");
        return s->state == JOB_SUCCEEDED ? EXIT_INCOMPLETE : verb_exit_status(s);
    }
    if (job_index_save(s, &ignored) < 0)
        console_error("%s", ignored.text);
    report_end(s);
    if (!retry_is_due(s))
        verb_show_run(s->state == JOB_SUCCEEDED, s);
    return verb_exit_status(s);
}

int verb_finish(struct submission *s, struct err *e)
{
    if (stage_watch(s, e) < 0) {
        console_bars(NULL, 0);
        if (e->code != ERR_CANCELLED && e->code != ERR_TIMEOUT)
            return e->code;
        if (s->opt->job_name[0])
            cancel_with_chief(s);
        else
            verb_print_next_commands(s);
        return interrupt_signal() ? 128 + interrupt_signal() : EXIT_TIMEOUT;
    }
    return verb_conclude(s, e);
}

/* Called once checks and agents have accepted the job, so that a refusal is printed alone. */
static void echo_options(const struct options *o)
{
    classic_echo(o);
    options_echo(o);
    options_echo_preset(o);
    if (o->image_classification || o->input)
        console_info(
            "--image-classification and --input are ignored: the data set and the model define them.");
}

/* --detach: prints the id. With --retries, starts a copy of this process that watches the job; returns true
 * in the copy. The copy owns connections and temporary files from now on, so this process ends without
 * closing them. */
static bool detach_job(const struct submission *s)
{
    pid_t pid = 0;
    int nowhere;

    if (s->attempt > 1)
        return true;
    verb_print_next_commands(s);
    if (s->opt->json)
        stdout_json(true, json_pack("{s:s, s:o}", "id", s->id, "folder", json_text(s->folder, SIZE_MAX)),
                    NULL, NULL);
    else
        printf("%s\n", s->id);
    fflush(stdout);
    if (s->opt->retries == 0 || (pid = fork()) < 0)
        return false;
    if (pid > 0)
        _exit(0);
    setsid();
    nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nowhere >= 0 && fd < 3; fd++)
        dup2(nowhere, fd);
    return true;
}

static int begin_results(struct submission *s, struct err *e)
{
    if (s->attempt > 1 && retry_set_aside(s, e) < 0)
        return e->code;
    return results_begin(s, e) < 0 ? e->code : run_json_save(s, e);
}

int verb_start_placed(struct submission *s, struct err *e)
{
    if (stage_ship(s, e) < 0 || (submission_count_ended(s) == 0 && stage_start(s, e) < 0))
        return e->code;
    if (s->is_started) {
        if (begin_results(s, e) < 0)
            console_error("%s", e->text);
        return 0;
    }
    /* A node ended before the start: its records contain the cause, so this counts as a failed job. */
    return begin_results(s, e) < 0 ? e->code : job_index_save(s, e);
}

static int run_attempt(struct submission *s, struct err *e)
{
    if (prepare_submission(s, e) < 0)
        return verb_undo(s, e);
    if (s->attempt == 1)
        echo_options(s->opt);
    if (verb_start_placed(s, e) < 0)
        return verb_undo(s, e);
    return s->is_started && s->opt->detach && !detach_job(s) ? 0 : verb_finish(s, e);
}

int verb_next_attempt(struct submission *s, struct err *e)
{
    int n, rc;

    if (retry_begin(s, e) < 0)
        return e->code;
    n = s->attempt;
    rc = run_attempt(s, e);
    return rc < 0 ? err_at(e, "attempt %d cannot be started", n) : rc;
}

/* The further attempts of a job that has ended with this exit status, if it may have some. Returns the exit
 * status of the last one. */
static int run_further_attempts(struct submission *s, int status, struct err *e)
{
    while ((status == EXIT_JOB_FAILED || status == EXIT_CANCELLED) && retry_is_due(s)) {
        status = verb_next_attempt(s, e);
        if (status >= 0)
            continue;
        console_failure(e, "JOB_FAILED");
        status = interrupt_signal() ? 128 + interrupt_signal() : EXIT_JOB_FAILED;
    }
    if (s->state == JOB_SUCCEEDED && s->opt->retries > 0)
        retry_remove_copies(s);
    return status;
}

/* Detached jobs wait in the queue, unless they are not to wait, or their agents end with this process. */
static bool is_for_queue(const struct options *o)
{
    return o->detach && !o->no_queue && !o->job_name[0];
}

int verb_submit_job(const struct options *o, struct err *e)
{
    struct submission s;
    int rc;

    if (is_for_queue(o))
        return queued_job_submit(o, e);
    rc = submission_init(&s, o, e) < 0 ? e->code : run_attempt(&s, e);
    if (rc >= 0)
        rc = run_further_attempts(&s, rc, e);
    submission_clear(&s);
    return rc;
}

int verb_check_arguments(const struct options *o, struct err *e)
{
    if (o->args.n_operands == 0 || o->trainer[0])
        return 0;
    err_set(e, ERR_USAGE, "\"%s\": a job takes options only", o->args.operands[0]);
    return err_hint(e, "Arguments after -- are those of a training program, --trainer FILE.");
}

/* Options of --slurm alone have no effect on agents: there the list of agents says which are servers. */
static int check_without_slurm(const struct options *o, struct err *e)
{
    static const size_t of_slurm[] = {offsetof(struct options, servers),
                                      offsetof(struct options, settings.transport)};

    for (size_t i = 0; !o->slurm[0] && i < sizeof of_slurm / sizeof *of_slurm; i++) {
        char name[ARGS_NAME];

        if (!options_is_chosen(o, of_slurm[i]))
            continue;
        options_name(name, of_slurm[i]);
        err_set(e, ERR_USAGE, "--%s is for jobs without agents, and not for jobs on agents", name);
        return err_hint(e, "Leave it out, or add --slurm OPTIONS, or write a job folder: job_submit pack.");
    }
    return 0;
}

int verb_submit(const struct options *o, struct err *e)
{
    if (o->retrieve)
        return verb_fetch(o, e);
    if (verb_check_arguments(o, e) < 0 || check_without_slurm(o, e) < 0)
        return e->code;
    return o->slurm[0] ? slurm_job_submit(o, e) : verb_submit_job(o, e);
}
