#include "submit/options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/codec_options.h"
#include "shared/file.h"
#include "shared/json.h"
#include "shared/schedule.h"
#include "shared/suggest.h"
#include "shared/words.h"
#include "submit/find.h"
#include "submit/results.h"
#include "submit/say.h"

enum kind { TEXT, WORD, PATH, NAME_OR_PATH, INT, U64, NUMBER, FLAG, COUNT };
enum group { JOB, SIMULATED, CHECKED, WHERE, RESULTS, OUTPUT, N_GROUPS };
enum { NAMES_MAX = 128, NAME_LEN = 48 };

struct option {
    const char *names;  /* '|' between them; the first one is shown */
    const char *shorts; /* each character is a short form */
    enum kind kind;
    size_t offset, size;
    unsigned verbs;
    enum group group;
    const char *value; /* how --help calls it; WORD: the words */
    const char *help;
    const char *hint; /* after a wrong word */
    double min, max;  /* INT, U64, NUMBER; both 0: any */
    ptrdiff_t given;  /* offset of a bool that says it was given; 0: nobody asks */
    bool may_change;  /* of the job, and yet free to be another when it is resumed */
    bool is_real;     /* of the job, and nothing that a simulation has */
};

#define AT(m)    .offset = offsetof(struct options, m), .size = sizeof(((struct options *)0)->m)
#define GIVEN(m) .given = offsetof(struct options, m)
#define SET(m)   AT(settings.m)
#define SIM(m)   AT(simulation.m)

/* The ancestor's names stay valid; what is new is spelt with '-', which makes no difference when it is
 typed. */
