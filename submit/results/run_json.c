#include "submit/results/run_json.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "shared/artifacts.h"
#include "shared/clock.h"
#include "shared/file.h"
#include "shared/json.h"
#include "submit/results/job_index.h"
#include "submit/results/results.h"
#include "submit/results/stopped.h"
#include "submit/stages/outcome.h"
#include "submit/text.h"

enum { ROWS_MAX = 64, ROWS_SHOWN = 12 };

static const char about[] =
    "Results of one psgd job. run.json describes the job, its nodes and how it ended, and lists every "
    "file.\n\n";

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

static json_t *node_json(const struct node *n)
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
    json_object_set_new(o, "model_sha256", n->model_sha256[0] ? json_string(n->model_sha256) : json_null());
    return o;
}

/* Sums the bytes of all nodes and the step times of the workers; a server only waits. *least: the smallest
 * fraction of step time that any worker spends exchanging, which is the worker the others wait for; NAN: no
 * worker has reported. */
static struct comm sum_up(const struct submission *s, double *least)
{
    struct comm sum = {0};

    *least = NAN;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct comm c = s->nodes[i].view.progress.comm;

        if (node_is_server(&s->nodes[i]))
            memset(c.seconds, 0, sizeof c.seconds);
        else
            *least = fmin(*least, comm_share(&c)); /* fmin of NAN and a number is the number */
        comm_add(&sum, &c);
    }
    return sum;
}

/* What limits the speed of the job: compute (faster workers help), communication (a faster network or fewer
 * messages help), or the slowest worker (equally fast workers help). */
static const char *bound(const struct comm *sum, double least)
{
    return least > 0.5 ? "communication" : comm_share(sum) > 0.5 ? "slowest worker" : "compute";
}

static json_t *job_comm(const struct submission *s)
{
    double least;
    struct comm sum = sum_up(s, &least);
    json_t *o = comm_json(&sum);

    if (o)
        json_object_set_new(o, "bound", isfinite(least) ? json_string(bound(&sum, least)) : json_null());
    return o;
}

/* True if the final weights of all workers are equal; null if fewer than two are known, or if models of
 * different steps differ: their files name the step. */
static json_t *models_agree(const struct submission *s)
{
    const struct node *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *k = &s->nodes[i];

        if (node_is_server(k) || !k->model_sha256[0])
            continue;
        if (first && strcmp(first->model_sha256, k->model_sha256) != 0)
            return first->view.progress.step == k->view.progress.step ? json_false() : json_null();
        first = k;
        n++;
    }
    return n > 1 ? json_true() : json_null();
}

/* The mean over the workers that have the number; NAN: none has. A worker that the job has lost does not
 * count. *differ: they do not all have the same. */
static double mean_of(const struct submission *s, size_t offset, bool *differ)
{
    double sum = 0, first = NAN;
    size_t n = 0;

    *differ = false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *k = &s->nodes[i];
        double v;

        memcpy(&v, (const char *)&k->view.progress + offset, sizeof v);
        if (node_is_server(k) || outcome_tolerates(s, k) || !isfinite(v))
            continue;
        first = n == 0 ? v : first;
        *differ |= v != first;
        sum += v;
        n++;
    }
    return n == 0 ? NAN : *differ ? sum / (double)n : first;
}

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {{"loss", offsetof(struct progress_view, loss)},
               {"accuracy", offsetof(struct progress_view, accuracy)},
               {"eval_loss", offsetof(struct progress_view, eval_loss)},
               {"eval_accuracy", offsetof(struct progress_view, eval_accuracy)}};

static json_t *means(const struct submission *s)
{
    json_t *o = json_object();
    bool ignored;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name, json_real_or_null(mean_of(s, numbers[i].offset, &ignored)));
    return o;
}

/* Why training ended early: on all workers for the same reason, as their first one states it. */
static const struct stop *stopped(const struct submission *s)
{
    static const struct stop none;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.progress.stopped.reason != STOP_NONE)
            return &s->nodes[i].view.progress.stopped;
    return &none;
}

/* Codec and last log lines of the node that decided the failure. */
static json_t *failure(const struct submission *s, const struct node *cause)
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
    json_object_set_new(o, "stopped", stop_json(stopped(s)));
    json_object_set_new(o, "comm", job_comm(s));
    json_object_set_new(o, "models_agree", models_agree(s));
    json_object_set_new(o, "stragglers", pace_json(s));
    json_object_set(o, "files", s->files);
    return o;
}

int run_json_save(const struct submission *s, struct err *e)
{
    json_t *o = run_json(s);
    char *text = o ? json_dump(o, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    char path[PATH_MAX];
    int rc;

    json_decref(o);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for run.json");
    rc = file_join(path, sizeof path, s->folder, "run.json", e);
    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0644, e);
    free(text);
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
    for (int i = 0; i < N_ARTIFACTS; i++)
        if (artifacts[i].help && artifact_is_of(&artifacts[i], false, s->settings.executor))
            fprintf(f, "%-24s %s\n", artifacts[i].path, artifacts[i].help);
    if (!s->settings.executor)
        fputs(program, f);
    rc = fclose(f) == 0 ? results_write(s, "README.txt", text, size, e) : err_set(e, ERR_NOMEM, "no memory");
    free(text);
    return rc;
}

