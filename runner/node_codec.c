/* node_codec -- a node's setup for its codec: the object, which is compiled here if need be and loaded only
 * inside the sandbox; the exchange with the job's settings and the model's layers; the step and its updates
 * on servers; codec.csv. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "runner/node.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/test_part.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/plugin/compile.h"
#include "shared/sandbox/sandbox.h"

static const char codec_path[] = "../packages/" CODEC_OBJECT_NAME;

enum { SOURCE_MAX = 16 << 20 };

static const char compile_folder[] = "compile";

static int copy_file(const char *to, const char *dir, const char *name, struct err *e)
{
    char from[PATH_MAX], *text;
    size_t len;
    int rc;

    if (file_join(from, sizeof from, dir, name, e) < 0 || file_read(&text, &len, from, SOURCE_MAX, e) < 0)
        return e->code;
    rc = file_write(to, text, len, 0600, e);
    free(text);
    if (rc == 0 && chmod(to, 0644) < 0) /* independent of the umask */
        return err_errno(e, ERR_IO, "%s", to);
    return rc;
}

/* Copies the files, because the compiler may run as another user, who can read neither their folders nor this
 * user's files. */
static int gather_sources(struct err *e)
{
    char exe_dir[PATH_MAX], headers[PATH_MAX];

    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 ||
        compile_find_header(headers, sizeof headers, exe_dir, e) < 0 ||
        file_mkdirs("compile/include", 0700, e) < 0)
        return e->code;
    if (chmod("compile/include", 0755) < 0)
        return err_errno(e, ERR_IO, "%s", compile_folder);
    return copy_file("compile/include/codec.h", headers, "codec.h", e) < 0 ||
                   copy_file("compile/include/codec_option.h", headers, "codec_option.h", e) < 0 ||
                   copy_file("compile/include/codec_events.h", headers, "codec_events.h", e) < 0 ||
                   copy_file("compile/include/wire.h", headers, "wire.h", e) < 0 ||
                   copy_file("compile/include/executor.h", headers, "executor.h", e) < 0 ||
                   copy_file("compile/" CODEC_SOURCE_NAME, "../packages", CODEC_SOURCE_NAME, e) < 0
               ? e->code
               : 0;
}

/* Compiles inside compile_folder, and then returns to its parent, to which the runner's file names are
 * relative. */
static int compile_source(struct codec_library *out, struct err *e)
{
    char here[] = ".";
    int rc;

    if (chdir(compile_folder) < 0)
        return err_errno(e, ERR_IO, "%s", compile_folder);
    rc = compile_confined("cc", CODEC_SOURCE_NAME, CODEC_OBJECT_NAME, here, sandbox_compiler, here, e);
    if (rc == 0)
        rc = codec_library_copy(out, CODEC_OBJECT_NAME, e);
    if (chdir("..") < 0)
        return err_errno(e, ERR_IO, "the node's folder");
    return rc;
}

/* Compiles ../packages/codec.c in a folder below the working directory, and copies the object to memory as
 * codec_library_copy does. The source is foreign input, so the compiler runs in a child that sees system
 * folders and its own folder only (sandbox_compiler). Its output is in the node's log. */
static int compile_here(struct codec_library *out, struct err *e)
{
    struct err ignored;
    int rc = gather_sources(e) < 0 ? e->code : compile_source(out, e);

    file_remove_tree(compile_folder, &ignored);
    return rc;
}

/* Compiles the codec if the package's object is for another machine, or if only its source is trusted. The
 * codec is still identified by the digest of the object that the manifest names. */
static int compile_package(struct node *n, struct err *e)
{
    struct codec_manifest m;

    if (codec_manifest_read(&m, "../packages/" CODEC_MANIFEST_NAME, e) < 0)
        return e->code;
    memcpy(n->codec_sha256, m.sha256, sizeof n->codec_sha256);
    fprintf(stderr, "%s %s (made for %s%s%s) is compiled here\n", m.is_executor ? "executor" : "codec",
            m.name, m.architecture, m.compiler[0] ? " by " : "", m.compiler);
    return compile_here(&n->codec, e);
}

/* Copies the codec's object into memory. None of its code runs before node_load_codec. */
int node_copy_codec(struct node *n, struct err *e)
{
    if (access(codec_path, F_OK) < 0 && errno == ENOENT)
        return compile_package(n, e);
    if (codec_library_copy(&n->codec, codec_path, e) < 0)
        return e->code;
    memcpy(n->codec_sha256, n->codec.sha256, sizeof n->codec_sha256);
    return 0;
}

