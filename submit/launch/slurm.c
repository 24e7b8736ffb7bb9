#include "submit/launch/slurm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/settings.h"
#include "submit/terminal/text.h"

enum {
    ANSWER = 4096,
    JOB_BYTES_MAX = 1 << 16,
    QUOTED = 4 * PATH_MAX,
    SCRIPT = 16 * PATH_MAX,
    WATCH = 4096,
    PROCESSES_MAX = 2 * NODES_MAX, /* a worker and a server each */
    END_WAIT_S = 15                /* for an earlier job of Slurm that is about to end */
};

/* What scontrol says of a job, and a time after it if the job is preempted. */
#define PREEMPTED "PreemptTime="

/* The processes of a host that fails and comes back at once end without a word to srun, which would wait for
 * them for ever. Each process writes its state every JOB_FOLDER_BEAT_S until it ends, but not while it reads
 * the packages, so the batch file ends srun when none has for SLURM_SILENCE_S. It compares states and no
 * times, because the file server may have another clock. */
enum { LOOK_S = 10 };
static const char watch_lines[] =
    "states() { cat \"$folder\"/node-*/" JOB_FOLDER_NODE " \"$folder\"/ps-*/" JOB_FOLDER_NODE
    " 2>/dev/null | cksum; }\n"
    "unended() {\n"
    "    grep -LE '\"state\":\"(succeeded|failed|cancelled)\"' \"$folder\"/node-*/" JOB_FOLDER_NODE
    " \"$folder\"/ps-*/" JOB_FOLDER_NODE " 2>/dev/null |\n"
    "        while read -r file; do\n"
    "            node=${file%%/" JOB_FOLDER_NODE "}\n"
    "            echo \"${node##*/} on $(sed -n 's/.*\"host\":\"\\([^\"]*\\)\".*/\\1/p' \"$file\")\"\n"
    "        done | paste -sd , -\n"
    "}\n"
    "watch() {\n"
    "    trap 'kill \"$pause\" 2>/dev/null; exit' TERM\n"
    "    first=$(states) silent=0\n"
    "    before=$first\n"
    "    while kill -0 \"$srun\" 2>/dev/null; do\n"
    "        if [ \"$silent\" -ge %d ]; then\n"
    "            echo \"No process has written its state for $silent s, so that srun is ended; without an "
    "end: "
    "$(unended).\"\n"
    "            kill -KILL \"$srun\"\n"
    "        fi\n"
    "        sleep %d &\n"
    "        pause=$!\n"
    "        wait \"$pause\"\n"
    "        now=$(states)\n"
    "        silent=$((silent + %d))\n"
    "        if [ \"$now\" != \"$before\" ] || [ \"$now\" = \"$first\" ]; then silent=0; fi\n"
    "        before=$now\n"
    "    done\n"
    "}\n";

/* The states in which a job is over: the others are those of one that waits, runs, or is about to end. */
static const char *const over[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE",     "FAILED",
                                   "NODE_FAIL", "PREEMPTED", "TIMEOUT",   "OUT_OF_MEMORY"};

/* Reasons for which a job waits for ever: Slurm has no host, limit or permission for its options, whichever
 * other jobs end. Those of a limit for each job end with "PerJobLimit", or "PerJob". */
static const char *const permanent_reasons[] = {
    "AccountNotAllowed", "BadConstraints",     "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS",
    "PartitionConfig",   "PartitionNodeLimit", "PartitionTimeLimit",       "QOSNotAllowed"};

/* Options of sbatch that say how many processes a job has: NAME VALUE, NAME=VALUE,
 * or with a letter -nVALUE. */
enum count_kind { PROCESSES, HOSTS, PER_HOST, N_COUNTS };

static const struct count_option {
    const char *name, *letter;
    enum count_kind of;
} count_options[] = {
    {"--ntasks", "-n", PROCESSES}, {"--nodes", "-N", HOSTS}, {"--ntasks-per-node", NULL, PER_HOST}};

/* The value of the option, if the word is one of it; "": the value is the next word. NULL: it is another
 * option. */
static const char *value_in(const struct count_option *o, const char *word)
{
    size_t n = strlen(o->name);

    if (strncmp(word, o->name, n) == 0 && (word[n] == '=' || !word[n]))
        return word[n] ? word + n + 1 : word + n;
    return o->letter && strncmp(word, o->letter, 2) == 0 ? word + 2 : NULL;
}

