#include "runner/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "runner/checkpoint.h"
#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/memory.h"
#include "shared/job/data_place.h"
#include "shared/job/model_spec.h"
#include "shared/job/reason.h"
#include "shared/records/weights.h"

enum { DOCUMENT_MAX = MODEL_DOCUMENT_MAX };

const double node_codec_share = 0.75;

static const char start_path[] = "../packages/weights.safetensors";

static bool is_worker(const struct node *n)
{
    return n->job.node >= 0;
}

static void set_threads(struct node *n)
{
    int threads = blas_plan_threads(n->set.threads, n->job.workers_on_host);
    char why[96] = "its machine has no more processors";
    char text[192];

    if (threads == n->set.threads)
        return;
    if (n->job.workers_on_host > 1)
        snprintf(why, sizeof why, "%d workers of this job share the processors of its machine",
                 n->job.workers_on_host);
    snprintf(text, sizeof text, "node %d computes with %d thread%s instead of %d: %s", n->job.node, threads,
             threads == 1 ? "" : "s", n->set.threads, why);
    report_warn(n->report, text);
}

static int load_settings(struct node *n, struct err *e)
{
    const char *path = "../packages/settings.json";
    json_t *doc;
    int rc;

    if (json_read(&doc, path, DOCUMENT_MAX, e) < 0)
        return e->code;
    rc = settings_parse(&n->set, doc, e);
    json_decref(doc);
    if (rc < 0)
        return err_at(e, "settings");
    if (n->job.node >= n->set.node_count || n->job.node < -1 - n->set.server_count || n->job.node == -1)
        return err_set(e, ERR_CONFIG, "settings: no node %d among %d workers and %d servers", n->job.node,
                       n->set.node_count, n->set.server_count);
    blas_allow_onednn(n->set.math == MATH_AUTO);
    set_threads(n);
    if (schedule_parse(&n->schedule, n->set.schedule, e) < 0)
        return err_at(e, "settings");
    return settings_blocks(&n->blocks, &n->set, e);
}

const char *node_codec_name(const struct node *n)
{
    return is_worker(n) || !n->set.server_codec[0] ? n->set.codec : n->set.server_codec;
}

/* Sets the limit before the codec is loaded, because its code could set another one. */
static int watch_codec(struct node *n, struct err *e)
{
    const char *codec = node_codec_name(n);

    if (monitor_guard_exit(n->monitor->watch, n->set.executor ? "executor" : "codec", codec, n->report, e) <
        0)
        return e->code;
    return monitor_watch(n->monitor, n->set.executor, codec, node_codec_share * n->set.round_timeout_s, e);
}

/* Loads the initial weights. A checkpoint's weights are loaded with the rest of it. */
static int load_weights(struct node *n, struct err *e)
{
    struct tensor_file f;
    int rc;

    if (n->set.starts_from == STARTS_FROM_SEED)
        net_init(n->net, n->set.seed);
    if (n->set.starts_from != STARTS_FROM_WEIGHTS)
        return 0;
    if (tensor_file_open(&f, start_path, e) < 0)
        return e->code;
    rc = weights_check(&f, "", n->spec, e) < 0 ? err_at(e, "%s", start_path) : 0;
    if (rc == 0)
        net_load(n->net, &f, "");
    tensor_file_close(&f);
    return rc;
}

/* The model is computed by a program if and only if the job has one. */
static int check_trainer(const struct node *n, struct err *e)
{
    if (n->spec->has_trainer == (n->set.trainer[0] != '\0'))
        return 0;
    return n->spec->has_trainer
               ? err_set(e, ERR_CONFIG, "\"%s\" is computed by a training program, and the job has none",
                         n->spec->name)
               : err_set(e, ERR_CONFIG, "\"%s\" has layers of psgd, and the job has the training program %s",
                         n->spec->name, n->set.trainer);
}

static int load_model(struct node *n, struct err *e)
{
    json_t *doc;
    size_t len;
    int rc;

    if (file_read(&n->arch, &len, "../packages/model.json", DOCUMENT_MAX, e) < 0 ||
        json_parse(&doc, n->arch, len, "model", e) < 0)
        return e->code;
    rc = model_spec_new(&n->spec, doc, e) < 0 ? e->code : check_trainer(n, e);
    json_decref(doc);
    if (rc < 0 || weights_read_preprocessing(&n->preprocessing, "../packages", e) < 0)
        return err_at(e, "model");
    if (placement_lay_out(&n->ranges, n->set.placement, n->spec, n->set.server_count, e) < 0)
        return e->code;
    n->max_batch = is_worker(n) && !n->spec->has_trainer ? net_test_batch(n->spec, n->set.batch_size) : 1;
    return net_new(&n->net, n->spec, n->max_batch, e);
}

