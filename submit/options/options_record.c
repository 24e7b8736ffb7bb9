/* The options of a job as texts: printed at its start, recorded in its run.json, and taken from there by a
 * job that is resumed (--resume) or repeated (rerun, --config run.json), or by predict. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/plugin/codec_options.h"
#include "submit/codecs/codec_find.h"
#include "submit/compat/codec_list.h"
#include "submit/compat/presets.h"
#include "submit/files/run_file.h"
#include "submit/options/measured_times.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"

/* The file named by `value`; of a codec, without its parameters. */
static void file_of(char out[PATH_MAX], const struct args_option *t, const char *value)
{
    bool is_codec = t->offset == offsetof(struct options, codec) ||
                    t->offset == offsetof(struct options, server_codec);

    snprintf(out, PATH_MAX, "%.*s", (int)(is_codec ? codec_options_at(value) : strlen(value)), value);
}

static bool names_file(const struct args_option *t, const char *value)
{
    char file[PATH_MAX];

    file_of(file, t, value);
    return file[0] && (t->kind == ARGS_PATH || (t->kind == ARGS_NAME_OR_PATH && find_is_path(file)));
}

/* The text of an option. A file name is made absolute, because the job may be resumed from another folder. */
static void record_text(char *out, size_t size, const struct options *o, const struct args_option *t)
{
    char text[PATH_MAX];
    struct err ignored;

    args_text(text, sizeof text, t, o);
    if (!names_file(t, text) || file_absolute(out, size, text, &ignored) < 0)
        snprintf(out, size, "%s", text);
}

json_t *options_json(const struct options *o)
{
    json_t *all = json_object();

    for (int i = 0; i < options_table.n; i++) {
        char name[ARGS_NAME], value[PATH_MAX];

        if (!options_is_shown(o, &options_table.options[i]))
            continue;
        args_name(name, &options_table.options[i]);
        record_text(value, sizeof value, o, &options_table.options[i]);
        json_object_set_new(all, name, json_text(value, SIZE_MAX));
    }
    return all;
}

void options_echo_preset(const struct options *o)
{
    char text[512];

    if (!o->preset)
        return;
    preset_text(text, sizeof text, o->preset);
    console_info("--codec %s stands for %s, where these options are not given.", o->preset->name, text);
}

void options_echo(const struct options *o)
{
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        char name[ARGS_NAME], value[PATH_MAX];

        if (!options_is_shown(o, t) || !options_is_chosen(o, t->offset))
            continue;
        args_name(name, t);
        args_text(value, sizeof value, t, o);
        console_more("\t --%s=%s", name, value);
    }
}

/* The list of agents. */
static bool is_list(const struct args_option *t)
{
    return t->offset == offsetof(struct options, workers) ||
           t->offset == offsetof(struct options, worker_hosts) ||
           t->offset == offsetof(struct options, ps_hosts);
}

void options_drop_lists(json_t *texts)
{
    char name[ARGS_NAME];

    for (int i = 0; i < options_table.n; i++) {
        if (!is_list(&options_table.options[i]))
            continue;
        args_name(name, &options_table.options[i]);
        json_object_del(texts, name);
    }
}

/* True if a job that is resumed or submitted again takes the option from the earlier job, which was submitted
 * by this verb: the options of the job itself, and the list of agents. */
static bool is_inherited(const struct args_option *t, uint64_t verb)
{
    return (t->verbs & verb) && (t->group == JOB || is_list(t));
}

static bool is_of_executor(const json_t *texts)
{
    return json_object_get(texts, "exec");
}

/* Whether the option names the weights that a job starts with: a resumed job starts with those of the earlier
 * job. */
static bool is_start(const struct args_option *t)
{
    return t->offset == offsetof(struct options, resume) || t->offset == offsetof(struct options, init_from);
}

/* True if the command line that resumes the job may change the option. */
static bool may_differ(const struct args_option *t)
{
    return t->group != JOB || t->may_change;
}

/* The option's text among those written by options_json; NULL: they do not have it. */
static const char *recorded_text(char name[ARGS_NAME], const struct args_option *t, const json_t *texts)
{
    const char *value;

    args_name(name, t);
    value = json_string_value(json_object_get(texts, name));
    return value && value[0] && (t->kind != ARGS_FLAG || strcmp(value, "yes") == 0) ? value : NULL;
}

/* Sets one option from the texts, if they have it. A file that it names must be there. */
static int take_text(struct options *o, const struct args_option *t, const json_t *texts, struct err *e)
{
    char name[ARGS_NAME], file[PATH_MAX];
    const char *value = recorded_text(name, t, texts);

    if (!value)
        return 0;
    file_of(file, t, value);
    if (names_file(t, value) && access(file, F_OK) < 0) {
        err_errno(e, ERR_NOT_FOUND, "--%s was %s", name, value);
        return err_hint(e, "Give its present path with --%s %s.", name, t->value);
    }
    return args_set(t, value, o, e);
}