static int take_count(int counts[N_COUNTS], const struct count_option *o, const char *value, struct err *e)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (*end || end == value || n < 1) {
        err_set(e, ERR_USAGE, "--slurm: %s \"%.40s\" is no number", o->name, value);
        return err_hint(e, "Give --ntasks N: a process for each node of the job.");
    }
    if (n > PROCESSES_MAX)
        return err_set(e, ERR_USAGE, "--slurm: %s %.40s is more than the %d nodes that a job can have",
                       o->name, value, PROCESSES_MAX);
    counts[o->of] = (int)n;
    return 0;
}

int slurm_processes(int *n, const char *options, struct err *e)
{
    const struct count_option *awaits = NULL;
    int counts[N_COUNTS] = {0}; /* at most PROCESSES_MAX, so that a product of two is an int */
    char text[ANSWER], *rest;

    snprintf(text, sizeof text, "%s", options);
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (awaits && take_count(counts, awaits, word, e) < 0)
            return e->code;
        if (awaits) {
            awaits = NULL;
            continue;
        }
        for (size_t i = 0; i < sizeof count_options / sizeof *count_options; i++) {
            const char *value = value_in(&count_options[i], word);

            if (value && !value[0])
                awaits = &count_options[i];
            else if (value && take_count(counts, &count_options[i], value, e) < 0)
                return e->code;
        }
    }
    *n = counts[PROCESSES] ? counts[PROCESSES] : counts[HOSTS] * (counts[PER_HOST] ? counts[PER_HOST] : 1);
    return *n <= PROCESSES_MAX
               ? 0
               : err_set(e, ERR_USAGE,
                         "--slurm asks for %d processes, and a job has at most %d nodes, a process for each",
                         *n, PROCESSES_MAX);
}

/* sbatch takes "%" for the beginning of a pattern, and splits at spaces outside quotes. */
static void quote_pattern(char out[QUOTED], const char *path)
{
    size_t at = 0;

    out[at++] = '"';
    for (; *path && at < QUOTED - 4; path++) {
        if (*path == '"' || *path == '\\')
            out[at++] = '\\';
        if (*path == '%')
            out[at++] = '%';
        out[at++] = *path;
    }
    out[at++] = '"';
    out[at] = '\0';
}

/* A script that a user submits again has another number, and slurm_find_id() may read the file while it is
 * written. While another job of Slurm runs the job, the file stays that one's, which wait and cancel mean.
 * Slurm requeues a preempted job that still runs at the end of the grace time, and this one has ended by
 * then, so it asks for that itself, as after a failure with --retries; the shell must not end by the SIGTERM
 * with which Slurm ends a job, and one that Slurm ends is no failure. srun's status is the highest one of its
 * processes: that of a killed one is 128 and its signal; of these no other attempt succeeds: 2, 4 and 6 of
 * job_runner, and 8 is a cancelled job. A signal ends `wait` before srun has ended. */
