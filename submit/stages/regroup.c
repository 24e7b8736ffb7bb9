#include "submit/stages/regroup.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/rng.h"
#include "shared/records/weights.h"
#include "submit/files/temp.h"
#include "submit/stages/earlier_checkpoint.h"

/* What becomes of a tensor of a checkpoint. The residuals and copies of compression, and a program's state,
 * are of one node, and so in no row. */
enum tensor_use { EQUAL, MEAN, CURSOR, LEFT_OUT, N_USES };
static const struct {
    const char *names;
    enum tensor_use use;
} uses[] = {
    {"model/*", EQUAL},         {"opt/*", MEAN},           {"codec/*/state", EQUAL},
    {"codec/*/vector*", EQUAL}, {"codec/*/global", EQUAL}, {"codec/*/cursor", CURSOR},
    {"verdict/*", LEFT_OUT},
};

static enum tensor_use use_of(const char *name)
{
    size_t k = 0;

    while (k < sizeof uses / sizeof *uses && fnmatch(uses[k].names, name, 0) != 0)
        k++;
    return k < sizeof uses / sizeof *uses ? uses[k].use : N_USES;
}

struct regrouping {
    const struct submission *s;
    int n_then;
    uint64_t step_then, step, round, epoch; /* in the earlier job; in this one */
    char *settings;                         /* the earlier job's, with this one's workers and steps */
};

int regroup_workers_then(const json_t *earlier)
{
    return (int)json_integer_value(json_object_get(json_object_get(earlier, "settings"), "node_count"));
}

static int hint_weights(const struct submission *s, struct err *e)
{
    return err_hint(e, "A new job starts from the weights alone: --init-from %s/model/final.safetensors.",
                    s->resume);
}

int regroup_check(const struct submission *s, const json_t *earlier, struct err *e)
{
    int then = regroup_workers_then(earlier);
    const char *why = s->server_codec.object.len > 0 && !s->own_state
                          ? "the servers' codec may keep a state of each worker"
                          : s->own_state;

    if (!why)
        return 0;
    err_set(e, ERR_CONFIG,
            "--node_count: the earlier job had %d worker%s and this one has %d, and its checkpoints serve no "
            "other number: %s",
            then, then == 1 ? "" : "s", s->settings.node_count, why);
    return hint_weights(s, e);
}

/* The checkpoints of several workers, or the one of a server. */
struct regrouped {
    struct tensor_file *of; /* (n), one more than there may be */
    size_t n;
    struct tensor_view *tensors; /* of a new checkpoint */
    size_t n_tensors;
    float **means; /* (n_tensors of the first one): NULL where there is none */
    size_t n_means;
};

static void group_clear(struct regrouped *g)
{
    for (size_t k = 0; k < g->n; k++)
        tensor_file_close(&g->of[k]);
    for (size_t i = 0; i < g->n_means; i++)
        free(g->means[i]);
    free(g->of);
    free(g->means);
    free(g->tensors);
    *g = (struct regrouped){0};
}

static bool has_shape_of(const struct tensor_view *t, const struct tensor_view *u)
{
    return t && t->type == u->type && tensor_bytes(t) == tensor_bytes(u);
}

static int check_equal(const struct regrouping *r, const struct regrouped *g, const struct tensor_view *t,
                       struct err *e)
{
    for (size_t k = 1; k < g->n; k++) {
        const struct tensor_view *other = tensor_file_find(&g->of[k], t->name);

        if (has_shape_of(other, t) &&
            (tensor_bytes(t) == 0 || !memcmp(other->data, t->data, tensor_bytes(t))))
            continue;
        err_set(e, ERR_CONFIG,
                "the workers' checkpoints of step %llu differ in \"%s\", so they serve no other number of "
                "workers than %d",
                (unsigned long long)r->step_then, t->name, r->n_then);
        return hint_weights(r->s, e);
    }
    return 0;
}

