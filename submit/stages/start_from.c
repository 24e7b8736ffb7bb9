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
#include "submit/options/hosts.h"
#include "submit/results/results.h"
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

static const char *meta_text(const struct tensor_file *f, const char *key)
{
    const char *text = tensor_file_meta(f, key);

    return text ? text : "";
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

/* The servers come from the list of agents, so the error of settings_check_resume() could name no option. */
static int check_servers(const struct submission *s, const json_t *then, struct err *e)
{
    int n = (int)json_integer_value(json_object_get(then, "server_count"));

    if (n == s->settings.server_count)
        return 0;
    err_set(e, ERR_CONFIG, "the earlier job had %d parameter server%s, this one has %d of %s", n,
            n == 1 ? "" : "s", s->settings.server_count, hosts_name(s->opt));
    return err_hint(e, "Name a list with as many under \"PS\": --workers FILE.");
}

/* Checks that the file is a checkpoint of this node and of a job with these settings. */
static int check_checkpoint(const struct submission *s, const struct tensor_file *f, int node, struct err *e)
{
    const char *settings = meta_text(f, "settings"), *arch = meta_text(f, "arch");
    bool is_servers = node < 0 && s->server_codec.object.len > 0;
    json_t *doc;
    int rc;

    if (weights_check_node(f, node, e) < 0)
        return e->code;
    if (strlen(arch) != s->model.len || memcmp(arch, s->model.bytes, s->model.len) != 0)
        return err_set(e, ERR_CONFIG, "it is of another model than this job's, %s", s->settings.model);
    if (json_parse(&doc, settings, strlen(settings), "its settings", e) < 0)
        return e->code;
    rc = check_servers(s, doc, e);
    if (rc == 0)
        rc = settings_check_resume(&s->settings, doc, e);
    json_decref(doc);
    if (rc == 0 && strtol(meta_text(f, "epoch"), NULL, 10) >= s->settings.epochs) {
        err_set(e, ERR_CONFIG, "epoch %.20s is reached already", meta_text(f, "epoch"));
        return err_hint(e,
                        "--epochs N is the last epoch of the job: use N greater than %.20s; --max-steps and "
                        "--max-mb count the steps of the earlier job, too.",
                        meta_text(f, "epoch"));
    }
    if (rc == 0 && weights_check_codec(f, is_servers ? s->settings.server_codec : s->settings.codec,
                                       (is_servers ? &s->server_codec : &s->codec)->object.hex, e) < 0)
        return err_hint(e, "Resume needs the same file of the codec.");
    return rc < 0 ? rc : weights_check(f, "model/", &s->model_spec, e);
}

/* True if this is a further attempt that continues from checkpoints of an earlier one. */
static bool continues_attempt(const struct submission *s)
{
    return s->attempt > 1 && strcmp(s->resume, s->opt->resume) != 0;
}

/* The SHA-256 of a file in run.json; NULL: not listed. */
static const char *sum_of(const json_t *earlier, const char *name)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(earlier, "files"), i, file)
    {
        const char *own = json_string_value(json_object_get(file, "name"));

        if (own && strcmp(own, name) == 0)
            return json_string_value(json_object_get(file, "sha256"));
    }
    return NULL;
}

/* ERR_NOT_FOUND: there is no checkpoint; ERR_CONFLICT: it was changed after it was fetched. Both count as
 * missing, since an earlier checkpoint may exist. */
