/* check: checks that settings, data and model, shards and result folder fit together, before any agent is
 * contacted. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/data_place.h"
#include "submit/codecs/codec_probe.h"
#include "submit/data/data_open.h"
#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"
#include "submit/data/token_file.h"
#include "submit/data/transform.h"
#include "submit/export/export.h"
#include "submit/options/options_table.h"
#include "submit/stages/input_shard.h"
#include "submit/stages/shard.h"
#include "submit/stages/stages.h"
#include "submit/stages/start_from.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { MAX_STEPS = 1000000000 /* of the setting */ };

/* The settings are parsed again as the agents will parse them, which checks every limit once more. */
static int check_settings(struct submission *s, struct err *e)
{
    json_t *doc;
    char *line;
    int rc;

    if (!s->settings.server_codec[0]) {
        memcpy(s->settings.server_codec, s->settings.codec, sizeof s->settings.codec);
        memcpy(s->settings.server_codec_options, s->settings.codec_options, sizeof s->settings.codec_options);
    }
    doc = settings_json(&s->settings);
    line = doc ? json_line(doc) : NULL;
    if (!line) {
        json_decref(doc);
        return err_set(e, ERR_NOMEM, "no memory");
    }
    rc = settings_parse(&s->settings, doc, e);
    json_decref(doc);
    blob_set(&s->settings_blob, line, strlen(line));
    return rc < 0 ? options_setting_error(e) : 0;
}

/* True if test set and training set are equal, usually one file named twice: test accuracy then does not
 * measure unseen samples. */
static bool tests_what_it_trains(const struct dataset *d)
{
    size_t bytes = (size_t)shape_count(&d->shape) * tensor_type_size(d->x_type);

    return !dataset_is_stream(d) && d->n_train == d->n_test &&
           memcmp(d->train_x, d->test_x, d->n_train * bytes) == 0;
}

/* --target-accuracy and --patience need a test set, and an accuracy needs classes. */
static int check_evaluated(const struct settings *set, size_t n_test, bool has_classes, struct err *e)
{
    const char *option = set->target_accuracy > 0 ? "target-accuracy" : "patience";

    if (set->target_accuracy > 0 && !has_classes)
        return err_set(
            e, ERR_CONFIG,
            "--target-accuracy: %s has no classes, so there is no accuracy; --patience uses the loss",
            set->dataset);
    if (n_test == 0 && (set->target_accuracy > 0 || set->patience > 0))
        return err_set(e, ERR_CONFIG, "--%s: %s has no test set to evaluate on", option, set->dataset);
    return 0;
}

/* Words, classes, columns and means are those of the weights that the job starts from; crop and flip are its
 * own. */
static int continue_record(struct preprocessing *p, struct submission *s, struct err *e)
{
    struct settings *set = &s->settings;
    struct transform own, theirs;

    if (transform_parse(&own, set->transform, e) < 0 || transform_parse(&theirs, p->transform, e) < 0)
        return err_at(e, "transform");
    if (options_is_given(s->opt, offsetof(struct options, settings.transform)) && own.kind != theirs.kind)
        return err_set(e, ERR_CONFIG, "--transform %s: the weights were trained with %s", set->transform,
                       p->transform);
    if (own.kind != theirs.kind)
        memcpy(set->transform, p->transform, sizeof set->transform);
    memcpy(p->transform, set->transform, sizeof p->transform);
    return 0;
}

/* A data set of the record's kind was read with the record's options, so the record's name is kept. */
static void rename_record(struct preprocessing *p, const struct settings *set)
{
    size_t n = strcspn(p->dataset, ":");

    if (strcspn(set->dataset, ":") != n || memcmp(set->dataset, p->dataset, n) != 0)
        memcpy(p->dataset, set->dataset, sizeof p->dataset);
}

/* The user may want other data than the weights' record describes: weights without a record allow that. */
static int hint_weights(const struct submission *s, struct err *e)
{
    err_at(e, "%s", s->opt->resume[0] ? s->opt->resume : s->opt->init_from);
    return e->hint[0] || s->opt->resume[0]
               ? e->code
               : err_hint(e,
                          "The data must be of the kind that the weights were trained on. To start from the "
                          "numbers "
                          "alone, with other data: python3 -c 'import psgd; psgd.write_safetensors(\"NEW\", "
                          "psgd.load_model(\"FILE\"))'");
}

