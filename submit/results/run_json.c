#include "submit/results/run_json.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_events.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/job/stop.h"
#include "shared/records/artifacts.h"
#include "submit/files/run_file.h"
#include "submit/job/outcome.h"
#include "submit/job/stragglers.h"
#include "submit/results/job_index.h"
#include "submit/results/language.h"
#include "submit/results/results.h"
#include "submit/results/warnings.h"
#include "submit/terminal/text.h"

enum { STOP_TEXT = 256 };
enum { ROWS_MAX = 64, ROWS_SHOWN = 12 }; /* the table shows ROWS_SHOWN of more than ROWS_MAX nodes */

/* Sums the bytes of all nodes and the step times of the workers, as a server only waits. *least: the smallest
 * fraction of its step time that a worker spends exchanging: the slowest worker's, on which the others wait;
 * NAN: no worker has reported. */
static struct comm sum_comm(const struct submission *s, double *least)
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

/* Seconds in which the codec reads and writes messages. Its apply() counts with the optimizer's update. */
static double codec_s(const struct comm *c)
{
    return c->seconds[PHASE_ENCODE] + c->seconds[PHASE_DECODE];
}

/* Does the codec take longer than computing, and longer than sending and waiting? */
static bool is_bound_by_codec(const struct comm *c)
{
    double codec = codec_s(c), own = c->seconds[PHASE_COMPUTE] + c->seconds[PHASE_APPLY];

    return codec > own && codec > c->seconds[PHASE_SEND] + c->seconds[PHASE_WAIT];
}

/* The limit of the job's speed: "compute" (faster workers help), "codec" (a quicker rule or compressor
 * helps), "communication" (a faster network or fewer messages help), or "slowest worker" (equally fast
 * workers help). */
static const char *bound_of(const struct comm *sum, double least)
{
    if (is_bound_by_codec(sum))
        return "codec";
    return least > 0.5 ? "communication" : comm_share(sum) > 0.5 ? "slowest worker" : "compute";
}

/* The mean of a double at `offset` in struct progress_view over the workers that have a finite one; NAN: no
 * worker has. Workers that the job has lost do not count. *differ: the workers have different numbers.
 * of_batch: the number is of a worker's last batch, and is weighted by its samples (--block-ratio); else it
 * is of the test set, which is the same for all. */
static double mean_of(const struct submission *s, size_t offset, bool of_batch, bool *differ)
{
    double sum = 0, n = 0, first = NAN;

    *differ = false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *k = &s->nodes[i];
        double v, weight = of_batch ? blocks_in_ratio(s->settings.block_ratio, k->at.node) : 1;

        memcpy(&v, (const char *)&k->view.progress + offset, sizeof v);
        if (node_is_server(k) || outcome_tolerates(s, k) || !isfinite(v))
            continue;
        first = n == 0 ? v : first;
        *differ |= v != first;
        sum += weight * v;
        n += weight;
    }
    return n == 0 ? NAN : *differ ? sum / n : first;
}

/* The reason for which training ended early, as the first worker reports it: it is the same on all. */
static const struct stop *find_stop(const struct submission *s)
{
    static const struct stop none; /* STOP_NONE */

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.progress.stopped.reason != STOP_NONE)
            return &s->nodes[i].view.progress.stopped;
    return &none;
}

static int begin_stop_text(char out[STOP_TEXT], const struct stop *why, const struct settings *set)
{
    return snprintf(out, STOP_TEXT, "The job ended by its evaluation after step %llu of %llu: ",
                    (unsigned long long)why->step, (unsigned long long)settings_steps(set));
}

