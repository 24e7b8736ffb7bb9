#include "submit/verbs/verb_table.h"

#include <string.h>

#include "shared/suggest.h"
#include "submit/failure.h"
#include "submit/verbs/verbs.h"

const struct verb verbs[] = {
    {"submit", verb_submit, WORKS, FOR_SUBMIT, ARGS_OPERANDS, "",
     "train: check, place, ship, start, watch and collect (the verb submit may be left out)"},
    {"run", verb_run, WORKS, FOR_RUN, ARGS_OPERANDS, "[ARG...]",
     "run a function of a C file, --exec FILE, on each node's shard of --data, instead of training; its "
     "arguments follow --"},
    {"validate", verb_validate, SHOWS, FOR_SUBMIT, 0, "",
     "check a job and show its model, data and shards; contacts no agent"},
    {"simulate", verb_simulate, WORKS, FOR_SIMULATE, 0, "",
     "run a job in one process in simulated time: slow links, many nodes, losses; needs no agent"},
    {"launch", verb_launch, WORKS, FOR_SUBMIT | FOR_LAUNCH, 0, "",
     "run one task of a cluster, as in TensorFlow: its agent, until the job of the chief has ended"},
    {"list", verb_list, SHOWS, FOR_LIST, 0, "", "jobs that were submitted from here"},
    {"status", verb_status, SHOWS, FOR_STATUS, 1, "[JOB]", "state of each node of a job"},
    {"wait", verb_wait, WORKS, FOR_WAIT, ARGS_OPERANDS, "[JOB...]",
     "watch a job until its end and fetch its results"},
    {"logs", verb_logs, SHOWS, FOR_LOGS, 1, "[JOB]", "log lines of its nodes"},
    {"cancel", verb_cancel, WORKS, FOR_CANCEL, ARGS_OPERANDS, "JOB...", "end a job"},
    {"fetch", verb_fetch, WORKS, FOR_FETCH, 1, "[JOB]",
     "fetch records, logs and model, as far as they exist"},
    {"snapshot", verb_snapshot, WORKS, FOR_SNAPSHOT, 1, "[JOB]",
     "write the model of a running job, as it is now, to -o FILE"},
    {"why", verb_why, SHOWS, FOR_WHY, 1, "[JOB|DIR]",
     "why a job is in its state: one sentence, and what to do next"},
    {"rerun", verb_rerun, WORKS, FOR_RERUN, 1, "[JOB|DIR]",
     "submit a job again with the same parameters and seed, or with some of them --set to others"},
    {"join", verb_join, SHOWS, FOR_JOIN, 1, "INVITATION",
     "get a token of an agent that uses TLS: ADDRESS#PIN#CODE, as the agent prints it; -: read from stdin"},
    {"agents", verb_agents, SHOWS, FOR_JOINED, ARGS_OPERANDS, "list",
     "agents that were joined; agents show|remove ADDRESS: one of them; agents add INVITATION: as join; "
     "agents "
     "drain|resume ADDRESS: take no new jobs, or take them again"},
    {"doctor", verb_doctor, SHOWS, FOR_DOCTOR, 0, "",
     "what keeps this machine and the agents from running a job, and what to do about it"},
    {"data", verb_data, WORKS, FOR_DATA, ARGS_OPERANDS, "fetch mnist", "download a data set and verify it"},
    {"codecs", verb_codecs, SHOWS, FOR_CODECS, ARGS_OPERANDS, "list",
     "list codecs and compressors; codecs show|test NAME|FILE: one of them; codecs new NAME [KIND]: a "
     "template"},
    {"model", verb_model, SHOWS, FOR_MODEL, ARGS_OPERANDS, "inspect FILE",
     "contents of a model file, or layers of a model NAME; model convert FILE --to npz|onnx"},
    {"predict", verb_predict, WORKS, FOR_PREDICT, 1, "FILE|DIR",
     "a trained model on data: a table with a row per sample, and the metrics of an evaluation"},
    {"help", verb_help, SHOWS, FOR_ALL, 1, "[VERB]", "this text, or the options of a verb"},
    {"version", verb_version, SHOWS, FOR_ALL, 0, "", "version"},
};
const int n_verbs = sizeof verbs / sizeof *verbs;

static const struct verb *find(const char *name)
{
    for (int i = 0; i < n_verbs; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

void verb_print_all(FILE *f)
{
    fprintf(f, "job_submit " PSGD_VERSION " -- trains a network on the agents of worker.json\n\n"
               "  job_submit --codec fedavg --node_count 2      submit a job and fetch its results\n\n");
    for (int i = 0; i < n_verbs; i++)
        fprintf(f, "  job_submit %-8s %-12s %s\n", verbs[i].name, verbs[i].operands, verbs[i].help);
    fprintf(f, "\njob_submit help VERB lists the options of a verb.\n");
}

void verb_print_help(FILE *f, const struct verb *v)
{
    fprintf(f, "job_submit %s%s%s%s\n%s.\n", v->name, v->operands[0] ? " " : "", v->operands,
            v->options ? " [OPTIONS]" : "", v->help);
    fprintf(f, "In options '_' and '-' are the same; their names are not abbreviated.\n");
    options_help(f, v->options);
    fputs(failure_exit_help, f);
}

/* Verbs of other programs, and verbs typed for options. */
static const struct {
    const char *typed, *meant;
} synonyms[] = {
    {"attach", "wait"},
    {"explain", "why"},
    {"retry", "rerun"},
    {"watch", "wait"},
    {"jobs", "list"},
    {"ls", "list"},
    {"ps", "list"},
    {"kill", "cancel"},
    {"stop", "cancel"},
    {"get", "fetch"},
    {"get_weights", "snapshot"},
    {"log", "logs"},
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
    const char *names[sizeof verbs / sizeof *verbs + 1] = {0};
    const char *near = find_synonym(name);

    for (int i = 0; i < n_verbs; i++)
        names[i] = verbs[i].name;
    if (!near)
        near = suggest(name, names);
    err_set(e, ERR_USAGE, "unknown verb \"%s\"", name);
    return near ? err_hint(e, "Did you mean %s?", near) : err_hint(e, "job_submit help lists them.");
}

const struct verb *verb_find(const char *name, struct err *e)
{
    const struct verb *v = find(name);

    if (!v)
        unknown_verb(name, e);
    return v;
}

int verb_help(const struct options *o, struct err *e)
{
    const struct verb *v;

    if (o->args.n_operands == 0) {
        verb_print_all(stdout);
        return 0;
    }
    v = verb_find(o->args.operands[0], e);
    if (!v)
        return e->code;
    verb_print_help(stdout, v);
    return 0;
}

int verb_version(const struct options *o, struct err *e)
{
    (void)o;
    (void)e;
    printf("job_submit " PSGD_VERSION "\n");
    return 0;
}