static const struct option table[] = {
    {"node_count", "n", INT, SET(node_count), FOR_SUBMIT, JOB, "N", "workers of the job", .min = 1,
     .max = SIMULATED_NODES_MAX},
    {"batch_size", "b", INT, SET(batch_size), FOR_SUBMIT, JOB, "N", "samples of one block", .min = 1,
     .max = 1e6},
    {"redundancy", "r", INT, SET(redundancy), FOR_SUBMIT, JOB, "N", "workers that hold each block", .min = 1,
     .max = SIMULATED_NODES_MAX},
    {"codec", "Cc", NAME_OR_PATH, AT(codec), FOR_SUBMIT, JOB, "NAME|FILE",
     "what nodes say to each other; a name, a .c or a .so file, and :KEY=VALUE,... for its parameters",
     .may_change = true},
    {"server_codec", "", NAME_OR_PATH, AT(server_codec), FOR_SUBMIT, JOB, "NAME|FILE",
     "codec of the servers; null: no servers", .may_change = true},
    {"compress", "", TEXT, SET(compress), FOR_SUBMIT, JOB, "CHAIN",
     "how workers shorten vectors: topk:ratio=0.01,ef=true, qsgd:bits=4|huffman, fp16, ..."},
    {"compress-down", "", TEXT, SET(compress_down), FOR_SUBMIT, JOB, "CHAIN", "the same for servers"},
    {"optimizer", "O", WORD, AT(optimizer), FOR_SUBMIT, JOB,
     "auto|psgd|parallel_sgd|gradient_averaging|pa|parameter_averaging",
     "what is exchanged, gradients or parameters",
     .hint = "sgd and adam are ways of gradient descent: --gradient-descent adam", .is_real = true},
    {"parallel_sgd|psgd", "", WORD, SET(sync), FOR_SUBMIT, JOB, SYNC_WORDS,
     "parallel stochastic gradient descent, synchronous or not"},
    {"learn_rate", "", NUMBER, SET(learn_rate), FOR_SUBMIT, JOB, "X", "learning rate", .min = 1e-30,
     .max = 1e30, GIVEN(has_learn_rate)},
    {"epochs", "E", INT, SET(epochs), FOR_SUBMIT, JOB, "N", "passes over the training set", .min = 1,
     .max = 1e6, .may_change = true},
    {"block_assignment", "", WORD, AT(block_assignment), FOR_SUBMIT, JOB, BLOCK_ASSIGNMENT_WORDS "|dpa",
     "which worker holds which block"},
    {"gradient-descent", "", WORD, SET(gradient_descent), FOR_SUBMIT, JOB, GRADIENT_DESCENT_WORDS,
     "how a gradient moves the parameters: sgd, momentum, nesterov, adam, adamw, ..."},
    {"schedule", "", TEXT, SET(schedule), FOR_SUBMIT, JOB, "TEXT",
     "of the learning rate; constant, step:every=EPOCHS,factor=X, cosine, linear, sqrt"},
    {"warmup-steps", "", INT, SET(warmup_steps), FOR_SUBMIT, JOB, "N",
     "steps in which the learning rate rises to its start", .min = 0, .max = 1e9},
    {"momentum", "", NUMBER, SET(momentum), FOR_SUBMIT, JOB, "X", "of momentum and nesterov", .min = 0,
     .max = 0.9999, GIVEN(has_momentum)},
    {"weight-decay", "", NUMBER, SET(weight_decay), FOR_SUBMIT, JOB, "X",
     "share of the weights added to the gradient; adamw: taken from the weights", .min = 0, .max = 1e3,
     GIVEN(has_weight_decay)},
    {"clip-norm", "", NUMBER, SET(clip_norm), FOR_SUBMIT, JOB, "X",
     "longest gradient that an update uses; 0: any", .min = 0, .max = 1e30},
    {"on-nonfinite", "", WORD, SET(on_nonfinite), FOR_SUBMIT, JOB, ON_NONFINITE_WORDS,
     "a loss or gradient that is not finite ends the job or is left out"},
    {"dataset", "D", TEXT, SET(dataset), FOR_SUBMIT, JOB, "NAME",
     "data set, NAME or NAME:KEY=VALUE,...: digits, mnist, idx, cifar10, cifar100, csv, npz, npy, text, "
     "simlin"},
    {"data", "", PATH, AT(data), FOR_SUBMIT, JOB, "FILE|DIR",
     "the data set's file, or the folder with its files", .may_change = true},
    {"transform", "", TEXT, SET(transform), FOR_SUBMIT, JOB, "WORDS",
     "what is done to samples: unit|centre|standard[,crop=N][,flip]"},
    {"partition", "", TEXT, SET(partition), FOR_SUBMIT, JOB, "RULE",
     "how samples come to blocks: iid|label_sorted|true_non_iid:D|shards:N|dirichlet:A|labels:K",
     GIVEN(has_partition)},
    {"model", "m", NAME_OR_PATH, AT(model), FOR_SUBMIT, JOB, "NAME|FILE", "network; a name or a .json file",
     .may_change = true},
    {"non-iid", "", FLAG, SET(non_iid), FOR_SUBMIT, JOB, NULL, "the same as --partition label_sorted"},
    {"local-steps", "", INT, SET(local_steps), FOR_SUBMIT, JOB, "N",
     "steps between exchanges of parameters; 0: once per epoch", .min = 0, .max = 1e9},
    {"seed", "", U64, SET(seed), FOR_SUBMIT, JOB, "N", "decides weights, partition and order", .min = 0,
     .max = 0x1p53},
    {"name", "", TEXT, SET(name), FOR_SUBMIT, JOB, "NAME", "name of the job, for people", .may_change = true},
    {"math", "", WORD, SET(math), FOR_SUBMIT, JOB, MATH_WORDS,
     "who computes products: the quicker of OpenBLAS and oneDNN for a shape, or OpenBLAS alone; narrow ones "
     "are loops of our own"},
    {"threads", "", INT, SET(threads), FOR_SUBMIT, JOB, "N", "threads of a node inside a matrix product",
     .min = 1, .max = 1024},
    {"allreduce", "", WORD, SET(allreduce), FOR_SUBMIT, JOB, ALLREDUCE_WORDS,
     "how vectors are summed over all workers; auto: by their length and the number of workers"},
    {"record-every", "", INT, SET(record_every), FOR_SUBMIT, JOB, "N",
     "a row of train.csv each so many steps", .min = 1, .max = 1e9, .may_change = true},
    {"round-timeout", "", NUMBER, SET(round_timeout_s), FOR_SUBMIT, JOB, "S",
     "seconds a node waits for a word of a round; a call of the codec may take three quarters of that",
     .min = 0.1, .max = 1e6, .may_change = true},
    {"local-path", "", WORD, SET(local_path), FOR_SUBMIT, JOB, LOCAL_PATH_WORDS,
     "collectives between workers of one machine go through shared memory", .is_real = true},
    {"data-tls", "", WORD, SET(data_tls), FOR_SUBMIT, JOB, DATA_TLS_WORDS,
     "what nodes tell each other is encrypted; auto: where it leaves a machine", .may_change = true,
     .is_real = true},
    {"on-node-loss", "", WORD, SET(on_node_loss), FOR_SUBMIT, JOB, ON_NODE_LOSS_WORDS,
     "a worker that is lost ends the job, or the others go on without it", .may_change = true},
    {"min-nodes", "", INT, SET(min_nodes), FOR_SUBMIT, JOB, "N",
     "with --on-node-loss continue: fewer workers than these end the job", .min = 1,
     .max = SIMULATED_NODES_MAX, .may_change = true},
    {"time-limit", "", NUMBER, SET(time_limit_s), FOR_SUBMIT, JOB, "S", "seconds the job may run", .min = 1,
     .max = TIME_LIMIT_MAX_S, .may_change = true, .is_real = true},
    {"checkpoint-every", "", INT, SET(checkpoint_every), FOR_SUBMIT, JOB, "N",
     "epochs from one checkpoint to the next; 0: none", .min = 0, .max = 1e6, .may_change = true,
     .is_real = true},
    {"init-from", "", PATH, AT(init_from), FOR_SUBMIT, JOB, "FILE",
     "weights to start from, a .safetensors file; else they are drawn from the seed", .is_real = true},
    {"resume", "", PATH, AT(resume), FOR_SUBMIT, JOB, "DIR",
     "go on where the checkpoints in this folder of results are", .may_change = true, .is_real = true},
    {"image-classification", "", FLAG, AT(image_classification), FOR_SUBMIT, JOB, NULL,
     "accepted; the data set says what it is", .may_change = true, .is_real = true},
    {"input", "I", INT, AT(input), FOR_SUBMIT, JOB, "N", "accepted; the model's file says its input",
     .min = 0, .max = 1e9, .may_change = true, .is_real = true},
    {"servers", "", INT, AT(servers), FOR_SIMULATE, SIMULATED, "N", "parameter servers", .min = 0,
     .max = SIMULATED_NODES_MAX},
    {"gradients", "", U64, SIM(gradients), FOR_SIMULATE, SIMULATED, "N",
     "stand-in gradients of N numbers instead of a network", .min = 1, .max = 1e9},
    {"steps", "", INT, AT(steps), FOR_SIMULATE, SIMULATED, "N", "of an epoch, with stand-in gradients",
     .min = 1, .max = 1e9},
    {"link", "", TEXT, SIM(link), FOR_SIMULATE, SIMULATED, "RATE,LATENCY[,JITTER]",
     "of each worker: 100Mbit,20ms or any,0s"},
    {"server-link", "", TEXT, SIM(server_link), FOR_SIMULATE, SIMULATED, "RATE,LATENCY[,JITTER]",
     "of each server, else as the workers'"},
    {"step-time", "", TEXT, SIM(step_time), FOR_SIMULATE, SIMULATED, "S[,S...]",
     "seconds a step takes to compute, one of these by lot; else measured, 0.01 with stand-in gradients"},
    {"eval-time", "", NUMBER, SIM(eval_time_s), FOR_SIMULATE, SIMULATED, "S",
     "seconds the test set takes, else measured", .min = 1e-9, .max = 1e6},
    {"codec-rate", "", NUMBER, SIM(codec_rate_mbps), FOR_SIMULATE, SIMULATED, "MB",
     "megabytes a second that a codec writes or reads, else measured", .min = 1e-6, .max = 1e9},
    {"overhead", "", TEXT, SIM(overhead), FOR_SIMULATE, SIMULATED, "RATE,TIME",
     "of a message on the processor at each end, else measured: 12Gbit,5us or any,0s"},
    {"processors", "", INT, SIM(processors), FOR_SIMULATE, SIMULATED, "N",
     "that all nodes share, as those of one machine do; 0: each has its own", .min = 0, .max = 1e6},
    {"speed", "", TEXT, SIM(speed), FOR_SIMULATE, SIMULATED, "X|X-Y|NODE=X,...",
     "of the nodes: 2 is twice as fast; X-Y: drawn for each"},
    {"straggler", "", TEXT, SIM(straggler), FOR_SIMULATE, SIMULATED, "SHARE:FACTOR",
     "that share of the steps takes so many times as long"},
    {"kill", "", TEXT, SIM(kill), FOR_SIMULATE, SIMULATED, "NODE@TIME,...", "nodes that die: 3@1.5s"},
    {"cut", "", TEXT, SIM(cut), FOR_SIMULATE, SIMULATED, "NODES|NODES@FROM-TO,...",
     "nothing gets through between them: 0-3|4-7@2s-5s"},
    {"exhaustive", "", FLAG, SIM(exhaustive), FOR_SIMULATE, SIMULATED, NULL,
     "try every order in which messages can come; for 3 workers at most and few steps"},
    {"replay", "", TEXT, SIM(replay), FOR_SIMULATE, SIMULATED, "ORDER",
     "one of them, as --exhaustive has named it"},
    {"workers|worker", "", PATH, AT(workers), FOR_SUBMIT, WHERE, "FILE", "list of the agents' addresses"},
    {"token-file", "", PATH, AT(token_file), FOR_AGENTS, WHERE, "FILE", "the agents' token"},
    {"insecure-no-tls", "", FLAG, AT(insecure_no_tls), FOR_AGENTS, WHERE, NULL,
     "send the token unencrypted to other machines too"},
    {"no-queue", "", FLAG, AT(no_queue), FOR_SUBMIT, WHERE, NULL,
     "end with status 4 instead of waiting for a busy agent"},
    {"agent-timeout", "", NUMBER, AT(agent_timeout_s), FOR_SUBMIT | FOR_WAIT, WHERE, "S",
     "seconds an agent may be silent before its node is lost", .min = 0.1, .max = 1e6},
    {"network-bandwidth", "", NUMBER, AT(bandwidth_mbps), FOR_SUBMIT, WHERE, "MBIT",
     "of the network in Mbit/s, for the estimate of shipping", .min = 1e-3, .max = 1e9},
    {"timeout", "", NUMBER, AT(timeout_s), FOR_SUBMIT | FOR_WAIT | FOR_SIMULATE, WHERE, "S",
     "stop waiting after so many seconds (status 5); 0: never", .min = 0, .max = 1e9},
    {"detach", "", FLAG, AT(detach), FOR_SUBMIT, WHERE, NULL, "do not wait for the end"},
    {"retrieve|retrieve_data", "", FLAG, AT(retrieve), FOR_SUBMIT, WHERE, NULL,
     "fetch the results of the latest job, or the job named"},
    {"reason", "", TEXT, AT(reason), FOR_CANCEL, WHERE, "TEXT", "why"},
    {"follow", "f", FLAG, AT(follow), FOR_LOGS, WHERE, NULL, "go on as the logs grow"},
    {"node", "", INT, AT(node), FOR_LOGS, WHERE, "N", "of this node only", .min = -NODES_MAX - 1,
     .max = NODES_MAX, GIVEN(has_node)},
    {"to", "", PATH, AT(to), FOR_DATA, WHERE, "DIR", "where the files go"},
    {"mirror", "", TEXT, AT(mirror), FOR_DATA, WHERE, "URL", "folder to download from"},
    {"check", "", TEXT, AT(check), FOR_CODECS, CHECKED, "NAME", "test: only this check"},
    {"seed", "", U64, AT(part), FOR_CODECS, CHECKED, "N", "test: only this part of it, as a failure names it",
     .min = 0, .max = 0x1p53},
    {"mutations", "", U64, AT(mutations), FOR_CODECS, CHECKED, "N", "test: how many messages are changed",
     .min = 0, .max = 1e9, GIVEN(has_mutations)},
    {"output", "o", PATH, AT(output), FOR_SUBMIT | FOR_WAIT | FOR_FETCH | FOR_SIMULATE, RESULTS, "DIR",
     "folder for the results, else logs/ID-NAME"},
    {"output", "o", PATH, AT(output), FOR_MODEL, RESULTS, "FILE", "file to write"},
    {"to", "", WORD, AT(format), FOR_MODEL, RESULTS, "npz|onnx", "what to convert to"},
    {"trace", "", TEXT, AT(trace), FOR_SUBMIT | FOR_WAIT | FOR_FETCH, RESULTS, "FILE",
     "where each node's time goes, to be looked at in ui.perfetto.dev", .may_change = true},
    {"csv-style", "", WORD, AT(csv_style), FOR_SUBMIT | FOR_WAIT | FOR_FETCH, RESULTS, "tidy|classic",
     "classic: the ancestor's files as well"},
    {"json", "", FLAG, AT(json), FOR_ALL, OUTPUT, NULL, "one JSON object on stdout"},
    {"quiet", "q", FLAG, AT(quiet), FOR_ALL, OUTPUT, NULL, "errors and results only"},
    {"verbose", "v", COUNT, AT(verbose), FOR_ALL, OUTPUT, NULL, "say more"},
    {"no-color", "", FLAG, AT(no_color), FOR_ALL, OUTPUT, NULL, "no colours"},
    {"help", "h", FLAG, AT(help), FOR_ALL, OUTPUT, NULL, "this text"},
    {"version", "V", FLAG, AT(version), FOR_ALL, OUTPUT, NULL, "version"},
};
enum { N_OPTIONS = sizeof table / sizeof *table };
_Static_assert((int)N_OPTIONS <= (int)OPTIONS_MAX, "is_given has a place for every option");

