/* submit --slurm: writes the job into a folder and submits it to Slurm; then, and for wait, follows the
 * folder's job until Slurm will not run it again. A job that is requeued goes on from its checkpoints. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/launch/slurm.h"
#include "submit/options/options_table.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/stages/progress_bar.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

enum { LOG_SHOWN = 4096 };
static const double ASK_S = 2; /* from one question to Slurm to the next: its controller serves all users */
static const double LOOK_S = 0.5;      /* from one look at the folder to the next */
static const double TELL_S = 60;       /* from one line about a job that waits to the next */
static const double TELL_STUCK_S = 10; /* about one that will not start */
/* A job counts as over if Slurm says so for so long: one that is being requeued may seem over. */
static const double OVER_S = 3;
/* Time for the nodes of an ended job to count as ended: those of a lost machine do not say so. A Slurm that
 * has not answered for so long is not waited for either. */
static const double LAST_S = 40;

struct slurm_watch {
    struct submission s;
    char id[SLURM_ID];
    struct slurm_state state;
    bool has_run, is_absent; /* it was seen to run; this machine has no programs of Slurm */
    char told[SLURM_TEXT];
    double began, asked_at, told_at; /* clock_now, as the next */
    double over_at;                  /* since when it is over; 0: it is not, or Slurm does not answer */
    double silent_at;                /* since when Slurm does not answer; 0: it does */
    double ended_at;                 /* since when all nodes have ended; 0: not all have */
    bool has_told_end;
    struct progress_bar progress;
};

/* What Slurm says of the job. The status of a cancelled job's nodes is a failure to Slurm. */
static void describe_job(char out[SLURM_TEXT], const struct slurm_watch *w)
{
    if (w->s.state == JOB_CANCELLED && w->state.is_over)
        snprintf(out, SLURM_TEXT, "over, as the job was cancelled");
    else
        slurm_state_text(out, &w->state);
}

static void tell_state(struct slurm_watch *w, const char *text, double now)
{
    char since[TEXT_AMOUNT];

    text_seconds(since, now - w->began);
    if (w->state.never_starts)
        console_info("Slurm's job %s: %s, after %s: it will not start unless its options, or the cluster, "
                     "change. job_submit cancel %s takes it out of the queue.",
                     w->id, text, since, w->s.job_folder);
    else
        console_info("Slurm's job %s: %s, after %s.", w->id, text, since);
    snprintf(w->told, sizeof w->told, "%s", text);
    w->told_at = now;
}

/* Asks Slurm, and says what has changed, or for what the job waits and how long. */
static void ask_slurm(struct slurm_watch *w)
{
    const double now = clock_now();
    char text[SLURM_TEXT];
    struct err e;

    if (w->asked_at > 0 && now - w->asked_at < ASK_S)
        return;
    w->asked_at = now;
    if (slurm_ask(&w->state, w->id, &e) < 0) {
        w->state = (struct slurm_state){.runs = w->state.runs};
        w->silent_at = w->silent_at > 0 ? w->silent_at : now;
        w->is_absent = e.code == ERR_NOT_FOUND;
        snprintf(text, sizeof text, "%.*s", SLURM_TEXT - 1, e.text);
    } else {
        w->silent_at = 0;
        describe_job(text, w);
    }
    w->has_run |= w->state.runs;
    if (!w->state.is_over)
        w->over_at = 0;
    else if (w->over_at == 0)
        w->over_at = now;
    if (strcmp(text, w->told) != 0 ||
        (!w->state.runs && now - w->told_at >= (w->state.never_starts ? TELL_STUCK_S : TELL_S)))
        tell_state(w, text, now);
}

/* The nodes of the latest attempt: what an earlier one has said does not count. */
static void ask_nodes(struct slurm_watch *w)
{
    for (size_t i = 0; i < w->s.n_nodes; i++) {
        struct job_node *n = &w->s.nodes[i];

        n->is_ended = n->is_ready = n->has_started = false;
    }
    submitted_job_ask_nodes(&w->s, SUBMITTED_ASK_S);
    w->s.state = JOB_PENDING;
    w->s.cause = -1;
    submitted_job_update(&w->s);
}

/* While Slurm does not answer, the nodes' own ends decide; whether it will run the job again is not known. */
static bool is_over(const struct slurm_watch *w)
{
    const double now = clock_now();
    size_t n_ended = submission_count_ended(&w->s);

    if (w->s.state == JOB_SUCCEEDED && n_ended == w->s.n_nodes)
        return true;
    if (w->silent_at > 0)
        return n_ended == w->s.n_nodes && (w->is_absent || now - w->silent_at > LAST_S);
    if (w->over_at == 0 || now - w->over_at < OVER_S)
        return false;
    return n_ended == 0 || n_ended == w->s.n_nodes || now - w->over_at > LAST_S;
}

