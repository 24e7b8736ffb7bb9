/* job_submit -- the command line program: finds the verb, reads its options, runs it. "-" in place of a file
 * that a verb writes is standard output, as in curl: the verb writes a temporary file, its messages go to
 * standard error, and the complete file is copied. Elsewhere "-" is refused: job_submit reads no file from
 * standard input, and a folder cannot be written to standard output. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/files/temp.h"
#include "submit/options/options_table.h"
#include "submit/options/options_words.h"
#include "submit/queue/queue_process.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

enum { COPIED_AT_ONCE = 1 << 16 };

#define WRITES_A_FILE (FOR_MODEL | FOR_SNAPSHOT | FOR_PREDICT | FOR_GENERATE | FOR_PLOT)

/* A job may need one connection per node. */
static void raise_limits(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Moves a verb that follows flags like -q in front of them. */
static void move_flags(int argc, char **argv)
{
    struct err ignored;
    int at = 1;

    while (at < argc && options_is_message_flag(argv[at]))
        at++;
    if (at == 1 || at == argc || !verb_find(argv[at], &ignored))
        return;
    for (char *verb = argv[at]; at > 0; at--)
        argv[at] = at > 1 ? argv[at - 1] : verb;
}

/* Another name of this program, by which it is one verb. */
static const struct {
    const char *program, *verb;
} names[] = {{"psgd-run", "run-ranks"}};

static const char *verb_of_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(slash ? slash + 1 : path, names[i].program) == 0)
            return names[i].verb;
    return NULL;
}

/* The verb may be left out only before an option, so an operand is never taken for a verb. On return
 * argv[0] is the argument before the options. */
static const struct verb *choose_verb(bool *is_named, int *argc, char ***argv, struct err *e)
{
    const char *own = verb_of_name((*argv)[0]);

    if (own) {
        *is_named = true;
        return verb_find(own, e);
    }
    move_flags(*argc, *argv);
    *is_named = (*argv)[1][0] != '-';
    if (!*is_named)
        return &verbs[0];
    ++*argv;
    --*argc;
    return verb_find((*argv)[0], e);
}

/* Refuses operands beyond those of the verb, such as a second job. */
static int check_operands(const struct verb *v, const struct options *o, struct err *e)
{
    if (o->args.n_operands <= v->max_operands)
        return 0;
    err_set(e, ERR_USAGE, "\"%s\" is one argument too many for %s", o->args.operands[v->max_operands],
            v->name);
    return err_hint(e, "job_submit help %s shows its arguments.", v->name);
}

static int refuse_dash(const struct args_option *t, struct err *e)
{
    char name[ARGS_NAME];

    args_name(name, t);
    if (!strstr(t->value, "FILE"))
        err_set(e, ERR_USAGE, "--%s -: a folder is needed, and neither standard input nor output is one",
                name);
    else if (t->group == RESULTS)
        err_set(e, ERR_USAGE, "--%s -: standard output has the job's results; name a file", name);
    else
        err_set(e, ERR_USAGE, "--%s -: nothing is read from standard input; name a file", name);
    return err_hint(e, "A file with the name \"-\" is ./-");
}

/* The value of an option that is a path; NULL: the option is no path, or not of this verb. */
static char *option_path(struct options *o, uint64_t verb, const struct args_option *t)
{
    bool is_trace = t->offset == offsetof(struct options, trace);

    return t->verbs & verb && (t->kind == ARGS_PATH || is_trace) ? (char *)o + t->offset : NULL;
}

/* *at: the option's value "-" that stands for standard output; NULL: none. */
static int find_dash(char **at, struct options *o, uint64_t verb, struct err *e)
{
    const struct args_option *t = options_table.options;

    *at = NULL;
    for (size_t i = 0; i < (size_t)options_table.n; i++) {
        char *path = option_path(o, verb, &t[i]);

        if (!path || strcmp(path, "-") != 0)
            continue;
        if (!(verb & WRITES_A_FILE) || t[i].group != RESULTS || !strstr(t[i].value, "FILE"))
            return refuse_dash(&t[i], e);
        if (*at || o->json)
            return err_set(e, ERR_USAGE, "%s: only one of them can be on standard output",
                           *at ? "--png - and --svg -" : "--json, and - as the file to write");
        *at = path;
    }
    return 0;
}

/* A file that a verb writes for standard output. */
struct output_file {
    struct temp folder;
    char path[PATH_MAX]; /* "": no file goes to standard output */
    int fd;              /* standard output, while descriptor 1 is standard error; -1: it was closed */
};

/* Before a verb runs: replaces the "-" in its options by the temporary file. ERR_USAGE: "-" is refused
 * there. */