int slurm_write_script(const char *folder, const char *name, int n_processes, const char *options,
                       int retries, struct err *e)
{
    char path[PATH_MAX], exe_dir[PATH_MAX], log[PATH_MAX], runner[PATH_MAX];
    static char pattern[QUOTED], program[QUOTED], dir[QUOTED], watch[WATCH], text[SCRIPT];

    if (file_join(path, sizeof path, folder, SLURM_SCRIPT, e) < 0 ||
        file_join(log, sizeof log, folder, SLURM_OUTPUT, e) < 0 ||
        file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 ||
        file_join(runner, sizeof runner, exe_dir, "job_runner", e) < 0)
        return e->code;
    quote_pattern(pattern, log);
    snprintf(watch, sizeof watch, watch_lines, SLURM_SILENCE_S, LOOK_S, LOOK_S);
    snprintf(text, sizeof text,
             "#!/bin/sh\n"
             "#SBATCH --job-name=%s --output=%s --open-mode=append --requeue --ntasks=%d\n"
             "#SBATCH %s\n"
             "folder=%s\n"
             "%s"
             "noted=$(sed -n 's/.*\"job\":\"\\([0-9]*\\)\".*/\\1/p' \"$folder/" SLURM_JOB "\" 2>/dev/null)\n"
             "waited=0\n"
             "while [ -n \"$noted\" ] && [ \"$noted\" != \"$SLURM_JOB_ID\" ]; do\n"
             "    case $(squeue --noheader --format=%%T --jobs=\"$noted\" 2>/dev/null) in\n"
             "    RUNNING | SUSPENDED) ;;\n"
             "    *) break ;;\n"
             "    esac\n"
             "    if [ \"$waited\" -ge %d ]; then\n"
             "        echo \"Slurm's job $noted runs this job already; this is job $SLURM_JOB_ID.\"\n"
             "        echo \"Wait for its end, or end it: job_submit cancel $folder\"\n"
             "        exit 4\n"
             "    fi\n"
             "    sleep 1\n"
             "    waited=$((waited + 1))\n"
             "done\n"
             "new=$folder/" SLURM_JOB ".$$\n"
             "printf '{\"job\":\"%%s\"}\\n' \"$SLURM_JOB_ID\" >\"$new\" && mv \"$new\" \"$folder/" SLURM_JOB
             "\"\n"
             "is_ended=\n"
             "trap is_ended=1 TERM\n"
             "srun %s --job \"$folder\" &\n"
             "srun=$!\n"
             "watch &\n"
             "watch=$!\n"
             "wait \"$srun\"\n"
             "status=$?\n"
             "while [ -n \"$is_ended\" ] && kill -0 \"$srun\" 2>/dev/null; do\n"
             "    wait \"$srun\"\n"
             "    status=$?\n"
             "done\n"
             "kill \"$watch\" 2>/dev/null\n"
             "case $(scontrol show job \"$SLURM_JOB_ID\") in\n"
             "*" PREEMPTED "[0-9]*) exec scontrol requeue \"$SLURM_JOB_ID\" ;;\n"
             "esac\n"
             "case $status in\n"
             "0 | 2 | 4 | 6 | 8) exit \"$status\" ;;\n"
             "esac\n"
             "if [ -z \"$is_ended\" ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt %d ]; then\n"
             "    exec scontrol requeue \"$SLURM_JOB_ID\"\n"
             "fi\n"
             "exit \"$status\"\n",
             name, pattern, n_processes, options, text_shell_quote(dir, sizeof dir, folder), watch,
             END_WAIT_S, text_shell_quote(program, sizeof program, runner), retries);
    return file_write(path, text, strlen(text), 0700, e);
}