/* Checks before the first step, not after the last one, that the model file can be written. */
static int check_result(struct node *n, struct err *e)
{
    return tensor_file_fits("the model's file", (uint64_t)n->spec->n_params * sizeof(float), n->arch,
                            n->preprocessing, e);
}

/* *fd: the data set that is read where it is; -1: none. */
static int open_place(int *fd, const struct node *n, struct err *e)
{
    const struct settings *set = &n->set;

    *fd = set->data_on_agent[0] ? data_place_open(set->data_on_agent, n->job.data_folders, e) : -1;
    if (set->data_on_agent[0] && *fd < 0)
        return e->code;
    if (*fd < 0 || data_place_compare(*fd, set->data_on_agent, set->data_fingerprint, e) == 0)
        return 0;
    close(*fd);
    return e->code;
}

static int load_data(struct node *n, struct err *e)
{
    char place[FILE_FD_PATH];
    int fd, rc;

    if (open_place(&fd, n, e) < 0)
        return err_at(e, "data");
    if (fd >= 0)
        file_fd_path(place, fd);
    rc = loader_open_place(&n->loader, "../packages/train.safetensors", "../packages/test.safetensors",
                           fd >= 0 ? place : NULL, &n->blocks, n->job.node, settings_block_samples(&n->set),
                           (size_t)n->set.steps_per_epoch, n->spec, n->set.seed, e);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        return err_at(e, "data");
    if (text_sample_open(&n->sample, &n->loader.train.file, n->spec, e) < 0)
        return err_at(e, "data");
    return metrics_new(&n->metrics, n->spec, loader_has_labels(&n->loader), n->loader.n_test, e);
}

static struct checkpoint checkpoint(struct node *n)
{
    return (struct checkpoint){.set = &n->set,
                               .job = n->job.job,
                               .arch = n->arch,
                               .preprocessing = n->preprocessing,
                               .codec_sha256 = n->codec_sha256,
                               .node = n->job.node,
                               .net = n->net,
                               .optimizer = n->step.optimizer,
                               .exchange = n->exchange};
}

static int open_checkpoint(struct node *n, struct err *e)
{
    return n->set.starts_from == STARTS_FROM_CHECKPOINT ? tensor_file_open(&n->start, start_path, e) : 0;
}

static void close_checkpoint(struct node *n)
{
    tensor_file_close(&n->start);
    n->start = (struct tensor_file){0};
}

/* Restores an earlier job's checkpoint; also checks whether this job's checkpoints can be written. */
static int load_checkpoint(struct node *n, struct err *e)
{
    struct checkpoint c = checkpoint(n);
    int rc;

    if (settings_has_checkpoints(&n->set) && checkpoint_can_write(&c, e) < 0)
        return e->code;
    if (n->set.starts_from != STARTS_FROM_CHECKPOINT)
        return 0;
    rc = checkpoint_restore(&c, &n->start, n->spec, e) < 0 ? err_at(e, "checkpoint") : 0;
    if (!n->program)
        close_checkpoint(n);
    n->program_state = c.program;
    n->n_program_state = c.n_program;
    n->first_step = c.step;
    n->epoch = c.epoch;
    n->step.n_done = c.step;
    n->step.n_samples = c.samples;
    return rc;
}

int node_enter_folder(const struct node *n, struct err *e)
{
    return fchdir(n->folder_fd) < 0 ? err_errno(e, ERR_IO, "the node's folder") : 0;
}