/* The host of the first node whose process is gone; "": of none. */
static const char *lost_host(const struct slurm_watch *w)
{
    for (size_t i = 0; i < w->s.n_nodes; i++)
        if (w->s.nodes[i].folder.has_vanished)
            return w->s.nodes[i].at.address;
    return "";
}

/* A host that fails and comes back does not tell srun that its processes have ended. */
static void tell_ended(struct slurm_watch *w)
{
    const double now = clock_now();
    char until[TEXT_AMOUNT];

    if (!w->state.runs || submission_count_ended(&w->s) < w->s.n_nodes) {
        w->ended_at = 0;
        w->has_told_end = false;
        return;
    }
    if (w->ended_at == 0)
        w->ended_at = now;
    if (now - w->ended_at < LAST_S || w->has_told_end)
        return;
    w->has_told_end = true;
    text_hour(until, clock_wall() + SLURM_SILENCE_S);
    console_info("All nodes have ended, and Slurm's job %s still runs: srun waits for a process on %s, which "
                 "has failed. Its batch file ends that by %s; job_submit cancel %s ends it now.",
                 w->id, lost_host(w)[0] ? lost_host(w) : "a host", until, w->s.job_folder);
}

static int follow_job(struct slurm_watch *w, struct err *e)
{
    for (;;) {
        struct pollfd p = {.fd = interrupt_fd(), .events = POLLIN};

        ask_nodes(w);
        ask_slurm(w);
        if (is_over(w))
            break;
        tell_ended(w);
        if (w->ended_at == 0 && (w->state.runs || w->s.state == JOB_RUNNING))
            progress_bar_show(&w->progress, &w->s);
        if (submission_check_time(&w->s, e) < 0)
            break;
        poll(&p, 1, (int)(1e3 * LOOK_S));
    }
    console_bars(NULL, 0);
    return e->code;
}

/* A job that waits may have run: Slurm requeues a preempted one. */
static bool has_begun(const struct slurm_watch *w)
{
    struct slurm_state now;
    struct err ignored;

    for (size_t i = 0; i < w->s.n_nodes; i++)
        if (w->s.nodes[i].folder.attempt > 0)
            return true;
    return w->has_run || (slurm_ask(&now, w->id, &ignored) == 0 && (now.runs || now.is_over));
}

/* Ctrl-C, or --timeout: a job that has not run is cancelled, as one on agents that has not started. */
static int stop_following(struct slurm_watch *w)
{
    struct err e;

    if (has_begun(w))
        verb_print_next_commands(&w->s);
    else if (slurm_cancel(w->id, &e) == 0)
        console_info("Slurm's job %s had not begun, and is cancelled.", w->id);
    else
        console_error("%s", e.text);
    return interrupt_signal() ? 128 + interrupt_signal() : EXIT_TIMEOUT;
}