static int take_mean(struct regrouped *g, const struct tensor_view *t, struct err *e)
{
    size_t n = tensor_count(t);
    float *mean = malloc((n + 1) * sizeof *mean);

    if (!mean)
        return err_set(e, ERR_NOMEM, "no memory for the mean of %zu values", n);
    g->means[g->n_means++] = mean;
    g->tensors[g->n_tensors - 1].data = mean;
    for (size_t k = 0; k < g->n; k++)
        if (t->type != TENSOR_F32 || !has_shape_of(tensor_file_find(&g->of[k], t->name), t))
            return err_set(e, ERR_CONFIG, "tensor \"%s\" is not of the same form on all workers", t->name);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (size_t k = 0; k < g->n; k++)
            sum += (double)((const float *)tensor_file_find(&g->of[k], t->name)->data)[i];
        mean[i] = (float)(sum / (double)g->n);
    }
    return 0;
}

static int check_cursor(const struct regrouping *r, const struct tensor_view *t, struct err *e)
{
    const int64_t *cursor = t->data;

    if (t->type != TENSOR_I64 || t->n_dims != 1 || t->shape[0] != CURSOR_WORDS)
        return err_set(e, ERR_CONFIG, "\"%s\" is not a position in a job", t->name);
    if (!r->s->sends_params || (cursor[CURSOR_SAMPLES] == 0 && cursor[CURSOR_N_LOCAL] == 0))
        return 0;
    err_set(e, ERR_CONFIG,
            "after step %llu a round of local steps is open, in which each worker has weights of its own, so "
            "the checkpoints serve no other number of workers than %d",
            (unsigned long long)r->step_then, r->n_then);
    return err_hint(e,
                    "Checkpoints at the ends of rounds: --checkpoint-steps N, a multiple of --local-steps.");
}

static int take_tensor(const struct regrouping *r, struct regrouped *g, const struct tensor_view *t,
                       struct err *e)
{
    enum tensor_use use = use_of(t->name);

    if (use == LEFT_OUT)
        return 0;
    if (use == N_USES) {
        err_set(e, ERR_CONFIG,
                "\"%s\" is a state of one node, so the checkpoints serve no other number of workers than %d",
                t->name, r->n_then);
        return hint_weights(r->s, e);
    }
    g->tensors[g->n_tensors++] = *t;
    return use == EQUAL ? check_equal(r, g, t, e) : use == MEAN ? take_mean(g, t, e) : check_cursor(r, t, e);
}

static int gather_tensors(const struct regrouping *r, struct regrouped *g, struct err *e)
{
    const struct tensor_file *f = &g->of[0];

    g->tensors = calloc(f->n + 1, sizeof *g->tensors);
    g->means = calloc(f->n + 1, sizeof *g->means);
    if (!g->tensors || !g->means)
        return err_set(e, ERR_NOMEM, "no memory for a checkpoint of %zu tensors", f->n);
    /* An open round explains why weights differ. */
    for (size_t i = 0; i < f->n; i++)
        if (use_of(f->tensors[i].name) == CURSOR && check_cursor(r, &f->tensors[i], e) < 0)
            return e->code;
    for (size_t i = 0; i < f->n; i++)
        if (take_tensor(r, g, &f->tensors[i], e) < 0)
            return e->code;
    return 0;
}

/* A server takes no steps. The generators of this job's workers are independent of the earlier job's. */
static void move_cursor(int64_t cursor[CURSOR_WORDS], const struct regrouping *r, const struct tensor_view *t,
                        int node)
{
    struct rng own;

    memcpy(cursor, t->data, CURSOR_WORDS * sizeof *cursor);
    cursor[CURSOR_ROUND] = (int64_t)r->round;
    if (node < 0)
        return;
    cursor[CURSOR_STEP] = (int64_t)r->step;
    rng_init(&own, r->s->settings.seed ^ r->step_then, (uint64_t)(node + 65536),
             strtoull(t->name + strlen("codec/"), NULL, 10));
    memcpy(cursor + CURSOR_GENERATOR, own.s, sizeof own.s);
}

