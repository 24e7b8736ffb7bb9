#include "submit/results/run_json.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_events.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/artifacts.h"
#include "submit/files/run_file.h"
#include "submit/job/stragglers.h"
#include "submit/results/job_index.h"
#include "submit/results/results.h"
#include "submit/results/run_sums.h"
#include "submit/results/warnings.h"

static const char about[] =
    "Results of one psgd job. run.json describes the job, its nodes and how it ended, and lists every "
    "file.\n\n";

/* Wherever the folder is, and whether the job has an id there. */
static const char commands[] = "\n"
                               "In this folder:\n"
                               "\n"
                               "job_submit browse .                  this run as a page, in a browser\n"
                               "job_submit plot . --y accuracy       its curves, in the terminal\n"
                               "job_submit predict .                 the model's outputs on the test set\n"
                               "job_submit compare . OTHER           beside another run\n"
                               "job_submit why .                     how it ended, and what to do next\n";

static const char program[] = "\n"
                              "A few lines of Python with numpy read the records and the weights:\n"
                              "\n"
                              "import json, struct\n"
                              "import numpy as np\n"
                              "rows = np.genfromtxt('records/eval.csv', delimiter=',', names=True)\n"
                              "raw = open('model/final.safetensors', 'rb').read()\n"
                              "n = struct.unpack('<Q', raw[:8])[0]\n"
                              "head = json.loads(raw[8:8 + n])\n"
                              "w = {k: np.frombuffer(raw, '<f4', int(np.prod(t['shape'])), 8 + n + "
                              "t['data_offsets'][0]).reshape(t['shape'])\n"
                              "     for k, t in head.items() if k != '__metadata__'}\n"
                              "print(rows['accuracy'], {k: v.shape for k, v in w.items()})\n";

static json_t *node_json(const struct job_node *n)
{
    const struct progress_view *p = &n->view.progress;
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f}", "node", n->at.node, "role",
                          node_role(n), "address", n->at.address, "agent_id", n->agent.id, "agent_version",
                          n->agent.version, "state", node_state(n), "message", n->view.message, "started_at",
                          n->view.started_at, "finished_at", n->view.finished_at, "elapsed_s",
                          n->view.elapsed_s);

    if (!o)
        return NULL;
    json_object_set_new(o, "reason", n->view.reason[0] ? json_string(n->view.reason) : json_null());
    json_object_set_new(o, "submitter",
                        n->view.submitter[0] ? json_text(n->view.submitter, SIZE_MAX) : json_null());
    json_object_set_new(o, "engine", n->view.engine[0] ? json_string(n->view.engine) : json_null());
    json_object_set_new(o, "isolation", n->view.isolation[0] ? json_string(n->view.isolation) : json_null());
    json_object_set_new(o, "steps", json_integer(p->step));
    json_object_set_new(o, "loss", json_real_or_null(p->loss));
    json_object_set_new(o, "accuracy", json_real_or_null(p->accuracy));
    json_object_set_new(o, "eval_loss", json_real_or_null(p->eval_loss));
    json_object_set_new(o, "eval_accuracy", json_real_or_null(p->eval_accuracy));
    json_object_set_new(o, "sent_bytes", json_integer((json_int_t)p->comm.sent_bytes));
    json_object_set_new(o, "recv_bytes", json_integer((json_int_t)p->comm.recv_bytes));
    json_object_set_new(o, "comm", comm_json(&p->comm));
    if (n->traffic)
        json_object_set(json_object_get(o, "comm"), "peers", n->traffic);
    json_object_set_new(o, "waits_for", p->is_held_up ? json_integer(p->waits_for) : json_null());
    json_object_set_new(o, "params_sha256",
                        p->params_sha256[0] ? json_string(p->params_sha256) : json_null());
    json_object_set_new(o, "model_sha256", n->model_sha256[0] ? json_string(n->model_sha256) : json_null());
    return o;
}

static json_t *job_comm(const struct submission *s)
{
    double least;
    struct comm sum = run_comm(s, &least);
    json_t *o = comm_json(&sum);

    if (o)
        json_object_set_new(o, "bound", isfinite(least) ? json_string(run_bound(&sum, least)) : json_null());
    return o;
}