/* That reason as a sentence. `why` is not STOP_NONE. Returns `out`. */
static const char *stop_text(char out[STOP_TEXT], const struct stop *why, const struct submission *s)
{
    const struct settings *set = &s->settings;
    bool has_accuracy = isfinite(why->accuracy);
    int n = 0;

    out[0] = '\0';
    switch (why->reason) {
    case STOP_MAX_STEPS:
        snprintf(out, STOP_TEXT,
                 "The job ended after step %llu, the limit of --max-steps, --max-mb or --max-tokens.",
                 (unsigned long long)why->step);
        break;
    case STOP_TARGET_ACCURACY:
        n = begin_stop_text(out, why, set);
        snprintf(out + n, STOP_TEXT - (size_t)n, "the accuracy of %.4f has reached --target-accuracy %g.",
                 why->accuracy, set->target_accuracy);
        break;
    case STOP_PATIENCE:
        n = begin_stop_text(out, why, set);
        snprintf(out + n, STOP_TEXT - (size_t)n,
                 "the %s of %.4f is no better than earlier ones (--patience %d).",
                 has_accuracy ? "accuracy" : "loss", has_accuracy ? why->accuracy : why->loss, set->patience);
        break;
    case STOP_CODEC:
        snprintf(out, STOP_TEXT, "The job ended after step %llu of %llu: its codec %s stopped it.",
                 (unsigned long long)why->step, (unsigned long long)settings_steps(set), set->codec);
        break;
    case STOP_FINISHED:
        snprintf(out, STOP_TEXT,
                 "The job ended after step %llu of %llu: %.100s has no more data on any worker.",
                 (unsigned long long)why->step, (unsigned long long)settings_steps(set), set->trainer);
        break;
    case STOP_NONE:
    case N_STOP_REASONS:
        break;
    }
    return out;
}

static const char about[] =
    "Results of one psgd job. run.json describes the job, its nodes and how it ended, and lists every "
    "file.\n\n";

/* Commands that work in a copy of the folder too, where the user has no such job. psgd computes outputs of
 * its own networks only. */
static const struct {
    const char *line;
    enum { OF_ANY_JOB, OF_NETWORKS, OF_LANGUAGE } of;
} commands[] = {
    {"job_submit browse .                  this run as a page, in a browser", OF_ANY_JOB},
    {"job_submit plot . --y accuracy       its curves, in the terminal", OF_ANY_JOB},
    {"job_submit predict .                 the model's outputs on the test set", OF_NETWORKS},
    {"job_submit generate . --prompt The   a text that the model goes on with", OF_LANGUAGE},
    {"job_submit compare . OTHER           beside another run", OF_ANY_JOB},
    {"job_submit why .                     how it ended, and what to do next", OF_ANY_JOB},
};

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

static json_t *sums_json(const struct submission *s)
{
    double least;
    struct comm sum = sum_comm(s, &least);
    json_t *o = comm_json(&sum);

    if (o)
        json_object_set_new(o, "bound", isfinite(least) ? json_string(bound_of(&sum, least)) : json_null());
    return o;
}

/* True if the final weights of all workers are equal; null if fewer than two are known, or if two models of
 * different steps differ, as the file names its step. */
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

static json_t *means_json(const struct submission *s)
{
    json_t *o = json_object();
    bool ignored;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name,
                            json_real_or_null(mean_of(s, numbers[i].offset, numbers[i].of_batch, &ignored)));
    return o;
}

/* Adds to a run of a model of language its results in the units of texts. */
static void note_language(json_t *run)
{
    json_t *mean = json_object_get(run, "mean_over_workers");
    struct language_results text;

    language_measure(&text, run);
    if (isnan(text.tokens))
        return;
    json_object_set_new(mean, "perplexity", json_real_or_null(text.perplexity));
    json_object_set_new(mean, "bits_per_byte", json_real_or_null(text.bits_per_byte));
    json_object_set_new(run, "tokens", json_number_or_null(text.tokens));
    json_object_set_new(run, "tokens_per_s", json_real_or_null(text.tokens_per_s));
}

/* The codec, and the last log lines, of the node that caused the failure. */
static json_t *failure_json(const struct submission *s, const struct job_node *cause)
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
                        s->cause >= 0 && s->state == JOB_FAILED ? failure_json(s, &s->nodes[s->cause])
                                                                : json_null());
    json_object_set_new(o, "is_complete", json_boolean(s->is_complete));
    json_object_set_new(o, "collected_at", json_string(clock_text(at, clock_wall())));
    json_object_set_new(
        o, "versions",
        json_pack("{s:s, s:i, s:i}", "psgd", PSGD_VERSION, "protocol", 1, "codec_abi", CODEC_ABI));
    for (size_t i = 0; i < s->n_nodes; i++)
        json_array_append_new(nodes, node_json(&s->nodes[i]));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "mean_over_workers", means_json(s));
    note_language(o);
    json_object_set_new(o, "stopped", stop_json(find_stop(s)));
    json_object_set_new(o, "comm", sums_json(s));
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

static void print_commands(FILE *f, const struct submission *s)
{
    bool is_of_text = json_object_get(json_object_get(s->facts, "data"), "window") != NULL;

    fputs("\nIn this folder:\n\n", f);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].of == OF_ANY_JOB ||
            (!s->settings.trainer[0] && (commands[i].of == OF_LANGUAGE) == is_of_text))
            fprintf(f, "%s\n", commands[i].line);
    fputs(program, f);
}