static const char *const group_names[N_GROUPS] = {
    "The job", "What is simulated", "What is checked", "Where and how long", "Results", "Messages"};

static void set_defaults(struct options *o)
{
    const char *workers = getenv("PSGD_WORKERS");

    *o = (struct options){.bandwidth_mbps = 100, .agent_timeout_s = 10, .steps = 10, .mutations = 100000};
    simulation_default(&o->simulation);
    settings_default(&o->settings);
    o->settings.name[0] = '\0';
    snprintf(o->codec, sizeof o->codec, "%s", o->settings.codec);
    snprintf(o->model, sizeof o->model, "%s", o->settings.model);
    snprintf(o->block_assignment, sizeof o->block_assignment, "%s", o->settings.block_assignment);
    snprintf(o->workers, sizeof o->workers, "%s", workers && workers[0] ? workers : "worker.json");
    strcpy(o->optimizer, "auto");
    strcpy(o->csv_style, "tidy");
    strcpy(o->reason, "cancelled by its submitter");
}

/* Is `name` (n characters) one of the names, with '_' and '-' alike? */
static bool has_name(const char *names, const char *name, size_t n)
{
    for (const char *p = names; p; p = strchr(p, '|')) {
        size_t i = 0;

        p += *p == '|';
        while (i < n &&
               (p[i] == name[i] || (p[i] == '_' && name[i] == '-') || (p[i] == '-' && name[i] == '_')))
            i++;
        if (i == n && (p[n] == '|' || p[n] == '\0'))
            return true;
    }
    return false;
}

