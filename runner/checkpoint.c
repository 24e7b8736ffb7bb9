#include "runner/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_state.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"

static const char program_name[] = "trainer/state";

/* Prefixes each name with "model/" or "opt/". */
static void rename_all(struct tensor_view *out, const struct tensor_view *t, size_t n, const char *prefix)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = t[i];
        /* A model's names are shorter than MODEL_TENSOR_NAME, so that nothing is cut off (weights.c). */
        snprintf(out[i].name, sizeof out[i].name, "%s%.*s", prefix, MODEL_TENSOR_NAME - 1, t[i].name);
    }
}

static int write_all(const char *path, const struct checkpoint *c, const struct exchange_state *codecs,
                     const struct tensor_meta *meta, struct err *e)
{
    const struct tensor_view *model;
    struct tensor_view opt[OPTIMIZER_TENSORS];
    size_t n_model = net_tensors(c->net, &model);
    size_t n_opt = c->optimizer ? optimizer_tensors(c->optimizer, opt) : 0;
    size_t n_program = c->n_program > 0;
    size_t n = n_model + n_opt + codecs->n + n_program;
    struct tensor_view *all = malloc((n + 1) * sizeof *all);
    int rc;

    if (n > TENSOR_FILE_MAX_TENSORS) {
        free(all);
        return err_set(e, ERR_CODEC, "a checkpoint of %zu tensors: at most %d fit a file", n,
                       TENSOR_FILE_MAX_TENSORS);
    }
    if (!all)
        return err_set(e, ERR_NOMEM, "no memory for a checkpoint of %zu tensors", n);
    rename_all(all, model, n_model, "model/");
    rename_all(all + n_model, opt, n_opt, "opt/");
    rename_all(all + n_model + n_opt, codecs->tensors, codecs->n, "");
    if (n_program > 0) {
        all[n - 1] = (struct tensor_view){
            .type = TENSOR_U8, .n_dims = 1, .shape = {c->n_program}, .data = c->program};
        snprintf(all[n - 1].name, sizeof all[n - 1].name, "%s", program_name);
    }
    rc = tensor_file_write(path, all, n, meta, e);
    free(all);
    return rc;
}

int checkpoint_can_write(const struct checkpoint *c, struct err *e)
{
    struct tensor_view opt[OPTIMIZER_TENSORS];
    size_t n_opt = c->optimizer ? optimizer_tensors(c->optimizer, opt) : 0;
    uint64_t bytes = net_n_params(c->net) * sizeof(float);

    if (exchange_can_save(c->exchange, e) < 0)
        return e->code;
    bytes += exchange_saved_bytes(c->exchange);
    for (size_t i = 0; i < n_opt; i++)
        bytes += tensor_bytes(&opt[i]);
    if (tensor_file_fits("a checkpoint", bytes, c->arch, c->preprocessing, e) < 0)
        return err_hint(e, "Leave --checkpoint-every out, or use a smaller model.");
    return 0;
}

/* The round in the metadata is the same on all nodes, although at a barrier each node has closed a different
 * number of rounds. */
static uint64_t round_of(const struct checkpoint *c)
{
    return barrier_is_used(c->exchange) ? exchange_rounds_after(c->exchange, c->step)
                                        : exchange_rounds(c->exchange);
}

int checkpoint_write(const char *path, const struct checkpoint *c, struct err *e)
{
    struct exchange_state codecs = {0};
    json_t *doc = settings_json(c->set);
    char *settings = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    char node[16], epoch[16], step[24], round[24], samples[24], steps[24];
    const struct tensor_meta meta[] = {
        {"format", CHECKPOINT_FORMAT},
        {"version", CHECKPOINT_VERSION},
        {"job_id", c->job},
        {"node", node},
        {"arch", c->arch},
        {"settings", settings},
        {"epoch", epoch},
        {"step", step},
        {"round", round},
        {"samples", samples},
        {"optimizer_steps", steps},
        {"codec_sha256", c->codec_sha256},
        {c->preprocessing ? PREPROCESSING_META : NULL, c->preprocessing},
        {0},
    };
    int rc = settings ? exchange_save(&codecs, c->exchange, c->step, e)
                      : err_set(e, ERR_NOMEM, "no memory for the settings");

    snprintf(node, sizeof node, "%d", c->node);
    snprintf(epoch, sizeof epoch, "%d", c->epoch);
    snprintf(step, sizeof step, "%" PRIu64, c->step);
    snprintf(round, sizeof round, "%" PRIu64, round_of(c));
    snprintf(samples, sizeof samples, "%" PRIu64, c->samples);
    snprintf(steps, sizeof steps, "%" PRIu64, c->optimizer ? optimizer_steps(c->optimizer) : 0);
    if (rc == 0)
        rc = write_all(path, c, &codecs, meta, e);
    exchange_state_clear(&codecs);
    free(settings);
    json_decref(doc);
    return rc;
}

