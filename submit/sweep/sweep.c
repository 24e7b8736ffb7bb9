#include "submit/sweep/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "submit/codecs/codec_find.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/job_index.h"
#include "submit/results/run.h"
#include "submit/sweep/sweep_options.h"
#include "submit/terminal/console.h"

enum { SWEEP_JSON_MAX = 64 << 20 };

/* The folder of the sweep. */

static int lock_folder(struct sweep *s, struct err *e)
{
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_errno(e, ERR_IO, "%s", s->folder);
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "%s: another sweep runs there", s->folder);
    return 0;
}

/* Removes temporary files of a sweep that was killed before it wrote sweep.json. */
static int check_empty(const struct sweep *s, struct err *e)
{
    char **names;
    size_t n;

    file_remove_temporary(s->folder);
    if (untrusted_list(&names, &n, s->lock, 1, e) < 0)
        return err_at(e, "%s", s->folder);
    if (n > 0) {
        err_set(e, ERR_CONFLICT, "%s is not the folder of a sweep: it contains %.200s", s->folder, names[0]);
        err_hint(e, "Name a folder that is new or empty: -o DIR");
    }
    untrusted_list_free(names, n);
    return n > 0 ? e->code : 0;
}

/* The document of the folder. The caller owns it. */
static json_t *describe_sweep(const struct sweep *s)
{
    json_t *doc = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
    json_t *arguments = json_array();

    for (int i = 0; i < s->opt->args.n_operands; i++)
        json_array_append_new(arguments, json_text(s->opt->args.operands[i], SIZE_MAX));
    if (s->opt->args.n_operands > 0)
        json_object_set(doc, "arguments", arguments);
    json_decref(arguments);
    return doc;
}

/* The sweep in the folder must have this command's options, because the results of its runs are kept. */
static int check_base(const struct sweep *s, const char *path, struct err *e)
{
    json_t *doc, *wanted = describe_sweep(s);
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
    json_t *doc = describe_sweep(s);
    char *text = doc ? json_dump_line(doc, JSON_INDENT(1)) : NULL;
    int rc = text ? file_write(path, text, strlen(text), 0644, e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    json_decref(doc);
    return rc;
}

int sweep_open(struct sweep *s, struct err *e)
{
    char dir[PATH_MAX];

    s->lock = -1;
    if (sweep_check_options(s->opt, e) < 0)
        return e->code;
    s->base = sweep_list_options(s->opt, s->opt->simulate ? FOR_SIMULATE : FOR_SUBMIT, false);
    s->begins_anew = calloc(s->plan.n_combinations + 1, sizeof *s->begins_anew);
    if (!s->begins_anew)
        return err_set(e, ERR_NOMEM, "no memory for the sweep");
    if (file_exe_dir(dir, sizeof dir, e) < 0 ||
        file_join(s->program, sizeof s->program, dir, "job_submit", e) < 0)
        return e->code;
    return file_absolute(s->folder, sizeof s->folder, s->opt->output, e);
}

int sweep_begin(struct sweep *s, struct err *e)
{
    char path[PATH_MAX], sub[PATH_MAX];

    if (file_mkdirs(s->folder, 0777, e) < 0 || lock_folder(s, e) < 0 ||
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
    free(s->begins_anew);
    if (s->lock >= 0)
        close(s->lock);
    s->base = NULL;
    s->begins_anew = NULL;
    s->lock = -1;
}

int sweep_run_path(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
                   const struct sweep_run *run, struct err *e)
{
    char name[SWEEP_NAME], below[SWEEP_NAME + 16];

    sweep_name(name, &s->plan, run);
    snprintf(below, sizeof below, "%s/%s%s", sub, name, ending);
    return file_join(out, PATH_MAX, s->folder, below, e);
}

int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, const struct sweep_run *run, struct err *e)
{
    return sweep_run_path(out, s, "runs", "", run, e);
}

/* Results of an earlier command in the same folder. */

void sweep_find_earlier(struct sweep_earlier *earlier, const struct sweep *s, const char *folder)
{
    enum job_state state;
    struct err ignored;
    const char *id, *name;
    struct run r;

    *earlier = (struct sweep_earlier){0};
    if (access(folder, F_OK) < 0)
        return;
    if (run_find(&r, folder, &ignored) < 0) { /* killed, perhaps just after its job had started */
        if (!s->opt->simulate)
            job_index_in_folder(earlier->id, folder, &ignored);
        return;
    }
    id = json_string_value(json_object_get(r.doc, "id"));
    name = json_string_value(json_object_get(r.doc, "state"));
    earlier->has_ended = name && job_state_parse(&state, name) && job_state_is_terminal(state);
    earlier->is_done = earlier->has_ended && state == JOB_SUCCEEDED &&
                       json_is_true(json_object_get(r.doc, "is_complete"));
    if (!s->opt->simulate && id && (!earlier->has_ended || state == JOB_SUCCEEDED))
        snprintf(earlier->id, sizeof earlier->id, "%s", id);
    run_clear(&r);
}

bool sweep_has_succeeded(const struct sweep *s, const struct sweep_run *run)
{
    char folder[PATH_MAX];
    struct err ignored;
    struct sweep_earlier earlier;

    if (sweep_run_folder(folder, s, run, &ignored) < 0)
        return false;
    sweep_find_earlier(&earlier, s, folder);
    return earlier.is_done;
}

/* True if the file of this part of the facts has other bytes now. The file of a codec is its source or its
 * object. */
static bool has_changed(char file[PATH_MAX], const json_t *facts, const char *part)
{
    const json_t *o = json_object_get(facts, part);

    snprintf(file, PATH_MAX, "%s", json_text_at(o, "file"));
    if (!file[0] || access(file, F_OK) < 0)
        return false;
    return !codec_file_has_sum(file, json_text_at(o, "sha256")) &&
           !codec_file_has_sum(file, json_text_at(o, "source_sha256"));
}

static bool is_newer(const char *path, double then)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9 > then;
}

