/* The table of verbs: name, function, options, help; and verbs of other programs, for which one of these is
 * suggested. */
#include "submit/verbs/verbs.h"

#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/file.h"

const char *const verb_groups[] = {
    [OF_JOBS] = "Train",        [OF_RUNNING] = "Follow a job",
    [OF_RESULTS] = "Results",   [OF_PARTS] = "Make and check what a job uses",
    [OF_MACHINES] = "Machines", [OF_ITSELF] = "This program",
};

const struct verb verbs[] = {
    {"submit", verb_submit, WORKS, FOR_SUBMIT | FOR_SLURM, ARGS_OPERANDS, "[ARG...]",
     "train: ship a job to the agents, watch it and fetch its results; the word submit may be left out; "
     "arguments of the program of --trainer follow --",
     OF_JOBS},
    {"run", verb_run, WORKS, FOR_RUN, ARGS_OPERANDS, "[ARG...]",
     "run a function of a C file, --exec FILE, on each node's shard of --data instead of training; the "
     "arguments of the function follow --",
     OF_JOBS},
    {"validate", verb_validate, SHOWS, FOR_SUBMIT, ARGS_OPERANDS, "[ARG...]",
     "check a job and show its model, data and shards; needs no agent", OF_JOBS},
    {"simulate", verb_simulate, WORKS, FOR_SIMULATE, ARGS_OPERANDS, "[ARG...]",
     "run a job in one process in simulated time: slow links, many nodes, losses; needs no agent; arguments "
     "of the program of --trainer follow --",
     OF_JOBS},
    {"launch", verb_launch, WORKS, FOR_SUBMIT | FOR_LAUNCH, ARGS_OPERANDS, "[ARG...]",
     "run one task of a cluster, as in TensorFlow: the agent of the task, until the chief's job has ended",
     OF_JOBS},
    {"pack", verb_pack, WORKS, FOR_PACK, ARGS_OPERANDS, "[ARG...]",
     "write a job into a folder, -o DIR, from which job_runner --job DIR runs it without agents: as "
     "processes "
     "of mpirun, srun or torchrun; collect DIR fetches its results",
     OF_JOBS},
    {"run-ranks", verb_run_ranks, WORKS, FOR_PACK | FOR_RANKS, ARGS_OPERANDS, "[ARG...]",
     "pack and run a job as the processes of a launcher, which all run this command, as in srun psgd-run "
     "--codec fedavg; psgd-run is its other name",
     OF_JOBS},
    {"rerun", verb_rerun, WORKS, FOR_RERUN, 1, "[JOB|DIR]",
     "submit a job again with the same parameters and seed; --set KEY=VALUE changes one of them", OF_JOBS},
    {"sweep", verb_sweep, WORKS, FOR_SUBMIT | FOR_SIMULATE | FOR_SWEEP, ARGS_OPERANDS, "[ARG...]",
     "run a job with each combination of the values of --set, --repeat times, one run after the other; after "
     "an interruption the same command continues",
     OF_JOBS},
    {"list", verb_list, SHOWS, FOR_LIST, 0, "",
     "list the jobs that this user has submitted, and jobs of others that the agents show", OF_RUNNING},
    {"move", verb_move, WORKS, FOR_QUEUE, 2, "JOB [PLACE]",
     "give a waiting job another place in this user's queue: a number, first or last; or --priority N",
     OF_RUNNING},
    {"queue", verb_queue, WORKS, FOR_QUEUE, 2, "watch",
     "queue watch: start the jobs that wait in the queue, until it is empty; queue run JOB: run one of them",
     OF_RUNNING},
    {"status", verb_status, SHOWS, FOR_STATUS, 1, "[JOB|DIR]", "show the state of each node of a job",
     OF_RUNNING},
    {"why", verb_why, SHOWS, FOR_WHY, 1, "[JOB|DIR]",
     "say in one sentence why a job is in its state, and what to do next", OF_RUNNING},
    {"wait", verb_wait, WORKS, FOR_WAIT, ARGS_OPERANDS, "[JOB|DIR...]",
     "watch a job until its end and fetch its results", OF_RUNNING},
    {"logs", verb_logs, SHOWS, FOR_LOGS, 1, "[JOB|DIR]", "print the log lines of a job's nodes", OF_RUNNING},
    {"resume", verb_resume, SHOWS, FOR_STATUS, 1, "[DIR]",
     "say from where a job of a job folder goes on, and by which command of its launcher", OF_RUNNING},
    {"checkpoint", verb_checkpoint, WORKS, FOR_STATUS, 1, "[DIR]",
     "have the nodes of a job folder write a checkpoint of their present step, while the job goes on",
     OF_RUNNING},
    {"cancel", verb_cancel, WORKS, FOR_CANCEL, ARGS_OPERANDS, "JOB|DIR...", "cancel a job", OF_RUNNING},
    {"fetch", verb_fetch, WORKS, FOR_FETCH, 1, "[JOB|DIR]",
     "fetch records, logs and model, as far as they exist, of a job or of a job folder; retrieve and collect "
     "are other names for it",
     OF_RESULTS},
    {"compare", verb_compare, SHOWS, FOR_COMPARE, ARGS_OPERANDS, "RUN...",
     "show runs side by side: settings that differ, accuracy, loss, time and bytes; RUN is a folder of "
     "results or a job",
     OF_RESULTS},
    {"plot", verb_plot, SHOWS, FOR_PLOT, ARGS_OPERANDS, "[RUN...]",
     "draw curves of runs, each the mean over its workers, on the terminal, or with gnuplot into a file",
     OF_RESULTS},
    {"browse", verb_browse, WORKS, FOR_BROWSE, ARGS_OPERANDS, "[DIR...]",
     "show all jobs, running and ended, on a page in this machine's browser; each DIR is a folder of "
     "results, "
     "or one with several of them, default logs/",
     OF_RESULTS},
    {"report", verb_report, WORKS, FOR_REPORT, ARGS_OPERANDS, "DIR...",
     "write report.html, the page of one job, into folders of results; one that is there is replaced",
     OF_RESULTS},
    {"note", verb_note, WORKS, FOR_PLAIN, 2, "RUN TEXT",
     "set the note of a run, as --note does at its submission; RUN is a folder of results or a job",
     OF_RESULTS},
    {"tag", verb_tag, WORKS, FOR_PLAIN, ARGS_OPERANDS, "RUN TAG...",
     "replace the tags of a run, which --tag sets at its submission; RUN is a folder of results or a job",
     OF_RESULTS},
    {"hide", verb_hide, WORKS, FOR_PLAIN, ARGS_OPERANDS, "RUN...",
     "leave runs out of list and of the page; unhide lists them again, and list --all has them", OF_RESULTS},
    {"unhide", verb_unhide, WORKS, FOR_PLAIN, ARGS_OPERANDS, "RUN...", "list runs again that hide left out",
     OF_RESULTS},
    {"delete", verb_delete, WORKS, FOR_PLAIN, ARGS_OPERANDS, "RUN...",
     "move the folders of runs into .deleted beside them, from where undelete fetches them until .deleted is "
     "removed",
     OF_RESULTS},
    {"undelete", verb_undelete, WORKS, FOR_PLAIN, ARGS_OPERANDS, "DIR|JOB...",
     "move the folders of deleted runs back", OF_RESULTS},
    {"export", verb_export, WORKS, FOR_EXPORT, 1, "[JOB|DIR]",
     "write the curves of a job for TensorBoard, or the job as a run of MLflow, as --to says", OF_RESULTS},
    {"snapshot", verb_snapshot, WORKS, FOR_SNAPSHOT, 1, "[JOB]",
     "write the model of a running job, as it is now, to -o FILE", OF_RESULTS},
    {"predict", verb_predict, WORKS, FOR_PREDICT, 1, "FILE|DIR",
     "apply a trained model to data: write a table with a row per sample, print the metrics of an evaluation",
     OF_RESULTS},
    {"generate", verb_generate, SHOWS, FOR_GENERATE, 1, "[FILE|DIR|JOB]",
     "go on with the text of --prompt, by a trained model of language, or the present one of a running job",
     OF_RESULTS},
    {"model", verb_model, SHOWS, FOR_MODEL, ARGS_OPERANDS, "list",
     "list the models that come with psgd; model inspect FILE|NAME: show the contents of a model file, or "
     "the layers of a model; model convert FILE --to npz|onnx: write it for other programs",
     OF_RESULTS},
    {"codecs", verb_codecs, SHOWS, FOR_CODECS, ARGS_OPERANDS, "list",
     "list codecs and compressors; codecs show|test NAME|FILE: show or check one of them; codecs new NAME "
     "[KIND]: write a template",
     OF_PARTS},
    {"config", verb_config, SHOWS, FOR_PLAIN, 1, "schema",
     "print the JSON Schema of the files that --config reads", OF_PARTS},
    {"data", verb_data, WORKS, FOR_DATA, ARGS_OPERANDS, "fetch mnist",
     "download a data set and verify it; data tokenize: learn tokens from a text, and write its tokens",
     OF_PARTS},
    {"doctor", verb_doctor, SHOWS, FOR_DOCTOR, 0, "",
     "show what keeps this machine and the agents from running a job, and what to do about it", OF_MACHINES},
    {"join", verb_join, SHOWS, FOR_JOIN, 1, "INVITATION",
     "get a token of an agent that uses TLS; INVITATION is the ADDRESS#PIN#CODE that the agent prints, or - "
     "to read it from standard input",
     OF_MACHINES},
    {"agents", verb_agents, SHOWS, FOR_JOINED, ARGS_OPERANDS, "list",
     "list the agents that were joined; agents show|remove ADDRESS: show or remove one of them; agents add "
     "INVITATION: the same as join; agents drain|resume ADDRESS: have an agent refuse new jobs, or accept "
     "them again",
     OF_MACHINES},
    {"help", verb_help, SHOWS, FOR_ALL, 1, "[VERB]", "show this text, or the options of a verb", OF_ITSELF},
    {"version", verb_version, SHOWS, FOR_ALL, 0, "", "print the version of job_submit", OF_ITSELF},
};
const int n_verbs = sizeof verbs / sizeof *verbs;

