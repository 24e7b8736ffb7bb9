#include "submit/sweep/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/job_state.h"
#include "submit/codecs/codec_find.h"
#include "submit/files/job_id.h"
#include "submit/files/untrusted_folder.h"
#include "submit/options/options_table.h"
#include "submit/results/job_index.h"
#include "submit/results/run.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

enum { SWEEP_JSON_MAX = 64 << 20, LOG_END = 4096, ARGUMENTS_MAX = 4 * ARGS_MAX };

static const double GRACE_S = 30; /* for the end of a run after a signal: it releases reservations */

/* The options of the sweep and of its runs. */

/* Options of the sweep itself are not passed to its runs. */
static bool is_of_runs(const struct args_option *t)
{
    return !(t->verbs & FOR_SWEEP) && t->group != OUTPUT && t->offset != offsetof(struct options, output) &&
           t->offset != offsetof(struct options, sets);
}

/* Adds "--name=value" with the value in `o`. */
static void add_option(json_t *list, const struct args_option *t, const struct options *o)
{
    char name[ARGS_NAME], value[PATH_MAX];

    args_name(name, t);
    if (t->kind == ARGS_LIST) {
        for (const char *const *item = (const char *const *)((const char *)o + t->offset); *item; item++)
            json_array_append_new(list, json_sprintf("--%s=%s", name, *item));
        return;
    }
    args_text(value, sizeof value, t, o);
    if (t->kind != ARGS_FLAG)
        json_array_append_new(list, json_sprintf("--%s=%s", name, value));
    else if (strcmp(value, "yes") == 0)
        json_array_append_new(list, json_sprintf("--%s", name));
}

/* The options given that the verb takes, without those of the sweep itself: ["--epochs=2", ...]. The caller
 * owns the list. */
static json_t *list_options(const struct options *o, unsigned verb)
{
    json_t *list = json_array();

    for (int i = 0; i < options_table.n; i++)
        if (o->args.given[i] && is_of_runs(&options_table.options[i]) &&
            (options_table.options[i].verbs & verb))
            add_option(list, &options_table.options[i], o);
    return list;
}

static int check_options(const struct options *o, unsigned verb, struct err *e)
{
    char name[ARGS_NAME];

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!o->args.given[i] || !is_of_runs(t) || (t->verbs & verb))
            continue;
        args_name(name, t);
        return err_set(e, ERR_USAGE,
                       o->simulate ? "--%s is for jobs on agents"
                                   : "--%s is for simulations: give --simulate too",
                       name);
    }
    return 0;
}

/* The folder of the sweep. */

static int lock_folder(struct sweep *s, struct err *e)
{
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_errno(e, ERR_IO, "%s", s->folder);
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "%s: another sweep runs there", s->folder);
    return 0;
}

/* Removes temporary files of a sweep that was killed before it wrote sweep.json. */
static int check_empty(const struct sweep *s, struct err *e)
{
    char **names;
    size_t n;

    file_remove_temporary(s->folder);
    if (untrusted_list(&names, &n, s->lock, 1, e) < 0)
        return err_at(e, "%s", s->folder);
    if (n > 0) {
        err_set(e, ERR_CONFLICT, "%s is not the folder of a sweep: it contains %.200s", s->folder, names[0]);
        err_hint(e, "Name a folder that is new or empty: -o DIR");
    }
    untrusted_list_free(names, n);
    return n > 0 ? e->code : 0;
}

/* The document of the folder. The caller owns it. */
static json_t *describe_sweep(const struct sweep *s)
{
    json_t *doc = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
    json_t *arguments = json_array();

    for (int i = 0; i < s->opt->args.n_operands; i++)
        json_array_append_new(arguments, json_text(s->opt->args.operands[i], SIZE_MAX));
    if (s->opt->args.n_operands > 0)
        json_object_set(doc, "arguments", arguments);
    json_decref(arguments);
    return doc;
}