/* From here on the process opens files in its own folder only, if its transport allows that. */
int node_enter_sandbox(struct node *n, struct err *e)
{
    const struct transport_traits *t = &transport_traits[n->set.transport];
    char why[128];
    struct sandbox s;

    snprintf(why, sizeof why, "%s, in the codec's process, needs threads, sockets and files", t->name);
    if ((t->allows_isolation ? sandbox_enter(&s, n->folder_fd, n->job.require_isolation, e)
                             : sandbox_forgo(&s, why, n->job.require_isolation, e)) < 0)
        return e->code;
    fprintf(stderr, "isolation: %s, %s a tree of directories of its own%s%s%s%s\n", isolation_name(s.level),
            s.has_own_tree ? "in" : "without", s.has_own_tree ? "" : ": ", s.has_own_tree ? "" : s.no_tree,
            s.lacks[0] ? "; " : "", s.lacks);
    if (n->job.own_tree && t->allows_isolation && !s.has_own_tree) {
        err_set(e, ERR_CODEC,
                "this node has no tree of directories of its own, although its agent found at its start that "
                "nodes can have one: %s",
                s.no_tree);
        return err_hint(e, "Restart the agent: it checks that at its start.");
    }
    if (report_isolation(n->report, &s, e) < 0)
        return e->code;
    blas_start_threads();
    return 0;
}

int node_load_codec(struct node *n, struct err *e)
{
    enum phase last = phase_call(n->monitor->watch, PHASE_APPLY, STOPWATCH_LOAD);
    int rc = codec_library_load(&n->codec, codec_path, e);

    phase_enter(n->monitor->watch, last);
    return rc;
}

static int update_params(void *owner, size_t from, size_t n, uint64_t step, float lr_factor,
                         const double *norm, struct err *e)
{
    struct node *node = owner;

    return step_apply(&node->step, from, n, net_grads(node->net) + from, step, lr_factor, norm, e);
}

static int record_value(void *owner, const struct codec *c, const char *name, double value, struct err *e)
{
    struct node *n = owner;
    const struct record_codec row = {.time_s = n->started > 0 ? clock_now() - n->started : 0,
                                     .node = c->run->node,
                                     .step = c->run->step,
                                     .round = c->run->round,
                                     .name = name,
                                     .value = value};

    return node_record(n, ARTIFACT_CODEC_RECORDS, &row, sizeof row, 1, e);
}

static int list_layers(struct node *n, struct err *e)
{
    const struct tensor_view *t;

    n->n_layers = (int)net_tensors(n->net, &t);
    return exchange_list_layers(&n->layers, t, (size_t)n->n_layers, net_n_trained(n->net), e);
}

static void report_warning(void *owner, const char *text)
{
    const struct node *n = owner;

    report_warn(n->report, text);
}

static int open_step(struct node *n, struct err *e)
{
    return step_open(&n->step,
                     &(struct step_config){.set = &n->set,
                                           .schedule = &n->schedule,
                                           .exchange = n->exchange,
                                           .layers = n->layers,
                                           .n_layers = n->n_layers,
                                           .node = n->job.node,
                                           .params = net_params(n->net),
                                           .n_params = net_n_params(n->net),
                                           .n_trained = net_n_trained(n->net),
                                           .momentum = net_momentum(n->net),
                                           .n_blocks = n->loader.n_blocks,
                                           .has_labels = loader_has_labels(&n->loader),
                                           .text = loader_text(&n->loader, &n->set, &n->blocks),
                                           .updates_outside = n->program,
                                           .warn = report_warning,
                                           .owner = n},
                     e);
}

void node_take_model(struct node *n)
{
    if (n->model)
        exchange_model(n->exchange, n->model);
}

void node_swap_model(struct node *n)
{
    float *params = net_params(n->net);

    for (size_t i = 0; n->model && i < net_n_params(n->net); i++) {
        float own = params[i];

        params[i] = n->model[i];
        n->model[i] = own;
    }
}

static int open_model(struct node *n, struct err *e)
{
    if (n->job.node < 0 || !exchange_has_model(n->exchange))
        return 0;
    n->model = malloc(net_n_params(n->net) * sizeof *n->model);
    return n->model ? 0 : err_set(e, ERR_NOMEM, "no memory for the rule's model");
}

int node_open_exchange(struct node *n, struct err *e)
{
    struct exchange_config cfg = exchange_config_of(&n->set, n->job.node);

    if (list_layers(n, e) < 0 || test_sums_in(&cfg.n_test_sums, &n->set, n->spec, e) < 0)
        return e->code;
    cfg.plugin = n->codec.plugin;
    cfg.blocks = &n->blocks;
    cfg.n_params = net_n_params(n->net);
    cfg.n_statistics = net_n_params(n->net) - net_n_trained(n->net);
    cfg.ranges = n->ranges;
    cfg.params = net_params(n->net);
    cfg.grads = net_grads(n->net);
    cfg.layers = n->layers;
    cfg.n_layers = n->n_layers;
    cfg.update = update_params;
    cfg.record = record_value;
    cfg.owner = n;
    cfg.watch = n->monitor->watch;
    if (exchange_new(&n->exchange, &cfg, e) < 0)
        return e->code;
    return open_model(n, e) < 0 ? e->code : open_step(n, e);
}
