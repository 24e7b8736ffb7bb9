#include "submit/stages/progress_bar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { BARS_MAX = 12, SLOWEST = 3, LINE = 256 };
/* The bar's width is that of the line less LABELS, within bounds. */
enum { BAR_MIN = 8, BAR_MAX = 48, LABELS = 70 };
static const double redraw_s = 0.2, report_s = 10;
/* There is no estimate before: it would be that of the first steps, which take longer. */
static const double estimated_s = 1;

/* Progress of one node, 0..1; 0 if nothing is known yet. */
static double ratio_of(const struct job_node *n)
{
    const struct progress_view *p = &n->view.progress;
    double ratio = p->steps > 0 ? (double)p->step / (double)p->steps : 0;

    if (n->is_ended && n->view.state == JOB_SUCCEEDED)
        return 1;
    return ratio < 0 ? 0 : ratio > 1 ? 1 : ratio;
}

static size_t add_value(char *out, size_t size, size_t n, const char *name, double value)
{
    return isnan(value) || n >= size ? n : n + (size_t)snprintf(out + n, size - n, ", %s %.4g", name, value);
}

static bool is_held_up(const struct job_node *n)
{
    return n->view.progress.is_held_up && n->view.state == JOB_RUNNING && n->silent_since == 0;
}

double progress_bar_left(struct progress_bar *p, double ratio, double now)
{
    if (p->began_at == 0 && ratio > 0 && ratio < 1) {
        p->began_at = now;
        p->began = ratio;
    }
    if (p->began_at == 0 || now - p->began_at < estimated_s || ratio <= p->began)
        return NAN;
    return (1 - ratio) * (now - p->began_at) / (ratio - p->began);
}

const char *progress_bar_text(char *out, size_t size, const struct job_node *n, double left_s)
{
    const struct progress_view *p = &n->view.progress;
    char amount[TEXT_AMOUNT];
    size_t k = (size_t)snprintf(out, size, "%s", job_state_name(n->view.state));

    if (p->epochs > 0)
        k += (size_t)snprintf(out + k, size - k, ", epoch %lld of %lld", (long long)p->epoch,
                              (long long)p->epochs);
    k += (size_t)snprintf(out + k, size - k, ", %.0f %%", floor(100 * ratio_of(n)));
    if (!isnan(left_s) && !n->is_ended)
        k += (size_t)snprintf(out + k, size - k, ", %s left", text_seconds(amount, left_s));
    k = add_value(out, size, k, "loss", p->loss);
    k = add_value(out, size, k, "accuracy", p->accuracy);
    k = add_value(out, size, k, "test accuracy", p->eval_accuracy);
    k += (size_t)snprintf(out + k, size - k, ", %s sent", text_bytes(amount, p->comm.sent_bytes));
    if (is_held_up(n) && k < size)
        snprintf(out + k, size - k, ", waits for node %d", p->waits_for);
    return out;
}

bool progress_bar_waits_for(int *node, const struct submission *s)
{
    size_t n_most = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        size_t n = 0;

        for (size_t k = 0; is_held_up(&s->nodes[i]) && k < s->n_nodes; k++)
            n += is_held_up(&s->nodes[k]) &&
                 s->nodes[k].view.progress.waits_for == s->nodes[i].view.progress.waits_for;
        if (n > n_most) {
            n_most = n;
            *node = s->nodes[i].view.progress.waits_for;
        }
    }
    return n_most > 0;
}

static void draw_bar(char out[LINE], const char *label, double ratio, const char *text)
{
    size_t line = console_width(), width = line < LABELS + BAR_MIN ? BAR_MIN : line - LABELS;
    char bar[BAR_MAX + 1];

    width = width > BAR_MAX ? BAR_MAX : width;
    memset(bar, '.', width);
    memset(bar, '#', (size_t)(ratio * (double)width));
    bar[width] = '\0';
    snprintf(out, LINE, "%-9s [%s] %s", label, bar, text);
}

static void draw_node(char out[LINE], const struct job_node *n, double left_s)
{
    char label[32];
    char text[192];

    snprintf(label, sizeof label, "node(%d)", n->at.node);
    draw_bar(out, label, ratio_of(n),
             n->silent_since > 0 ? "its agent does not answer"
                                 : progress_bar_text(text, sizeof text, n, left_s));
}

static int by_ratio(const void *a, const void *b)
{
    double x = ratio_of(*(const struct job_node *const *)a);
    double y = ratio_of(*(const struct job_node *const *)b);

    return (x > y) - (x < y);
}

/* Sorts the workers, least advanced first, into `order` and returns their number. Servers make no steps and
 * are left out. */
static size_t sort_workers(const struct job_node **order, const struct submission *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (!node_is_server(&s->nodes[i]))
            order[n++] = &s->nodes[i];
    qsort(order, n, sizeof *order, by_ratio);
    return n;
}

static double mean_ratio(const struct job_node *const *order, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += ratio_of(order[i]);
    return n ? sum / (double)n : 0;
}

static void draw_lines(const struct submission *s, const struct job_node **order, size_t n, double left_s)
{
    char lines[BARS_MAX][LINE];
    const char *pointers[BARS_MAX];
    int k = 0;

    if (s->n_nodes <= BARS_MAX) {
        for (size_t i = 0; i < s->n_nodes; i++)
            draw_node(lines[k++], &s->nodes[i], left_s);
    } else {
        char label[32];
        char text[64];

        snprintf(label, sizeof label, "%zu nodes", s->n_nodes);
        snprintf(text, sizeof text, "%.0f %% (the slowest %.0f %%)", 100 * mean_ratio(order, n),
                 100 * ratio_of(order[0]));
        draw_bar(lines[k++], label, mean_ratio(order, n), text);
        for (size_t i = 0; i < SLOWEST && i < n; i++)
            draw_node(lines[k++], order[i], left_s);
    }
    for (int i = 0; i < k; i++)
        pointers[i] = lines[i];
    console_bars(pointers, k);
}

static void print_lines(const struct submission *s, const struct job_node **order, size_t n, double left_s)
{
    char text[256];

    if (s->n_nodes > BARS_MAX)
        console_info("%zu nodes: %.0f %%, the slowest is node(%d): %s.", s->n_nodes,
                     100 * mean_ratio(order, n), order[0]->at.node,
                     progress_bar_text(text, sizeof text, order[0], left_s));
    for (size_t i = 0; i < s->n_nodes && s->n_nodes <= BARS_MAX; i++)
        if (!s->nodes[i].is_ended)
            console_info("node(%d): %s.", s->nodes[i].at.node,
                         progress_bar_text(text, sizeof text, &s->nodes[i], left_s));
}

void progress_bar_show(struct progress_bar *p, const struct submission *s)
{
    double now = clock_now();
    const struct job_node **order;
    double left_s;
    size_t n;
    int tenth;

    if (now - p->drawn_at < redraw_s)
        return;
    p->drawn_at = now;
    order = malloc(s->n_nodes * sizeof *order);
    if (!order)
        return; /* skip this redraw */
    n = sort_workers(order, s);
    tenth = (int)(10 * ratio_of(order[0]));
    left_s = progress_bar_left(p, ratio_of(order[0]), now);
    if (console_is_terminal()) {
        draw_lines(s, order, n, left_s);
    } else if (now - p->reported_at > report_s || (tenth > p->tenth && tenth < 10)) {
        print_lines(s, order, n, left_s);
        p->reported_at = now;
        p->tenth = tenth;
    }
    free(order);
}
