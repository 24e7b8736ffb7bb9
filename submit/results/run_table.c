/* run_table -- the table of a job's result on stdout: run_json.h. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "submit/job/stragglers.h"
#include "submit/results/run_json.h"
#include "submit/results/run_sums.h"
#include "submit/results/stopped.h"
#include "submit/results/warnings.h"
#include "submit/terminal/text.h"

enum { ROWS_MAX = 64, ROWS_SHOWN = 12 };

/* Of an executor, which has neither accuracy nor loss. */
static void table_head(FILE *f, bool is_executor)
{
    fprintf(f, "%4s  %-6s  %-9s  ", "node", "role", "state");
    if (!is_executor)
        fprintf(f, "%9s  %9s  ", "accuracy", "loss");
    fprintf(f, "%9s  %9s  %11s\n", "sent", "received", "time");
}

static void table_row(FILE *f, const struct job_node *n, bool is_executor)
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
    fprintf(f, "%9s  %9s  %11s\n", is_known ? text_bytes(sent, p->comm.sent_bytes) : "-",
            is_known ? text_bytes(received, p->comm.recv_bytes) : "-",
            n->view.elapsed_s > 0 ? text_seconds(time, n->view.elapsed_s) : "-");
}

/* Of a job that has not come to a test the columns are those of a training step, which nobody should take
 * for a result. */
static void table_untested(FILE *f, const struct submission *s)
{
    bool has_some = false;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct progress_view *p = &s->nodes[i].view.progress;

        if (isfinite(p->eval_loss) || isfinite(p->eval_accuracy))
            return;
        has_some |= isfinite(p->loss);
    }
    if (has_some && !s->settings.executor)
        fputs("\nNo worker has been tested on the test set: accuracy and loss are those of the last training "
              "step.\n",
              f);
}

/* A line with the workers' mean, where they differ. */
static void table_mean(FILE *f, const struct submission *s)
{
    double accuracy, loss;
    char text[2][TEXT_AMOUNT];
    bool differ[2];

    accuracy = run_mean(s, offsetof(struct progress_view, eval_accuracy), false, &differ[0]);
    loss = run_mean(s, offsetof(struct progress_view, eval_loss), false, &differ[1]);
    if (differ[0] || differ[1])
        fprintf(f, "mean  %-6s  %-11s %8s  %9s\n", "worker", "", text_result(text[0], accuracy),
                text_result(text[1], loss));
}

/* Why the job has ended early, in a sentence. */
static void table_stopped(FILE *f, const struct submission *s)
{
    const struct stop *why = run_stopped(s);
    char text[STOP_TEXT];

    if (why->reason != STOP_NONE)
        fprintf(f, "\n%s\n", stopped_text(text, why, s));
}

/* Do two nodes run on one machine, by their addresses? */
static bool shares_a_machine(const struct submission *s)
{
    for (size_t i = 1; i < s->n_nodes; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->nodes[i].at.host, s->nodes[k].at.host) == 0)
                return true;
    return false;
}

/* Bytes are counted as they would be on a network, whatever carries them. */
static void table_bytes(FILE *f, const struct submission *s)
{
    if (s->settings.local_path == LOCAL_PATH_AUTO && !s->is_simulated && shares_a_machine(s))
        fprintf(f, "\nSent and received are bytes as on a network; nodes of one machine share memory where "
                   "they can.\n");
}

static void table_time(FILE *f, const struct submission *s)
{
    double least;
    struct comm sum = run_comm(s, &least);
    double share = comm_share(&sum), all = 0;

    if (!isfinite(least))
        return;
    for (int i = 0; i < N_STEP_PHASES; i++)
        all += sum.seconds[i];
    fprintf(f, "\nTime of the %s: %.0f %% computing, %.0f %% exchanging (%.0f %% waiting). Bound by: %s.\n",
            s->settings.executor ? "executor" : "steps", 100 * (1 - share), 100 * share,
            100 * sum.seconds[PHASE_WAIT] / all,
            run_is_bound_by_codec(&sum) ? "the codec (encode/merge)" : run_bound(&sum, least));
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

void run_table(FILE *f, const struct submission *s)
{
    bool is_quiet = s->opt && s->opt->quiet;
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
    table_untested(f, s);
    table_stopped(f, s);
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
