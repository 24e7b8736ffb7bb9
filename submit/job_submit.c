/* job_submit -- the command line program. This file: verbs, help and exit statuses. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "shared/json.h"
#include "shared/suggest.h"
#include "submit/interrupt.h"
#include "submit/options.h"
#include "submit/output.h"
#include "submit/stages/console.h"
#include "submit/verbs/verbs.h"

static int verb_help(const struct options *o, struct err *e);
static int verb_version(const struct options *o, struct err *e);

static const struct verb {
    const char *name;
    int (*run)(const struct options *o, struct err *e);
    enum {
        SHOWS,
        WORKS
    } purpose; /* SHOWS: the verb only prints; WORKS: it does more, and the output only reports it */
    unsigned options;
    int max_operands; /* ARGS_OPERANDS: any number, or the verb checks them itself */
    const char *operands, *help;
} verbs[] = {
    {"submit", verb_submit, WORKS, FOR_SUBMIT, ARGS_OPERANDS, "",
     "train: check, place, ship, start, watch and collect (the verb submit may be left out)"},
    {"validate", verb_validate, SHOWS, FOR_SUBMIT, 0, "",
     "check a job and show its model, data and shards; contacts no agent"},
    {"simulate", verb_simulate, WORKS, FOR_SIMULATE, 0, "",
     "run a job in one process in simulated time: slow links, many nodes, losses; needs no agent"},
    {"list", verb_list, SHOWS, FOR_LIST, 0, "", "jobs that were submitted from here"},
    {"status", verb_status, SHOWS, FOR_STATUS, 1, "[JOB]", "state of each node of a job"},
    {"wait", verb_wait, WORKS, FOR_WAIT, ARGS_OPERANDS, "[JOB...]",
     "watch a job until its end and fetch its results"},
    {"logs", verb_logs, SHOWS, FOR_LOGS, 1, "[JOB]", "log lines of its nodes"},
    {"cancel", verb_cancel, WORKS, FOR_CANCEL, ARGS_OPERANDS, "JOB...", "end a job"},
    {"fetch", verb_fetch, WORKS, FOR_FETCH, 1, "[JOB]",
     "fetch records, logs and model, as far as they exist"},
    {"data", verb_data, WORKS, FOR_DATA, ARGS_OPERANDS, "fetch mnist", "download a data set and verify it"},
    {"codecs", verb_codecs, SHOWS, FOR_CODECS, ARGS_OPERANDS, "list",
     "list codecs and compressors; codecs show|test NAME|FILE: one of them; codecs new NAME: a template"},
    {"model", verb_model, SHOWS, FOR_MODEL, ARGS_OPERANDS, "inspect FILE",
     "contents of a model file, or layers of a model NAME; model convert FILE --to npz|onnx"},
    {"help", verb_help, SHOWS, FOR_ALL, 1, "[VERB]", "this text, or the options of a verb"},
    {"version", verb_version, SHOWS, FOR_ALL, 0, "", "version"},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* Every error code with its exit status and its name in messages and JSON. */
static const struct {
    int code, status;
    const char *name;
} failures[] = {
    {ERR_INTERNAL, EXIT_INTERNAL, "INTERNAL"},
    {ERR_NOMEM, EXIT_INTERNAL, "OUT_OF_MEMORY"},
    {ERR_USAGE, EXIT_USAGE, "USAGE"},
    {ERR_CONFIG, EXIT_INVALID, "INVALID"},
    {ERR_CODEC, EXIT_INVALID, "CODEC"},
    {ERR_IO, EXIT_INVALID, "IO"},
    {ERR_NOSPACE, EXIT_INVALID, "DISK_FULL"},
    {ERR_UNREACHABLE, EXIT_UNREACHABLE, "UNREACHABLE"},
    {ERR_REFUSED, EXIT_REFUSED, "REFUSED"},
    {ERR_AUTH, EXIT_AUTH, "UNAUTHORIZED"},
    {ERR_PROTOCOL, EXIT_UNREACHABLE, "PROTOCOL"},
    {ERR_TIMEOUT, EXIT_TIMEOUT, "TIMEOUT"},
    {ERR_LOST, EXIT_JOB_FAILED, "NODE_LOST"},
    {ERR_NUMERIC, EXIT_JOB_FAILED, "NUMERIC"},
    {ERR_CANCELLED, EXIT_CANCELLED, "CANCELLED"},
    {ERR_NOT_FOUND, EXIT_INVALID, "NOT_FOUND"},
    {ERR_CONFLICT, EXIT_INVALID, "CONFLICT"},
};
enum { N_FAILURES = sizeof failures / sizeof *failures };

static const char exit_help[] =
    "\nExit status: 0 succeeded, 1 job failed, 2 usage, 3 an agent cannot be reached, 4 an agent refused,\n"
    "5 --timeout elapsed (the job continues), 6 invalid input, or a file or stdout that cannot be written,\n"
    "7 not authorised, 8 job cancelled, 9 results incomplete, 70 internal error; ended by a signal, while a\n"
    "running job continues: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP; 141 stdout has no reader any more, as with\n"
    "`| head -1` (only for commands that show something; a job keeps its own status).\n";

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static void print_short_help(FILE *f)
{
    fprintf(f, "job_submit " PSGD_VERSION " -- trains a network on the agents of worker.json\n\n"
               "  job_submit --codec fedavg --node_count 2      submit a job and fetch its results\n\n");
    for (int i = 0; i < N_VERBS; i++)
        fprintf(f, "  job_submit %-8s %-12s %s\n", verbs[i].name, verbs[i].operands, verbs[i].help);
    fprintf(f, "\njob_submit help VERB lists the options of a verb.\n");
}

static void print_verb_help(FILE *f, const struct verb *v)
{
    fprintf(f, "job_submit %s%s%s%s\n%s.\n", v->name, v->operands[0] ? " " : "", v->operands,
            v->options ? " [OPTIONS]" : "", v->help);
    fprintf(f, "In options '_' and '-' are the same; their names are not abbreviated.\n");
    options_help(f, v->options);
    fputs(exit_help, f);
}

/* Verbs of other programs, and verbs typed for options. */
static const struct {
    const char *typed, *meant;
} synonyms[] = {
    {"attach", "wait"},
    {"watch", "wait"},
    {"jobs", "list"},
    {"ls", "list"},
    {"ps", "list"},
    {"kill", "cancel"},
    {"stop", "cancel"},
    {"get", "fetch"},
    {"log", "logs"},
    {"run", "submit"},
    {"check", "validate"},
    {"resume", "submit --resume DIR"},
    {"trace", "submit --trace FILE"},
    {"train", "submit"},
};

static const char *find_synonym(const char *name)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].typed, name) == 0)
            return synonyms[i].meant;
    return NULL;
}

