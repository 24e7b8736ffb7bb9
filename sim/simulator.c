/* simulator -- runs one simulated job. job_submit simulate starts it in the folder of the results; its only
 * argument is the folder with settings.json, simulation.json, codec.so and the other packages of a job. It
 * writes summary.json to the folder of the results. It is a separate program because it runs the codec's
 * code. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "nn/kernels/blas.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/helper_main.h"
#include "shared/base/helper_summary.h"
#include "shared/base/json.h"
#include "shared/records/artifacts.h"
#include "shared/records/preprocessing_file.h"
#include "sim/guard.h"
#include "sim/records.h"
#include "sim/summary.h"

enum { DOCUMENT_MAX = 1 << 20 };

static const double CALL_MAX_S = 60;

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

/* Writes the weights of the first worker that is done. */
static int write_model(const struct sim *s, struct err *e)
{
    const struct tensor_view *tensors;
    char step[32], seed[32];
    const char *record = s->trainer->preprocessing;
    const struct tensor_meta meta[] = {{"format", "psgd"},
                                       {"codec", s->set.codec},
                                       {"step", step},
                                       {"seed", seed},
                                       {s->trainer->arch ? "arch" : NULL, s->trainer->arch},
                                       {record ? PREPROCESSING_META : NULL, record},
                                       {0}};

    for (int i = 0; i < s->set.node_count; i++) {
        const struct sim_node *n = &s->nodes[i];
        size_t n_tensors;

        if (n->phase != SIM_DONE)
            continue;
        snprintf(step, sizeof step, "%llu", (unsigned long long)n->step.n_done);
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->set.seed);
        n_tensors = s->trainer->ops->tensors(s->trainer, sim_model_of(s, n), &tensors);
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
    *summary = sim_summary(s, is_search ? &found : NULL, clock_now() - begun);
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
    blas_choose_core(argv);
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