static const char *data_path(const struct submission *s)
{
    return s->opt->data[0] ? s->opt->data : s->settings.data_on_agent;
}

/* Before the set is opened. */
static int check_place(const struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;

    if (!set->data_on_agent[0] || (strncmp(set->dataset, "tokens", 6) == 0 && token_file_is(data_path(s))))
        return 0;
    err_set(
        e, ERR_CONFIG,
        "--data-on-agent %s: agents read a tokenized text of --dataset tokens where it is, and %s is none",
        set->data_on_agent, data_path(s));
    return err_hint(e, "job_submit data tokenize writes such a file; --data names the same one here.");
}

/* The fingerprint of a file that the agents read where it is. A simulation has no agents. */
static int place_data(struct submission *s, struct err *e)
{
    struct settings *set = &s->settings;
    int fd, rc;

    if (s->is_simulated || !set->data_on_agent[0]) {
        set->data_on_agent[0] = '\0';
        return 0;
    }
    fd = open(data_path(s), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", data_path(s));
    rc = data_place_fingerprint(set->data_fingerprint, fd, data_path(s), e);
    close(fd);
    return rc;
}

/* Opens the data set. *record: that of the weights; if they have none, it is learned from the data. */
static int open_data(struct dataset *d, struct preprocessing *record, struct submission *s, struct err *e)
{
    int has_record = start_from_preprocessing(record, s, e);
    const struct data_use use = {.known = has_record > 0 ? record : NULL};
    int rc;

    if (has_record < 0 || (has_record > 0 && continue_record(record, s, e) < 0))
        return e->code;
    rc = data_open(d, s->settings.dataset, data_path(s), &s->model_spec, &use, false, e);
    if (rc == 0 && !has_record)
        transform_warn_of_pixels(d, s->settings.transform);
    dataset_warnings_print(&d->warnings);
    if (d->n_train + d->n_test > 0)
        shard_note_data(s, d);
    if (rc < 0)
        return has_record && rc == ERR_CONFIG ? hint_weights(s, e) : rc;
    if (!has_record && preprocessing_learn(record, d, s->settings.dataset, s->settings.transform, e) < 0)
        return e->code;
    if (!has_record && s->opt->init_from[0] && preprocessing_has_meaning(record))
        console_info("%s has no preprocessing record: words, classes, columns and means are learned from the "
                     "data set, and whether they are those of the weights cannot be checked.",
                     s->opt->init_from);
    if (!has_record)
        return 0;
    rename_record(record, &s->settings);
    return 0;
}

static int check_data(struct submission *s, struct err *e)
{
    struct preprocessing record = {0};
    struct dataset d = {0};
    int rc = check_place(s, e) < 0 ? e->code : open_data(&d, &record, s, e);

    if (rc == 0)
        rc = place_data(s, e);
    if (rc == 0 && tests_what_it_trains(&d))
        console_info("The test set of %s is the training set: accuracy does not measure unseen samples.",
                     s->settings.dataset);
    if (rc == 0)
        rc = check_evaluated(&s->settings, d.n_test, d.n_classes > 0, e);
    if (rc == 0)
        rc = shard_make(s, &d, &record, e);
    preprocessing_clear(&record);
    dataset_clear(&d);
    return rc;
}

/* An epoch of a training program has as many steps as it has batches; if it has not said how many, the job is
 * one epoch of --max-steps. */
static void count_steps(struct submission *s)
{
    struct settings *set = &s->settings;

    set->steps_per_epoch = s->n_batches > 0 ? (int)s->n_batches : set->max_steps;
    set->epochs = s->n_batches > 0 ? set->epochs : 1;
}

/* Ends the job after `most` units of work, of which a step has `per_step`. most 0: no limit. */
static void limit_units(struct settings *set, uint64_t most, uint64_t per_step)
{
    uint64_t steps = most > 0 ? (most - 1) / per_step + 1 : 0;

    if (steps > 0 && (set->max_steps == 0 || steps < (uint64_t)set->max_steps))
        set->max_steps = steps < MAX_STEPS ? (int)steps : MAX_STEPS;
}

/* Turns --max-mb and --max-tokens into a number of steps: in a step each worker computes a mini-batch of each
 * of its blocks, and each token of the global batch counts once. */
static int limit_work(struct submission *s, struct err *e)
{
    struct settings *set = &s->settings;
    uint64_t batches = 0, samples;
    struct blocks b;

    if (settings_blocks(&b, set, e) < 0)
        return e->code;
    samples = (uint64_t)blocks_in_row(&b) * settings_block_samples(set);
    for (int k = 0; s->opt->max_mb > 0 && k < blocks_in_row(&b); k++)
        for (int w = 0; w < (b.is_shared ? 1 : set->node_count); w++)
            batches += blocks_holds(&b, k, w);
    blocks_clear(&b);
    limit_units(set, s->opt->max_mb, batches);
    limit_units(set, s->opt->max_tokens, samples * (uint64_t)model_spec_labels(&s->model_spec));
    return 0;
}

static int check_tokens(const struct submission *s, struct err *e)
{
    if (s->opt->max_tokens == 0 || s->model_spec.loss == LOSS_TOKEN_CROSS_ENTROPY)
        return 0;
    err_set(e, ERR_CONFIG, "--max-tokens: model \"%s\" predicts no tokens", s->model_spec.name);
    return err_hint(e, "--max-steps ends a job after a number of steps.");
}

/* Epochs beyond the last step are dropped. */
static int limit_steps(struct submission *s, struct err *e)
{
    struct settings *set = &s->settings;

    if (check_tokens(s, e) < 0 || ((s->opt->max_mb > 0 || s->opt->max_tokens > 0) && limit_work(s, e) < 0))
        return e->code;
    if (set->trainer[0])
        count_steps(s);
    if (set->max_steps > 0 && set->steps_per_epoch > 0) {
        int epochs = (set->max_steps - 1) / set->steps_per_epoch + 1;

        set->epochs = epochs < set->epochs ? epochs : set->epochs;
    }
    return 0;
}

/* Stand-in gradients have no accuracy; what a training program evaluates is not known. */
static int check_job_data(struct submission *s, struct err *e)
{
    if (s->settings.trainer[0] && s->opt->sample_prompt[0])
        return err_set(e, ERR_USAGE,
                       "--sample-prompt: psgd draws no text from the model of a training program");
    if (s->settings.trainer[0])
        return check_evaluated(&s->settings, 1, true, e);
    return s->opt->simulation.gradients == 0 ? check_data(s, e) : check_evaluated(&s->settings, 1, false, e);
}

int stage_check_packages(struct submission *s, struct err *e)
{
    if (s->settings.executor)
        return input_shard_make(s, e) < 0 ? e->code : check_settings(s, e);
    if (check_job_data(s, e) < 0 || limit_steps(s, e) < 0 || start_from_check_kept(s, e) < 0)
        return e->code;
    return check_settings(s, e);
}

static int try_codec(const struct submission *s, const struct codec_blobs *codec, const char *options,
                     bool is_of_servers, struct err *e)
{
    const struct settings *set = &s->settings;
    struct open_check t = {.set = set, .model = &s->model_spec, .is_of_servers = is_of_servers};
    char path[FILE_FD_PATH];
    struct blocks blocks;
    int fd, rc;

    if (!codec->is_tried)
        return 0;
    fd = file_make_in_memory(codec->object.bytes, codec->object.len, e);
    if (fd < 0)
        return fd;
    file_fd_path(path, fd);
    rc = blocks_init(&blocks, set->block_assignment, set->node_count, set->redundancy, e);
    if (rc == 0) {
        t.blocks = &blocks;
        rc = codec_probe_open(path, options, &t, e);
        blocks_clear(&blocks);
    }
    close(fd);
    return rc;
}

/* A rule's open() may refuse the job; it is called here, before anything is shipped. */
static int try_codecs(const struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;
    const struct codec_blobs *of_servers = s->server_codec.object.len ? &s->server_codec : &s->codec;

    if (try_codec(s, &s->codec, set->codec_options, false, e) < 0)
        return e->code;
    return set->server_count > 0 ? try_codec(s, of_servers, set->server_codec_options, true, e) : 0;
}

int stage_check_job(struct submission *s, struct err *e)
{
    if (stage_check_packages(s, e) < 0 || try_codecs(s, e) < 0)
        return e->code;
    if (submission_set_nodes(s, (size_t)s->settings.node_count, (size_t)s->settings.server_count, e) < 0)
        return e->code;
    return start_from_prepare(s, e);
}

int stage_check(struct submission *s, struct err *e)
{
    memcpy(s->csv_style, s->opt->csv_style, sizeof s->csv_style);
    return export_prepare(s, e) < 0 ? e->code : stage_check_job(s, e);
}