static int unknown_verb(const char *name, struct err *e)
{
    const char *names[N_VERBS + 1];
    const char *near = find_synonym(name);

    for (int i = 0; i < N_VERBS; i++)
        names[i] = verbs[i].name;
    names[N_VERBS] = NULL;
    if (!near)
        near = suggest(name, names);
    err_set(e, ERR_USAGE, "unknown verb \"%s\"", name);
    return near ? err_hint(e, "Did you mean %s?", near) : err_hint(e, "job_submit help lists them.");
}

static int verb_help(const struct options *o, struct err *e)
{
    const struct verb *v = o->args.n_operands ? find_verb(o->args.operands[0]) : NULL;

    if (o->args.n_operands && !v)
        return unknown_verb(o->args.operands[0], e);
    if (v)
        print_verb_help(stdout, v);
    else
        print_short_help(stdout);
    return 0;
}

static int verb_version(const struct options *o, struct err *e)
{
    (void)o;
    (void)e;
    printf("job_submit " PSGD_VERSION "\n");
    return 0;
}

static const char *failure_name(int code)
{
    for (int i = 0; i < N_FAILURES; i++)
        if (failures[i].code == code)
            return failures[i].name;
    return "INTERNAL";
}

/* An interrupted command ends with the status of the signal, whatever its error. */
static int failure_status(int code)
{
    if (interrupt_signal())
        return 128 + interrupt_signal();
    for (int i = 0; i < N_FAILURES; i++)
        if (failures[i].code == code)
            return failures[i].status;
    return EXIT_INTERNAL;
}

void verb_print_json(bool ok, json_t *data, const struct err *e, const char *code)
{
    json_t *o = json_pack("{s:s, s:b}", "schema_version", "1", "ok", (int)ok);
    char *text;

    if (e)
        json_object_set_new(o, "error",
                            json_pack("{s:s+, s:s, s:o, s:o?, s:i}", "type", "/problems/", code, "code", code,
                                      "detail", json_text(e->text, SIZE_MAX), "hint",
                                      e->hint[0] ? json_text(e->hint, SIZE_MAX) : NULL, "exit_status",
                                      failure_status(e->code)));
    if (data)
        json_object_set_new(o, "data", data);
    /* Same precision as run.json: 0.09, not 0.089999999999999997. */
    text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
    printf("%s\n", text ? text : "{\"schema_version\":\"1\",\"ok\":false}");
    free(text);
    json_decref(o);
}

/* A job may need one connection per node. */
static void raise_limits(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* The verb may be left out only before an option, so an operand is never taken for a verb. On return
 * argv[0] is the argument before the options. */
static const struct verb *choose_verb(int *argc, char ***argv, struct err *e)
{
    const struct verb *v;

    if ((*argv)[1][0] == '-')
        return &verbs[0];
    ++*argv;
    --*argc;
    v = find_verb((*argv)[0]);
    if (!v)
        unknown_verb((*argv)[0], e);
    return v;
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

static int run(const struct verb *v, const struct options *o, struct err *e)
{
    if (o->help) {
        print_verb_help(stdout, v);
        return 0;
    }
    if (o->version)
        return verb_version(o, e);
    if (check_operands(v, o, e) < 0)
        return e->code;
    raise_limits();
    if (interrupt_init(e) < 0)
        return e->code;
    return v->run(o, e);
}

static int end(int status, const struct verb *v)
{
    struct err e = {0};
    int rc = output_finish(&e);

    if (rc < 0)
        console_failure(&e, failure_name(e.code));
    console_end();
    if (status != 0 || rc == 0)
        return status;
    if (rc > 0)
        return v && v->purpose == SHOWS ? rc : status;
    return failure_status(rc);
}

int main(int argc, char **argv)
{
    static struct options o;
    struct err e = {0};
    const struct verb *v;
    int rc;

    output_init();
    console_init(0, false);
    if (argc < 2) {
        print_short_help(stdout);
        return end(0, find_verb("help"));
    }
    v = choose_verb(&argc, &argv, &e);
    rc = v ? options_parse(&o, v->options, argc, argv, &e) : e.code;
    if (rc == 0) {
        console_init(o.quiet ? -1 : o.verbose > 0, o.no_color);
        rc = run(v, &o, &e);
    }
    if (rc < 0) {
        console_failure(&e, failure_name(e.code));
        if (o.json)
            verb_print_json(false, NULL, &e, failure_name(e.code));
        rc = failure_status(e.code);
    }
    return end(rc, o.help || o.version ? find_verb("help") : v);
}
