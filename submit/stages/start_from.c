#include "submit/stages/start_from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "submit/files/run_file.h"
#include "submit/files/temp.h"
#include "submit/results/results.h"
#include "submit/stages/earlier_checkpoint.h"
#include "submit/stages/gpt2_names.h"
#include "submit/stages/regroup.h"
#include "submit/terminal/console.h"

static bool uses_checkpoints(const struct submission *s)
{
    return settings_has_checkpoints(&s->settings) || s->resume[0];
}

int start_from_choose(struct submission *s, bool is_quiescent, struct err *e)
{
    /* A training program has values of its own. */
    bool has_weights = s->opt->init_from[0] || s->settings.trainer[0];

    s->settings.starts_from = s->resume[0]  ? STARTS_FROM_CHECKPOINT
                              : has_weights ? STARTS_FROM_WEIGHTS
                                            : STARTS_FROM_SEED;
    if (uses_checkpoints(s) && !is_quiescent)
        return err_set(e, ERR_CONFIG,
                       "codec %s: an exchange may be under way between steps, so its state is never known to "
                       "be complete, and it cannot be checkpointed",
                       s->settings.codec);
    return 0;
}

int start_from_check_asgd(const struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;

    if (!uses_checkpoints(s) || set->sync == SYNC_SSGD || set->server_count > 0)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "asgd without servers: messages are in flight at any time, so it cannot be checkpointed");
}

/* Each node keeps its last two checkpoints, and only rounds synchronize the nodes: a node may be almost a
 * round ahead of another. If each round contains at most one checkpoint, the last checkpoint of one
 * node is the last or second last of the other. */
int start_from_check_kept(const struct submission *s, struct err *e)
{
    const struct settings *set = &s->settings;
    uint64_t epoch = (uint64_t)set->steps_per_epoch, apart = settings_checkpoint_steps(set);
    uint64_t round = set->local_steps > 0 ? (uint64_t)set->local_steps : epoch;

    if (apart == 0 || set->sync == SYNC_ASGD || !s->sends_params || set->node_count + set->server_count < 2 ||
        round <= apart || settings_steps(set) < 2 * apart)
        return 0;
    err_set(
        e, ERR_CONFIG,
        "checkpoints are %llu steps apart, and the nodes synchronize only every %llu steps: they may have no "
        "checkpoint of the same step",
        (unsigned long long)apart, (unsigned long long)round);
    return set->checkpoint_steps > 0
               ? err_hint(e, "Use --checkpoint-steps %llu or more, or fewer --local-steps.",
                          (unsigned long long)round)
               : err_hint(e, "Use --checkpoint-every %llu or more, or fewer --local-steps.",
                          (unsigned long long)((round + epoch - 1) / epoch));
}

/* Copies the model's tensors as floats, in the model's order, contiguously into `values`. */
static void gather_values(struct tensor_view *t, float *values, const struct model_spec *m,
                          const struct tensor_file *f)
{
    for (int i = 0; i < m->n_tensors; i++) {
        weights_view(&t[i], &m->tensors[i], values);
        weights_floats(values, weights_find(f, "", t[i].name));
        values += m->tensors[i].n;
    }
}

/* Every node gets the same bytes: the model's tensors as floats and nothing else of the user's file. */
static int write_floats(const char *path, const struct model_spec *m, const struct tensor_file *f,
                        struct err *e)
{
    float *values = malloc((m->n_params + 1) * sizeof *values);
    struct tensor_view *t = calloc((size_t)m->n_tensors, sizeof *t);
    int rc;

    if (values && t) {
        gather_values(t, values, m, f);
        rc = tensor_file_write(path, t, (size_t)m->n_tensors, NULL, e);
    } else {
        rc = err_set(e, ERR_NOMEM, "no memory for %zu weights", m->n_params);
    }
    free(values);
    free(t);
    return rc;
}

static int take_weights(struct submission *s, const struct tensor_file *f, struct err *e)
{
    char path[PATH_MAX];
    struct temp t;
    int rc;

    if (temp_open(&t, e) < 0)
        return e->code;
    rc = file_join(path, sizeof path, t.path, "weights.safetensors", e);
    if (rc == 0)
        rc = write_floats(path, &s->model_spec, f, e);
    if (rc == 0) {
        blob_clear(&s->weights); /* those of a training program */
        rc = blob_take_file(&s->weights, path, e);
    }
    temp_close(&t);
    return rc;
}