int node_write_checkpoint(struct node *n, uint64_t step, struct err *e)
{
    const char *name = artifact_name(ARTIFACT_CHECKPOINT);
    const char *previous = artifact_name(ARTIFACT_PREVIOUS_CHECKPOINT);
    struct checkpoint c = checkpoint(n);
    char next_name[NAME_MAX + 1]; /* the agent removes this temporary file if the node is killed */
    void *state = NULL;
    int rc;

    if (file_temporary(next_name, sizeof next_name, name, e) < 0 ||
        (n->program && n->training->save(n, &state, &c.n_program, e) < 0))
        return e->code;
    c.step = step;
    c.epoch = (int)(step / (uint64_t)n->set.steps_per_epoch);
    c.samples = n->step.n_samples;
    c.program = state;
    /* Both earlier files stay until the new one is complete: writing takes long, and the disk may be full. */
    rc = node_flush_records(n, e) < 0 || node_enter_folder(n, e) < 0 || checkpoint_write(next_name, &c, e) < 0
             ? err_at(e, "checkpoint after step %llu", (unsigned long long)step)
             : 0;
    free(state);
    if (rc < 0)
        return rc;
    if (rename(name, previous) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", previous);
    return rename(next_name, name) < 0 ? err_errno(e, ERR_IO, "%s", name) : 0;
}

/* Which kinds of node take part in a step of node_prepare. */
enum {
    COMPUTES = 1, /* a worker that trains psgd's network */
    FOLLOWS = 2,  /* a worker whose steps a training program computes */
    WORKER = COMPUTES | FOLLOWS,
    SERVER = 4,
    TRAINS = WORKER | SERVER,
    EXECUTES = 8,
    ALL = TRAINS | EXECUTES
};

/* Known once the settings are loaded. */
static unsigned role_of(const struct node *n)
{
    return n->set.executor ? EXECUTES : !is_worker(n) ? SERVER : n->set.trainer[0] ? FOLLOWS : COMPUTES;
}

int node_prepare(struct node *n, const char **reason, struct err *e)
{
    const struct node_execution *x = n->execution;
    const struct node_training *t = n->training;
    const struct {
        int (*load)(struct node *, struct err *);
        const char *reason;
        unsigned who;
    } steps[] = {
        {load_settings, REASON_SETTINGS_INVALID, ALL},
        {watch_codec, REASON_INTERNAL, ALL},
        {node_copy_codec, REASON_CODEC_LOAD_FAILED, ALL},
        {load_model, REASON_MODEL_INVALID, TRAINS},
        {check_result, REASON_MODEL_INVALID, WORKER},
        {load_weights, REASON_MODEL_INVALID, TRAINS},
        {load_data, REASON_DATA_INVALID, COMPUTES},
        {t->open, REASON_TRAINER_FAILED, FOLLOWS},
        {open_checkpoint, REASON_CHECKPOINT_INVALID, TRAINS},
        {x->open, REASON_INTERNAL, EXECUTES},
        {x->open_input, REASON_DATA_INVALID, EXECUTES},
        {node_open_records, REASON_INTERNAL, ALL},
        {node_enter_sandbox, REASON_ISOLATION_TOO_LOW, ALL},
        {node_load_codec, REASON_CODEC_LOAD_FAILED, TRAINS},
        {node_open_exchange, REASON_CODEC_FAILED, TRAINS},
        {load_checkpoint, REASON_CHECKPOINT_INVALID, TRAINS},
        {x->load, REASON_CODEC_LOAD_FAILED, EXECUTES},
        {x->open_rule, REASON_INTERNAL, EXECUTES},
        {t->admit, REASON_TRAINER_FAILED, FOLLOWS},
    };

    for (int i = 0; i < N_RECORD_FILES; i++)
        n->records[i].fd = -1;
    n->best = -INFINITY;
    memory_keep_open();
    n->folder_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if ((role_of(n) & steps[i].who) && (node_enter_folder(n, e) < 0 || steps[i].load(n, e) < 0)) {
            *reason = e->code == ERR_NOMEM       ? REASON_OUT_OF_MEMORY
                      : e->code == ERR_NOSPACE   ? REASON_DISK_FULL
                      : e->code == ERR_CANCELLED ? NULL
                                                 : steps[i].reason;
            return e->code;
        }
    return 0;
}

int node_live(struct node *n, node_does *const doing[N_WORKER_WANTS], void *owner, struct err *e)
{
    struct worker_request request;
    int wants;

    worker_open(&n->worker, &(struct worker_config){.set = &n->set,
                                                    .exchange = n->exchange,
                                                    .step = &n->step,
                                                    .blocks = n->loader.blocks,
                                                    .first_step = n->first_step,
                                                    .has_test = n->loader.n_test > 0,
                                                    .started = n->started});
    while ((wants = worker_next(&n->worker, &request, e)) != WORKER_IS_DONE) {
        if (wants < 0)
            return node_explain_stop(n, e);
        n->epoch = n->worker.epoch;
        if (wants == WORKER_SAVES && node_write_checkpoint(n, request.step, e) < 0)
            return e->code;
        if (doing[wants] && doing[wants](owner, &request, e) < 0)
            return node_explain_stop(n, e);
    }
    return 0;
}

int node_write_model(struct node *n, const char *name, double test_loss, struct err *e)
{
    const struct tensor_view *tensors;
    size_t n_tensors = net_tensors(n->net, &tensors);
    char epoch[16], step[32], loss[32], seed[32];
    struct tensor_meta meta[] = {
        {"format", "psgd"},
        {"arch", n->arch},
        {"job_id", n->job.job},
        {"codec", n->set.codec},
        {"epoch", epoch},
        {"step", step},
        {"seed", seed},
        {0}, /* preprocessing and test_loss, if they are known */
        {0},
        {0},
    };
    struct tensor_meta *more = &meta[7];
    int rc;

    if (n->preprocessing)
        *more++ = (struct tensor_meta){PREPROCESSING_META, n->preprocessing};
    if (isfinite(test_loss))
        *more = (struct tensor_meta){"test_loss", loss};

    snprintf(epoch, sizeof epoch, "%d", n->epoch);
    snprintf(step, sizeof step, "%llu", (unsigned long long)node_progress(n).step);
    snprintf(loss, sizeof loss, "%.9g", test_loss);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)n->set.seed);
    if (node_enter_folder(n, e) < 0)
        return e->code;
    node_swap_model(n);
    rc = tensor_file_write_unsynced(name, tensors, n_tensors, meta, e);
    node_swap_model(n);
    return rc;
}