static int write_tensors(const char *path, const struct regrouping *r, const struct regrouped *g,
                         const struct tensor_meta *meta, int node, struct err *e)
{
    struct tensor_view *t = calloc(g->n_tensors + 1, sizeof *t);
    int64_t(*cursors)[CURSOR_WORDS] = calloc(g->n_tensors + 1, sizeof *cursors);
    int rc;

    if (t && cursors) {
        for (size_t i = 0; i < g->n_tensors; i++) {
            t[i] = g->tensors[i];
            if (use_of(t[i].name) != CURSOR)
                continue;
            move_cursor(cursors[i], r, &t[i], node);
            t[i].data = cursors[i];
        }
        rc = tensor_file_write_unsynced(path, t, g->n_tensors, meta, e);
    } else {
        rc = err_set(e, ERR_NOMEM, "no memory for a checkpoint of %zu tensors", g->n_tensors);
    }
    free(t);
    free(cursors);
    return rc;
}

static int write_checkpoint(struct blob *out, const struct regrouping *r, const struct regrouped *g, int node,
                            struct err *e)
{
    static const char *const kept[] = {"format",          "version",      "job_id",          "arch",
                                       "optimizer_steps", "codec_sha256", PREPROCESSING_META};
    enum { N_KEPT = sizeof kept / sizeof *kept };
    const char *samples_then = tensor_file_meta(&g->of[0], "samples");
    uint64_t each = samples_then && r->step_then > 0 ? strtoull(samples_then, NULL, 10) / r->step_then : 0;
    char own_node[16], epoch[24], step[24], round[24], samples[24], path[PATH_MAX];
    struct tensor_meta meta[N_KEPT + 7] = {{"node", own_node}, {"settings", r->settings},
                                           {"epoch", epoch},   {"step", step},
                                           {"round", round},   {"samples", samples}};
    size_t n = 6;
    struct temp t;
    int rc;

    snprintf(own_node, sizeof own_node, "%d", node);
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)r->epoch);
    snprintf(step, sizeof step, "%llu", (unsigned long long)r->step);
    snprintf(round, sizeof round, "%llu", (unsigned long long)r->round);
    snprintf(samples, sizeof samples, "%llu", (unsigned long long)(each * r->step));
    for (size_t k = 0; k < N_KEPT; k++)
        if (tensor_file_meta(&g->of[0], kept[k]))
            meta[n++] = (struct tensor_meta){kept[k], tensor_file_meta(&g->of[0], kept[k])};
    if (temp_open(&t, e) < 0)
        return e->code;
    rc = file_join(path, sizeof path, t.path, "checkpoint.safetensors", e);
    if (rc == 0)
        rc = write_tensors(path, r, g, meta, node, e);
    if (rc == 0)
        rc = blob_take_file(out, path, e);
    temp_close(&t);
    return rc;
}

/* The place in this job: the same share of its epochs, at the end of a round. */
static int find_place(struct regrouping *r, const struct settings *then, struct err *e)
{
    const struct settings *set = &r->s->settings;
    uint64_t now = (uint64_t)set->steps_per_epoch, before = (uint64_t)then->steps_per_epoch, round = 1;

    if (now == 0 || before == 0)
        return err_set(e, ERR_CONFIG, "the steps of an epoch are not known");
    if (r->s->sends_params)
        round = set->local_steps > 0 ? (uint64_t)set->local_steps : now;
    r->step = r->step_then / before * now + r->step_then % before * now / before;
    r->round = r->step / round;
    r->step = r->round * round;
    r->epoch = r->step / now;
    return earlier_checkpoint_check_end(r->s, r->step < settings_steps(set) ? (long)r->epoch : set->epochs,
                                        e);
}