/* Sets the inherited options from the texts written by options_json. `given`, by index in the table: the
 * options of this command line, which take precedence if they may differ; NULL: none, and the job starts with
 * the same weights as the earlier one. */
static int take_texts(struct options *o, uint64_t verb, const bool *given, const json_t *texts, struct err *e)
{
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!is_inherited(t, verb) || (given && (is_start(t) || (given[i] && may_differ(t)))))
            continue;
        if (take_text(o, t, texts, e) < 0)
            return e->code;
    }
    return 0;
}

int options_take_texts(struct options *o, uint64_t verb, const json_t *texts, struct err *e)
{
    if (is_of_executor(texts) && !(verb & FOR_RUN))
        return err_set(e, ERR_CONFIG, "the job ran an executor: job_submit rerun runs it again");
    return take_texts(o, verb, NULL, texts, e);
}

int options_take_of_job(struct options *o, uint64_t verb, const json_t *texts, struct err *e)
{
    const char *theirs = json_string_value(json_object_get(texts, "dataset"));
    size_t n = strcspn(o->settings.dataset, ":");
    bool has_own_data = false; /* --dataset names a set of another kind than the job's */

    for (int i = 0; i < options_table.n; i++)
        has_own_data |= o->args.given[i] &&
                        options_table.options[i].offset == offsetof(struct options, settings.dataset) &&
                        !(theirs && strcspn(theirs, ":") == n &&
                          strncmp(o->settings.dataset, theirs, n) == 0);
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!(t->verbs & verb) || t->group != JOB || o->args.given[i] ||
            (has_own_data && t->offset == offsetof(struct options, data)))
            continue;
        if (take_text(o, t, texts, e) < 0)
            return e->code;
    }
    return 0;
}

int options_take_record(struct options *o, uint64_t verb, const json_t *texts, bool has_job, struct err *e)
{
    options_defaults(o);
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        char name[ARGS_NAME];
        const char *value = recorded_text(name, t, texts);

        if (value && (t->verbs & verb) && t->group != OUTPUT && (t->group != JOB || has_job) &&
            args_set(t, value, o, e) < 0)
            return e->code;
    }
    return 0;
}

void options_take_arguments(struct options *o, const json_t *doc)
{
    const json_t *facts = json_object_get(doc, "facts"), *one;
    const json_t *list = json_object_get(facts, "arguments");
    bool has_some = o->args.n_operands > 0;
    size_t i;

    snprintf(o->trainer_sha256, sizeof o->trainer_sha256, "%s",
             json_text_at(json_object_get(facts, "trainer"), "sha256"));
    json_array_foreach(list, i, one)
    {
        if (!has_some && i < ARGS_OPERANDS && json_is_string(one))
            o->args.operands[o->args.n_operands++] = json_string_value(one);
    }
}

/* Of a folder without results, which may be a job folder of which nobody has collected any. */
static int hint_at_results(const char *folder, struct err *e)
{
    static const char results[] = "/results";
    int n = (int)strlen(folder);
    char job[PATH_MAX];

    while (n > 1 && folder[n - 1] == '/')
        n--;
    if (n >= (int)sizeof results &&
        strncmp(folder + n + 1 - sizeof results, results, sizeof results - 1) == 0)
        n -= (int)sizeof results - 1;
    snprintf(job, sizeof job, "%.*s", n, folder);
    return job_folder_is(job)
               ? err_hint(e,
                          "%.200s is a job folder: job_submit collect %.200s makes its results, and "
                          "--resume %.200s/results goes on from them.",
                          job, job, job)
               : err_hint(e, "--resume takes the folder of a job's results.");
}

int options_take_earlier(struct options *o, bool without_agents, const bool *given, const char *folder,
                         struct err *e)
{
    char path[PATH_MAX];
    const json_t *texts, *facts;
    int rc;