static const struct {
    const char *verb, *forms;
} several[] = {
    {"model", "list\ninspect FILE|NAME\nconvert FILE --to npz|onnx\n"},
    {"codecs", "list\nshow NAME|FILE\ntest NAME|FILE\nnew NAME [KIND]\n"},
    {"config", "schema\n"},
    {"data", "fetch mnist\ntokenize --data FILE|DIR -o FILE\n"},
    {"agents", "list\nshow ADDRESS\nremove ADDRESS\nadd INVITATION\ndrain ADDRESS\nresume ADDRESS\n"},
};

const char *verb_forms(const struct verb *v)
{
    for (size_t i = 0; i < sizeof several / sizeof *several; i++)
        if (strcmp(several[i].verb, v->name) == 0)
            return several[i].forms;
    return NULL;
}

/* Other names of a verb. */
static const struct {
    const char *typed, *is;
} aliases[] = {{"retrieve", "fetch"}, {"collect", "fetch"}};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].typed, name) == 0)
            name = aliases[i].is;
    for (int i = 0; i < n_verbs; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* Verbs of other programs, and words that are options here. */
static const struct {
    const char *typed, *meant;
} synonyms[] = {
    {"attach", "wait"},
    {"explain", "why"},
    {"retry", "rerun"},
    {"watch", "wait"},
    {"dashboard", "browse"},
    {"ui", "browse"},
    {"jobs", "list"},
    {"ls", "list"},
    {"ps", "list"},
    {"kill", "cancel"},
    {"stop", "cancel"},
    {"get", "fetch"},
    {"get_weights", "snapshot"},
    {"log", "logs"},
    {"check", "validate"},
    {"trace", "submit --trace FILE"},
    {"tensorboard", "export --to tensorboard"},
    {"mlflow", "export --to mlflow"},
    {"train", "submit"},
    {"models", "model list"},
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
        near = choice_near(name, names);
    err_set(e, ERR_USAGE, "unknown verb \"%s\"", name);
    if (!near && (file_has_ending(name, ".py") || strchr(name, '/')))
        return err_hint(e, "Did you mean --trainer %s?", name);
    return near ? err_hint(e, "Did you mean %s?", near) : err_hint(e, "job_submit help lists them.");
}

const struct verb *verb_find(const char *name, struct err *e)
{
    const struct verb *v = find_verb(name);

    if (!v)
        unknown_verb(name, e);
    return v;
}
