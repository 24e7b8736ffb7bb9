#include "submit/queue/queued_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/records/weights.h"
#include "shared/trainer/trainer_package.h"
#include "submit/options/options_table.h"
#include "submit/results/job_index.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"

/* The absolute path of a token file, because the watcher runs in another folder. */
static const char *absolute(char out[PATH_MAX], const char *path)
{
    return path[0] && realpath(path, out) ? out : path;
}

static json_t *agents_json(const struct worker_list *w)
{
    size_t n = w->n_workers + w->n_servers + w->n_spares;
    json_t *list = json_array();
    char path[PATH_MAX];

    for (size_t i = 0; i < n; i++) {
        const struct listed_agent *a = &w->nodes[i];

        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:o, s:s, s:s}", "node", a->node, "address", a->address,
                                        "token_file", json_text(absolute(path, a->token_file), SIZE_MAX),
                                        "advertise", a->advertise, "pin", a->pin));
    }
    return json_pack("{s:i, s:i, s:i, s:o}", "workers", (int)w->n_workers, "servers", (int)w->n_servers,
                     "spares", (int)w->n_spares, "list", list);
}

int queued_files_agents(struct worker_list *out, const json_t *doc, struct err *e)
{
    const json_t *agents = json_object_get(json_object_get(doc, "queue"), "agents"), *one;
    const json_t *list = json_object_get(agents, "list");
    const char *at = "/queue/agents";
    int n_workers, n_servers, n_spares;
    size_t i;

    *out = (struct worker_list){0};
    if (json_get_int(&n_workers, agents, "workers", 1, NODES_MAX, at, e) < 0 ||
        json_get_int(&n_servers, agents, "servers", 0, NODES_MAX, at, e) < 0 ||
        json_get_int(&n_spares, agents, "spares", 0, NODES_MAX, at, e) < 0)
        return e->code;
    if (json_array_size(list) != (size_t)n_workers + (size_t)n_servers + (size_t)n_spares)
        return err_set(e, ERR_CONFIG, "%s/list: not as many as there should be", at);
    out->nodes = calloc(json_array_size(list), sizeof *out->nodes);
    if (!out->nodes)
        return err_set(e, ERR_NOMEM, "no memory for the list of agents");
    out->n_workers = (size_t)n_workers;
    out->n_servers = (size_t)n_servers;
    out->n_spares = (size_t)n_spares;
    json_array_foreach(list, i, one)
    {
        struct listed_agent *a = &out->nodes[i];

        if (json_get_int(&a->node, one, "node", -NODES_MAX - 1, NODES_MAX, at, e) < 0 ||
            json_get_text(a->address, sizeof a->address, one, "address", at, e) < 0 ||
            json_get_text(a->token_file, sizeof a->token_file, one, "token_file", at, e) < 0 ||
            json_get_text(a->advertise, sizeof a->advertise, one, "advertise", at, e) < 0 ||
            json_get_text(a->pin, sizeof a->pin, one, "pin", at, e) < 0 ||
            address_parse(a->host, sizeof a->host, &a->port, a->address, e) < 0) {
            worker_list_clear(out);
            return e->code;
        }
    }
    return 0;
}

static json_t *queue_json(const struct submission *s)
{
    const char *user = getenv("USER");

    return json_pack("{s:o, s:b, s:s, s:b}", "agents", agents_json(&s->workers), "has_default_folder",
                     (int)s->has_default_folder, "user", user && user[0] ? user : "", "is_executor",
                     (int)s->settings.executor);
}

static int make_new_folder(char folder[PATH_MAX], const char *name, struct err *e)
{
    char packages[PATH_MAX];

    if (queue_folder_make(e) < 0 || queue_folder_path(folder, name, NULL, e) < 0 ||
        queue_folder_path(packages, name, JOB_FOLDER_PACKAGES, e) < 0)
        return e->code;
    return file_mkdirs(packages, 0700, e);
}

static int write_files(const struct submission *s, const char *folder, const char *name,
                       const struct queue_place *place, struct err *e)
{
    char shared[PATH_MAX], packages[PATH_MAX];
    json_t *more = queue_json(s);
    int rc = more ? 0 : err_set(e, ERR_NOMEM, "no memory for the job's document");

    if (rc == 0 && queue_folder_path(shared, NULL, QUEUE_PACKAGES, e) == 0 &&
        queue_folder_path(packages, name, JOB_FOLDER_PACKAGES, e) == 0 &&
        queue_folder_set_place(name, place, e) == 0 && stage_pack_files(s, folder, shared, more, e) == 0 &&
        file_sync_folder(packages, e) == 0)
        e->code = 0;
    json_decref(more);
    return e->code;
}