/* Runs a program of Slurm; what it prints is in *out, to be closed. */
static int open_tool(int *out, int *status, char *const *argv, struct err *e)
{
    int fd = memfd_create("output", MFD_CLOEXEC);
    const struct child_how how = {.argv = argv, .out = fd, .err = fd};
    char path[PATH_MAX];
    struct child c;

    if (fd < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    if (child_start(&c, &how, e) < 0) {
        close(fd);
        if (file_find_program(path, sizeof path, argv[0]))
            return e->code;
        err_set(e, ERR_NOT_FOUND, "Slurm's program %s is not in PATH on this machine", argv[0]);
        return err_hint(e, "Run this command on a login node of the cluster, or job_submit pack and the "
                           "cluster's own launcher.");
    }
    *status = child_wait(&c);
    *out = fd;
    return 0;
}

/* Takes the beginning of what the program prints. */
static int run_tool(char out[ANSWER], int *status, char *const *argv, struct err *e)
{
    ssize_t n;
    int fd;

    if (open_tool(&fd, status, argv, e) < 0)
        return e->code;
    n = pread(fd, out, ANSWER - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    for (size_t at = strlen(out); at > 0 && out[at - 1] == '\n'; at--)
        out[at - 1] = '\0';
    close(fd);
    return 0;
}

static bool has_failed(int status)
{
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* The others of several lines say less: of an error its consequences, of sbatch what a site adds. */
static const char *last_line(const char *answer)
{
    const char *end = strrchr(answer, '\n');

    return end ? end + 1 : answer;
}

/* What sbatch says of an option that it does not know, without the advice behind it. */
static const char *refusal_in(char *answer)
{
    char *end = strrchr(answer, '\n');

    if (end && strncmp(end + 1, "Try ", 4) == 0)
        *end = '\0';
    return last_line(answer);
}

/* Of a cluster of several: "ID;CLUSTER". */
static int note_id(char id[SLURM_ID], const char *answer, const char *folder, struct err *e)
{
    const char *line = last_line(answer);
    char path[PATH_MAX], *text;
    json_t *o;
    int rc;

    snprintf(id, SLURM_ID, "%.*s", (int)strspn(line, "0123456789"), line);
    if (!id[0])
        return err_set(e, ERR_PROTOCOL, "sbatch has answered \"%.200s\", which has no number of a job",
                       answer);
    o = json_pack("{s:s}", "job", id);
    text = o ? json_line(o) : NULL;
    rc = !text ? err_set(e, ERR_NOMEM, "no memory for a document")
         : file_join(path, sizeof path, folder, SLURM_JOB, e) < 0
             ? e->code
             : file_write(path, text, strlen(text), 0600, e);
    free(text);
    json_decref(o);
    return rc;
}

int slurm_submit(char id[SLURM_ID], const char *folder, struct err *e)
{
    char script[PATH_MAX], answer[ANSWER];
    char *const argv[] = {"sbatch", "--parsable", script, NULL};
    int status;

    if (file_join(script, sizeof script, folder, SLURM_SCRIPT, e) < 0 ||
        run_tool(answer, &status, argv, e) < 0)
        return e->code;
    if (has_failed(status))
        return err_set(e, ERR_REFUSED, "Slurm refuses the job: %.800s", refusal_in(answer));
    return note_id(id, answer, folder, e);
}

int slurm_read_id(char id[SLURM_ID], const char *folder, struct err *e)
{
    char path[PATH_MAX];
    json_t *o;

    if (file_join(path, sizeof path, folder, SLURM_JOB, e) < 0 || json_read(&o, path, JOB_BYTES_MAX, e) < 0)
        return e->code;
    snprintf(id, SLURM_ID, "%s", json_text_at(o, "job"));
    json_decref(o);
    return id[0] ? 0 : err_set(e, ERR_CONFIG, "%s has no number of a job", path);
}

static bool is_permanent(const char *reason)
{
    for (size_t i = 0; i < sizeof permanent_reasons / sizeof *permanent_reasons; i++)
        if (strcmp(reason, permanent_reasons[i]) == 0)
            return true;
    return strstr(reason, "PerJob") != NULL;
}

static void judge_state(struct slurm_state *s)
{
    s->never_starts = strcmp(s->name, "PENDING") == 0 && is_permanent(s->reason);
    s->is_over = !s->name[0];
    s->runs = strcmp(s->name, "RUNNING") == 0 || strcmp(s->name, "COMPLETING") == 0;
    for (size_t i = 0; i < sizeof over / sizeof *over; i++)
        s->is_over |= strcmp(s->name, over[i]) == 0;
}

/* A job of Slurm that runs the script of a folder. */
struct script_job {
    char id[SLURM_ID];
    struct slurm_state state;
};

/* "ID|STATE|FOLDER|SCRIPT": of a script that was given by a relative path the folder in which sbatch was
 * called. */
static bool runs_script(struct script_job *j, char *line, const char *script)
{
    char path[PATH_MAX], real[PATH_MAX], *rest,
        *number = strtok_r(line, "|", &rest), *state = strtok_r(NULL, "|", &rest),
        *in = strtok_r(NULL, "|", &rest), *name = strtok_r(NULL, "|\n", &rest);
    struct err ignored;

    if (!name)
        return false;
    if (name[0] == '/' ? snprintf(path, sizeof path, "%s", name) >= (int)sizeof path
                       : file_join(path, sizeof path, in, name, &ignored) < 0)
        return false;
    if (!realpath(path, real) || strcmp(real, script) != 0)
        return false;
    *j = (struct script_job){0};
    snprintf(j->id, sizeof j->id, "%s", number);
    snprintf(j->state.name, sizeof j->state.name, "%s", state);
    judge_state(&j->state);
    return true;
}

/* The jobs that wait or run, in the order of their numbers; none if Slurm does not answer. The caller frees
 * them. */
static struct script_job *list_jobs(size_t *n, const char *folder)
{
    char *const argv[] = {"squeue", "--noheader", "--me", "--sort=i", "--format=%A|%T|%Z|%o", NULL};
    char path[PATH_MAX], script[PATH_MAX], *line = NULL;
    struct script_job *all = NULL, *more, j;
    struct err ignored;
    size_t size = 0;
    int status, fd;
    FILE *f;

    *n = 0;
    if (file_join(path, sizeof path, folder, SLURM_SCRIPT, &ignored) < 0 || !realpath(path, script) ||
        open_tool(&fd, &status, argv, &ignored) < 0)
        return NULL;
    f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return NULL;
    }
    rewind(f);
    while (getline(&line, &size, f) > 0) {
        if (!runs_script(&j, line, script) || j.state.is_over ||
            (more = realloc(all, (*n + 1) * sizeof *all)) == NULL)
            continue;
        all = more;
        all[(*n)++] = j;
    }
    free(line);
    fclose(f);
    return all;
}

/* Of several jobs one runs, and the others wait in the queue or in the script for its end. */
static int rank_job(const struct script_job *j, const char *noted)
{
    return !j->state.runs ? 1 : strcmp(j->id, noted) != 0 ? 2 : 3;
}

int slurm_find_id(char id[SLURM_ID], const char *folder, struct err *e)
{
    char noted[SLURM_ID];
    struct script_job *all;
    int best = 0;
    size_t n;

    if (slurm_read_id(id, folder, e) < 0)
        return e->code;
    memcpy(noted, id, sizeof noted);
    all = list_jobs(&n, folder);
    for (size_t i = 0; i < n; i++)
        if (rank_job(&all[i], noted) >= best) {
            best = rank_job(&all[i], noted);
            memcpy(id, all[i].id, SLURM_ID);
        }
    free(all);
    return 0;
}

int slurm_cancel_others(const char *folder, const char *id, struct err *e)
{
    struct script_job *all;
    int rc = 0;
    size_t n;

    all = list_jobs(&n, folder);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (strcmp(all[i].id, id) != 0)
            rc = slurm_cancel(all[i].id, e);
    free(all);
    return rc;
}

/* Slurm forgets an ended job after some minutes: squeue then refuses its number. */
int slurm_ask(struct slurm_state *out, const char *id, struct err *e)
{
    char answer[ANSWER];
    char *const argv[] = {"squeue",   "--noheader", "--states=all", "--format=%T %r", "--jobs",
                          (char *)id, NULL};
    int status;

    *out = (struct slurm_state){0};
    if (run_tool(answer, &status, argv, e) < 0)
        return e->code;
    if (has_failed(status) && !strstr(answer, "Invalid job id"))
        return err_set(e, ERR_UNREACHABLE, "squeue does not answer: %.400s", last_line(answer));
    if (!has_failed(status))
        sscanf(answer, "%31s %63[^\n]", out->name, out->reason);
    judge_state(out);
    return 0;
}

const char *slurm_state_text(char out[SLURM_TEXT], const struct slurm_state *s)
{
    const bool has_reason = s->reason[0] && !s->runs;

    snprintf(out, SLURM_TEXT, "%s%s%s%s", s->name[0] ? s->name : "over", has_reason ? " (" : "",
             has_reason ? s->reason : "", has_reason ? ")" : "");
    return out;
}

int slurm_requeue_preempted(bool *is_requeued, const char *id, struct err *e)
{
    char answer[ANSWER];
    char *const show[] = {"scontrol", "show", "job", (char *)id, NULL};
    char *const requeue[] = {"scontrol", "requeue", (char *)id, NULL};
    const char *at;
    int status;

    *is_requeued = false;
    if (run_tool(answer, &status, show, e) < 0)
        return e->code;
    at = strstr(answer, PREEMPTED);
    if (has_failed(status) || !at || !strchr("0123456789", at[sizeof PREEMPTED - 1]))
        return 0;
    if (run_tool(answer, &status, requeue, e) < 0)
        return e->code;
    if (has_failed(status))
        return err_set(e, ERR_REFUSED, "scontrol requeue %s: %.400s", id, last_line(answer));
    *is_requeued = true;
    return 0;
}

int slurm_cancel(const char *id, struct err *e)
{
    char answer[ANSWER];
    char *const argv[] = {"scancel", (char *)id, NULL};
    int status;

    if (run_tool(answer, &status, argv, e) < 0)
        return e->code;
    return has_failed(status) ? err_set(e, ERR_REFUSED, "scancel %s: %.400s", id, last_line(answer)) : 0;
}