/* A simulation takes what describes a job. */
static bool is_for(const struct option *t, unsigned verb)
{
    return (t->verbs & verb) ||
           ((verb & FOR_SIMULATE) && (t->verbs & FOR_SUBMIT) && t->group == JOB && !t->is_real);
}

static const struct option *find_long(unsigned verb, const char *name, size_t n)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (is_for(&table[i], verb) && has_name(table[i].names, name, n))
            return &table[i];
    return NULL;
}

static const struct option *find_short(unsigned verb, char c)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (is_for(&table[i], verb) && c && strchr(table[i].shorts, c))
            return &table[i];
    return NULL;
}

static void first_name(char out[NAME_LEN], const struct option *t)
{
    snprintf(out, NAME_LEN, "%.*s", (int)strcspn(t->names, "|"), t->names);
}

static int unknown(const char *word, size_t n, unsigned verb, struct err *e)
{
    static char names[NAMES_MAX][NAME_LEN];
    const char *words[NAMES_MAX + 1];
    char asked[NAME_LEN];
    const char *near;
    int k = 0;

    for (int i = 0; i < N_OPTIONS; i++)
        for (const char *p = table[i].names; p && is_for(&table[i], verb) && k < NAMES_MAX;
             p = strchr(p, '|')) {
            p += *p == '|';
            snprintf(names[k], NAME_LEN, "%.*s", (int)strcspn(p, "|"), p);
            words[k] = names[k];
            k++;
        }
    words[k] = NULL;
    snprintf(asked, sizeof asked, "%.*s", n < sizeof asked ? (int)n : (int)sizeof asked - 1, word);
    /* Whoever abbreviates means the whole word. */
    near = NULL;
    for (int i = 0; i < k && !near && n >= 2; i++)
        if (strncmp(words[i], asked, strlen(asked)) == 0)
            near = words[i];
    if (!near)
        near = suggest(asked, words);
    err_set(e, ERR_USAGE, "unknown option --%.*s", (int)n, word);
    return near ? err_hint(e, "Did you mean --%s?", near)
                : err_hint(e, "job_submit --help lists the options.");
}