/* The sweep in the folder must have this command's options, because the results of its runs are kept. */
static int check_base(const struct sweep *s, const char *path, struct err *e)
{
    json_t *doc, *wanted = describe_sweep(s);
    const json_t *then;
    int rc;

    if (json_read(&doc, path, SWEEP_JSON_MAX, e) < 0) {
        json_decref(wanted);
        return e->code;
    }
    then = json_object_get(doc, "options");
    rc = json_equal(doc, wanted) ? 0
                                 : err_set(e, ERR_CONFLICT, "%s has a sweep with other options", s->folder);
    if (rc < 0) {
        char *text = json_is_array(then) ? json_dump(then, JSON_COMPACT) : NULL;

        err_hint(e, "Its options are %.200s%s; name another folder for others: -o DIR",
                 text ? text : "unknown",
                 json_is_true(json_object_get(doc, "simulated")) ? ", with --simulate" : "");
        free(text);
    }
    json_decref(wanted);
    json_decref(doc);
    return rc;
}

static int write_json(const struct sweep *s, const char *path, struct err *e)
{
    json_t *doc = describe_sweep(s);
    char *text = doc ? json_dump_line(doc, JSON_INDENT(1)) : NULL;
    int rc = text ? file_write(path, text, strlen(text), 0644, e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    json_decref(doc);
    return rc;
}

int sweep_open(struct sweep *s, struct err *e)
{
    const unsigned verb = s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT;
    char dir[PATH_MAX];

    s->lock = -1;
    if (check_options(s->opt, verb, e) < 0)
        return e->code;
    s->base = list_options(s->opt, verb);
    if (file_exe_dir(dir, sizeof dir, e) < 0 ||
        file_join(s->program, sizeof s->program, dir, "job_submit", e) < 0)
        return e->code;
    return file_absolute(s->folder, sizeof s->folder, s->opt->output, e);
}

int sweep_begin(struct sweep *s, struct err *e)
{
    char path[PATH_MAX], sub[PATH_MAX];

    if (file_mkdirs(s->folder, 0777, e) < 0 || lock_folder(s, e) < 0 ||
        file_join(path, sizeof path, s->folder, "sweep.json", e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 ? check_base(s, path, e) < 0
                                : check_empty(s, e) < 0 || write_json(s, path, e) < 0)
        return e->code;
    if (file_join(sub, sizeof sub, s->folder, "logs", e) < 0 || file_mkdirs(sub, 0777, e) < 0 ||
        file_join(sub, sizeof sub, s->folder, "runs", e) < 0)
        return e->code;
    return file_mkdirs(sub, 0777, e);
}

void sweep_close(struct sweep *s)
{
    sweep_plan_clear(&s->plan);
    json_decref(s->base);
    if (s->lock >= 0)
        close(s->lock);
    s->base = NULL;
    s->lock = -1;
}

/* The path `sub`/NAME`ending` of a run in the folder of the sweep. */
static int join_run_path(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
                         size_t combination, size_t repeat, struct err *e)
{
    char name[SWEEP_NAME], below[SWEEP_NAME + 16];

    sweep_name(name, &s->plan, combination, repeat);
    snprintf(below, sizeof below, "%s/%s%s", sub, name, ending);
    return file_join(out, PATH_MAX, s->folder, below, e);
}

int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, size_t combination, size_t repeat,
                     struct err *e)
{
    return join_run_path(out, s, "runs", "", combination, repeat, e);
}

/* Results of an earlier command in the same folder. */

/* The state of a run in the folder, before this command. */
struct earlier_run {
    bool is_done;        /* the run has succeeded, and all its results are there */
    bool has_ended;      /* by its run.json, with whatever result */
    char id[JOB_ID_MAX]; /* of a job on agents that may still run, or have more results; "": none */
};

static void find_earlier(struct earlier_run *earlier, const struct sweep *s, const char *folder)
{
    enum job_state state;
    struct err ignored;
    const char *id, *name;
    struct run r;

    *earlier = (struct earlier_run){0};
    if (access(folder, F_OK) < 0)
        return;
    if (run_find(&r, folder, &ignored) < 0) { /* killed, perhaps just after its job had started */
        if (!s->opt->simulate)
            job_index_in_folder(earlier->id, folder, &ignored);
        return;
    }
    id = json_string_value(json_object_get(r.doc, "id"));
    name = json_string_value(json_object_get(r.doc, "state"));
    earlier->has_ended = name && job_state_parse(&state, name) && job_state_is_terminal(state);
    earlier->is_done = earlier->has_ended && state == JOB_SUCCEEDED &&
                       json_is_true(json_object_get(r.doc, "is_complete"));
    if (!s->opt->simulate && id && (!earlier->has_ended || state == JOB_SUCCEEDED))
        snprintf(earlier->id, sizeof earlier->id, "%s", id);
    run_clear(&r);
}

bool sweep_has_succeeded(const struct sweep *s, size_t combination, size_t repeat)
{
    char folder[PATH_MAX];
    struct err ignored;
    struct earlier_run earlier;

    if (sweep_run_folder(folder, s, combination, repeat, &ignored) < 0)
        return false;
    find_earlier(&earlier, s, folder);
    return earlier.is_done;
}

/* True if the file of this part of the facts has other bytes now. The file of a codec is its source or its
 * object. */
static bool has_changed(char file[PATH_MAX], const json_t *facts, const char *part)
{
    const json_t *o = json_object_get(facts, part);

    snprintf(file, PATH_MAX, "%s", json_text_at(o, "file"));
    if (!file[0] || access(file, F_OK) < 0)
        return false;
    return !codec_file_has_sum(file, json_text_at(o, "sha256")) &&
           !codec_file_has_sum(file, json_text_at(o, "source_sha256"));
}

static bool is_newer(const char *path, double then)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9 > then;
}