/* The files of all jobs, those of this one included. */
static int check_space(const struct options *o, struct err *e)
{
    const double gib = 1 << 30;
    double has = (double)queue_folder_bytes() / gib;
    char path[PATH_MAX];

    if (has <= o->queue_space_gib)
        return 0;
    if (queue_folder_path(path, NULL, NULL, e) < 0)
        return e->code;
    err_set(e, ERR_NOSPACE, "with this job the files in %s take %.3g GiB, and may take %g", path, has,
            o->queue_space_gib);
    return err_hint(e, "Wait until jobs have run, cancel some, or give a larger --queue-space.");
}

int queued_files_write(struct submission *s, const struct queue_place *place, struct err *e)
{
    char name[JOB_ID_MAX + sizeof QUEUE_NEW], folder[PATH_MAX], queued[PATH_MAX];
    struct err ignored, why;
    int lock;

    *e = (struct err){0};
    snprintf(name, sizeof name, QUEUE_NEW "%s", s->id);
    if (make_new_folder(folder, name, e) < 0)
        return err_at(e, "the queue cannot be written");
    lock = queue_folder_lock(name, QUEUE_WRITING, e);
    if (lock < 0 || write_files(s, folder, name, place, e) < 0 || check_space(s->opt, e) < 0 ||
        queue_folder_path(queued, s->id, NULL, e) < 0 || job_index_save(s, e) < 0)
        goto fail;
    if (rename(folder, queued) < 0) {
        err_errno(e, ERR_IO, "%s", queued);
        goto fail;
    }
    close(lock);
    if (file_sync_name(queued, &why) < 0)
        console_error("The job is in the queue, but may be lost if this machine stops now: %s", why.text);
    return 0;
fail:
    if (lock >= 0)
        close(lock);
    job_index_remove(s->id);
    queue_folder_remove(name, &ignored);
    return err_at(e, "the job cannot be written into the queue");
}

static int take_options(struct options *o, const json_t *record, struct err *e)
{
    const json_t *texts = json_object_get(json_object_get(record, "facts"), "options");
    uint64_t verb = json_object_get(texts, "exec") ? FOR_RUN : FOR_SUBMIT;

    if (options_take_record(o, verb, texts, false, e) < 0 ||
        (o->retries > 0 && options_take_record(o, verb, texts, true, e) < 0))
        return e->code;
    if (o->retries > 0)
        options_take_arguments(o, record);
    return 0;
}

int queued_files_read_options(struct options *o, json_t **doc, const char *id, struct err *e)
{
    int rc;

    options_defaults(o);
    *doc = queue_folder_get(id, JOB_FOLDER_DOCUMENT);
    rc = *doc ? take_options(o, json_object_get(*doc, "record"), e)
              : err_set(e, ERR_NOT_FOUND, "%s: its " JOB_FOLDER_DOCUMENT " in the queue cannot be read", id);
    if (rc < 0) {
        json_decref(*doc);
        *doc = NULL;
    }
    o->detach = o->retrieve = false;
    o->no_queue = true;
    o->timeout_s = 0;
    o->output[0] = '\0'; /* the folder is that of the record */
    return rc;
}

/* Where a file of a package belongs in a submission; NULL: this version has no such file. */
static struct blob *find_blob(struct submission *s, size_t node, enum package p, const char *name)
{
    struct codec_blobs *codec = (int)node >= s->settings.node_count ? &s->server_codec : &s->codec;
    const struct {
        enum package package;
        const char *name;
        struct blob *blob;
    } known[] = {
        {PACKAGE_SETTINGS, "settings.json", &s->settings_blob},
        {PACKAGE_CODEC, CODEC_OBJECT_NAME, &codec->object},
        {PACKAGE_CODEC, CODEC_MANIFEST_NAME, &codec->manifest},
        {PACKAGE_CODEC, CODEC_SOURCE_NAME, &codec->source},
        {PACKAGE_MODEL, "model.json", &s->model},
        {PACKAGE_MODEL, PREPROCESSING_FILE, &s->preprocessing},
        {PACKAGE_WEIGHTS, "weights.safetensors", s->checkpoints ? &s->checkpoints[node] : NULL},
        {PACKAGE_TRAINER, TRAINER_PACKAGE_NAME, &s->trainer},
        {PACKAGE_DATA, "train.safetensors",
         s->shards && (int)node < s->settings.node_count ? &s->shards[node] : NULL},
        {PACKAGE_DATA, "test.safetensors",
         !s->tests                            ? &s->test
         : (int)node < s->settings.node_count ? &s->tests[node]
                                              : NULL},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].package == p && strcmp(known[i].name, name) == 0)
            return known[i].blob;
    return NULL;
}