static void print_end_of_log(const char *path, char *text)
{
    char *rest;

    console_info("The end of %s:", path);
    for (const char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        console_info("\t %s", line);
}

/* No process has written anything: its output is all that there is. */
static int report_not_run(const struct slurm_watch *w, struct err *e)
{
    char path[PATH_MAX], *text = NULL;
    struct err ignored;
    size_t len = 0;

    if (file_join(path, sizeof path, w->s.job_folder, SLURM_OUTPUT, &ignored) == 0 &&
        file_read(&text, &len, path, 1 << 20, &ignored) == 0 && len > 0)
        print_end_of_log(path, text + (len > LOG_SHOWN ? len - LOG_SHOWN : 0));
    free(text);
    err_set(e, ERR_LOST, "Slurm's job %s is over%s%s%s%s%s, and its processes have not started the job",
            w->id, w->state.name[0] ? " (" : "", w->state.name, w->state.reason[0] ? ", " : "",
            w->state.reason, w->state.name[0] ? ")" : "");
    return err_hint(
        e, "%ssbatch %s/" SLURM_SCRIPT " submits it again.",
        w->s.settings.transport == TRANSPORT_MPI && !getenv("SLURM_MPI_TYPE") ? "SLURM_MPI_TYPE=pmi2 " : "",
        w->s.job_folder);
}

static int conclude(struct slurm_watch *w, struct err *e)
{
    int status;

    if (w->s.state == JOB_PENDING)
        return report_not_run(w, e);
    status = verb_conclude(&w->s, e);
    if (w->s.state != JOB_SUCCEEDED)
        console_info("sbatch %s/" SLURM_SCRIPT " %s.", w->s.job_folder,
                     settings_has_checkpoints(&w->s.settings) ? "goes on from the last checkpoints"
                                                              : "begins the job anew");
    return status;
}

int slurm_job_wait(const struct options *o, const char *folder, struct err *e)
{
    static struct slurm_watch w; /* static: it has arrays of paths */
    bool is_kept;
    int rc;

    w = (struct slurm_watch){.began = clock_now(), .told_at = clock_now()};
    w.progress.reported_at = w.began;
    rc = slurm_find_id(w.id, folder, e) < 0 ? e->code
                                            : submitted_job_ask_results(&w.s, &is_kept, o, folder, e);
    if (rc == 0) {
        if (results_begin(&w.s, e) < 0 || run_json_save(&w.s, e) < 0)
            console_error("%s", e->text);
        *e = (struct err){0};
        rc = follow_job(&w, e);
        if (rc == 0)
            rc = conclude(&w, e);
        else if (rc == ERR_CANCELLED || rc == ERR_TIMEOUT)
            rc = stop_following(&w);
    }
    submission_clear(&w.s);
    return rc;
}

/* A process for each node: as many as --slurm asks for, unless --node_count says how many workers. */
static int choose_nodes(struct options *o, struct err *e)
{
    int n;

    if (slurm_processes(&n, o->slurm, e) < 0)
        return e->code;
    if (!options_is_given(o, offsetof(struct options, settings.node_count)) && n > o->servers)
        o->settings.node_count = n - o->servers;
    if (n == 0 || n == o->settings.node_count + o->servers)
        return 0;
    err_set(e, ERR_CONFIG, "--slurm asks for %d processes, and the job has %d nodes, a process for each", n,
            o->settings.node_count + o->servers);
    return err_hint(e, "Leave --node_count out, or add --ntasks %d to --slurm.",
                    o->settings.node_count + o->servers);
}

/* What Slurm does itself. */
static int check_options(const struct options *o, struct err *e)
{
    static const struct {
        size_t offset;
        const char *instead;
    } refused[] = {
        {offsetof(struct options, retry_on), "with --retries Slurm requeues the job after any failure"},
        {offsetof(struct options, no_queue), "sbatch --immediate is for that"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char name[ARGS_NAME];

        if (!options_is_chosen(o, refused[i].offset))
            continue;
        options_name(name, refused[i].offset);
        return err_set(e, ERR_USAGE, "--%s is for jobs on agents, and not for --slurm: %s", name,
                       refused[i].instead);
    }
    return 0;
}

static int submit_job(char folder[PATH_MAX], struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;
    char own[JOB_ID_MAX + 8], id[SLURM_ID];

    snprintf(own, sizeof own, "psgd-%s", s->id);
    if ((!s->opt->output[0] && file_absolute(s->job_folder, sizeof s->job_folder, own, e) < 0) ||
        verb_pack_job(s, e) < 0)
        return e->code;
    memcpy(folder, s->job_folder, PATH_MAX);
    if (slurm_write_script(s->job_folder, set->name, (int)s->n_nodes, s->opt->slurm, s->opt->retries, e) <
            0 ||
        slurm_submit(id, s->job_folder, e) < 0) {
        struct err ignored;

        file_remove_tree(s->job_folder, &ignored);
        return e->code;
    }
    console_info("Job %s, in %s, is Slurm's job %s.", s->id, folder, id);
    if (!s->opt->detach)
        return 0;
    verb_print_next_commands(s);
    if (s->opt->json)
        stdout_json(
            true,
            json_pack("{s:s, s:o, s:s}", "id", s->id, "folder", json_text(folder, SIZE_MAX), "slurm_job", id),
            NULL, NULL);
    else
        printf("%s\n", folder);
    return 0;
}

int slurm_job_submit(const struct options *o, struct err *e)
{
    static struct options own; /* static: it has arrays of paths */
    char folder[PATH_MAX];
    struct submission s;
    int rc;

    own = *o;
    if (check_options(o, e) < 0 || choose_nodes(&own, e) < 0)
        return e->code;
    rc = submission_init(&s, &own, e) < 0 ? e->code : submit_job(folder, &s, e);
    submission_clear(&s);
    own.output[0] = '\0'; /* it was the job folder: the results are in it */
    return rc < 0 || o->detach ? rc : slurm_job_wait(&own, folder, e);
}

bool slurm_job_is(const char *folder)
{
    struct err ignored;
    char id[SLURM_ID];

    return slurm_read_id(id, folder, &ignored) == 0;
}

int slurm_job_cancel(bool *is_cancelled, const char *folder, bool has_process, struct err *e)
{
    struct slurm_state state;
    char id[SLURM_ID];

    *is_cancelled = false;
    if (slurm_find_id(id, folder, e) < 0 || slurm_ask(&state, id, e) < 0 ||
        slurm_cancel_others(folder, id, e) < 0)
        return e->code;
    if (state.is_over || (has_process && strcmp(state.name, "RUNNING") == 0))
        return 0;
    if (slurm_cancel(id, e) < 0)
        return e->code;
    *is_cancelled = !has_process;
    return 0;
}