/* Have the results such a file? */
static bool is_written(const struct submission *s, const char *path)
{
    const json_t *file;
    size_t i;

    json_array_foreach(s->files, i, file)
    {
        if (strncmp(json_text_at(file, "name"), path, strlen(path)) == 0)
            return true;
    }
    return false;
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
        if (artifacts[i].help && is_written(s, artifacts[i].path))
            fprintf(f, "%-24s %s\n", artifacts[i].path, artifacts[i].help);
    if (!s->settings.executor)
        print_commands(f, s);
    rc = fclose(f) == 0 ? results_write(s, "README.txt", text, size, e) : err_set(e, ERR_NOMEM, "no memory");
    free(text);
    return rc;
}

int run_json_write(struct submission *s, struct err *e)
{
    return write_read_me(s, e) < 0 ? e->code : run_json_save(s, e);
}

/* An executor has neither accuracy nor loss. */
static void table_head(FILE *f, bool is_executor, bool has_hosts)
{
    fprintf(f, "%4s  %-6s  %-9s  ", "node", "role", "state");
    if (!is_executor)
        fprintf(f, "%9s  %9s  ", "accuracy", "loss");
    fprintf(f, "%9s  %9s  %11s%s\n", "sent", "received", "time", has_hosts ? "  host" : "");
}

static void table_row(FILE *f, const struct job_node *n, bool is_executor, bool has_hosts)
{
    const struct progress_view *p = &n->view.progress;
    char accuracy[TEXT_AMOUNT], loss[TEXT_AMOUNT], sent[TEXT_AMOUNT], received[TEXT_AMOUNT],
        time[TEXT_AMOUNT];
    bool is_known = n->silent_since == 0 || n->is_ended;

    fprintf(f, "%4d  %-6s  %-11s", n->at.node, node_role(n), node_state(n));
    if (!is_executor)
        fprintf(f, " %8s  %9s  ",
                text_result(accuracy, isfinite(p->eval_accuracy) ? p->eval_accuracy : p->accuracy),
                text_result(loss, isfinite(p->eval_loss) ? p->eval_loss : p->loss));
    fprintf(f, "%9s  %9s  %11s%s%s\n", is_known ? text_bytes(sent, p->comm.sent_bytes) : "-",
            is_known ? text_bytes(received, p->comm.recv_bytes) : "-",
            n->view.elapsed_s > 0 ? text_seconds(time, n->view.elapsed_s) : "-", has_hosts ? "  " : "",
            has_hosts ? n->at.address : "");
}

/* The attempt that the nodes' numbers are of. */
static int shown_attempt(const struct submission *s)
{
    int attempt = s->attempt;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].folder.attempt > attempt)
            attempt = s->nodes[i].folder.attempt;
    return attempt;
}

static void table_attempt(FILE *f, const struct submission *s)
{
    int attempt = shown_attempt(s);

    if (attempt > 1)
        fprintf(f, "\nSent, received and time are those of attempt %d, without the earlier ones.\n", attempt);
}

/* Without an evaluation the columns show the last training step, which is no result: a sentence says so. */
static void table_untested(FILE *f, const struct submission *s)
{
    bool has_some = false;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct progress_view *p = &s->nodes[i].view.progress;

        if (isfinite(p->eval_loss) || isfinite(p->eval_accuracy))
            return;
        has_some |= isfinite(p->loss);
    }
    if (has_some && s->settings.trainer[0])
        fprintf(f, "\n%s has made no evaluation: loss and accuracy are those of the last training step.\n",
                s->settings.trainer);
    else if (has_some && !s->settings.executor)
        fputs("\nNo worker has been tested on the test set: accuracy and loss are those of the last training "
              "step.\n",
              f);
}

/* A line with the mean over the workers, if they differ. */
static void table_mean(FILE *f, const struct submission *s)
{
    double accuracy, loss;
    char text[2][TEXT_AMOUNT];
    bool differ[2];

    accuracy = mean_of(s, offsetof(struct progress_view, eval_accuracy), false, &differ[0]);
    loss = mean_of(s, offsetof(struct progress_view, eval_loss), false, &differ[1]);
    if (differ[0] || differ[1])
        fprintf(f, "mean  %-6s  %-11s %8s  %9s\n", "worker", "", text_result(text[0], accuracy),
                text_result(text[1], loss));
}

