/* read: reads the files that define the job: model and codecs, each checked on its own, and the settings
 * that follow from them. The worker list comes last, so that errors of the command are reported even
 * without one; after it only a training program is started. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/executor.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/partition.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/plugin/combine_path.h"
#include "shared/plugin/compile.h"
#include "shared/plugin/elf.h"
#include "submit/codecs/codec_find.h"
#include "submit/codecs/codec_look.h"
#include "submit/compat/codec_list.h"
#include "submit/compat/presets.h"
#include "submit/data/data_sets.h"
#include "submit/data/transform.h"
#include "submit/options/hosts.h"
#include "submit/stages/model_document.h"
#include "submit/stages/rule_settings.h"
#include "submit/stages/stages.h"
#include "submit/stages/start_from.h"
#include "submit/terminal/console.h"
#include "submit/trainer/trainer_job.h"
#include "submit/trainer/trainer_limits.h"

enum { CODEC_MAX = 64 << 20 };

static void make_all_workers(struct worker_list *w)
{
    w->n_workers += w->n_servers + w->n_spares;
    w->n_servers = w->n_spares = 0;
    for (size_t i = 0; i < w->n_workers; i++)
        w->nodes[i].node = (int)i;
}

/* A list with another name is used only if --workers names it. */
static void hint_list(const char *path, struct err *e)
{
    static const char other[] = "executors.json";

    if (strspn(path, "0123456789") == strlen(path))
        err_hint(e, "The number of workers is --node_count %s.", path);
    else if (strcmp(path, OPTIONS_WORKERS) == 0 && access(other, R_OK) == 0)
        err_hint(e, "%s is here; if it is the list: --workers %s", other, other);
    else
        err_hint(e, "Write {\"Worker\": [\"host:port\", ...]} there (worker.json.example shows one), or name "
                    "another list: --workers FILE");
}

static bool is_without_servers(const struct submission *s)
{
    return strcmp(s->opt->server_codec, "null") == 0;
}

/* A job that is only checked needs no list, unless one is named. */
static bool lacks_list(const struct submission *s)
{
    return s->may_lack_list && strcmp(hosts_name(s->opt), OPTIONS_WORKERS) == 0 &&
           access(OPTIONS_WORKERS, F_OK) < 0;
}

/* Makes a list of as many agents as the job needs. `worker`: the workers' codec; NULL: an executor. */
static int assume_workers(struct submission *s, const struct codec_facts *worker, struct err *e)
{
    const struct settings *set = &s->settings;
    bool has_server = worker && codec_has_server_side(worker) && !is_without_servers(s) &&
                      (worker->updates_on_server || s->opt->server_codec[0] || set->compress_down[0] ||
                       set->feed == FEED_SHARED || set->sync == SYNC_ASGD ||
                       set->path == COMBINE_PATH_SERVERS);

    console_info("There is no %s: checked for %d worker%s%s.", OPTIONS_WORKERS, set->node_count,
                 set->node_count == 1 ? "" : "s", has_server ? " and a parameter server" : "");
    return hosts_stand_in(&s->workers, set->node_count, has_server, e);
}

