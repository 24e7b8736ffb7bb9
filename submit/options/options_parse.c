/* Parses a command line, with the files and presets that it names, and checks and completes all options
 * together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/file.h"
#include "shared/base/private.h"
#include "shared/job/partition.h"
#include "shared/job/reason.h"
#include "shared/job/schedule.h"
#include "submit/compat/codec_list.h"
#include "submit/compat/optimizer_names.h"
#include "submit/compat/presets.h"
#include "submit/data/data_sets.h"
#include "submit/options/hosts.h"
#include "submit/options/optimizer_options.h"
#include "submit/options/options_config.h"
#include "submit/options/options_table.h"

enum { KEY_MAX = 64 << 10, CA_MAX = 16 << 20 };

/* Parallel-SGD's double buffering: a batch computes while the gradients of the one before are exchanged. */
static int finish_late(struct options *o, struct err *e)
{
    if (choice_find(&OPTIONS_LATE[1], o->optimizer) < 0)
        return 0;
    if (o->settings.overlap == OVERLAP_NONE)
        return err_set(e, ERR_USAGE, "--optimizer %s and --overlap 0: give one of them", o->optimizer);
    o->settings.overlap = OVERLAP_ONE;
    return 0;
}

static int finish_optimizer(struct options *o, struct err *e)
{
    int named = choice_find(OPTIMIZER_CHOICES, o->optimizer);
    struct settings *s = &o->settings;

    if (named >= 0) {
        if (o->has_gradient_descent && named != (int)s->optimizer)
            return err_set(e, ERR_USAGE, "--optimizer %s and --gradient-descent %s: give one of them",
                           o->optimizer, optimizer_kinds[s->optimizer].name);
        s->optimizer = (enum optimizer_kind)named;
    }
    if (finish_late(o, e) < 0)
        return e->code;
    /* A training program's own optimizer: submit/trainer/trainer_limits.c refuses these options. */
    if (!o->trainer[0] && optimizer_options_check(o, e) < 0)
        return e->code;
    optimizer_options_complete(o);
    return 0;
}

/* A list of agents on this command line replaces the list of an earlier job, also one that is given in
 * another way. */
static int choose_list(struct options *o, bool has_workers, bool has_worker_hosts, bool has_ps_hosts,
                       struct err *e)
{
    if (has_workers && (has_worker_hosts || has_ps_hosts))
        return err_set(e, ERR_USAGE, "--workers and --%s: give the list of agents in one of these ways",
                       has_worker_hosts ? "worker_hosts" : "ps_hosts");
    if (has_workers)
        o->worker_hosts[0] = o->ps_hosts[0] = '\0';
    if (has_worker_hosts && !has_ps_hosts)
        o->ps_hosts[0] = '\0';
    if (o->ps_hosts[0] && !o->worker_hosts[0])
        return err_set(e, ERR_USAGE, "--ps_hosts needs --worker_hosts, the agents of the workers");
    if (o->worker_hosts[0])
        o->workers[0] = '\0';
    return 0;
}

/* With a number of steps and no --epochs the job has as many epochs as the steps take: limit_steps() in
 * stage_check.c sets their number, which depends on the data set. */
static void finish_epochs(struct options *o)
{
    bool has_steps = (options_is_given(o, offsetof(struct options, settings.max_steps)) &&
                      o->settings.max_steps > 0) ||
                     (options_is_given(o, offsetof(struct options, max_mb)) && o->max_mb > 0) ||
                     (options_is_given(o, offsetof(struct options, max_tokens)) && o->max_tokens > 0);

    if (has_steps && !options_is_given(o, offsetof(struct options, settings.epochs)))
        o->settings.epochs = (int)settings_field(offsetof(struct settings, epochs))->max;
}

/* Adds the column of --partition column:NAME to the name of the data set, as its option `group`. An unknown
 * rule is refused later, and a column where a training program has the data. */