static int prepare_weights(struct submission *s, struct err *e)
{
    const char *path = s->opt->init_from;
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    uint64_t bytes;
    struct tensor_file f;
    int rc;

    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    if (weights_is_checkpoint(&f)) {
        tensor_file_close(&f);
        err_set(e, ERR_CONFIG, "%s is a checkpoint and not a model", path);
        return err_hint(e, "Resume from checkpoints with --resume FOLDER; models are in FOLDER/model.");
    }
    gpt2_names_replace(&f, &s->model_spec);
    rc = weights_check(&f, "", &s->model_spec, e);
    if (rc < 0)
        err_at(e, "%s for model %s", path, s->settings.model);
    else
        rc = take_weights(s, &f, e);
    tensor_file_close(&f);
    if (rc < 0 || sha256_file(sum, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, sum, sizeof sum);
    json_object_set_new(s->facts, "start",
                        json_pack("{s:s, s:o, s:s, s:s}", "from", "weights", "file",
                                  json_text(path, SIZE_MAX), "sha256", hex, "shipped_sha256",
                                  s->weights.hex));
    console_info("All nodes start from the weights of %s.", path);
    return 0;
}

/* The sample order continues from the checkpoint, so the samples must be the same. */
static int check_samples(const struct submission *s, const json_t *earlier, struct err *e)
{
    const char *sum = json_string_value(
        json_object_get(json_object_get(json_object_get(earlier, "facts"), "data"), "test_sha256"));

    if (!sum || strcmp(sum, s->test.hex) == 0)
        return 0;
    err_set(e, ERR_CONFIG,
            "--resume %s: the data set differs from the earlier job's (its test set has another SHA-256)",
            s->resume);
    return err_hint(e, "Name the earlier job's data set with --data.");
}

/* Finds this node's checkpoint at position `p`: its last or its previous one. */
static int take_checkpoint(struct submission *s, size_t i, const struct checkpoint_position *p,
                           const json_t *earlier, struct err *e)
{
    int node = s->nodes[i].at.node;
    char path[PATH_MAX];
    struct tensor_file f;
    json_t *then;
    int rc;

    if (earlier_checkpoint_find(&f, path, s, earlier, node, p, e) < 0)
        return e->code;
    rc = earlier_checkpoint_settings(&then, &f, e);
    if (rc == 0)
        rc = earlier_checkpoint_check(s, &f, node, then, e);
    if (rc == 0)
        rc = earlier_checkpoint_check_end(s, strtol(p->epoch, NULL, 10), e);
    json_decref(then);
    tensor_file_close(&f);
    if (rc == 0)
        rc = blob_open(&s->checkpoints[i], path, e);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

static int take_all(struct submission *s, const struct checkpoint_position *p, const json_t *earlier,
                    struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        blob_clear(&s->checkpoints[i]);
        if (take_checkpoint(s, i, p, earlier, e) < 0)
            return e->code;
    }
    return 0;
}

/* The position of the checkpoint of the first of n workers that has one. */
static int find_position(struct checkpoint_position *p, const struct submission *s, const json_t *earlier,
                         int n, const char *ending, struct err *e)
{
    struct tensor_file f;
    char path[PATH_MAX];
    struct err other;
    int rc = earlier_checkpoint_open(&f, path, s, earlier, 0, ending, e);

    for (int node = 1; node < n && rc < 0 && earlier_checkpoint_is_missing(rc); node++)
        rc = earlier_checkpoint_open(&f, path, s, earlier, node, ending, &other);
    if (rc < 0)
        return e->code;
    checkpoint_position_of(p, &f);
    tensor_file_close(&f);
    return 0;
}

/* Notes the start in run.json. A further attempt also notes how far the records of the attempt before are
 * part of the job's. */
static void note_start(struct submission *s, const struct checkpoint_position *p)
{
    json_t *sums = json_array();

    for (size_t i = 0; i < s->n_nodes; i++)
        json_array_append_new(
            sums, json_pack("{s:i, s:s}", "node", s->nodes[i].at.node, "sha256", s->checkpoints[i].hex));
    json_object_set_new(s->facts, "start",
                        json_pack("{s:s, s:o, s:s, s:i, s:I, s:o}", "from", "checkpoint", "folder",
                                  json_text(s->resume, SIZE_MAX), "job", p->job, "epoch",
                                  (int)strtol(p->epoch, NULL, 10), "step",
                                  (json_int_t)strtoll(p->step, NULL, 10), "checkpoints", sums));
    if (earlier_checkpoint_is_of_attempt(s))
        json_object_set_new(s->facts, "continues",
                            json_pack("{s:i, s:I, s:I}", "attempt", s->attempt - 1, "step",
                                      (json_int_t)strtoll(p->step, NULL, 10), "round",
                                      (json_int_t)strtoll(p->round, NULL, 10)));
}

/* The same of a job with another number of workers, which was at the position `then`. */
static void note_regrouped(struct submission *s, const struct checkpoint_position *then,
                           const json_t *earlier)
{
    json_object_set_new(json_object_get(s->facts, "start"), "earlier",
                        json_pack("{s:i, s:I}", "node_count", regroup_workers_then(earlier), "step",
                                  (json_int_t)strtoll(then->step, NULL, 10)));
}

/* True if it is of another number of workers. */
static bool is_regrouped(const struct submission *s, const json_t *earlier)
{
    int then = regroup_workers_then(earlier);

    return then > 0 && then != s->settings.node_count;
}

/* Resumes from the position of the first worker's checkpoint, if all nodes have one at it. */
static int resume_from(struct submission *s, const json_t *earlier, const char *ending, struct err *e)
{
    const char *job = json_string_value(json_object_get(earlier, "id"));
    bool is_other = is_regrouped(s, earlier);
    struct checkpoint_position p, then;

    if (find_position(&p, s, earlier, is_other ? regroup_workers_then(earlier) : 1, ending, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_hint(e,
                     "Jobs write checkpoints if they run with --checkpoint-every N or --checkpoint-steps N.");
        else if (e->code == ERR_CONFLICT)
            err_hint(e, "job_submit fetch %s gets it again if its agent still has it.", job ? job : "JOB");
        return e->code;
    }
    then = p;
    if (is_other ? regroup_make(s, &p, earlier, e) < 0 : take_all(s, &p, earlier, e) < 0)
        return e->code;
    note_start(s, &p);
    console_info("The job resumes after step %s, in epoch %ld, of %s.", then.step,
                 strtol(p.epoch, NULL, 10) + 1, p.job);
    if (is_other) {
        note_regrouped(s, &then, earlier);
        console_info(
            "The earlier job had %d worker%s and this one has %d: this job goes on after its own step %s.",
            regroup_workers_then(earlier), regroup_workers_then(earlier) == 1 ? "" : "s",
            s->settings.node_count, p.step);
    }
    return 0;
}

/* Finds the last position that all nodes have. A node that was ahead when the job stopped has it in its
 * previous checkpoint, and a node that stopped between the two renames has only that one. */
static int find_checkpoints(struct submission *s, const json_t *earlier, struct err *e)
{
    struct err last, before;
    int rc;

    if ((is_regrouped(s, earlier) && regroup_check(s, earlier, e) < 0) || check_samples(s, earlier, e) < 0)
        return e->code;
    rc = resume_from(s, earlier, "", &last);
    if (rc < 0 && (earlier_checkpoint_is_missing(rc) || s->attempt > 1)) {
        rc = resume_from(s, earlier, CHECKPOINT_PREVIOUS, &before);
        if (rc == 0)
            console_info("%s.", last.text);
        else if (rc != ERR_NOT_FOUND && rc != last.code)
            last = before; /* this position exists, and its error explains why it is unusable */
    }
    if (rc < 0)
        *e = last;
    return rc < 0 ? e->code : 0;
}

static int prepare_checkpoints(struct submission *s, struct err *e)
{
    char path[PATH_MAX];
    json_t *earlier;
    int rc;

    s->checkpoints = calloc(s->n_nodes, sizeof *s->checkpoints);
    if (!s->checkpoints)
        return err_set(e, ERR_NOMEM, "no memory for %zu checkpoints", s->n_nodes);
    if (file_join(path, sizeof path, earlier_checkpoint_is_of_attempt(s) ? s->folder : s->resume, "run.json",
                  e) < 0 ||
        json_read(&earlier, path, RUN_JSON_MAX, e) < 0)
        return e->code;
    rc = find_checkpoints(s, earlier, e);
    json_decref(earlier);
    return rc;
}

static int weights_preprocessing(struct preprocessing *out, const char *path, struct err *e)
{
    struct tensor_file f;
    int rc;

    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = preprocessing_of_file(out, &f, e);
    tensor_file_close(&f);
    return rc < 0 ? err_at(e, "%s", path) : rc;
}

static int earlier_preprocessing(struct preprocessing *out, const char *folder, struct err *e)
{
    json_t *run;
    const json_t *doc;
    int rc = 0;

    if (run_file_read(&run, folder, e) < 0)
        return e->code;
    doc = json_object_get(json_object_get(run, "facts"), "preprocessing");
    if (doc)
        rc = preprocessing_parse(out, doc, e) < 0 ? err_at(e, "%s/run.json: facts.preprocessing", folder) : 1;
    json_decref(run);
    return rc;
}

/* A later attempt of the job uses the data of its first one. */
int start_from_preprocessing(struct preprocessing *out, const struct submission *s, struct err *e)
{
    *out = (struct preprocessing){0};
    if (s->opt->resume[0])
        return earlier_preprocessing(out, s->opt->resume, e);
    return s->opt->init_from[0] ? weights_preprocessing(out, s->opt->init_from, e) : 0;
}

int start_from_prepare(struct submission *s, struct err *e)
{
    if (s->resume[0])
        return prepare_checkpoints(s, e);
    return s->opt->init_from[0] ? prepare_weights(s, e) : 0;
}