static void table_stopped(FILE *f, const struct submission *s)
{
    const struct stop *why = find_stop(s);
    char text[STOP_TEXT];

    if (why->reason != STOP_NONE)
        fprintf(f, "\n%s\n", stop_text(text, why, s));
}

/* Do two nodes run on one machine, judging by their addresses? */
static bool shares_a_machine(const struct submission *s)
{
    for (size_t i = 1; i < s->n_nodes; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->nodes[i].at.host, s->nodes[k].at.host) == 0)
                return true;
    return false;
}

/* Bytes are counted as on a network, also where nodes share memory. */
static void table_bytes(FILE *f, const struct submission *s)
{
    if (s->settings.local_path == LOCAL_PATH_AUTO && !s->is_simulated && shares_a_machine(s))
        fprintf(f, "\nSent and received are bytes as on a network; nodes of one machine share memory where "
                   "they can.\n");
}

static void table_language(FILE *f, const struct submission *s)
{
    struct language_results text;
    char perplexity[TEXT_AMOUNT], bits[TEXT_AMOUNT];
    json_t *run = run_json(s);

    language_measure(&text, run);
    json_decref(run);
    if (isnan(text.tokens))
        return;
    fprintf(f, "\nText: perplexity %s, %s bits per byte; %.0f tokens, %.0f a second.\n",
            text_result(perplexity, text.perplexity), text_result(bits, text.bits_per_byte), text.tokens,
            text.tokens_per_s);
}

static void table_time(FILE *f, const struct submission *s)
{
    double least;
    struct comm sum = sum_comm(s, &least);
    double share = comm_share(&sum), all = 0;

    if (!isfinite(least))
        return;
    for (int i = 0; i < N_STEP_PHASES; i++)
        all += sum.seconds[i];
    fprintf(f, "\nTime of the %s: %.0f %% computing, %.0f %% exchanging (%.0f %% waiting). Bound by: %s.\n",
            s->settings.executor ? "executor" : "steps", 100 * (1 - share), 100 * share,
            100 * sum.seconds[PHASE_WAIT] / all,
            is_bound_by_codec(&sum) ? "the codec (encode/merge)" : bound_of(&sum, least));
}

static void table_warnings(FILE *f, const struct submission *s)
{
    json_t *all = warnings_json(s), *one;
    size_t i;

    json_array_foreach(all, i, one) fprintf(f, "\nWarning: %s\n", json_string_value(one));
    json_decref(all);
}

static void table_files(FILE *f, const struct submission *s)
{
    json_t *file;
    size_t i;

    json_array_foreach(s->files, i, file)
    {
        char amount[TEXT_AMOUNT];

        fprintf(f, "  %-34s %10s\n", json_string_value(json_object_get(file, "name")),
                text_bytes(amount, (uint64_t)json_integer_value(json_object_get(file, "bytes"))));
    }
    fprintf(f, "  logs/submit.log\n  run.json\n");
}

void run_json_print(FILE *f, const struct submission *s)
{
    bool is_quiet = s->opt && s->opt->quiet, has_hosts = s->job_folder[0];
    char text[160];
    size_t i;

    fprintf(f, "Job %s (%s, %s): %s\n\n", s->id, s->settings.name, s->settings.codec,
            job_state_name(s->state));
    table_head(f, s->settings.executor, has_hosts);
    for (i = 0; i < s->n_nodes && (i < ROWS_SHOWN || s->n_nodes <= ROWS_MAX); i++)
        table_row(f, &s->nodes[i], s->settings.executor, has_hosts);
    if (i < s->n_nodes)
        fprintf(f, "      and %zu more, all of them in run.json\n", s->n_nodes - i);
    table_mean(f, s);
    table_language(f, s);
    table_untested(f, s);
    table_stopped(f, s);
    table_attempt(f, s);
    if (!is_quiet) {
        table_bytes(f, s);
        table_time(f, s);
    }
    for (i = 0; i < s->n_nodes && !is_quiet; i++)
        if (straggler_text(text, sizeof text, s, i))
            fprintf(f, "%s.\n", text);
    table_warnings(f, s);
    if (json_array_size(s->files) == 0)
        return;
    fprintf(f, "\nResults in %s%s\n", s->folder, is_quiet ? "" : ":");
    if (!is_quiet)
        table_files(f, s);
}