static int set_number(void *out, const struct option *t, const char *name, const char *text, struct err *e)
{
    char *end;
    double d;

    errno = 0;
    d = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)text[0]) || strpbrk(text, "xX") || d != d)
        return err_set(e, ERR_USAGE, "--%s: \"%s\" is not a number", name, text);
    if (t->kind != NUMBER && strcspn(text, ".eEiI") < strlen(text))
        return err_set(e, ERR_USAGE, "--%s: \"%s\" is not an integer", name, text);
    if ((t->min != 0 || t->max != 0) && !(d >= t->min && d <= t->max))
        return err_set(e, ERR_USAGE, "--%s: %s is not between %.16g and %.16g", name, text, t->min, t->max);
    if (t->kind == INT)
        *(int *)out = (int)d;
    else if (t->kind == U64)
        *(uint64_t *)out = (uint64_t)strtoull(text, NULL, 10);
    else
        *(double *)out = d;
    return 0;
}

static bool is_text(const struct option *t)
{
    return t->kind == TEXT || t->kind == WORD || t->kind == PATH || t->kind == NAME_OR_PATH;
}

static int set_text(char *out, const struct option *t, const char *name, const char *text, struct err *e)
{
    if (t->kind == WORD && words_find(t->value, text) < 0) {
        err_set(e, ERR_USAGE, "--%s: \"%s\" is not one of %s", name, text, t->value);
        return t->hint ? err_hint(e, "%s", t->hint) : e->code;
    }
    if (!text[0] || strlen(text) >= t->size)
        return err_set(e, ERR_USAGE, text[0] ? "--%s: longer than %zu characters" : "--%s: empty", name,
                       t->size - 1);
    strcpy(out, text);
    return 0;
}