static int finish_partition(struct options *o, struct err *e)
{
    struct settings *set = &o->settings;
    struct partition_rule rule;
    struct err ignored;

    if (set->non_iid && o->has_partition && strcmp(set->partition, "label_sorted") != 0)
        return err_set(e, ERR_USAGE,
                       "--non-iid means --partition label_sorted and conflicts with --partition %s",
                       set->partition);
    if (set->non_iid)
        strcpy(set->partition, "label_sorted");
    if (partition_rule_parse(&rule, set->partition, &ignored) < 0 || rule.kind != PARTITION_COLUMN ||
        o->trainer[0])
        return 0;
    return dataset_group_by(set->dataset, sizeof set->dataset, rule.name, e);
}

static int check_pair(const struct credentials *c, struct err *e)
{
    char *key;
    size_t len;

    if (guarded_file(c->cert, e) < 0)
        return err_at(e, "--cert");
    if (private_read(&key, &len, c->key, KEY_MAX, e) < 0)
        return err_at(e, "--key");
    secret_free(key);
    return 0;
}

/* libcurl accepts a file without a certificate as a CA that has signed none. */
static int check_ca(const struct credentials *c, struct err *e)
{
    char *text;
    size_t len;
    bool has_one;

    if (guarded_file(c->ca, e) < 0 || file_read(&text, &len, c->ca, CA_MAX, e) < 0)
        return err_at(e, "--ca");
    has_one = strstr(text, "-----BEGIN CERTIFICATE-----") != NULL;
    free(text);
    return has_one ? 0 : err_set(e, ERR_CONFIG, "--ca: %s has no certificate in PEM", c->ca);
}

static int check_credentials(const struct credentials *c, struct err *e)
{
    if (!c->cert[0] != !c->key[0] || (c->cert[0] && !c->ca[0]))
        return err_set(e, ERR_USAGE, "--cert FILE and --key FILE go together, and with --ca FILE");
    if (c->ca[0] && check_ca(c, e) < 0)
        return e->code;
    return c->cert[0] ? check_pair(c, e) : 0;
}

/* Those of --retry-on. */
static const struct {
    const char *name, *reason;
} retry_names[] = {
    {"node_lost", REASON_NODE_LOST},
    {"runner_died", REASON_RUNNER_DIED},
    {"oom", REASON_OUT_OF_MEMORY},
    {"interrupted", REASON_INTERRUPTED},
    {"agent_restarted", REASON_AGENT_RESTARTED},
    {"agent_stopped", REASON_AGENT_STOPPED},
    {"round_timeout", REASON_ROUND_TIMEOUT},
    {"disk_full", REASON_DISK_FULL},
    {"journal_failed", REASON_JOURNAL_FAILED},
    {"trainer_failed", REASON_TRAINER_FAILED},
};

/* The reason that the first n characters name; NULL: none. */
static const char *find_reason(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof retry_names / sizeof *retry_names; i++)
        if (strlen(retry_names[i].name) == n && memcmp(retry_names[i].name, name, n) == 0)
            return retry_names[i].reason;
    return NULL;
}

static int check_retry_on(const char *list, struct err *e)
{
    for (;; list++) {
        size_t n = strcspn(list, ",");

        if (!find_reason(list, n))
            return err_set(e, ERR_USAGE, "--retry-on: \"%.*s\" is not one of %s", (int)(n < 40 ? n : 40),
                           list, RETRY_ON_NAMES);
        list += n;
        if (!*list)
            return 0;
    }
}

bool options_retry_on(const struct options *o, const char *reason)
{
    for (const char *list = o->retry_on;; list++) {
        size_t n = strcspn(list, ",");
        const char *named = find_reason(list, n);

        if (named && strcmp(named, reason) == 0)
            return true;
        list += n;
        if (!*list)
            return false;
    }
}