/* True if `path`, or a file in this folder, is newer; *file: that one. */
static bool has_newer(char file[PATH_MAX], const char *path, double then)
{
    const struct dirent *entry;
    bool is = false;
    DIR *d;

    snprintf(file, PATH_MAX, "%s", path);
    if (is_newer(path, then))
        return true;
    d = opendir(path);
    while (d && !is && (entry = readdir(d)) != NULL)
        is = snprintf(file, PATH_MAX, "%s/%s", path, entry->d_name) < PATH_MAX && is_newer(file, then);
    if (d)
        closedir(d);
    return is;
}

/* True if a file of the training program is newer; *file: that one. */
static bool has_newer_program(char file[PATH_MAX], const json_t *trainer, double then)
{
    const json_t *one;
    bool is = false;
    size_t i;

    json_array_foreach(json_object_get(trainer, "files"), i, one)
    {
        is = is || (snprintf(file, PATH_MAX, "%s/%s", json_text_at(trainer, "folder"),
                             json_text_at(one, "name")) < PATH_MAX &&
                    is_newer(file, then));
    }
    return is;
}

bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config)
{
    const json_t *facts = json_object_get(run, "facts");
    const char *data = json_text_at(json_object_get(facts, "options"), "data");
    double then;

    if (has_changed(file, facts, "codec") || has_changed(file, facts, "server_codec") ||
        has_changed(file, facts, "model") || has_changed(file, facts, "start"))
        return true;
    return clock_parse(&then, json_text_at(run, "submitted_at")) &&
           ((data[0] && has_newer(file, data, then)) || (config[0] && has_newer(file, config, then)) ||
            has_newer_program(file, json_object_get(facts, "trainer"), then));
}

int sweep_drop_stale(const struct sweep *s, size_t combination, size_t repeat, struct err *e)
{
    char folder[PATH_MAX], file[PATH_MAX], name[SWEEP_NAME];
    bool is_stale;
    struct run r;

    if (!sweep_has_succeeded(s, combination, repeat))
        return 0;
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 || run_find(&r, folder, e) < 0)
        return e->code;
    is_stale = sweep_inputs_changed(file, r.doc, s->opt->config);
    run_clear(&r);
    if (!is_stale)
        return 0;
    sweep_name(name, &s->plan, combination, repeat);
    console_info("%s has changed since run %s: its results are removed, and it runs again.", file, name);
    return file_remove_tree(folder, e);
}

/* The command of a run. */

/* The arguments of another job_submit. */
struct sweep_command {
    char *words[ARGUMENTS_MAX]; /* ends with NULL */
    size_t n;
    bool has_failed; /* no memory */
};

static void add_word(struct sweep_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_word(struct sweep_command *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (c->n + 1 == ARGUMENTS_MAX || vasprintf(&c->words[c->n], fmt, ap) < 0) {
        c->has_failed = true;
        c->words[c->n] = NULL;
    } else {
        c->n++;
    }
    va_end(ap);
}

/* Takes ownership of the list. */
static void add_words(struct sweep_command *c, json_t *list)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v) add_word(c, "%s", json_string_value(v));
    json_decref(list);
}