static int set(struct options *o, const struct option *t, const char *value, struct err *e)
{
    char *out = (char *)o + t->offset;
    char name[NAME_LEN];

    first_name(name, t);
    o->is_given[t - table] = true;
    if (t->given)
        *((bool *)o + t->given) = true;
    if (t->kind == FLAG)
        *(bool *)out = true;
    else if (t->kind == COUNT)
        ++*(int *)out;
    else if (is_text(t))
        return set_text(out, t, name, value, e);
    else
        return set_number(out, t, name, value, e);
    return 0;
}

static bool takes_value(const struct option *t)
{
    return t->kind != FLAG && t->kind != COUNT;
}

/* --name, --name=value, --name value. Returns how many words of argv it took. */
static int take_long(struct options *o, unsigned verb, int left, char **argv, struct err *e)
{
    const char *word = argv[0] + 2;
    size_t n = strcspn(word, "=");
    const struct option *t = find_long(verb, word, n);
    const char *value = word[n] ? word + n + 1 : NULL;

    if (!t && (verb & FOR_SIMULATE) && find_long(FOR_SUBMIT, word, n))
        return err_set(e, ERR_USAGE, "--%.*s is for jobs on agents; a simulation has nothing of the kind",
                       (int)n, word);
    if (!t)
        return unknown(word, n, verb, e);
    if (!takes_value(t) && value)
        return err_set(e, ERR_USAGE, "--%.*s takes no value", (int)n, word);
    if (takes_value(t) && !value && left < 2)
        return err_set(e, ERR_USAGE, "--%.*s needs a value: %s", (int)n, word, t->value);
    if (set(o, t, value ? value : argv[1], e) < 0)
        return e->code;
    return takes_value(t) && !value ? 2 : 1;
}

/* -q, -qv, -n 2, -n2 */
static int take_short(struct options *o, unsigned verb, int left, char **argv, struct err *e)
{
    for (const char *p = argv[0] + 1; *p; p++) {
        const struct option *t = find_short(verb, *p);

        if (!t)
            return err_set(e, ERR_USAGE, "unknown option -%c", *p);
        if (!takes_value(t)) {
            if (set(o, t, NULL, e) < 0)
                return e->code;
            continue;
        }
        if (!p[1] && left < 2)
            return err_set(e, ERR_USAGE, "-%c needs a value: %s", *p, t->value);
        if (set(o, t, p[1] ? p + 1 : argv[1], e) < 0)
            return e->code;
        return p[1] ? 1 : 2;
    }
    return 1;
}

/* What an optimizer begins with where the command line does not say: rates of the ancestor's (adadelta: its
 * paper's, sgd: the option's own), adamw's decay as in PyTorch. */
static const struct {
    const char *kind;
    double learn_rate, weight_decay;
    bool has_momentum;
} descents[] = {
    {"momentum", 0.01, 0, true},   {"nesterov", 0.01, 0, true},        {"adam", 0.001, 0, false},
    {"adamw", 0.001, 0.01, false}, {"adagrad", 0.01, 0, false},        {"adadelta", 1, 0, false},
    {"rmsprop", 0.01, 0, false},   {"gradient_decay", 0.03, 0, false},
};