static int redirect_file(struct output_file *f, struct options *o, uint64_t verb, struct err *e)
{
    char *at;

    f->path[0] = '\0';
    if (find_dash(&at, o, verb, e) < 0)
        return e->code;
    if (!at)
        return 0;
    if (temp_open(&f->folder, e) < 0)
        return e->code;
    if (file_join(f->path, sizeof f->path, f->folder.path, "output", e) < 0) {
        temp_close(&f->folder);
        return e->code;
    }
    snprintf(at, PATH_MAX, "%s", f->path);
    o->is_to_stdout = true;
    fflush(stdout);
    f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return 0;
}

/* A write that fails is reported by stdout_finish(). */
static int copy_to_stdout(const char *path, struct err *e)
{
    char bytes[COPIED_AT_ONCE];
    FILE *in = fopen(path, "re");
    size_t n;
    int rc;

    if (!in)
        return err_errno(e, ERR_IO, "%s", path);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0 && fwrite(bytes, 1, n, stdout) == n)
        ;
    rc = ferror(in) ? err_errno(e, ERR_IO, "%s", path) : 0;
    fclose(in);
    return rc;
}

/* After the verb, whose status is `rc`: copies what it has written if that is 0. Returns rc, or ERR_IO. */
static int copy_file(struct output_file *f, int rc, struct err *e)
{
    if (!f->path[0])
        return rc;
    fflush(stdout);
    if (f->fd >= 0) {
        dup2(f->fd, STDOUT_FILENO);
        close(f->fd);
    } else
        close(STDOUT_FILENO); /* as before redirect_file() */
    if (rc == 0)
        rc = copy_to_stdout(f->path, e);
    temp_close(&f->folder);
    return rc;
}

/* A command about jobs starts the watcher of waiting jobs again if it has been killed. */
static void watch_queue(const struct verb *v)
{
    struct err e;

    if ((v->group != OF_JOBS && v->group != OF_RUNNING) || v->run == verb_queue)
        return;
    if (queue_process_watch(&e) < 0)
        console_error("%s", e.text);
}

static int run_verb(const struct verb *v, bool is_named, struct options *o, struct err *e)
{
    struct output_file file;
    int rc;

    if (o->help) {
        if (!is_named) {
            verb_print_all(stdout);
            fputs("\nThe options of submit:\n\n", stdout);
        }
        verb_print_help(stdout, v);
        return 0;
    }
    if (o->version)
        return verb_version(o, e);
    if (check_operands(v, o, e) < 0)
        return e->code;
    raise_limits();
    if (interrupt_init(e) < 0)
        return e->code;
    if (redirect_file(&file, o, v->options, e) < 0)
        return e->code;
    watch_queue(v);
    rc = v->run(o, e);
    return copy_file(&file, rc, e);
}

static int end_program(int status, const struct verb *v)
{
    struct err e = {0};
    int rc = stdout_finish(&e);

    if (rc < 0)
        console_failure(&e, exit_status_error_name(e.code));
    console_end();
    if (status != 0 || rc == 0)
        return status;
    if (rc > 0)
        return !v || v->purpose == SHOWS ? rc : status;
    return exit_status_of(rc);
}

/* Of a process of a launcher also those of PSGD_OPTIONS. The words live as long as the process. */
static int parse_options(struct options *o, const struct verb *v, int argc, char **argv, struct err *e)
{
    const char *more = v->run == verb_run_ranks ? getenv(OPTIONS_VARIABLE) : NULL;
    static char **all, *words;

    if (!more)
        return options_parse(o, v->options, argc, argv, e);
    if (options_add_words(&all, &words, &argc, argv, more, e) < 0)
        return e->code;
    return options_parse(o, v->options, argc, all, e);
}

int main(int argc, char **argv)
{
    static struct options o;
    struct err e = {0};
    const struct verb *v;
    bool is_named;
    int rc;

    stdout_init();
    console_init(0, false);
    if (argc < 2 && !verb_of_name(argv[0])) {
        verb_print_all(stdout);
        return end_program(0, NULL);
    }
    v = choose_verb(&is_named, &argc, &argv, &e);
    rc = v ? parse_options(&o, v, argc, argv, &e) : e.code;
    if (rc == 0) {
        console_init(o.quiet ? -1 : o.verbose > 0, o.no_color);
        rc = run_verb(v, is_named, &o, &e);
    }
    if (rc < 0) {
        console_failure(&e, exit_status_error_name(e.code));
        if (o.json)
            stdout_json(false, NULL, &e, exit_status_error_name(e.code));
        rc = exit_status_of(e.code);
    }
    options_clear(&o);
    return end_program(rc, o.help || o.version ? NULL : v);
}