int run_json_write(struct submission *s, struct err *e)
{
    return write_read_me(s, e) < 0 ? e->code : run_json_save(s, e);
}

static const char *number(char *out, size_t size, double v)
{
    if (isfinite(v))
        snprintf(out, size, "%.4f", v);
    else
        snprintf(out, size, "-");
    return out;
}

/* Of an executor, which has neither accuracy nor loss. */
static void table_head(FILE *f, bool is_executor)
{
    fprintf(f, "%4s  %-6s  %-9s  ", "node", "role", "state");
    if (!is_executor)
        fprintf(f, "%9s  %9s  ", "accuracy", "loss");
    fprintf(f, "%9s  %9s  %11s\n", "sent", "received", "time");
}

static void table_row(FILE *f, const struct node *n, bool is_executor)
{
    const struct progress_view *p = &n->view.progress;
    char accuracy[24], loss[24], sent[TEXT_AMOUNT], received[TEXT_AMOUNT], time[TEXT_AMOUNT];
    bool is_known = n->silent_since == 0 || n->is_ended;

    fprintf(f, "%4d  %-6s  %-11s", n->at.node, node_role(n), node_state(n));
    if (!is_executor)
        fprintf(
            f, " %8s  %9s  ",
            number(accuracy, sizeof accuracy, isfinite(p->eval_accuracy) ? p->eval_accuracy : p->accuracy),
            number(loss, sizeof loss, isfinite(p->eval_loss) ? p->eval_loss : p->loss));
    fprintf(f, "%9s  %9s  %11s\n", is_known ? text_bytes(sent, p->comm.sent_bytes) : "-",
            is_known ? text_bytes(received, p->comm.recv_bytes) : "-",
            n->view.elapsed_s > 0 ? text_seconds(time, n->view.elapsed_s) : "-");
}

/* A line with the workers' mean, where they differ. */
static void table_mean(FILE *f, const struct submission *s)
{
    double accuracy, loss;
    char text[2][24];
    bool differ[2];

    accuracy = mean_of(s, offsetof(struct progress_view, eval_accuracy), &differ[0]);
    loss = mean_of(s, offsetof(struct progress_view, eval_loss), &differ[1]);
    if (differ[0] || differ[1])
        fprintf(f, "mean  %-6s  %-11s %8s  %9s\n", "worker", "", number(text[0], sizeof text[0], accuracy),
                number(text[1], sizeof text[1], loss));
}

/* Why the job has ended early, in a sentence. */
static void table_stopped(FILE *f, const struct submission *s)
{
    const struct stop *why = stopped(s);
    char text[STOP_TEXT];

    if (why->reason != STOP_NONE)
        fprintf(f, "\n%s\n", stopped_text(text, why, s));
}

static void table_time(FILE *f, const struct submission *s)
{
    double least;
    struct comm sum = sum_up(s, &least);
    double share = comm_share(&sum), all = 0;

    if (!isfinite(least))
        return;
    for (int i = 0; i < N_STEP_PHASES; i++)
        all += sum.seconds[i];
    fprintf(f, "\nTime of the %s: %.0f %% computing, %.0f %% exchanging (%.0f %% waiting). Bound by: %s.\n",
            s->settings.executor ? "executor" : "steps", 100 * (1 - share), 100 * share,
            100 * sum.seconds[PHASE_WAIT] / all, bound(&sum, least));
}

void run_table(FILE *f, const struct submission *s)
{
    json_t *file;
    char text[160];
    size_t i;

    fprintf(f, "Job %s (%s, %s): %s\n\n", s->id, s->settings.name, s->settings.codec,
            job_state_name(s->state));
    table_head(f, s->settings.executor);
    for (i = 0; i < s->n_nodes && (i < ROWS_SHOWN || s->n_nodes <= ROWS_MAX); i++)
        table_row(f, &s->nodes[i], s->settings.executor);
    if (i < s->n_nodes)
        fprintf(f, "      and %zu more, all of them in run.json\n", s->n_nodes - i);
    table_mean(f, s);
    table_stopped(f, s);
    table_time(f, s);
    for (i = 0; i < s->n_nodes; i++)
        if (pace_text(text, sizeof text, s, i))
            fprintf(f, "%s.\n", text);
    if (json_array_size(s->files) == 0)
        return;
    fprintf(f, "\nResults in %s:\n", s->folder);
    json_array_foreach(s->files, i, file)
    {
        char amount[TEXT_AMOUNT];

        fprintf(f, "  %-34s %10s\n", json_string_value(json_object_get(file, "name")),
                text_bytes(amount, (uint64_t)json_integer_value(json_object_get(file, "bytes"))));
    }
    fprintf(f, "  logs/submit.log\n  run.json\n");
}
