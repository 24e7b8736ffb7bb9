/* Artifacts that become files of the job: events, logs, models, checkpoints, codecs. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "submit/results/checkpoint_files.h"
#include "submit/results/collect.h"
#include "submit/results/event_log.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"

enum { LAST_LINES = 10, LAST_LINE_BYTES = 512 };

/* Writes a node's artifact to the result folder; `name` includes the subfolder. */
static int keep_file(struct collection *c, const char *name, const struct yield *y, struct err *e)
{
    const char *slash = strchr(name, '/');
    char path[PATH_MAX], folder[32];

    snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
    if (file_join(path, sizeof path, c->s->folder, folder, e) < 0 || file_mkdirs(path, 0777, e) < 0)
        return e->code;
    console_info("Restoring data (%s) from %d.", slash + 1, y->node->at.node);
    return results_write(c->s, name, y->bytes, y->len, e);
}

/* The node that delivered an artifact requested from one node; NULL: none did. */
static const struct yield *find_downloaded(const struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->yields[i].bytes)
            return &c->yields[i];
    return NULL;
}

int collect_events(struct collection *c, const struct artifact *a, struct err *e)
{
    struct event_log all = {0};
    char path[PATH_MAX];
    int rc, fd;

    if (file_join(path, sizeof path, c->s->folder, a->name, e) < 0)
        return e->code;
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];

        if (y->bytes && !event_log_add(&all, y->node->at.node, y->bytes, y->len))
            console_info("node(%d): %s does not contain all its events: those of all nodes exceed %d MiB.",
                         y->node->at.node, a->name, EVENT_LOG_MAX >> 20);
    }
    rc = results_create(c->s, a->name, &fd, e);
    if (rc == 0 && (rc = event_log_write(&all, fd, path, e)) < 0)
        results_drop(c->s, a->name, fd);
    event_log_clear(&all);
    return rc == 0 ? results_seal(c->s, a->name, fd, e) : rc;
}

/* Keeps the last log lines of the node that decided a failed job. The text is untrusted. */
static void keep_last_lines(struct submission *s, const char *p, size_t len)
{
    size_t n = 0, from = len;

    while (from > 0 && n < LAST_LINES)
        n += p[--from] == '\n' && from + 1 < len;
    from += n == LAST_LINES;
    json_decref(s->last_log);
    s->last_log = json_array();
    while (from < len) {
        const char *lf = memchr(p + from, '\n', len - from);
        size_t k = lf ? (size_t)(lf - p) - from : len - from;
        char line[LAST_LINE_BYTES];

        snprintf(line, sizeof line, "%.*s", (int)(k < sizeof line ? k : sizeof line - 1), p + from);
        utf8_clean(line, strlen(line), false);
        json_array_append_new(s->last_log, json_text(line, SIZE_MAX));
        from += k + 1;
    }
}

int collect_logs(struct collection *c, const struct artifact *a, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];
        char node[NODE_LOG_NAME], name[64];

        if (!y->bytes)
            continue;
        snprintf(name, sizeof name, "%s%s.log", a->path, node_log_name(node, y->node));
        if (keep_file(c, name, y, e) < 0)
            return e->code;
        if ((int)i == c->s->cause)
            keep_last_lines(c->s, y->bytes, y->len);
    }
    return 0;
}

/* Every node's own checkpoint: each resumes from its own. */
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e)
{
    const char *ending = a == &artifacts[ARTIFACT_PREVIOUS_CHECKPOINT] ? CHECKPOINT_PREVIOUS : "";

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];
        char name[64];

        checkpoint_file_name(name, y->node->at.node, ending);
        if (y->bytes && keep_file(c, name, y, e) < 0)
            return e->code;
    }
    return 0;
}

int collect_output(struct collection *c, const struct artifact *a, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];
        char name[64];

        snprintf(name, sizeof name, "%snode-%d.txt", a->path, y->node->at.node);
        if (y->bytes && keep_file(c, name, y, e) < 0)
            return e->code;
    }
    return 0;
}

int collect_codec(struct collection *c, const struct artifact *a, struct err *e)
{
    const struct settings *set = &c->s->settings;
    const struct yield *y = find_downloaded(c);
    char name[160];

    snprintf(name, sizeof name, "%s%s%s%s", a->path, c->is_of_servers ? "server-" : "",
             c->is_of_servers ? set->server_codec : set->codec, strrchr(a->name, '.'));
    return y ? keep_file(c, name, y, e) : 0;
}

static int open_model(struct tensor_file *f, const struct yield *y, struct err *e)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", y->fd);
    return tensor_file_open(f, path, e);
}

int collect_check_model(const struct collection *c, const struct yield *y, struct err *e)
{
    struct tensor_file f;
    const char *job;
    int rc = open_model(&f, y, e);

    if (rc < 0)
        return rc;
    job = tensor_file_meta(&f, "job_id");
    if (!job || strcmp(job, c->s->id) != 0)
        rc = err_set(e, ERR_PROTOCOL, "it is the model of another job");
    else if (c->model)
        rc = weights_check_shapes(&f, "", c->model, e);
    tensor_file_close(&f);
    return rc;
}

/* As a worker computes it: of what is trained, in the model's order. False: the file has no such floats. */
static bool sum_trained(char hex[SHA256_HEX], const struct model_spec *m, const struct tensor_file *f)
{
    struct sha256_sum *sum = sha256_start();
    uint8_t digest[SHA256_BYTES];
    bool is_whole = sum != NULL;

    for (int i = 0; is_whole && i < m->n_layers; i++)
        for (int k = 0; is_whole && k < m->layers[i].n_tensors; k++) {
            char name[TENSOR_NAME];
            const struct tensor_view *t;

            if (m->layers[i].tensors[k].is_state)
                continue;
            weights_name(name, m, i, k);
            t = weights_find(f, "", name);
            is_whole = t && t->type == TENSOR_F32;
            if (is_whole)
                sha256_add(sum, t->data, tensor_count(t) * sizeof(float));
        }
    sha256_end(sum, digest);
    hex_encode(hex, digest, sizeof digest);
    return is_whole;
}

void collect_check_sums(struct collection *c, const struct yield *y)
{
    const struct job_node *shown = y->node;
    char hex[SHA256_HEX];
    struct tensor_file f;
    struct err ignored;
    bool is_summed;

    if (!c->model || open_model(&f, y, &ignored) < 0)
        return;
    is_summed = sum_trained(hex, c->model, &f);
    tensor_file_close(&f);
    for (size_t i = 0; is_summed && i < c->s->n_nodes; i++) {
        struct job_node *n = &c->s->nodes[i];
        char *said = n->view.progress.params_sha256;

        if (n != shown && (!shown->model_sha256[0] || strcmp(n->model_sha256, shown->model_sha256) != 0))
            continue;
        if (!said[0] || strcmp(said, hex) == 0)
            continue;
        n->has_false_sum = true;
        memcpy(said, hex, sizeof hex);
    }
}

/* One worker's model; the SHA-256 of the others are compared in run.json. */
int collect_model(struct collection *c, const struct artifact *a, struct err *e)
{
    const struct yield *y = find_downloaded(c);

    if (y && a == &artifacts[ARTIFACT_FINAL_MODEL])
        collect_check_sums(c, y);
    return y ? keep_file(c, a->path, y, e) : 0;
}
