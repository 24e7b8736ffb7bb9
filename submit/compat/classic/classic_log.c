/* The training log of a worker as Parallel-SGD writes it: what it needs, a line per recorded step, one per
 * evaluation, and its end. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "submit/compat/classic/classic_file.h"
#include "submit/terminal/text.h"

/* Parallel-SGD's list of what a node needs before it trains, and where run.json has it. */
static const struct {
    const char *name, *at[2];
} check_list[] = {
    {"Optimizer", {"settings", "gradient_descent"}},
    {"Model", {"facts", "model"}},
    {"Dataset", {"facts", "data"}},
    {"Others", {"settings", "epochs"}},
    {"Transfer", {"facts", "codec"}},
    {"Batch Iterator", {"settings", "batch_size"}},
    {"Settings", {"settings", "node_count"}},
    {"Extra Parameters", {"settings", "codec_options"}},
};

/* One row of eval.csv. */
struct evaluation {
    int node;
    uint64_t step;
    double time_s;
    char epoch[CLASSIC_CELL], loss[CLASSIC_CELL], accuracy[CLASSIC_CELL];
};

struct evaluations {
    struct evaluation *rows; /* by node and step */
    size_t n, size;
    size_t *next; /* (node_count) the first that is not in the log yet */
};

static void put_line(struct classic *c, double time_s, const char *epoch, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void put_line(struct classic *c, double time_s, const char *epoch, const char *fmt, ...)
{
    double wall = classic_started(c, c->node) + time_s;
    char title[CLASSIC_NAME], of_epoch[CLASSIC_NAME] = "", hour[TEXT_AMOUNT];
    va_list ap;

    classic_fill(title, c->style->title, c, c->node, wall, "");
    if (epoch[0])
        classic_fill(of_epoch, c->style->epoch, c, c->node, wall, epoch);
    fprintf(c->f, "INFO %s%s@%s%s", title, of_epoch, text_hour(hour, wall), c->style->colon);
    va_start(ap, fmt);
    vfprintf(c->f, fmt, ap);
    va_end(ap);
    fputc('\n', c->f);
}

static bool has(const struct classic *c, size_t i)
{
    const json_t *v = json_object_get(json_object_get(c->run, check_list[i].at[0]), check_list[i].at[1]);

    return v && !json_is_null(v);
}

static void put_check_list(struct classic *c)
{
    bool is_ready = true;

    for (size_t i = 0; i < sizeof check_list / sizeof *check_list; i++)
        is_ready &= has(c, i);
    put_line(c, 0, "", "Ready:%s \n\t Check List:", is_ready ? "True" : "False");
    for (size_t i = 0; i < sizeof check_list / sizeof *check_list; i++)
        fprintf(c->f, "\t\t--> %s:%s\n", check_list[i].name, has(c, i) ? "OK" : "ABSENT");
}

static void copy_cell(char out[CLASSIC_CELL], const struct record_text *cell)
{
    snprintf(out, CLASSIC_CELL, "%.*s", (int)cell->len, cell->text);
}

static int take_evaluation(struct classic *c, int node, const struct record_text *cells, void *with,
                           struct err *e)
{
    const struct artifact *a = &artifacts[ARTIFACT_EVAL];
    struct evaluations *all = with;
    struct evaluation *row;

    (void)c;
    if (all->n == all->size) {
        size_t size = all->size ? 2 * all->size : 64;

        row = realloc(all->rows, size * sizeof *row);
        if (!row)
            return err_set(e, ERR_NOMEM, "no memory for %zu evaluations", size);
        all->rows = row;
        all->size = size;
    }
    row = &all->rows[all->n++];
    *row = (struct evaluation){.node = node,
                               .step = strtoull(cells[artifact_column(a, "step")].text, NULL, 10),
                               .time_s = strtod(cells[artifact_column(a, "time_s")].text, NULL)};
    copy_cell(row->epoch, &cells[artifact_column(a, "epoch")]);
    copy_cell(row->loss, &cells[artifact_column(a, "loss")]);
    copy_cell(row->accuracy, &cells[artifact_column(a, "accuracy")]);
    return 0;
}

static int by_node_and_step(const void *a, const void *b)
{
    const struct evaluation *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Those of c->node that were made before `step`. */
static void put_evaluations(struct classic *c, struct evaluations *all, uint64_t step)
{
    size_t *next = &all->next[c->node];

    for (; *next < all->n && all->rows[*next].node == c->node && all->rows[*next].step < step; ++*next) {
        const struct evaluation *row = &all->rows[*next];

        put_line(c, row->time_s, row->epoch, "Evaluate result: {'Loss': %s%s%s}", row->loss,
                 row->accuracy[0] ? ", 'accuracy': " : "", row->accuracy);
    }
}

static int log_row(struct classic *c, int node, const struct record_text *cells, void *with, struct err *e)
{
    static const struct {
        const char *name, *column;
        bool is_float;
    } parts[] = {{"Epochs", "epoch", false}, {"Batches", "batch", false}, {"in", "batches", false},
                 {"Total", "step", false},   {"Loss", "loss", true},      {"accuracy", "accuracy", true}};
    const struct artifact *a = &artifacts[ARTIFACT_TRAIN];
    char text[160], epoch[CLASSIC_CELL];
    size_t n = 0;
    bool is_new;

    if (classic_turn(c, &is_new, c->style->log, node, e) < 0)
        return e->code;
    if (is_new)
        put_check_list(c);
    copy_cell(epoch, &cells[artifact_column(a, "epoch")]);
    put_evaluations(c, with, strtoull(cells[artifact_column(a, "step")].text, NULL, 10));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct record_text *cell = &cells[artifact_column(a, parts[i].column)];
        char number[CLASSIC_CELL];

        if (cell->len == 0)
            continue;
        if (parts[i].is_float)
            snprintf(number, sizeof number, fabs(strtod(cell->text, NULL)) < 1e15 ? "%.4f" : "%.4g",
                     strtod(cell->text, NULL));
        else
            copy_cell(number, cell);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%s", n > 0 ? ", " : "", parts[i].name, number);
    }
    put_line(c, strtod(cells[artifact_column(a, "time_s")].text, NULL), epoch, "%s", text);
    return 0;
}

/* After the last row of each node. */
static int end_logs(struct classic *c, struct evaluations *all, struct err *e)
{
    bool is_new;

    for (int node = 0; node < c->s->settings.node_count; node++) {
        const json_t *o = classic_node(c, node);
        double time_s = json_number_value(json_object_get(o, "elapsed_s"));

        if (!c->is_begun[node])
            continue;
        if (classic_turn(c, &is_new, c->style->log, node, e) < 0)
            return e->code;
        put_evaluations(c, all, UINT64_MAX);
        put_line(c, time_s, "", "Execution complete, time: %.3f.", time_s);
        put_line(c, time_s, "", "Execution complete, Total bytes sent: %" JSON_INTEGER_FORMAT ".",
                 json_integer_value(json_object_get(o, "sent_bytes")));
        put_line(c, time_s, "", "Execution complete, Total bytes read: %" JSON_INTEGER_FORMAT ".",
                 json_integer_value(json_object_get(o, "recv_bytes")));
    }
    c->f = NULL;
    return 0;
}

int classic_write_logs(struct classic *c, struct err *e)
{
    size_t n_nodes = (size_t)c->s->settings.node_count;
    struct evaluations all = {.next = calloc(n_nodes, sizeof *all.next)};
    int rc = all.next ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu nodes", n_nodes);

    memset(c->is_begun, 0, n_nodes * sizeof *c->is_begun);
    if (rc == 0)
        rc = classic_each_row(c, ARTIFACT_EVAL, take_evaluation, &all, e);
    if (rc == 0 && all.n > 0)
        qsort(all.rows, all.n, sizeof *all.rows, by_node_and_step);
    for (size_t i = all.n; rc == 0 && i-- > 0;)
        all.next[all.rows[i].node] = i;
    for (size_t k = 0; rc == 0 && k < n_nodes; k++)
        if (all.n > 0 && all.rows[all.next[k]].node != (int)k)
            all.next[k] = all.n; /* it has none */
    if (rc == 0)
        rc = classic_each_row(c, ARTIFACT_TRAIN, log_row, &all, e);
    if (rc == 0)
        rc = end_logs(c, &all, e);
    free(all.rows);
    free(all.next);
    return rc;
}
