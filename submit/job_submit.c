/* job_submit -- the command line program: finds the verb, reads its options, runs it. */
#include <sys/resource.h>

#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/standard_output.h"
#include "submit/verbs/file_to_stdout.h"
#include "submit/verbs/verbs.h"

/* A job may need one connection per node. */
static void raise_limits(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Moves the verb in front of flags like -q, if an argument behind them is one. */
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

/* The verb may be left out only before an option, so an operand is never taken for a verb. On return
 * argv[0] is the argument before the options. */
static const struct verb *choose_verb(bool *is_named, int *argc, char ***argv, struct err *e)
{
    move_flags(*argc, *argv);
    *is_named = (*argv)[1][0] != '-';
    if (!*is_named)
        return &verbs[0];
    ++*argv;
    --*argc;
    return verb_find((*argv)[0], e);
}

/* Refuses surplus operands, such as a second job. */
static int check_operands(const struct verb *v, const struct options *o, struct err *e)
{
    if (o->args.n_operands <= v->max_operands)
        return 0;
    err_set(e, ERR_USAGE, "\"%s\" is one argument too many for %s", o->args.operands[v->max_operands],
            v->name);
    return err_hint(e, "job_submit help %s shows its arguments.", v->name);
}

static int run_verb(const struct verb *v, bool is_named, struct options *o, struct err *e)
{
    struct file_to_stdout file;
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
    if (file_to_stdout_begin(&file, o, v->options, e) < 0)
        return e->code;
    rc = v->run(o, e);
    return file_to_stdout_end(&file, rc, e);
}

static int end_program(int status, const struct verb *v)
{
    struct err e = {0};
    int rc = output_finish(&e);

    if (rc < 0)
        console_failure(&e, failure_name(e.code));
    console_end();
    if (status != 0 || rc == 0)
        return status;
    if (rc > 0)
        return !v || v->purpose == SHOWS ? rc : status;
    return failure_status(rc);
}

int main(int argc, char **argv)
{
    static struct options o;
    struct err e = {0};
    const struct verb *v;
    bool is_named;
    int rc;

    output_init();
    console_init(0, false);
    if (argc < 2) {
        verb_print_all(stdout);
        return end_program(0, NULL);
    }
    v = choose_verb(&is_named, &argc, &argv, &e);
    rc = v ? options_parse(&o, v->options, argc, argv, &e) : e.code;
    if (rc == 0) {
        console_init(o.quiet ? -1 : o.verbose > 0, o.no_color);
        rc = run_verb(v, is_named, &o, &e);
    }
    if (rc < 0) {
        console_failure(&e, failure_name(e.code));
        if (o.json)
            output_json(false, NULL, &e, failure_name(e.code));
        rc = failure_status(e.code);
    }
    options_clear(&o);
    return end_program(rc, o.help || o.version ? NULL : v);
}