static int finish_descent(struct options *o, struct err *e)
{
    struct settings *s = &o->settings;
    bool has_momentum = false;

    for (size_t i = 0; i < sizeof descents / sizeof *descents; i++)
        if (strcmp(s->gradient_descent, descents[i].kind) == 0) {
            has_momentum = descents[i].has_momentum;
            s->learn_rate = o->has_learn_rate ? s->learn_rate : descents[i].learn_rate;
            s->weight_decay = o->has_weight_decay ? s->weight_decay : descents[i].weight_decay;
        }
    if (o->has_momentum && s->momentum > 0 && !has_momentum)
        return err_set(e, ERR_USAGE, "--momentum: %s has none; --gradient-descent momentum or nesterov does",
                       s->gradient_descent);
    s->momentum = has_momentum ? s->momentum : 0;
    return 0;
}

static int finish(struct options *o, struct err *e)
{
    struct schedule schedule;

    snprintf(o->settings.block_assignment, sizeof o->settings.block_assignment, "%s",
             strcmp(o->block_assignment, "dpa") == 0 ? "dup" : o->block_assignment);
    if (schedule_parse(&schedule, o->settings.schedule, e) < 0) {
        err_at(e, "--schedule");
        return e->code = ERR_USAGE;
    }
    if (o->settings.non_iid && o->has_partition && strcmp(o->settings.partition, "label_sorted") != 0)
        return err_set(e, ERR_USAGE,
                       "--non-iid is --partition label_sorted: it does not go with --partition %s",
                       o->settings.partition);
    if (o->settings.non_iid)
        strcpy(o->settings.partition, "label_sorted");
    return finish_descent(o, e);
}

static int take_words(struct options *o, unsigned verb, int argc, char **argv, struct err *e)
{
    bool only_operands = false;

    for (int i = 0; i < argc;) {
        const char *word = argv[i];
        int n = 1;

        if (!only_operands && strcmp(word, "--") == 0)
            only_operands = true;
        else if (!only_operands && strncmp(word, "--", 2) == 0)
            n = take_long(o, verb, argc - i, argv + i, e);
        else if (!only_operands && word[0] == '-' && word[1])
            n = take_short(o, verb, argc - i, argv + i, e);
        else if (o->n_operands < OPERANDS_MAX)
            o->operands[o->n_operands++] = word;
        else
            return err_set(e, ERR_USAGE, "more than %d words", OPERANDS_MAX);
        if (n < 0)
            return n;
        i += n;
    }
    return 0;
}

/* Of a codec, without its parameters. */
static void file_of(char out[PATH_MAX], const struct option *t, const char *value)
{
    bool is_codec = t->offset == offsetof(struct options, codec) ||
                    t->offset == offsetof(struct options, server_codec);

    snprintf(out, PATH_MAX, "%.*s", (int)(is_codec ? codec_options_at(value) : strlen(value)), value);
}

static bool names_file(const struct option *t, const char *value)
{
    char file[PATH_MAX];

    file_of(file, t, value);
    return file[0] && (t->kind == PATH || (t->kind == NAME_OR_PATH && find_is_path(file)));
}

/* Does a resumed job have this from the earlier one? What describes it, and the list with its servers. */
static bool is_inherited(const struct option *t)
{
    bool starts = t->offset == offsetof(struct options, resume) ||
                  t->offset == offsetof(struct options, init_from);

    return (t->verbs & FOR_SUBMIT) &&
           ((t->group == JOB && !starts) || t->offset == offsetof(struct options, workers));
}

/* Sets what is inherited, from the texts that options_json made. `given`: by place in the table, on this
 * command line, which comes first. */
static int take_texts(struct options *o, const bool *given, const json_t *texts, struct err *e)
{
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *t = &table[i];
        const char *value;
        char name[NAME_LEN], file[PATH_MAX];

        first_name(name, t);
        value = json_string_value(json_object_get(texts, name));
        if (!is_inherited(t) || given[i] || !value || !value[0] ||
            (t->kind == FLAG && strcmp(value, "yes") != 0))
            continue;
        file_of(file, t, value);
        if (names_file(t, value) && access(file, F_OK) < 0) {
            err_errno(e, ERR_NOT_FOUND, "--%s was %s", name, value);
            return err_hint(e, "--%s %s says where it is now.", name, t->value);
        }
        if (set(o, t, value, e) < 0)
            return e->code;
    }
    return 0;
}