static void clear_command(struct sweep_command *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->words[i]);
    *c = (struct sweep_command){.n = 0};
}

/* Sets `c` to the command of a run. A --name or --timing-seed among the options of all runs comes
 * later and takes precedence. */
static void make_command(struct sweep_command *c, const struct sweep *s, size_t combination, size_t repeat,
                         const char *folder)
{
    char name[sizeof s->opt->settings.name];

    sweep_job_name(name, sizeof name, &s->plan, combination, repeat);
    *c = (struct sweep_command){.n = 0};
    add_word(c, "%s", s->program);
    add_word(c, s->opt->simulate ? "simulate" : "submit");
    add_word(c, "--name=%s", name);
    if (s->opt->simulate && !s->opt->measured[0]) /* runs differ in their options, not in measured times */
        add_word(c, "--measured=%s/measured.json", s->folder);
    if (s->opt->simulate) /* ... and not in the times that are drawn */
        add_word(c, "--timing-seed=1");
    add_words(c, json_incref(s->base));
    for (size_t i = 0; i < s->plan.n_axes; i++)
        add_word(c, "--set=%s=%s", s->plan.axes[i].key, sweep_value(&s->plan, combination, i));
    if (s->plan.has_seeds)
        add_word(c, "--set=seed=%llu", (unsigned long long)(s->plan.first_seed + repeat));
    add_word(c, "--output=%s", folder);
    if (s->opt->args.n_operands > 0)
        add_word(c, "--");
    for (int i = 0; i < s->opt->args.n_operands; i++)
        add_word(c, "%s", s->opt->args.operands[i]);
}

/* Checks before the first run. */

/* A check of the options alone. */
static int check_none(const struct options *o, struct err *e)
{
    (void)o, (void)e;
    return 0;
}

/* True if all runs of the combination have succeeded. */
static bool all_have_succeeded(const struct sweep *s, size_t combination)
{
    for (size_t i = 0; i < s->plan.n_repeats; i++)
        if (!sweep_has_succeeded(s, combination, i))
            return false;
    return true;
}

static int check_combination(const struct sweep *s, size_t combination, sweep_check_job *check, struct err *e)
{
    const unsigned verb = s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT;
    struct options *o = malloc(sizeof *o);
    char folder[PATH_MAX], values[256];
    struct sweep_command command;
    int rc;

    if (!o)
        return err_set(e, ERR_NOMEM, "no memory for the options of a run");
    rc = sweep_run_folder(folder, s, combination, 0, e);
    make_command(&command, s, combination, 0, rc == 0 ? folder : "");
    if (rc == 0 && command.has_failed)
        rc = err_set(e, ERR_NOMEM, "no memory for the arguments of a run");
    if (rc == 0 &&
        (options_parse(o, verb, (int)command.n - 1, command.words + 1, e) < 0 || check(o, e) < 0)) {
        sweep_values_text(values, sizeof values, &s->plan, combination);
        rc = values[0]
                 ? err_at(e, "combination %zu of %zu, %s", combination + 1, s->plan.n_combinations, values)
                 : e->code;
    }
    clear_command(&command);
    free(o);
    return rc;
}

/* The messages of the stages are not printed: each run prints them itself. */
static int check_all(const struct sweep *s, sweep_check_job *check, struct err *e)
{
    int verbosity = console_set_verbosity(-1), rc = 0;

    for (size_t c = 0; c < s->plan.n_combinations && rc == 0; c++)
        if ((rc = interrupt_check(e)) == 0 && !all_have_succeeded(s, c))
            rc = check_combination(s, c, check, e);
    console_set_verbosity(verbosity);
    return rc;
}

int sweep_check(const struct sweep *s, sweep_check_job *check, struct err *e)
{
    if (check_all(s, check_none, e) < 0)
        return e->code;
    console_info("Checking the jobs of %zu combination%s.", s->plan.n_combinations,
                 s->plan.n_combinations == 1 ? "" : "s");
    return check_all(s, check, e);
}

/* Runs, each in a process of its own. */

/* Runs a command to its end; *status: its exit status. The child has its own process group, so that Ctrl-C
 * reaches it once, from here: a second signal would end it before it has released its reservations. */