/* Compares the settings as if the earlier job had had this one's workers, and the steps that follow. */
static int take_settings(struct regrouping *r, const struct tensor_file *f, json_t *then, struct err *e)
{
    const char *step = tensor_file_meta(f, "step");
    struct settings set;

    if (settings_parse(&set, then, e) < 0)
        return err_at(e, "its settings");
    r->step_then = step ? strtoull(step, NULL, 10) : 0;
    if (find_place(r, &set, e) < 0)
        return e->code;
    json_object_set_new(then, "node_count", json_integer(r->s->settings.node_count));
    json_object_set_new(then, "steps_per_epoch", json_integer(r->s->settings.steps_per_epoch));
    free(r->settings);
    r->settings = json_dump(then, JSON_COMPACT);
    return r->settings ? 0 : err_set(e, ERR_NOMEM, "no memory for the settings");
}

static int check_group(struct regrouping *r, const struct regrouped *g, int node, struct err *e)
{
    json_t *then;
    int rc;

    if (earlier_checkpoint_settings(&then, &g->of[0], e) < 0)
        return e->code;
    rc = take_settings(r, &g->of[0], then, e);
    if (rc == 0)
        rc = earlier_checkpoint_check(r->s, &g->of[0], node, then, e);
    json_decref(then);
    return rc;
}

/* Opens the checkpoints of nodes first .. first + n - 1 that there are. *found: the first of them. */
static int open_group(struct regrouped *g, int *found, const struct regrouping *r, int first, int n,
                      const struct checkpoint_position *p, const json_t *earlier, struct err *e)
{
    struct err missing = {0};
    char path[PATH_MAX];

    g->of = calloc((size_t)n + 1, sizeof *g->of);
    if (!g->of)
        return err_set(e, ERR_NOMEM, "no memory for %d checkpoints", n);
    for (int k = 0; k < n; k++) {
        if (earlier_checkpoint_find(&g->of[g->n], path, r->s, earlier, first + k, p, e) == 0) {
            *found = g->n > 0 ? *found : first + k;
            g->n++;
        } else if (!earlier_checkpoint_is_missing(e->code)) {
            return e->code;
        } else if (missing.code == 0) {
            missing = *e;
        }
    }
    *e = g->n > 0 ? (struct err){0} : missing;
    return g->n > 0 ? 0 : e->code;
}

/* Makes this job's checkpoints of nodes[0] .. nodes[n_new - 1] from those of n nodes of the earlier job. */
static int regroup_nodes(struct submission *s, struct regrouping *r, size_t first_new, size_t n_new,
                         int first, int n, const struct checkpoint_position *p, const json_t *earlier,
                         struct err *e)
{
    struct regrouped g = {0};
    int found = first;
    int rc = open_group(&g, &found, r, first, n, p, earlier, e);

    if (rc == 0)
        rc = check_group(r, &g, found, e);
    if (rc == 0)
        rc = gather_tensors(r, &g, e);
    for (size_t i = first_new; i < first_new + n_new && rc == 0; i++) {
        blob_clear(&s->checkpoints[i]);
        rc = write_checkpoint(&s->checkpoints[i], r, &g, s->nodes[i].at.node, e);
    }
    group_clear(&g);
    return rc < 0 ? err_at(e, "%s", s->resume) : 0;
}

int regroup_make(struct submission *s, struct checkpoint_position *p, const json_t *earlier, struct err *e)
{
    struct regrouping r = {.s = s, .n_then = regroup_workers_then(earlier)};
    size_t n_workers = (size_t)s->settings.node_count;
    int rc = r.n_then < 1 || r.n_then > SIMULATED_NODES_MAX
                 ? err_set(e, ERR_CONFIG, "%s/run.json: /settings/node_count: not a number of workers",
                           s->resume)
                 : regroup_nodes(s, &r, 0, n_workers, 0, r.n_then, p, earlier, e);

    for (size_t i = n_workers; i < s->n_nodes && rc == 0; i++)
        rc = regroup_nodes(s, &r, i, 1, s->nodes[i].at.node, 1, p, earlier, e);
    snprintf(p->epoch, sizeof p->epoch, "%llu", (unsigned long long)r.epoch);
    snprintf(p->step, sizeof p->step, "%llu", (unsigned long long)r.step);
    snprintf(p->round, sizeof p->round, "%llu", (unsigned long long)r.round);
    free(r.settings);
    return rc;
}