/* The file keeps its name and its contents: agents compare its SHA-256. */
static int open_blob(struct blob *b, const char *id, const char *hex, struct err *e)
{
    char name[sizeof JOB_FOLDER_PACKAGES + SHA256_HEX], path[PATH_MAX];
    struct stat st;
    int fd;

    if (b->fd > 0)
        return 0;
    if (strlen(hex) != SHA256_HEX - 1)
        return err_set(e, ERR_CONFIG, "\"%s\" is no SHA-256", hex);
    snprintf(name, sizeof name, JOB_FOLDER_PACKAGES "/%s", hex);
    if (queue_folder_path(path, id, name, e) < 0)
        return e->code;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, ERR_IO, "%s", path);
    *b = (struct blob){.fd = fd, .len = (size_t)st.st_size};
    memcpy(b->hex, hex, SHA256_HEX);
    return 0;
}

static int open_package(struct submission *s, size_t node, enum package p, json_t *files, struct err *e)
{
    const char *name;
    json_t *hex;

    json_object_foreach(files, name, hex)
    {
        struct blob *b = find_blob(s, node, p, name);

        if (!b)
            return err_set(e, ERR_CONFIG, "/nodes/%zu/packages/%s: %s is unknown here", node,
                           package_names[p], name);
        if (open_blob(b, s->id, json_string_value(hex) ? json_string_value(hex) : "", e) < 0)
            return e->code;
    }
    return 0;
}

static int open_packages(struct submission *s, const json_t *nodes, struct err *e)
{
    s->shards = calloc((size_t)s->settings.node_count, sizeof *s->shards);
    if (s->settings.divides_test)
        s->tests = calloc((size_t)s->settings.node_count, sizeof *s->tests);
    if (s->settings.starts_from != STARTS_FROM_SEED)
        s->checkpoints = calloc(s->n_nodes, sizeof *s->checkpoints);
    if (!s->shards || (s->settings.divides_test && !s->tests) ||
        (s->settings.starts_from != STARTS_FROM_SEED && !s->checkpoints))
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    for (size_t i = 0; i < s->n_nodes; i++) {
        const json_t *packages = json_object_get(json_array_get(nodes, i), "packages");

        for (int p = 0; p < N_PACKAGES; p++)
            if (open_package(s, i, (enum package)p,
                             json_object_get(json_object_get(packages, package_names[p]), "files"), e) < 0)
                return e->code;
    }
    return 0;
}

static const struct listed_agent *find_listed(const struct worker_list *w, const char *address)
{
    for (size_t i = 0; i < w->n_workers + w->n_servers + w->n_spares; i++)
        if (strcmp(w->nodes[i].address, address) == 0)
            return &w->nodes[i];
    return NULL;
}

static int move_nodes(struct submission *s, const json_t *agents, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const char *address = json_string_value(json_array_get(agents, i));
        const struct listed_agent *at = address ? find_listed(&s->workers, address) : NULL;

        if (!at)
            return err_set(e, ERR_CONFIG, "node %zu: %s is no agent of the job", i, address ? address : "");
        s->nodes[i].attempt = s->attempt;
        if (submission_move_node(s, &s->nodes[i], at, e) < 0)
            return e->code = ERR_BUSY; /* its token may be there next time */
    }
    return 0;
}

int queued_files_read(struct submission *s, const json_t *doc, const json_t *agents, struct err *e)
{
    const json_t *queue = json_object_get(doc, "queue");
    int attempt = s->attempt;

    if (job_index_take(s, json_object_get(doc, "record"), e) < 0)
        return err_at(e, "/record");
    s->attempt = attempt;
    s->has_default_folder = json_is_true(json_object_get(queue, "has_default_folder"));
    worker_list_clear(&s->workers);
    if (queued_files_agents(&s->workers, doc, e) < 0 || (agents && move_nodes(s, agents, e) < 0))
        return e->code;
    return open_packages(s, json_object_get(doc, "nodes"), e);
}