static int run_child(int *status, char *const *argv, const char *log, struct err *e)
{
    /* O_NONBLOCK: with a pipe at this path, open() fails at once instead of waiting for a reader. */
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    struct child_how how = {.argv = argv, .out = fd, .err = fd, .is_foreign = true};
    struct child c;
    int rc;

    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", log);
    rc = child_start(&c, &how, e);
    close(fd);
    if (rc < 0)
        return rc;
    for (;;) {
        struct pollfd p[] = {{.fd = c.fd, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents || interrupt_signal())
            break;
    }
    *status = interrupt_signal() ? child_end(&c, GRACE_S) : child_wait(&c);
    return interrupt_check(e);
}

/* The text behind the last `key` ("error: ", "code: ") in the end of a log, up to its line's end; "":
 * none. */
static void find_in_log(char out[SWEEP_WHY], const char *log, const char *key)
{
    char text[LOG_END + 1];
    int fd = open(log, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, LOG_END, end > LOG_END ? end - LOG_END : 0);
    const char *found = NULL;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        found = at;
    }
    snprintf(out, SWEEP_WHY, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
    utf8_clean(out, strlen(out), false);
}

static void read_why(char why[SWEEP_WHY], int status, const char *log)
{
    find_in_log(why, log, "error: ");
    if (!why[0]) { /* "ERROR User Submit@10:50:19 : ..." */
        find_in_log(why, log, "ERROR User Submit@");
        memmove(why, why + strspn(why, "0123456789: "), strlen(why + strspn(why, "0123456789: ")) + 1);
    }
    if (!why[0] && WIFSIGNALED(status))
        snprintf(why, SWEEP_WHY, "killed by signal %d", WTERMSIG(status));
    else if (!why[0])
        snprintf(why, SWEEP_WHY, "it ended with status %d", WEXITSTATUS(status));
}

/* Runs the command, and clears it. */
static int run_command(int *status, struct sweep_command *command, const char *log, struct err *e)
{
    int rc = command->has_failed ? err_set(e, ERR_NOMEM, "no memory for the arguments of a run")
                                 : run_child(status, command->words, log, e);

    clear_command(command);
    return rc;
}

/* Starts a run anew. */
static int run_anew(int *status, const struct sweep *s, size_t combination, size_t repeat, const char *folder,
                    const char *log, struct err *e)
{
    struct sweep_command command;

    if (file_remove_tree(folder, e) < 0)
        return e->code;
    make_command(&command, s, combination, repeat, folder);
    return run_command(status, &command, log, e);
}

/* Waits for the job of an earlier attempt that may still run on agents. */
static int await_earlier(int *status, const struct sweep *s, const char *id, const char *folder,
                         const char *log, struct err *e)
{
    struct sweep_command command = {.n = 0};

    add_word(&command, "%s", s->program);
    add_word(&command, "wait");
    add_word(&command, "%s", id);
    add_words(&command, list_options(s->opt, FOR_WAIT));
    add_word(&command, "--output=%s", folder);
    return run_command(status, &command, log, e);
}

/* True if the log says that no agent has the job, or that it is not in the list of jobs. */
static bool is_unknown(const char *log)
{
    char code[SWEEP_WHY];

    find_in_log(code, log, "code: ");
    return strcmp(code, "NOT_FOUND") == 0;
}

int sweep_run(enum sweep_state *state, char why[SWEEP_WHY], const struct sweep *s, size_t combination,
              size_t repeat, struct err *e)
{
    char folder[PATH_MAX], log[PATH_MAX];
    struct earlier_run earlier;
    int status = 0;

    *state = SWEEP_SUCCEEDED;
    why[0] = '\0';
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 ||
        join_run_path(log, s, "logs", ".log", combination, repeat, e) < 0)
        return e->code;
    find_earlier(&earlier, s, folder);
    if (earlier.id[0] && !earlier.is_done) {
        if (await_earlier(&status, s, earlier.id, folder, log, e) < 0)
            return e->code;
        find_earlier(&earlier, s, folder);
        if (earlier.has_ended || is_unknown(log))
            earlier.id[0] = '\0';
    }
    if (!earlier.is_done && !earlier.id[0]) {
        if (run_anew(&status, s, combination, repeat, folder, log, e) < 0)
            return e->code;
        find_earlier(&earlier, s, folder);
    }
    if (!earlier.is_done) {
        *state = SWEEP_FAILED;
        read_why(why, status, log);
    }
    return 0;
}
