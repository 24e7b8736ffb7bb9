/* simulator -- runs one simulated job. job_submit simulate starts it in the folder of the results; its only
 * argument is the folder with settings.json, simulation.json, codec.so and the other packages of a job. It
 * writes summary.json to the folder of the results. It is a separate program because it runs the codec's
 * code. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "nn/kernels/blas.h"
#include "runner/lines/report.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/helper.h"
#include "shared/base/json.h"
#include "shared/job/comm.h"
#include "shared/job/reason.h"
#include "shared/records/artifacts.h"
#include "shared/records/weights.h"
#include "sim/explore.h"
#include "sim/guard.h"

enum { DOCUMENT_MAX = 1 << 20 };

static const double CALL_MAX_S = 60; /* most time of one call of a codec */

static void on_signal(int sig)
{
    (void)sig;
    flag_raise(&sim_interrupted);
}

static int read_document(json_t **out, const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, folder, name, e) < 0)
        return e->code;
    return json_read(out, path, DOCUMENT_MAX, e);
}

static int read_documents(struct settings *set, struct simulation *how, const char *folder, struct err *e)
{
    json_t *doc;
    int rc;

    if (read_document(&doc, folder, "settings.json", e) < 0)
        return e->code;
    rc = settings_parse(set, doc, e);
    json_decref(doc);
    if (rc < 0)
        return err_at(e, "settings");
    if (read_document(&doc, folder, "simulation.json", e) < 0)
        return e->code;
    rc = simulation_parse(how, doc, e);
    json_decref(doc);
    return rc < 0 ? err_at(e, "simulation") : 0;
}

static struct comm comm_of(const struct sim_node *n)
{
    const struct exchange_totals *t = exchange_totals(n->x);
    struct comm c = {.sent_messages = t->sent_messages,
                     .recv_messages = t->recv_messages,
                     .raw_bytes = t->raw_bytes,
                     .sent_bytes = t->sent_bytes,
                     .recv_bytes = t->recv_bytes};

    memcpy(c.seconds, exchange_watch(n->x)->spent, sizeof c.seconds);
    return c;
}

static const char *state_of(const struct sim_node *n)
{
    return n->phase == SIM_DONE ? "succeeded" : "failed";
}

static json_t *node_json(const struct sim *s, const struct sim_node *n)
{
    const struct comm c = comm_of(n);
    const char *reason = n->phase == SIM_KILLED ? REASON_NODE_LOST
                         : n->e                 ? report_ending(n->e->code)->reason
                                                : NULL;
    const char *message = n->phase == SIM_KILLED ? "killed, as --kill asks" : n->e ? n->e->text : "";
    json_t *o = json_pack("{s:i, s:s, s:s?, s:o, s:I, s:f, s:o?}", "node", n->node, "state", state_of(n),
                          "reason", reason, "message", json_text(message, SIZE_MAX), "step",
                          (json_int_t)n->step.n_done, "elapsed_s", n->ended_at, "comm", comm_json(&c));

    if (!o)
        return NULL;
    if (n->node >= 0 && n->phase == SIM_DONE) {
        const struct stop why = step_stop(&n->step);
        uint8_t digest[SHA256_BYTES];
        char hex[SHA256_HEX];

        json_object_set_new(o, "stopped", stop_json(&why));
        if (sim_weights_sha256(digest, s, n)) {
            hex_encode(hex, digest, sizeof digest);
            json_object_set_new(o, "params_sha256", json_string(hex));
        }
        json_object_set_new(o, "combined_nothing", json_boolean(exchange_combined_nothing(n->x)));
    }
    json_object_set_new(o, "loss", json_real_or_null(n->step.loss));
    json_object_set_new(o, "accuracy", json_real_or_null(n->step.accuracy));
    json_object_set_new(o, "eval_loss", json_real_or_null(n->eval_loss));
    json_object_set_new(o, "eval_accuracy", json_real_or_null(n->eval_accuracy));
    return o;
}

static json_t *search_json(const struct explore_result *f)
{
    return json_pack("{s:I, s:I, s:b, s:o, s:s}", "orders", (json_int_t)f->n_orders, "different",
                     (json_int_t)f->n_different, "is_complete", f->is_complete, "failure",
                     json_text(f->failure, SIZE_MAX), "order", f->order);
}

static uint64_t count_left_out(const struct sim *s)
{
    uint64_t n = 0;

    for (int i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].step.n_left_out;
    return n;
}

/* The document that job_submit reads: the reports that a job's agents would send about each node, and values
 * that only a simulation has. `found`: result of a search of all orders, or NULL. `seconds`: real time of the
 * simulation. Returns NULL without memory. */