static int open_checkpoint(struct tensor_file *f, char path[PATH_MAX], const struct submission *s,
                           const json_t *earlier, int node, const char *ending, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char name[64], hex[SHA256_HEX];
    const char *sum;
    uint64_t bytes;

    checkpoint_file_name(name, node, ending);
    /* run.json lists neither copies that were made while the job ran nor files of earlier attempts. */
    sum = continues_attempt(s) && strcmp(s->resume, s->folder) != 0 ? NULL : sum_of(earlier, name);
    if (file_join(path, PATH_MAX, s->resume, name, e) < 0 || sha256_file(digest, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, digest, sizeof digest);
    if (!sum || strcmp(sum, hex) == 0)
        return tensor_file_open(f, path, e);
    return err_set(e, ERR_CONFLICT, "%s is damaged: its SHA-256 is not the one in run.json", path);
}

static bool is_missing(int code)
{
    return code == ERR_NOT_FOUND || code == ERR_CONFLICT;
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
    static const char *const endings[] = {"", CHECKPOINT_PREVIOUS};
    int node = s->nodes[i].at.node;
    char has[PATH_MAX + 128] = "it has none";
    int missing = ERR_NOT_FOUND;

    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
        struct tensor_file f;
        char path[PATH_MAX];
        int rc;

        if (open_checkpoint(&f, path, s, earlier, node, endings[k], e) < 0) {
            if (!is_missing(e->code))
                return e->code;
            if (e->code == ERR_CONFLICT) {
                missing = e->code;
                snprintf(has, sizeof has, "%s", e->text);
            }
            continue;
        }
        if (!checkpoint_is_at(&f, p, node)) {
            if (missing == ERR_NOT_FOUND)
                snprintf(has, sizeof has, "it has one of step %.20s of %.50s", meta_text(&f, "step"),
                         meta_text(&f, "job_id"));
            tensor_file_close(&f);
            continue;
        }
        rc = check_checkpoint(s, &f, node, e);
        tensor_file_close(&f);
        if (rc == 0)
            rc = blob_open(&s->checkpoints[i], path, e);
        return rc < 0 ? err_at(e, "%s", path) : 0;
    }
    err_set(e, missing, "node(%d): no checkpoint of step %s of %s in %s: %s", node, p->step, p->job,
            s->resume, has);
    return err_hint(e, "job_submit fetch %s gets it if its agent still has it.", p->job);
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

/* The position of the first worker's checkpoint. */
static int find_position(struct checkpoint_position *p, const struct submission *s, const json_t *earlier,
                         const char *ending, struct err *e)
{
    struct tensor_file f;
    char path[PATH_MAX];

    if (open_checkpoint(&f, path, s, earlier, 0, ending, e) < 0)
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
    if (continues_attempt(s))
        json_object_set_new(s->facts, "continues",
                            json_pack("{s:i, s:I, s:I}", "attempt", s->attempt - 1, "step",
                                      (json_int_t)strtoll(p->step, NULL, 10), "round",
                                      (json_int_t)strtoll(p->round, NULL, 10)));
    console_info("The job resumes after step %s, in epoch %ld, of %s.", p->step,
                 strtol(p->epoch, NULL, 10) + 1, p->job);
}

/* Resumes from the position of the first worker's checkpoint, if all nodes have one at it. */
static int resume_from(struct submission *s, const json_t *earlier, const char *ending, struct err *e)
{
    const char *job = json_string_value(json_object_get(earlier, "id"));
    struct checkpoint_position p;

    if (find_position(&p, s, earlier, ending, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_hint(e,
                     "Jobs write checkpoints if they run with --checkpoint-every N or --checkpoint-steps N.");
        else if (e->code == ERR_CONFLICT)
            err_hint(e, "job_submit fetch %s gets it again if its agent still has it.", job ? job : "JOB");
        return e->code;
    }
    if (take_all(s, &p, earlier, e) < 0)
        return e->code;
    note_start(s, &p);
    return 0;
}

/* Finds the last position that all nodes have. A node that was ahead when the job stopped has it in its
 * previous checkpoint, and a node that stopped between the two renames has only that one. */
static int find_checkpoints(struct submission *s, const json_t *earlier, struct err *e)
{
    struct err last, before;
    int rc;

    if (check_samples(s, earlier, e) < 0)
        return e->code;
    rc = resume_from(s, earlier, "", &last);
    if (rc < 0 && (is_missing(rc) || s->attempt > 1)) {
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
    if (file_join(path, sizeof path, continues_attempt(s) ? s->folder : s->resume, "run.json", e) < 0 ||
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