static int finish_options(struct options *o, struct err *e)
{
    struct schedule schedule;

    if (check_credentials(&o->credentials, e) < 0 ||
        choose_list(o, options_is_given(o, offsetof(struct options, workers)),
                    options_is_given(o, offsetof(struct options, worker_hosts)),
                    options_is_given(o, offsetof(struct options, ps_hosts)), e) < 0)
        return e->code;
    o->settings.block_assignment = o->block_assignment == BLOCKS_IID ? BLOCKS_IID : BLOCKS_DUP;
    dataset_take_alias(o->settings.dataset, sizeof o->settings.dataset);
    if (schedule_parse(&schedule, o->settings.schedule, e) < 0) {
        err_at(e, "--schedule");
        return e->code = ERR_USAGE;
    }
    if (check_retry_on(o->retry_on, e) < 0)
        return e->code;
    finish_epochs(o);
    if (o->settings.min_nodes > 1 && o->settings.on_node_loss != NODE_LOSS_CONTINUES)
        return err_set(e, ERR_USAGE,
                       "--min-nodes needs --on-node-loss continue; this job ends when it "
                       "loses a node");
    if (finish_partition(o, e) < 0)
        return e->code;
    return finish_optimizer(o, e);
}

/* Whether `parameters`, which the command line adds to the preset's codec, set the parameter that the
 * preset's option sets itself: "codec=dc_asgd:mode=adaptive". */
static bool is_set_again(const char *option, const char *parameters)
{
    const char *own = strchr(option, ':');
    char key[32];

    snprintf(key, sizeof key, "%.*s", own ? (int)strcspn(own + 1, "=") + 1 : 0, own ? own + 1 : "");
    return key[0] && strstr(parameters, key);
}

/* Sets one option of a preset, unless the command line has it. The parameters after the preset's name become
 * those of its codec. */
static int set_preset_option(struct options *o, const char *option, const char *parameters, struct err *e)
{
    bool is_codec = strncmp(option, "codec=", 6) == 0;
    int length = (int)(is_set_again(option, parameters) ? strcspn(option, ":") : strlen(option));
    char verb[] = "submit", text[2 * PATH_MAX];
    char *argv[] = {verb, text, NULL};
    struct args_found found = {0};
    struct options preset = *o;
    bool is_own = false;

    if (snprintf(text, sizeof text, "--%.*s%s%s", length, option,
                 is_codec && parameters[0] ? (memchr(option, ':', (size_t)length) ? "," : ":") : "",
                 is_codec ? parameters : "") >= (int)sizeof text)
        return err_set(e, ERR_USAGE, "--codec: too long");
    if (args_parse(&options_table, FOR_JOB, 2, argv, &preset, &found, e) < 0)
        return e->code;
    for (int i = 0; i < options_table.n; i++)
        is_own |= found.given[i] && o->args.given[i];
    if (is_codec || !is_own)
        *o = preset;
    return 0;
}

/* A preset is for all nodes. As in Parallel-SGD, --server_codec may name the same one again. */
static int take_server_preset(struct options *o, const struct preset *p, struct err *e)
{
    const struct preset *of_servers = o->server_codec[0] ? preset_find(o->server_codec) : NULL;

    if (!of_servers)
        return 0;
    if (of_servers != p || strchr(o->server_codec, ':'))
        return err_set(e, ERR_USAGE,
                       "--server_codec %s: this name stands for options of the whole job; give --codec %s",
                       o->server_codec, of_servers->name);
    o->server_codec[0] = '\0'; /* the servers' codec is that of the workers */
    return 0;
}