static json_t *make_summary(const struct sim *s, const struct explore_result *found, double seconds)
{
    uint64_t n_messages = mesh_sim_messages(s->net);
    json_t *nodes = json_array();
    char overhead[64], steps[SIMULATION_TEXT];
    double step = sim_steps_text(steps, sizeof steps, &s->steps);
    json_t *o;

    sim_overhead_text(overhead, sizeof overhead, &s->overhead);
    o = json_pack("{s:b, s:b, s:f, s:f, s:I, s:f, s:f, s:s, s:f, s:f, s:s, s:b, s:b}", "ok", 1, "succeeded",
                  sim_has_succeeded(s) && !(found && found->failure[0]), "sim_time_s", sim_time(s), "wall_s",
                  seconds, "messages", (json_int_t)n_messages, "messages_per_s",
                  seconds > 0 ? (double)n_messages / seconds : 0.0, "step_time_s", step, "step_time", steps,
                  "eval_time_s", s->eval_time_s, "codec_rate_mbps", s->codec_rate / 1e6, "overhead", overhead,
                  "models_agree", sim_models_agree(s), "models_are_finite", sim_models_are_finite(s));

    if (!o || !nodes) {
        json_decref(o);
        json_decref(nodes);
        return NULL;
    }
    json_object_set_new(o, "left_out", json_integer((json_int_t)count_left_out(s)));
    json_object_set_new(o, "cause", s->cause >= 0 ? json_integer(s->nodes[s->cause].node) : json_null());
    for (int i = 0; i < s->n_nodes; i++)
        json_array_append_new(nodes, node_json(s, &s->nodes[i]));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "search", found ? search_json(found) : json_null());
    return o;
}

/* Writes the weights of the first worker that is done. */
static int write_model(const struct sim *s, struct err *e)
{
    const struct tensor_view *tensors;
    char step[32], seed[32];
    const char *record = s->workload->preprocessing;
    const struct tensor_meta meta[] = {{"format", "psgd"},
                                       {"codec", s->set.codec},
                                       {"step", step},
                                       {"seed", seed},
                                       {s->workload->arch ? "arch" : NULL, s->workload->arch},
                                       {record ? PREPROCESSING_META : NULL, record},
                                       {0}};

    for (int i = 0; i < s->set.node_count; i++) {
        const struct sim_node *n = &s->nodes[i];
        size_t n_tensors;

        if (n->phase != SIM_DONE)
            continue;
        snprintf(step, sizeof step, "%llu", (unsigned long long)n->step.n_done);
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->set.seed);
        n_tensors = s->workload->ops->tensors(s->workload, sim_model_of(s, n), &tensors);
        return tensor_file_write(artifacts[ARTIFACT_FINAL_MODEL].path, tensors, n_tensors, meta, e);
    }
    return 0;
}

/* Runs a simulation, from its documents to its summary. */
static int simulate_or_search(struct sim *s, json_t **summary, struct err *e)
{
    bool is_search = s->how.exhaustive || s->how.replay[0];
    struct explore_result found;
    double begun = clock_now();

    if ((!s->how.exhaustive && sim_records_open(&s->records, e) < 0) ||
        (is_search ? sim_explore(s, s->how.replay, &found, e) : sim_run(s, e)) < 0)
        return e->code;
    *summary = make_summary(s, is_search ? &found : NULL, clock_now() - begun);
    return write_model(s, e);
}

static int run_folder(const char *folder, json_t **summary, struct err *e)
{
    static char codecs[160]; /* as long as the guard's thread */
    struct stopwatch *guard;
    struct settings set;
    struct simulation how;
    struct sim s;
    struct err late;
    bool has_two;
    int rc;

    if (read_documents(&set, &how, folder, e) < 0)
        return e->code;
    has_two = set.server_codec[0] && strcmp(set.server_codec, set.codec) != 0;
    snprintf(codecs, sizeof codecs, "%s%s%s", set.codec, has_two ? " or " : "",
             has_two ? set.server_codec : "");
    guard = guard_begin(folder, codecs, CALL_MAX_S, e);
    if (!guard || sim_open(&s, &set, &how, folder, guard, e) < 0)
        return e->code;
    rc = simulate_or_search(&s, summary, e);
    if (s.records && sim_records_close(s.records, &late) < 0 && rc == 0) {
        *e = late;
        rc = late.code;
    }
    sim_close(&s);
    return rc;
}

int main(int argc, char **argv)
{
    const struct sigaction stop = {.sa_handler = on_signal};
    json_t *summary = NULL;
    struct err e = {0};
    int rc;

    if (argc != 2 || argv[1][0] == '-')
        return helper_main(argc, argv, "simulator", "job_submit simulate");
    blas_choose_core();
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    rc = run_folder(argv[1], &summary, &e);
    if (rc < 0) {
        json_decref(summary);
        summary = helper_summary_failure(&e);
    }
    if (helper_summary_write(summary, argv[1], &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    return rc < 0;
}