/* True if the final weights of all workers are equal; null if fewer than two are known, or if models of
 * different steps differ: their files name the step. */
static json_t *models_agree(const struct submission *s)
{
    const struct job_node *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *k = &s->nodes[i];

        if (node_is_server(k) || !k->model_sha256[0])
            continue;
        if (first && strcmp(first->model_sha256, k->model_sha256) != 0)
            return first->view.progress.step == k->view.progress.step ? json_false() : json_null();
        first = k;
        n++;
    }
    return n > 1 ? json_true() : json_null();
}

static const struct {
    const char *name;
    size_t offset;
    bool of_batch;
} numbers[] = {{"loss", offsetof(struct progress_view, loss), true},
               {"accuracy", offsetof(struct progress_view, accuracy), true},
               {"eval_loss", offsetof(struct progress_view, eval_loss), false},
               {"eval_accuracy", offsetof(struct progress_view, eval_accuracy), false}};

static json_t *means(const struct submission *s)
{
    json_t *o = json_object();
    bool ignored;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name,
                            json_real_or_null(run_mean(s, numbers[i].offset, numbers[i].of_batch, &ignored)));
    return o;
}

/* Codec and last log lines of the node that decided the failure. */
static json_t *failure(const struct submission *s, const struct job_node *cause)
{
    const json_t *codec = submission_codec_facts(s, cause);

    return json_pack("{s:i, s:O?, s:O?, s:O?, s:O?}", "node", cause->at.node, "codec",
                     json_object_get(codec, "name"), "codec_sha256", json_object_get(codec, "sha256"),
                     "source_sha256", json_object_get(codec, "source_sha256"), "last_log", s->last_log);
}

json_t *run_json(const struct submission *s)
{
    json_t *o = job_index_json(s);
    json_t *nodes = json_array();
    char at[CLOCK_TEXT];

    if (!o || !nodes) {
        json_decref(o);
        json_decref(nodes);
        return NULL;
    }
    json_object_del(o, "submitted_s");
    json_object_set_new(o, "state", json_string(job_state_name(s->state)));
    json_object_set_new(o, "failure",
                        s->cause >= 0 && s->state == JOB_FAILED ? failure(s, &s->nodes[s->cause])
                                                                : json_null());
    json_object_set_new(o, "is_complete", json_boolean(s->is_complete));
    json_object_set_new(o, "collected_at", json_string(clock_text(at, clock_wall())));
    json_object_set_new(
        o, "versions",
        json_pack("{s:s, s:i, s:i}", "psgd", PSGD_VERSION, "protocol", 1, "codec_abi", CODEC_ABI));
    for (size_t i = 0; i < s->n_nodes; i++)
        json_array_append_new(nodes, node_json(&s->nodes[i]));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "mean_over_workers", means(s));
    json_object_set_new(o, "stopped", stop_json(run_stopped(s)));
    json_object_set_new(o, "comm", job_comm(s));
    json_object_set_new(o, "models_agree", models_agree(s));
    json_object_set_new(o, "stragglers", stragglers_json(s));
    json_object_set_new(o, "warnings", warnings_json(s));
    json_object_set(o, "files", s->files);
    return o;
}

int run_json_save(const struct submission *s, struct err *e)
{
    json_t *o = run_json(s);
    int rc = run_file_save(o, s->folder, e);

    json_decref(o);
    return rc;
}

static int write_read_me(struct submission *s, struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory");
    fputs(about, f);
    fprintf(f, "%-24s %s\n", REPORT_NAME, "all this as a page, for a browser");
    for (int i = 0; i < N_ARTIFACTS; i++)
        if (artifacts[i].help && artifact_is_of(&artifacts[i], false, s->settings.executor))
            fprintf(f, "%-24s %s\n", artifacts[i].path, artifacts[i].help);
    if (!s->settings.executor)
        fprintf(f, "%s%s", commands, program);
    rc = fclose(f) == 0 ? results_write(s, "README.txt", text, size, e) : err_set(e, ERR_NOMEM, "no memory");
    free(text);
    return rc;
}

int run_json_write(struct submission *s, struct err *e)
{
    return write_read_me(s, e) < 0 ? e->code : run_json_save(s, e);
}