static int apply_preset(struct options *o, struct err *e)
{
    const struct preset *p = codec_list_is_one(o->codec) ? NULL : preset_find(o->codec);
    const char *parameters = strchr(o->codec, ':');
    bool has_optimizer = options_is_given(o, offsetof(struct options, optimizer)) ||
                         options_is_given(o, offsetof(struct options, settings.optimizer));
    char rest[PATH_MAX];

    if (take_server_preset(o, p, e) < 0)
        return e->code;
    if (!p)
        return 0;
    snprintf(rest, sizeof rest, "%s", parameters ? parameters + 1 : "");
    for (const char *const *option = p->options; *option; option++) {
        bool is_of_optimizer = strncmp(*option, "gradient-descent=", 17) == 0 ||
                               strncmp(*option, "momentum=", 9) == 0;

        if (!(is_of_optimizer && has_optimizer) && set_preset_option(o, *option, rest, e) < 0)
            return err_at(e, "--codec %s", p->name);
    }
    o->preset = p;
    return 0;
}

/* Loads the options of the earlier job, then applies those of this command line. */
static int parse_resumed(struct options *o, uint64_t verb, int argc, char **argv, struct err *e)
{
    struct options given = *o, earlier;

    options_defaults(o);
    if (options_take_earlier(o, (verb & FOR_PACK) || given.slurm[0], given.args.given, given.resume, e) < 0)
        return e->code;
    earlier = *o;
    if (args_parse(&options_table, verb, argc, argv, o, &o->args, e) < 0 || apply_preset(o, e) < 0)
        return e->code;
    options_take_arguments(o, o->document);
    return options_check_resume(o, &earlier, e);
}

/* Parses one KEY=VALUE of --set as --KEY=VALUE. */
static int set_one(struct options *o, uint64_t verb, const char *text, struct err *e)
{
    char first[] = "set", option[PATH_MAX], name[ARGS_NAME];
    char *argv[] = {first, option, NULL};
    struct args_found found = {0};

    if (snprintf(option, sizeof option, "--%s", text) >= (int)sizeof option)
        return err_set(e, ERR_USAGE, "--set: too long");
    if (args_parse(&options_table, verb, 2, argv, o, &found, e) < 0)
        return err_at(e, "--set");
    for (int i = 0; i < options_table.n; i++)
        o->args.given[i] |= found.given[i];
    for (int i = 0; i < options_table.n; i++)
        if (found.given[i] &&
            ((options_table.options[i].group != JOB && options_table.options[i].group != SIMULATED) ||
             options_table.options[i].kind == ARGS_LIST)) {
            args_name(name, &options_table.options[i]);
            err_set(e, ERR_USAGE, "--set %s: not an option of the job itself", text);
            return err_hint(e, "Give it as an option of its own: --%s.", name);
        }
    return 0;
}

static int set_all(struct options *o, uint64_t verb, const char *const *sets, struct err *e)
{
    for (; *sets; sets++)
        if (set_one(o, verb, *sets, e) < 0)
            return e->code;
    return 0;
}

/* Sets of options in which an option replaces the others. */
static const size_t exclusive[][3] = {
    {offsetof(struct options, workers), offsetof(struct options, worker_hosts),
     offsetof(struct options, ps_hosts)},
    {offsetof(struct options, optimizer), offsetof(struct options, settings.optimizer)},
    {offsetof(struct options, settings.non_iid), offsetof(struct options, settings.partition)},
};

static bool is_among(const size_t *set, size_t offset)
{
    return offset > 0 && (offset == set[0] || offset == set[1] || offset == set[2]);
}

/* Gives the options of a set their defaults if one of them is on the command line. */
static void clear_replaced(struct options *o, const bool *given, const size_t *set)
{
    struct options defaults;
    bool is_replaced = false;

    options_defaults(&defaults);
    for (int i = 0; i < options_table.n; i++)
        is_replaced |= given[i] && is_among(set, options_table.options[i].offset);
    for (int i = 0; is_replaced && i < options_table.n; i++)
        if (is_among(set, options_table.options[i].offset)) {
            memcpy((char *)o + options_table.options[i].offset,
                   (const char *)&defaults + options_table.options[i].offset, options_table.options[i].size);
            o->args.given[i] = false;
            if (options_table.options[i].given)
                *((bool *)o + options_table.options[i].given) = false;
        }
}