static int report_weights(const struct node *n, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];

    if (!weights_sha256(digest, n->spec, n->model ? n->model : net_params(n->net)))
        return err_set(e, ERR_NOMEM, "no memory for the digest of the weights");
    hex_encode(hex, digest, sizeof digest);
    report_result(n->report, hex, exchange_combined_nothing(n->exchange));
    return 0;
}

static int finish_models(struct node *n, struct err *e)
{
    const char *final = artifact_name(ARTIFACT_FINAL_MODEL);
    struct err why = {0};
    int rc;

    node_take_model(n);
    if (report_weights(n, e) < 0)
        return e->code;
    /* The file has no loss, so that nodes with the same weights write the same bytes, whichever compute
     * engine each has used. */
    if (node_write_model(n, final, NAN, e) < 0 || file_sync_bytes(final, e) < 0)
        return e->code;
    rc = file_sync_bytes(artifact_name(ARTIFACT_BEST_MODEL), &why);
    if (rc == 0 || rc == ERR_NOT_FOUND)  /* a resumed job may have found no better model */
        return file_sync_name(final, e); /* both names */
    *e = why;
    return rc;
}

static void report_collectives(const struct node *n)
{
    struct shm_group_counts c;

    if (!n->shm_group)
        return;
    c = shm_group_counts(n->shm_group);
    fprintf(stderr,
            "%llu collectives in shared memory: this worker copied %llu bytes, slept %llu times, and woke "
            "another "
            "one %llu times\n",
            (unsigned long long)c.n_collectives, (unsigned long long)c.copied_bytes,
            (unsigned long long)c.n_sleeps, (unsigned long long)c.n_wakeups);
}

int node_finish(struct node *n, struct err *e)
{
    if ((role_of(n) & WORKER) && finish_models(n, e) < 0)
        return e->code;
    if (node_sync_records(n, e) < 0)
        return e->code;
    node_close_trace(n);
    node_drop_kept(n);
    report_collectives(n);
    exchange_detach(n->exchange);
    /* The wait is limited, because a slow peer receives the BYE frame late, and a hanging peer never. */
    mesh_close(n->mesh, clock_now() + n->set.round_timeout_s);
    n->mesh = NULL;
    exchange_free(n->exchange);
    n->exchange = NULL;
    return 0;
}

/* The mesh and the exchange stay open until the process ends, because closing the mesh would signal success
 * to the peers. */
void node_clear(struct node *n)
{
    for (int i = 0; i < N_RECORD_FILES; i++)
        record_close(&n->records[i]);
    if (n->folder_fd >= 0)
        close(n->folder_fd);
    if (!n->mesh)
        exchange_free(n->exchange);
    text_sample_close(&n->sample);
    loader_close(&n->loader);
    close_checkpoint(n);
    step_close(&n->step);
    metrics_free(n->metrics);
    net_free(n->net);
    shm_group_close(n->shm_group); /* after net_free: gradients are in it */
    send_pool_close(n->send_pool);
    if (n->executing)
        n->execution->clear(n);
    if (n->program)
        n->training->clear(n); /* after net_free: its vectors are in the program's memory */
    free(n->arch);
    free(n->preprocessing);
    free(n->ranges);
    model_spec_free(n->spec);
    free(n->layers);
    free(n->model);
    free(n->machines);
    free(n->peers);
    free(n->kept);
    blocks_clear(&n->blocks);
}