    if (file_join(path, sizeof path, folder, "run.json", e) < 0 ||
        json_read(&o->document, path, RUN_JSON_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? hint_at_results(folder, e) : e->code;
    facts = json_object_get(o->document, "facts");
    texts = json_object_get(facts, "options");
    if (json_object_get(facts, "simulation"))
        rc = err_set(e, ERR_CONFIG,
                     "a simulation keeps no checkpoints; start from its model with --init-from");
    else if (is_of_executor(texts))
        rc = err_set(e, ERR_CONFIG, "an executor keeps no checkpoints; job_submit rerun runs it again");
    else if (json_is_object(texts))
        rc = take_texts(o, without_agents ? FOR_PACK : FOR_SUBMIT, given, texts, e);
    else
        rc = err_set(e, ERR_CONFIG, "/facts/options: missing");
    if (without_agents) /* the servers of a job on agents are in its list */
        o->servers = (int)json_integer_value(
            json_object_get(json_object_get(o->document, "settings"), "server_count"));
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

int options_check_resume(const struct options *o, const struct options *earlier, struct err *e)
{
    char name[ARGS_NAME], now[PATH_MAX], before[PATH_MAX];

    if (o->init_from[0])
        return err_set(e, ERR_USAGE, "--resume and --init-from: a job starts from one of them");
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!o->args.given[i] || may_differ(t))
            continue;
        args_text(now, sizeof now, t, o);
        args_text(before, sizeof before, t, earlier);
        if (strcmp(now, before) == 0)
            continue;
        args_name(name, t);
        err_set(e, ERR_USAGE, "--%s cannot be changed by --resume", name);
        return err_hint(
            e, "Leave it out to keep its earlier value. --init-from starts a new job with the weights.");
    }
    return 0;
}

/* Finds the copy of a codec's source in the result folder. */
static bool find_copy(char out[PATH_MAX], const json_t *facts, const char *folder)
{
    const char *name = json_text_at(facts, "name");
    struct err ignored;
    char file[80];

    snprintf(file, sizeof file, "codec/%.64s.c", name);
    return name[0] && !strchr(name, '/') && file_join(out, PATH_MAX, folder, file, &ignored) == 0 &&
           codec_file_has_sum(out, json_text_at(facts, "source_sha256"));
}

/* Replaces a codec that has changed since the earlier job, or does not exist any more, by the copy of its
 * source. */
static void choose_codec(json_t *texts, const char *option, const json_t *facts, const char *folder)
{
    const char *text = json_text_at(texts, option);
    size_t end = codec_options_at(text);
    char name[PATH_MAX], copy[PATH_MAX];

    snprintf(name, sizeof name, "%.*s", (int)end, text);
    if (!name[0] || codec_list_is_one(text) || !facts || codec_file_is_same(name, facts))
        return;
    if (find_copy(copy, facts, folder)) {
        console_info("%s has changed since that run: the copy of its source in the results is used, %s.",
                     name, copy);
        json_object_set_new(texts, option, json_sprintf("%s%s", copy, text + end));
    } else if (!find_is_path(name) || access(name, F_OK) == 0) { /* else it is reported as missing */
        console_info(
            "%s has changed since that run, and the results have no copy of its source: the present one is "
            "used.",
            name);
    }
}

/* Keeps what the job has chosen by itself, from measurements that may be different now. */
static void keep_choices(json_t *texts, const json_t *settings)
{
    const char *path = json_text_at(settings, "path");

    if (strcmp(json_text_at(texts, "path"), "auto") == 0 && path[0] && strcmp(path, "auto") != 0)
        json_object_set(texts, "path", json_object_get(settings, "path"));
}

/* The options of that simulation; times that it has measured replace new measurements. */
static json_t *simulation_of(const json_t *facts)
{
    const json_t *simulation = json_object_get(facts, "simulation");

    return measured_options(json_object_get(simulation, "options"), json_object_get(simulation, "result"));
}

static int take_simulation(struct options *o, const json_t *run, struct err *e)
{
    const json_t *settings = json_object_get(run, "settings");
    json_t *doc = simulation_of(json_object_get(run, "facts"));
    int rc = 0;

    o->servers = (int)json_integer_value(json_object_get(settings, "server_count"));
    if (doc)
        rc = simulation_parse(&o->simulation, doc, e);
    if (doc && rc == 0 && o->simulation.gradients > 0)
        o->steps = (int)json_integer_value(json_object_get(settings, "steps_per_epoch"));
    json_decref(doc);
    return rc < 0 ? err_at(e, "/facts/simulation/options") : 0;
}

int options_take_run(struct options *o, uint64_t verb, const json_t *doc, const char *folder, bool is_changed,
                     struct err *e)
{
    const json_t *facts = json_object_get(doc, "facts");
    json_t *texts = json_copy(json_object_get(facts, "options"));
    bool is_simulation = json_object_get(facts, "simulation");
    int rc;

    if (!json_is_object(texts)) {
        json_decref(texts);
        return err_set(e, ERR_CONFIG, "/facts/options: missing");
    }
    choose_codec(texts, "codec", json_object_get(facts, "codec"), folder);
    choose_codec(texts, "server_codec", json_object_get(facts, "server_codec"), folder);
    if (!is_changed)
        keep_choices(texts, json_object_get(doc, "settings"));
    if (is_simulation) /* it had no agents */
        options_drop_lists(texts);
    rc = options_take_texts(o, verb, texts, e);
    if (rc == 0 && (verb & FOR_SIMULATE))
        rc = take_simulation(o, doc, e);
    json_decref(texts);
    return rc;
}