static bool changes_job(const struct options *given)
{
    bool is_changed = given->sets[0];

    for (int i = 0; i < options_table.n; i++)
        is_changed |= given->args.given[i] &&
                      (options_table.options[i].group == JOB || options_table.options[i].group == SIMULATED);
    return is_changed;
}

/* Loads the options of the file, then applies those of this command line. */
static int parse_configured(struct options *o, uint64_t verb, int argc, char **argv, struct err *e)
{
    struct options given = *o;
    bool by_file[ARGS_MAX];

    if (given.resume[0])
        return err_set(e, ERR_USAGE, "--config and --resume: take the options of a job from one of them");
    options_defaults(o);
    o->args = (struct args_found){.n_operands = 0};
    if (options_take_config(o, verb, given.config, changes_job(&given), e) < 0)
        return e->code;
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++)
        clear_replaced(o, given.args.given, exclusive[i]);
    memcpy(by_file, o->args.given, sizeof by_file);
    if (args_parse(&options_table, verb, argc, argv, o, &o->args, e) < 0)
        return e->code;
    for (int i = 0; i < options_table.n; i++)
        o->args.given[i] |= by_file[i];
    options_take_arguments(o, o->document);
    return 0;
}

void options_clear(struct options *o)
{
    json_decref(o->document);
    o->document = NULL;
}

/* An option that psgd has not may be one of the training program, without the -- before it. */
static int hint_program(const struct options *o, int argc, char **argv, struct err *e)
{
    static const char option[] = "--trainer";
    bool has_program = false;
    char nearest[sizeof e->hint];

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        has_program |= strncmp(argv[i], option, strlen(option)) == 0 && strchr("=", argv[i][strlen(option)]);
    if (!has_program || !o->args.has_unknown)
        return e->code;
    snprintf(nearest, sizeof nearest, "%s", strncmp(e->hint, "Did", 3) == 0 ? e->hint : "");
    return err_hint(e, "%s%sArguments of the training program come last, after --.", nearest,
                    nearest[0] ? " " : "");
}

int options_parse(struct options *o, uint64_t verb, int argc, char **argv, struct err *e)
{
    options_defaults(o);
    if (args_parse(&options_table, verb, argc, argv, o, &o->args, e) < 0)
        return hint_program(o, argc, argv, e);
    if ((o->config[0] && parse_configured(o, verb, argc, argv, e) < 0) ||
        (!o->config[0] && o->resume[0] && parse_resumed(o, verb, argc, argv, e) < 0) ||
        ((verb & FOR_JOB) && !(verb & FOR_SWEEP) && set_all(o, verb, o->sets, e) < 0) ||
        ((verb & FOR_JOB) && apply_preset(o, e) < 0))
        return e->code;
    if (options_is_given(o, offsetof(struct options, worker_hosts)) &&
        !options_is_given(o, offsetof(struct options, settings.node_count)))
        o->settings.node_count = hosts_count(o->worker_hosts);
    return finish_options(o, e);
}

int options_rerun(struct options *o, const struct options *given, const json_t *doc, const char *folder,
                  struct err *e)
{
    const json_t *texts = json_object_get(json_object_get(doc, "facts"), "options");
    const uint64_t verb = json_object_get(texts, "exec") ? FOR_RUN : FOR_SUBMIT;

    options_defaults(o);
    if (options_take_run(o, verb, doc, folder, changes_job(given), e) < 0)
        return e->code;
    for (int i = 0; i < options_table.n; i++)
        if (given->args.given[i])
            memcpy((char *)o + options_table.options[i].offset,
                   (const char *)given + options_table.options[i].offset, options_table.options[i].size);
    if (set_all(o, verb, given->sets, e) < 0 || apply_preset(o, e) < 0)
        return e->code;
    return finish_options(o, e);
}
