#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_options.h"
#include "submit/codecs/codec_find.h"
#include "submit/files/run_file.h"
#include "submit/options/options_table.h"
#include "submit/options/submit_options.h"

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

/* The list of agents. */
static bool is_list(const struct args_option *t)
{
    return t->offset == offsetof(struct options, workers) ||
           t->offset == offsetof(struct options, worker_hosts) ||
           t->offset == offsetof(struct options, ps_hosts);
}

/* True if a job that is resumed or submitted again inherits the option from the earlier job, which was
 * submitted by this verb: the options of the job, and the worker list. */
static bool is_inherited(const struct args_option *t, unsigned verb)
{
    return (t->verbs & verb) && (t->group == JOB || is_list(t));
}

static bool is_of_executor(const json_t *texts)
{
    return json_object_get(texts, "exec");
}

/* What a job starts from: a resumed job starts from the earlier one instead. */
static bool is_start(const struct args_option *t)
{
    return t->offset == offsetof(struct options, resume) || t->offset == offsetof(struct options, init_from);
}

/* True if the command line that resumes the job may change the option. */
static bool may_differ(const struct args_option *t)
{
    return t->group != JOB || t->may_change;
}

/* Sets one option from the texts written by options_json, if they have it. */
static int take_text(struct options *o, const struct args_option *t, const json_t *texts, struct err *e)
{
    char name[ARGS_NAME], file[PATH_MAX];
    const char *value;

    args_name(name, t);
    value = json_string_value(json_object_get(texts, name));
    if (!value || !value[0] || (t->kind == ARGS_FLAG && strcmp(value, "yes") != 0))
        return 0;
    file_of(file, t, value);
    if (names_file(t, value) && access(file, F_OK) < 0) {
        err_errno(e, ERR_NOT_FOUND, "--%s was %s", name, value);
        return err_hint(e, "Give its present path with --%s %s.", name, t->value);
    }
    return args_set(t, value, o, e);
}

/* Sets the inherited options from the texts written by options_json. `given`, by index in the table:
 * options on this command line, which take precedence where they may differ; NULL: none, and the job also
 * starts from what the earlier one started from. */
static int take_texts(struct options *o, unsigned verb, const bool *given, const json_t *texts, struct err *e)
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

int options_take_texts(struct options *o, unsigned verb, const json_t *texts, struct err *e)
{
    if (is_of_executor(texts) && !(verb & FOR_RUN))
        return err_set(e, ERR_CONFIG, "it is that of an executor: job_submit rerun runs it again");
    return take_texts(o, verb, NULL, texts, e);
}

int options_take_of_job(struct options *o, unsigned verb, const json_t *texts, struct err *e)
{
    const char *theirs = json_string_value(json_object_get(texts, "dataset"));
    size_t n = strcspn(o->settings.dataset, ":");
    bool has_own_data = false; /* of another kind than the job's */

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

/* Sets the options of the job in `folder` over the defaults. */
int options_take_earlier(struct options *o, const bool *given, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    const json_t *texts;
    json_t *doc, *facts;
    int rc;

    if (file_join(path, sizeof path, folder, "run.json", e) < 0 || json_read(&doc, path, RUN_JSON_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? err_hint(e, "--resume takes the folder of a job's results.")
                                        : e->code;
    facts = json_object_get(doc, "facts");
    texts = json_object_get(facts, "options");
    if (json_object_get(facts, "simulation"))
        rc = err_set(e, ERR_CONFIG,
                     "a simulation keeps no checkpoints; start from its model with --init-from");
    else if (is_of_executor(texts))
        rc = err_set(e, ERR_CONFIG, "an executor keeps no checkpoints; job_submit rerun runs it again");
    else if (json_is_object(texts))
        rc = take_texts(o, FOR_SUBMIT, given, texts, e);
    else
        rc = err_set(e, ERR_CONFIG, "/facts/options: missing");
    json_decref(doc);
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
