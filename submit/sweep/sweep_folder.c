#include "submit/sweep/sweep_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/files/untrusted_folder.h"
#include "submit/options/options_table.h"

enum { SWEEP_JSON_MAX = 64 << 20 };

static int lock(struct sweep *s, struct err *e)
{
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_errno(e, ERR_IO, "%s", s->folder);
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "%s: another sweep is at work there", s->folder);
    return 0;
}

/* What a sweep that was killed in its first moment left does not count. */
static int check_empty(const struct sweep *s, struct err *e)
{
    char **names;
    size_t n;

    file_sweep(s->folder);
    if (folder_list(&names, &n, s->lock, 1, e) < 0)
        return err_at(e, "%s", s->folder);
    if (n > 0) {
        err_set(e, ERR_CONFLICT, "%s has other files, as %.200s, and no sweep", s->folder, names[0]);
        err_hint(e, "Name a folder that is new or empty: -o DIR");
    }
    folder_list_free(names, n);
    return n > 0 ? e->code : 0;
}

/* The options of the sweep in the folder must be those of this command: its runs are not run again. */
static int check_base(const struct sweep *s, const char *path, struct err *e)
{
    json_t *doc, *wanted = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
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
    json_t *doc = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
    char *text = doc ? json_dump_line(doc, JSON_INDENT(1)) : NULL;
    int rc = text ? file_write(path, text, strlen(text), 0644, e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    json_decref(doc);
    return rc;
}

/* Those of the sweep itself are not the runs'. */
static bool is_of_runs(const struct args_option *t)
{
    return !(t->verbs & FOR_SWEEP) && t->group != OUTPUT && t->offset != offsetof(struct options, output) &&
           t->offset != offsetof(struct options, sets);
}

/* Adds "--name=value" for the option, as it is in `o`. */
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

json_t *sweep_options(const struct options *o, unsigned verb)
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

int sweep_open(struct sweep *s, struct err *e)
{
    const unsigned verb = s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT;
    char dir[PATH_MAX];

    s->lock = -1;
    if (check_options(s->opt, verb, e) < 0)
        return e->code;
    s->base = sweep_options(s->opt, verb);
    if (file_exe_dir(dir, sizeof dir, e) < 0 ||
        file_join(s->program, sizeof s->program, dir, "job_submit", e) < 0)
        return e->code;
    return file_absolute(s->folder, sizeof s->folder, s->opt->output, e);
}

int sweep_begin(struct sweep *s, struct err *e)
{
    char path[PATH_MAX], sub[PATH_MAX];

    if (file_mkdirs(s->folder, 0777, e) < 0 || lock(s, e) < 0 ||
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

int sweep_path(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
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
    return sweep_path(out, s, "runs", "", combination, repeat, e);
}