static int read_workers(struct submission *s, const struct codec_facts *worker, struct err *e)
{
    const char *path = hosts_name(s->opt);

    if (lacks_list(s))
        return assume_workers(s, worker, e);
    if (hosts_read(&s->workers, s->opt, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            hint_list(path, e);
        return e->code;
    }
    if (s->opt->all_are_workers)
        make_all_workers(&s->workers);
    if ((size_t)s->settings.node_count > s->workers.n_workers) {
        err_set(e, ERR_CONFIG, "--node_count %d: %s lists %zu worker%s", s->settings.node_count, path,
                s->workers.n_workers, s->workers.n_workers == 1 ? "" : "s");
        return err_hint(e, "Add workers to the list, or use --node_count %zu.", s->workers.n_workers);
    }
    return 0;
}

/* Makes the codec's manifest: object, source, compiler and flags. */
static int make_manifest(struct codec_blobs *b, json_t *facts, const struct codec_look *l, struct err *e)
{
    bool is_executor = l->facts.is_executor;
    struct codec_manifest m = {.is_executor = is_executor, .abi = is_executor ? EXECUTOR_ABI : CODEC_ABI};
    struct elf_kind kind;
    json_t *doc;
    char *line;

    if (elf_read(&kind, l->object, e) < 0)
        return e->code;
    elf_machine(m.architecture, &kind);
    memcpy(m.name, l->facts.name, sizeof m.name);
    memcpy(m.sha256, b->object.hex, sizeof m.sha256);
    memcpy(m.source_sha256, b->source.hex, sizeof m.source_sha256);
    if (l->file.is_source) {
        compile_version(m.compiler, sizeof m.compiler, l->cc);
        snprintf(m.flags, sizeof m.flags, "%s", compile_flags);
    }
    doc = codec_manifest_json(&m);
    line = doc && json_object_update(facts, doc) == 0 ? json_line(doc) : NULL;
    json_decref(doc);
    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for a codec's manifest");
    blob_set(&b->manifest, line, strlen(line));
    return 0;
}

/* Reads the files to ship of a codec, or an executor, that was inspected, and closes it. */
static int take_look(struct codec_blobs *b, json_t **doc, struct codec_look *l, struct err *e)
{
    int rc;

    *doc = codec_look_json(l);
    rc = *doc ? blob_read(&b->object, l->object, CODEC_MAX, e)
              : err_set(e, ERR_NOMEM, "no memory for a codec's facts");
    if (rc == 0 && l->file.source[0])
        rc = blob_read(&b->source, l->file.source, CODEC_SOURCE_MAX, e);
    if (rc == 0)
        rc = make_manifest(b, *doc, l, e);
    codec_look_close(l);
    if (rc == 0)
        return 0;
    json_decref(*doc);
    *doc = NULL;
    return rc;
}

/* Loads and checks the codec, and reads the files to ship. */
static int read_codec(struct codec_blobs *b, struct codec_facts *f, json_t **doc, const char *text,
                      struct err *e)
{
    struct codec_look l;

    if (codec_look_open(&l, text, preset_names(), e) < 0)
        return e->code;
    *f = l.facts;
    b->is_tried = f->has_open && l.file.is_built_in;
    return take_look(b, doc, &l, e) < 0 ? err_at(e, "codec %s", text) : 0;
}

/* Adds a hint: where to set the number of servers, or what to do instead. */
static int hint_servers(const struct submission *s, const char *otherwise, struct err *e)
{
    if (s->counts_servers)
        return err_hint(e, "Add some with --servers N.");
    return s->opt->worker_hosts[0]
               ? err_hint(e, "Name them with --ps_hosts%s.", otherwise)
               : err_hint(e, "Name them in %s under \"PS\"%s.", s->opt->workers, otherwise);
}

static void print_no_servers(const struct submission *s, const char *why)
{
    bool is_one = s->workers.n_servers == 1;

    if (s->counts_servers) /* they were asked for: refuse_servers() */
        return;
    console_info("%s: the parameter server%s of %s take%s no part in this job.", why, is_one ? "" : "s",
                 hosts_name(s->opt), is_one ? "s" : "");
}

/* The servers of a simulation were requested with --servers, so that leaving them out is an error. */
static int refuse_servers(const struct submission *s, const struct codec_facts *worker, struct err *e)
{
    enum combine_path_kind path = s->settings.path;
    size_t n = s->workers.n_servers;

    if (is_without_servers(s))
        err_set(e, ERR_USAGE, "--servers %zu: --server_codec null is for a job without servers", n);
    else if (!codec_has_server_side(worker))
        err_set(e, ERR_USAGE, "--servers %zu: codec %s cannot use them", n, worker->name);
    else {
        err_set(e, ERR_USAGE, "--servers %zu: path %s is between workers only", n, combine_path_name(path));
        return err_hint(e, "Leave --servers out, or take --path servers.");
    }
    return err_hint(e, "Leave --servers out.");
}

/* *out: the listed servers take part. ERR_CONFIG: the job is impossible with them, or without. */
static int want_servers(bool *out, const struct submission *s, const struct codec_facts *worker,
                        struct err *e)
{
    const char *text = s->opt->server_codec;
    bool is_none = is_without_servers(s);
    size_t n = s->workers.n_servers;
    char why[128];

    *out = false;
    if (worker->updates_on_server && (n == 0 || is_none)) {
        err_set(e, ERR_CONFIG, "codec %s updates the weights on parameter servers, and the job has none",
                worker->name);
        return hint_servers(s, "", e);
    }
    if (n == 0 && text[0] && !is_none) {
        err_set(e, ERR_CONFIG, "--server_codec %s: the job has no parameter servers", text);
        return hint_servers(s, ", or leave --server_codec out", e);
    }
    if (s->settings.path == COMBINE_PATH_SERVERS && worker->combines && !codec_has_server_side(worker)) {
        err_set(e, ERR_CONFIG, "--path servers: codec %s has no server side", worker->name);
        return err_hint(e, "Leave --path out, or take a rule that has one: job_submit codecs list.");
    }
    if (n == 0)
        return 0;
    if (is_none) {
        print_no_servers(s, "--server_codec null");
        return 0;
    }
    if (s->settings.path != COMBINE_PATH_AUTO && s->settings.path != COMBINE_PATH_SERVERS)
        snprintf(why, sizeof why, "--path %s", combine_path_name(s->settings.path));
    else if (!codec_has_server_side(worker))
        snprintf(why, sizeof why, "Codec %s has no server side", worker->name);
    else
        *out = true;
    if (!*out)
        print_no_servers(s, why);
    return 0;
}

/* Checks that workers with one codec and servers with the other can work together. */
static int check_pair(const struct codec_facts *worker, const struct codec_facts *server, struct err *e)
{
    if (strcmp(codec_runs_by(server), codec_runs_by(worker)) != 0)
        return err_set(e, ERR_CODEC, "codec %s runs by %s and codec %s by %s: they are not compatible",
                       worker->name, codec_runs_by(worker), server->name, codec_runs_by(server));
    if (server->updates_on_server != worker->updates_on_server)
        return err_set(e, ERR_CODEC, "only one of the codecs %s and %s runs the optimizer on the servers",
                       worker->name, server->name);
    if (!server->has_events && !server->has_reply)
        return err_set(e, ERR_CODEC,
                       "codec %s has no server side (no reply): it cannot be the servers' codec",
                       server->name);
    if (server->every != 0)
        return err_set(
            e, ERR_CONFIG,
            "--server_codec %s:every=%d: the workers decide when they exchange: use --codec %s:every=%d",
            server->name, server->every, worker->name, server->every);
    return 0;
}

/* Reads the servers' codec if it differs from the workers'. */
static int read_server_codec(struct submission *s, const struct codec_facts *worker, struct err *e)
{
    const char *text = s->opt->server_codec;
    struct codec_facts server;
    json_t *doc;

    if (!text[0] || is_without_servers(s) || (codec_list_is_one(text) && strcmp(text, s->opt->codec) == 0))
        return 0;
    if (codec_list_is_one(text))
        return err_set(e, ERR_USAGE,
                       "--server_codec: a list for layers is for the whole job: use --codec '%s'", text);
    if (!codec_has_server_side(worker))
        return err_set(e, ERR_CONFIG, "--server_codec %s: codec %s has no server side", text, worker->name);
    if (read_codec(&s->server_codec, &server, &doc, text, e) < 0)
        return e->code;
    json_object_set_new(s->facts, "server_codec", doc);
    snprintf(s->settings.server_codec, sizeof s->settings.server_codec, "%s", server.name);
    snprintf(s->settings.server_codec_options, sizeof s->settings.server_codec_options, "%s", server.options);
    s->settings.shares_evaluations |= server.sees_evaluations;
    return check_pair(worker, &server, e);
}

/* Checks only names and rules; the data is read after everything else is valid. */
static int check_data_options(const struct settings *set, struct err *e)
{
    struct partition_rule rule;
    struct transform transform;

    if (dataset_check_name(set->dataset, e) < 0 || partition_rule_parse(&rule, set->partition, e) < 0)
        return e->code;
    return transform_parse(&transform, set->transform, e) < 0 ? err_at(e, "transform") : 0;
}

static void choose_name(struct settings *s)
{
    if (s->name[0])
        return;
    if (s->executor)
        snprintf(s->name, sizeof s->name, "%s", s->codec);
    else if (s->trainer[0])
        snprintf(s->name, sizeof s->name, "%.30s-%.30s", s->model, s->codec);
    else
        snprintf(s->name, sizeof s->name, "%.30s-%.30s", s->dataset, s->codec);
    for (char *p = s->name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
            *p = '-';
}

static int read_model(struct submission *s, struct err *e)
{
    char path[PATH_MAX], *text;
    json_t *doc;
    size_t len;
    int rc;

    if (model_document_read(&text, &len, path, s->opt->model, e) < 0)
        return e->code;
    blob_set(&s->model, text, len);
    if (json_parse(&doc, s->model.bytes, s->model.len, path, e) < 0)
        return e->code;
    rc = model_spec_parse(&s->model_spec, doc, e);
    json_object_set_new(s->facts, "model",
                        json_pack("{s:s, s:o, s:s, s:I, s:O}", "name", s->model_spec.name, "file",
                                  json_text(path, SIZE_MAX), "sha256", s->model.hex, "n_params",
                                  (json_int_t)s->model_spec.n_params, "description", doc));
    json_decref(doc);
    if (rc < 0)
        return err_at(e, "%s", path);
    if (s->model_spec.has_trainer) {
        err_set(e, ERR_CONFIG,
                "--model %s: it lists the tensors of %s, a training program that computes them",
                s->opt->model, s->model_spec.name);
        return err_hint(e, "Name the program itself: --trainer FILE.");
    }
    snprintf(s->settings.model, sizeof s->settings.model, "%s", s->model_spec.name);
    for (int i = 0; i < s->model_spec.n_layers; i++)
        s->n_dense += s->model_spec.layers[i].kind == LAYER_DENSE;
    s->model_bytes = 4 * (uint64_t)s->model_spec.n_params + (1 << 20);
    return 0;
}

/* Loads and checks the workers' codec; of a list for layers the rule that they share, and the compressors. */
static int read_worker_codec(struct submission *s, struct codec_facts *f, json_t **doc, struct err *e)
{
    struct settings *set = &s->settings;
    struct codec_list l;
    int rc;

    if (!codec_list_is_one(s->opt->codec))
        return read_codec(&s->codec, f, doc, s->opt->codec, e);
    if (s->opt->simulation.gradients > 0)
        return err_set(e, ERR_CONFIG,
                       "--codec: a list is for the layers of a model, and --gradients has none");
    if (set->compress[0] || set->compress_down[0])
        return err_set(e, ERR_USAGE,
                       "--codec: its list says how each layer is compressed; leave --compress and "
                       "--compress-down out");
    if (codec_list_read(&l, s->opt->codec, &s->model_spec, e) < 0)
        return e->code;
    snprintf(set->compress, sizeof set->compress, "%s", l.compress);
    snprintf(set->compress_down, sizeof set->compress_down, "%s", l.compress_down);
    json_object_set(s->facts, "codecs", l.entries);
    rc = read_codec(&s->codec, f, doc, l.codec, e);
    codec_list_clear(&l);
    return rc;
}

/* Leaves out options that the training program replaces (model, data, optimizer): their defaults would
 * describe nothing of this job. A function of a simulation may use some of them. */
json_t *stage_read_options(const struct submission *s)
{
    json_t *all = options_json(s->opt);
    char name[ARGS_NAME], hint[TRAINER_HINT];
    const char *why;

    for (size_t i = 0; s->opt->trainer[0] && !s->is_simulated && trainer_limits_option(i, name, &why, hint);
         i++)
        json_object_del(all, name);
    if (s->job_folder[0])
        options_drop_lists(all);
    return all;
}

/* Notes the options, the tags and the note of the command line. */
static void put_command(struct submission *s)
{
    json_t *tags = json_array();

    json_object_set_new(s->facts, "options", stage_read_options(s));
    if (s->opt->rerun_of[0])
        json_object_set_new(s->facts, "rerun_of", json_string(s->opt->rerun_of));
    for (const char *const *tag = s->opt->tags; *tag; tag++)
        json_array_append_new(tags, json_text(*tag, SIZE_MAX));
    json_object_set_new(s->facts, "tags", tags);
    json_object_set_new(s->facts, "note", json_text(s->opt->note, SIZE_MAX));
}

/* Writes the arguments into the settings, a line each. */
static int take_arguments(struct submission *s, struct err *e)
{
    const struct args_found *args = &s->opt->args;
    json_t *list = json_array();
    size_t at = 0;

    json_object_set_new(s->facts, "arguments", list);
    for (int i = 0; i < args->n_operands; i++) {
        const char *one = args->operands[i];
        size_t room = sizeof s->settings.arguments - at;
        int n = snprintf(s->settings.arguments + at, room, "%s\n", one);

        if (strchr(one, '\n') || !utf8_is_all(one))
            return err_set(e, ERR_USAGE, "argument %d has a line feed, or is not UTF-8", i + 1);
        if (n < 0 || (size_t)n >= room)
            return err_set(e, ERR_USAGE,
                           "the arguments are longer than %zu characters: put them into a file%s",
                           sizeof s->settings.arguments - 1, s->opt->exec[0] ? " for --data" : "");
        at += (size_t)n;
        json_array_append_new(list, json_string(one));
    }
    return 0;
}

/* Only the program says whether it is a function, and whether that gives gradients. */
static enum trainer_update updater_of(const struct submission *s)
{
    if (!s->model.len)
        return s->is_simulated ? TRAINER_MAY_UPDATE : TRAINER_UPDATES;
    return s->gives_gradients ? TRAINER_MAY_UPDATE : s->is_function ? TRAINER_TRAINS : TRAINER_UPDATES;
}

/* The model, unless numbers stand in for it, or a training program has it, which read_trainer() asks. */
static int read_own_model(struct submission *s, struct err *e)
{
    if (s->opt->simulation.gradients > 0)
        return 0;
    if (s->opt->trainer[0])
        return trainer_limits_check(s->opt, NULL, updater_of(s), e);
    return read_model(s, e) < 0 ? e->code : check_data_options(&s->settings, e);
}

/* Starts the program only after all else on the command line, and the list of agents, is valid, because that
 * may take long. */
static int read_trainer(struct submission *s, const struct codec_facts *worker, struct err *e)
{
    if (!s->opt->trainer[0])
        return 0;
    if (take_arguments(s, e) < 0 || trainer_limits_check(s->opt, worker, updater_of(s), e) < 0 ||
        rule_settings_check_compression(s, worker, e) < 0 ||
        (!s->counts_servers && read_workers(s, worker, e) < 0) || trainer_job_read(s, e) < 0)
        return e->code;
    return trainer_limits_check(s->opt, worker, updater_of(s), e);
}

/* Reads and checks everything that does not depend on the list of agents, and with --trainer that list. */
static int read_command(struct submission *s, struct codec_facts *worker, struct err *e)
{
    json_t *doc;

    if (read_own_model(s, e) < 0 || read_worker_codec(s, worker, &doc, e) < 0)
        return e->code;
    json_object_set_new(s->facts, "codec", doc);
    put_command(s);
    snprintf(s->settings.codec, sizeof s->settings.codec, "%s", worker->name);
    snprintf(s->settings.codec_options, sizeof s->settings.codec_options, "%s", worker->options);
    s->sends_params = worker->sends_params;
    s->runs_events = worker->has_events;
    s->takes_gradients = worker->sends_grads || worker->changes_grads || worker->uses_blocks;
    s->settings.shares_evaluations = worker->sees_evaluations;
    s->settings.trace = s->opt->trace[0] != '\0';
    if (rule_settings_check(s, worker, e) < 0 || read_trainer(s, worker, e) < 0)
        return e->code;
    choose_name(&s->settings);
    s->own_state = rule_settings_own_state(s, worker);
    if (start_from_choose(s, rule_settings_is_quiescent(worker, &s->settings), e) < 0 ||
        read_server_codec(s, worker, e) < 0 || rule_settings_check_compression(s, worker, e) < 0)
        return e->code;
    return settings_check(&s->settings, e) < 0 ? options_setting_error(e) : 0;
}

static int check_placement(const struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;

    if (set->placement == PLACEMENT_ROUND_ROBIN && s->opt->simulation.gradients > 0)
        return err_set(
            e, ERR_CONFIG,
            "--placement round_robin places the tensors of a model, and --gradients %llu stands in "
            "for one; leave one of them out",
            (unsigned long long)s->opt->simulation.gradients);
    return placement_check(set->placement, &s->model_spec, set->server_count, e);
}

static int check_feed(const struct submission *s, const struct codec_facts *worker, struct err *e)
{
    if (s->settings.feed == FEED_OWN)
        return 0;
    if (s->settings.server_count == 0) {
        err_set(e, ERR_CONFIG,
                "--feed shared: the first parameter server chooses the next mini-batch, and the job has no "
                "server");
        return hint_servers(s, ", or leave --feed out", e);
    }
    if (worker->per_block && !worker->combines)
        return err_set(
            e, ERR_CONFIG,
            "--feed shared: codec %s exchanges the gradients of blocks, and a shared set has no blocks",
            worker->name);
    return 0;
}

/* Sets how many of the listed servers take part. */
static int choose_servers(struct submission *s, const struct codec_facts *worker, struct err *e)
{
    bool wants;

    if (want_servers(&wants, s, worker, e) < 0)
        return e->code;
    if (!wants && s->counts_servers && s->workers.n_servers > 0)
        return refuse_servers(s, worker, e);
    s->settings.server_count = wants ? (int)s->workers.n_servers : 0;
    if (!wants && codec_list_is_one(s->opt->codec)) /* as in Parallel-SGD without servers */
        s->settings.compress_down[0] = '\0';
    if (s->settings.compress_down[0] && !wants) {
        err_set(e, ERR_CONFIG, "--compress-down %s: the job has no parameter servers",
                s->settings.compress_down);
        return hint_servers(s, ", or leave --compress-down out", e);
    }
    if (check_placement(s, e) < 0 || check_feed(s, worker, e) < 0)
        return e->code;
    if (rule_settings_check_limits(s, worker, e) < 0)
        return e->hint[0] ? e->code : hint_servers(s, "", e);
    if (start_from_check_asgd(s, e) < 0)
        return hint_servers(s, "", e);
    if (rule_settings_choose_path(s, worker, e) < 0)
        return e->code;
    s->settings.divides_test = rule_settings_divides_test(s, worker);
    return 0;
}

/* Reads and checks the executor and its arguments, which its job has instead of codec, model and training. */
static int read_executor(struct submission *s, struct err *e)
{
    struct codec_look l;
    json_t *doc;

    if (executor_look_open(&l, s->opt->exec, e) < 0)
        return e->code;
    s->settings.executor = true;
    s->settings.trace = s->opt->trace[0] != '\0';
    snprintf(s->settings.codec, sizeof s->settings.codec, "%s", l.facts.name);
    if (take_look(&s->codec, &doc, &l, e) < 0)
        return err_at(e, "executor %s", s->opt->exec);
    json_object_set_new(s->facts, "codec", doc);
    put_command(s);
    choose_name(&s->settings);
    if (take_arguments(s, e) < 0)
        return e->code;
    return settings_check(&s->settings, e) < 0 ? options_setting_error(e) : 0;
}

int stage_read(struct submission *s, struct err *e)
{
    struct codec_facts worker;

    if (s->settings.node_count > NODES_MAX)
        return err_set(e, ERR_CONFIG, "--node_count: agents run jobs of at most %d workers", NODES_MAX);
    if (s->opt->exec[0]) {
        if (read_executor(s, e) < 0 || read_workers(s, NULL, e) < 0)
            return e->code;
        if (s->workers.n_servers > 0)
            print_no_servers(s, "run");
        return 0;
    }
    if (read_command(s, &worker, e) < 0 || (!s->opt->trainer[0] && read_workers(s, &worker, e) < 0))
        return e->code;
    return choose_servers(s, &worker, e);
}

int stage_read_job(struct submission *s, struct err *e)
{
    struct codec_facts worker;

    return read_command(s, &worker, e) < 0 ? e->code : choose_servers(s, &worker, e);
}