static int get_number(uint64_t *out, const struct tensor_file *f, const char *key, struct err *e)
{
    const char *text;
    char end;

    if (weights_meta(&text, f, key, e) < 0)
        return e->code;
    if (strlen(text) > 18 || strspn(text, "0123456789") != strlen(text) ||
        sscanf(text, "%" SCNu64 "%c", out, &end) != 1)
        return err_set(e, ERR_CONFIG, "its metadata's \"%s\" is not a number", key);
    return 0;
}

static int check_settings(const struct checkpoint *c, const struct tensor_file *f, struct err *e)
{
    const char *text;
    json_t *doc;
    int rc;

    if (weights_meta(&text, f, "settings", e) < 0 ||
        json_parse(&doc, text, strlen(text), "its settings", e) < 0)
        return e->code;
    rc = settings_check_resume(c->set, doc, e);
    json_decref(doc);
    return rc;
}

/* The saved position must be before the job's end. */
static int restore_cursor(struct checkpoint *c, const struct tensor_file *f, struct err *e)
{
    uint64_t epoch, round;

    if (get_number(&epoch, f, "epoch", e) < 0 || get_number(&c->step, f, "step", e) < 0 ||
        get_number(&c->samples, f, "samples", e) < 0 || get_number(&round, f, "round", e) < 0)
        return e->code;
    if (epoch >= (uint64_t)c->set->epochs)
        return err_set(e, ERR_CONFIG, "epoch %" PRIu64 " is reached already, the job ends with epoch %d",
                       epoch, c->set->epochs);
    if (c->step >= settings_steps(c->set))
        return err_set(e, ERR_CONFIG, "step %" PRIu64 " is reached already, the job ends with step %" PRIu64,
                       c->step, settings_steps(c->set));
    if (c->step / (uint64_t)c->set->steps_per_epoch != epoch)
        return err_set(e, ERR_CONFIG, "after step %" PRIu64 " not %" PRIu64 " epochs are complete", c->step,
                       epoch);
    if (round != exchange_rounds_after(c->exchange, c->step))
        return err_set(e, ERR_CONFIG, "round %" PRIu64 " does not belong to step %" PRIu64, round, c->step);
    c->epoch = (int)epoch;
    return 0;
}

static int restore_vector(float *out, const struct tensor_view *mine, const struct tensor_file *f,
                          struct err *e)
{
    const struct tensor_view *t = weights_find(f, "opt/", mine->name);
    size_t n = mine->shape[0];

    if (!t || t->type != TENSOR_F32 || t->n_dims != 1 || t->shape[0] != n)
        return err_set(e, ERR_CONFIG, "tensor \"opt/%s\" of %zu values is missing", mine->name, n);
    weights_floats(out, t);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(out[i]))
            return err_set(e, ERR_CONFIG, "tensor \"opt/%s\": value %zu is not finite", mine->name, i);
    return 0;
}

static int restore_optimizer(struct optimizer *o, const struct tensor_file *f, struct err *e)
{
    struct tensor_view mine[OPTIMIZER_TENSORS];
    size_t n = o ? optimizer_tensors(o, mine) : 0, n_there = 0;
    uint64_t steps;

    for (size_t i = 0; i < n; i++)
        if (restore_vector(optimizer_vector(o, i), &mine[i], f, e) < 0)
            return e->code;
    for (size_t i = 0; i < f->n; i++)
        n_there += strncmp(f->tensors[i].name, "opt/", 4) == 0;
    if (n_there != n)
        return err_set(e, ERR_CONFIG, "it has %zu optimizer vectors, expected %zu", n_there, n);
    if (get_number(&steps, f, "optimizer_steps", e) < 0)
        return e->code;
    if (o)
        optimizer_set_steps(o, steps);
    return 0;
}

static int find_program(struct checkpoint *c, const struct tensor_file *f, struct err *e)
{
    const struct tensor_view *t = tensor_file_find(f, program_name);

    if (t && (t->type != TENSOR_U8 || t->n_dims != 1))
        return err_set(e, ERR_CONFIG, "tensor \"%s\" is no list of bytes", program_name);
    c->program = t ? t->data : NULL;
    c->n_program = t ? t->shape[0] : 0;
    return 0;
}

int checkpoint_restore(struct checkpoint *c, const struct tensor_file *f, const struct model_spec *m,
                       struct err *e)
{
    if (weights_check_node(f, c->node, e) < 0 ||
        weights_check_codec(f, c->set->codec, c->codec_sha256, e) < 0 || check_settings(c, f, e) < 0 ||
        restore_cursor(c, f, e) < 0 || weights_check(f, "model/", m, e) < 0)
        return e->code;
    net_load(c->net, f, "model/");
    if (restore_optimizer(c->optimizer, f, e) < 0 || find_program(c, f, e) < 0)
        return e->code;
    return exchange_restore(c->exchange, f, c->step, e);
}