/* True if `path`, or a file in this folder, is newer; *file: that one. */
static bool has_newer(char file[PATH_MAX], const char *path, double then)
{
    const struct dirent *entry;
    bool is = false;
    DIR *d;

    snprintf(file, PATH_MAX, "%s", path);
    if (is_newer(path, then))
        return true;
    d = opendir(path);
    while (d && !is && (entry = readdir(d)) != NULL)
        is = snprintf(file, PATH_MAX, "%s/%s", path, entry->d_name) < PATH_MAX && is_newer(file, then);
    if (d)
        closedir(d);
    return is;
}

/* True if a file of the training program is newer; *file: that one. */
static bool has_newer_program(char file[PATH_MAX], const json_t *trainer, double then)
{
    const json_t *one;
    bool is = false;
    size_t i;

    json_array_foreach(json_object_get(trainer, "files"), i, one)
    {
        is = is || (snprintf(file, PATH_MAX, "%s/%s", json_text_at(trainer, "folder"),
                             json_text_at(one, "name")) < PATH_MAX &&
                    is_newer(file, then));
    }
    return is;
}

bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config)
{
    const json_t *facts = json_object_get(run, "facts");
    const char *data = json_text_at(json_object_get(facts, "options"), "data");
    double then;

    if (has_changed(file, facts, "codec") || has_changed(file, facts, "server_codec") ||
        has_changed(file, facts, "model") || has_changed(file, facts, "start"))
        return true;
    return clock_parse(&then, json_text_at(run, "submitted_at")) &&
           ((data[0] && has_newer(file, data, then)) || (config[0] && has_newer(file, config, then)) ||
            has_newer_program(file, json_object_get(facts, "trainer"), then));
}

int sweep_drop_stale(const struct sweep *s, const struct sweep_run *run, struct err *e)
{
    char folder[PATH_MAX], file[PATH_MAX], name[SWEEP_NAME];
    bool is_stale;
    struct run r;

    if (!sweep_has_succeeded(s, run))
        return 0;
    if (sweep_run_folder(folder, s, run, e) < 0 || run_find(&r, folder, e) < 0)
        return e->code;
    is_stale = sweep_inputs_changed(file, r.doc, s->opt->config);
    run_clear(&r);
    if (!is_stale)
        return 0;
    sweep_name(name, &s->plan, run);
    console_info("%s has changed since run %s: its results are removed, and it runs again.", file, name);
    return file_remove_tree(folder, e);
}