/* The options of the job in `folder`, over the defaults. */
static int take_earlier(struct options *o, const bool *given, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    const json_t *texts;
    json_t *doc;
    int rc;

    if (file_join(path, sizeof path, folder, "run.json", e) < 0 || json_read(&doc, path, RUN_JSON_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? err_hint(e, "--resume takes the folder of a job's results.")
                                        : e->code;
    texts = json_object_get(json_object_get(doc, "facts"), "options");
    rc = json_is_object(texts) ? take_texts(o, given, texts, e)
                               : err_set(e, ERR_CONFIG, "/facts/options: missing");
    json_decref(doc);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

static int check_resume(const struct options *o, struct err *e)
{
    char name[NAME_LEN];

    if (o->init_from[0])
        return err_set(e, ERR_USAGE, "--resume and --init-from: a job starts from one of them");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (!o->is_given[i] || table[i].group != JOB || table[i].may_change)
            continue;
        first_name(name, &table[i]);
        err_set(e, ERR_USAGE, "--%s cannot be changed by --resume", name);
        return err_hint(e,
                        "Leave it out: it stays what it was. --init-from starts a new job with the weights.");
    }
    return 0;
}

int options_parse(struct options *o, unsigned verb, int argc, char **argv, struct err *e)
{
    bool given[OPTIONS_MAX];
    char folder[PATH_MAX];

    set_defaults(o);
    if (take_words(o, verb, argc, argv, e) < 0)
        return e->code;
    if (o->resume[0]) {
        memcpy(folder, o->resume, sizeof folder);
        memcpy(given, o->is_given, sizeof given);
        if (check_resume(o, e) < 0)
            return e->code;
        set_defaults(o);
        if (take_earlier(o, given, folder, e) < 0 || take_words(o, verb, argc, argv, e) < 0)
            return e->code;
    }
    return finish(o, e);
}

void options_help(FILE *f, unsigned verb)
{
    for (int g = 0; g < N_GROUPS; g++) {
        bool named = false;

        for (int i = 0; i < N_OPTIONS; i++) {
            const struct option *t = &table[i];
            char name[NAME_LEN], left[128];

            if (!is_for(t, verb) || t->group != (enum group)g)
                continue;
            if (!named)
                fprintf(f, "\n%s:\n", group_names[g]);
            named = true;
            first_name(name, t);
            snprintf(left, sizeof left, "%s%c%s--%s%s%s", t->shorts[0] ? "-" : " ",
                     t->shorts[0] ? t->shorts[0] : ' ', t->shorts[0] ? ", " : "  ", name,
                     takes_value(t) ? " " : "",
                     !takes_value(t)         ? ""
                     : strlen(t->value) > 20 ? "WORD"
                                             : t->value);
            fprintf(f, "  %-34s %s\n", left, t->help);
        }
    }
}

/* In run.json and at the start. */
static bool is_shown(const struct option *t)
{
    return (t->verbs & FOR_SUBMIT) && t->group != OUTPUT;
}

static void value_text(char *out, size_t size, const struct options *o, const struct option *t)
{
    const void *at = (const char *)o + t->offset;

    switch (t->kind) {
    case TEXT:
    case WORD:
    case PATH:
    case NAME_OR_PATH:
        snprintf(out, size, "%s", (const char *)at);
        break;
    case INT:
    case COUNT:
        snprintf(out, size, "%d", *(const int *)at);
        break;
    case U64:
        snprintf(out, size, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case NUMBER:
        snprintf(out, size, "%.15g", *(const double *)at);
        break;
    case FLAG:
        snprintf(out, size, "%s", *(const bool *)at ? "yes" : "no");
        break;
    }
}

/* The option's text; a file's with its folder, for the job may be gone on with from another one. */
static void record_text(char *out, size_t size, const struct options *o, const struct option *t)
{
    char text[PATH_MAX];
    struct err ignored;

    value_text(text, sizeof text, o, t);
    if (!names_file(t, text) || file_absolute(out, size, text, &ignored) < 0)
        snprintf(out, size, "%s", text);
}

json_t *options_json(const struct options *o)
{
    json_t *all = json_object();

    for (int i = 0; i < N_OPTIONS; i++) {
        char name[NAME_LEN], value[PATH_MAX];

        if (!is_shown(&table[i]))
            continue;
        first_name(name, &table[i]);
        record_text(value, sizeof value, o, &table[i]);
        json_object_set_new(all, name, json_text(value, SIZE_MAX));
    }
    return all;
}

void options_echo(const struct options *o)
{
    for (int i = 0; i < N_OPTIONS; i++) {
        char name[NAME_LEN], value[PATH_MAX];

        if (!is_shown(&table[i]))
            continue;
        first_name(name, &table[i]);
        value_text(value, sizeof value, o, &table[i]);
        say_more("\t --%s <%s%s%s>", name, table[i].help, value[0] ? ": " : "", value);
    }
}
