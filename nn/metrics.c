#include "nn/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scored {
    float score;
    bool is_positive;
};

struct metrics {
    bool asked[N_METRIC_KINDS];
    bool has_labels, wants_ranks;
    enum loss_kind loss_kind;
    int k, n_classes, n_labels; /* k outputs for each of the n_labels of a sample */
    double loss, squares;       /* sums */
    size_t n, n_right;
    size_t n_ranked[METRIC_TOP_MAX]; /* samples whose label's output is the largest, the second, ... */
    struct scored *scored;           /* (n_max), for auc and eer; else NULL */
    size_t n_max, n_positive;
    bool is_sorted, has_nan;
    uint64_t *confusion; /* (n_classes, n_classes); NULL: not listed by the model */
    float *p;            /* (k) of one sample, for mse */
};

static bool wants_scores(const struct metrics *m)
{
    return m->asked[METRIC_AUC] || m->asked[METRIC_EER];
}

int metrics_new(struct metrics **out, const struct model_spec *spec, bool has_labels, size_t n_max,
                struct err *e)
{
    struct metrics *m = NULL;

    if (model_spec_measures(spec, has_labels, e) < 0)
        return e->code;
    m = calloc(1, sizeof *m);
    if (!m)
        goto no_memory;
    memcpy(m->asked, spec->metrics, sizeof m->asked);
    m->has_labels = has_labels;
    for (int kind = METRIC_TOP2; kind <= METRIC_TOP_LAST; kind++)
        m->wants_ranks |= m->asked[kind];
    m->loss_kind = spec->loss;
    m->k = model_spec_classes(spec);
    m->n_labels = model_spec_labels(spec);
    m->n_classes = m->k == 1 ? 2 : m->k;
    m->n_max = n_max *= (size_t)m->n_labels;
    m->p = calloc((size_t)m->k, sizeof *m->p);
    if (!m->p)
        goto no_memory;
    if (wants_scores(m) && !(m->scored = calloc(n_max ? n_max : 1, sizeof *m->scored)))
        goto no_memory;
    if (m->asked[METRIC_CONFUSION] &&
        !(m->confusion = calloc((size_t)m->n_classes * (size_t)m->n_classes, sizeof *m->confusion)))
        goto no_memory;
    *out = m;
    return 0;
no_memory:
    metrics_free(m);
    return err_set(e, ERR_NOMEM, "no memory for the metrics of %zu samples", n_max);
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    free(m->scored);
    free(m->confusion);
    free(m->p);
    free(m);
}

void metrics_begin(struct metrics *m)
{
    size_t cells = (size_t)m->n_classes * (size_t)m->n_classes;

    m->loss = m->squares = 0;
    m->n = m->n_right = m->n_positive = 0;
    memset(m->n_ranked, 0, sizeof m->n_ranked);
    m->is_sorted = m->has_nan = false;
    if (m->confusion)
        memset(m->confusion, 0, cells * sizeof *m->confusion);
}

static double squares(struct metrics *m, const float *z, const struct truth *t, int i)
{
    double sum = 0;

    loss_prediction(m->loss_kind, m->p, z, m->k);
    for (int j = 0; j < m->k; j++) {
        double target = t->targets  ? (double)t->targets[(size_t)i * (size_t)m->k + (size_t)j]
                        : m->k == 1 ? t->labels[i]
                                    : t->labels[i] == j;

        sum += ((double)m->p[j] - target) * ((double)m->p[j] - target);
    }
    return sum;
}

static void add_label(struct metrics *m, const float *z, int label)
{
    int rank;

    if (m->wants_ranks && (rank = loss_rank(z, m->k, m->k == 1 ? 0 : label)) < METRIC_TOP_MAX)
        m->n_ranked[rank]++;
    if (m->confusion)
        m->confusion[label * m->n_classes + loss_class(m->loss_kind, z, m->k)]++;
    if (m->scored) {
        float score = m->k == 1 ? z[0] : z[1] - z[0];

        m->scored[m->n] = (struct scored){score, label == 1};
        m->n_positive += label == 1;
        m->has_nan |= isnan(score);
        m->is_sorted = false;
    }
}

void metrics_add(struct metrics *m, const float *z, const struct truth *t, int n)
{
    n *= m->n_labels;
    assert((size_t)n <= m->n_max - m->n);
    m->loss += loss_of(m->loss_kind, z, t, n, m->k, NULL, &m->n_right);
    for (int i = 0; i < n; i++, z += m->k, m->n++) {
        if (m->asked[METRIC_MSE] || m->asked[METRIC_RMSE])
            m->squares += squares(m, z, t, i);
        if (t->labels)
            add_label(m, z, t->labels[i]);
    }
}

static int by_score(const void *a, const void *b)
{
    float x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;

    return (x > y) - (x < y);
}

/* Counts the samples of class 1 and of class 0 with the same score from `at` on. Returns the first sample
 * with the next score. */
static size_t same_score(const struct metrics *m, size_t at, double *positive, double *negative)
{
    size_t i = at;

    *positive = *negative = 0;
    for (; i < m->n && m->scored[i].score == m->scored[at].score; i++)
        *(m->scored[i].is_positive ? positive : negative) += 1;
    return i;
}

/* Counts the pairs in which class 1 has the higher score, ties as half. */
static double auc(const struct metrics *m)
{
    double won = 0, below = 0, positive, negative;

    for (size_t i = 0; i < m->n;) {
        i = same_score(m, i, &positive, &negative);
        won += positive * (below + negative / 2);
        below += negative;
    }
    return won / ((double)m->n_positive * (double)(m->n - m->n_positive));
}

/* The threshold rises from below all scores (all are accepted: accepts 1, rejects 0) past one score after
 * the other; the result is interpolated where both errors are equal. */
static double eer(const struct metrics *m)
{
    double n_positive = (double)m->n_positive, n_negative = (double)(m->n - m->n_positive);
    double accepts = 1, rejects = 0, positive, negative;

    for (size_t i = 0; i < m->n;) {
        double gap = accepts - rejects; /* > 0 */
        double down, up;

        i = same_score(m, i, &positive, &negative);
        down = negative / n_negative;
        up = positive / n_positive;
        if (gap <= down + up)
            return accepts - down * gap / (down + up);
        accepts -= down;
        rejects += up;
    }
    return accepts; /* the last interval ends at accepts 0, rejects 1; reached only by rounding errors */
}

static bool of_two_classes(struct metrics *m, enum metric_kind kind, double *value)
{
    if (!m->scored || m->n_positive == 0 || m->n_positive == m->n)
        return false;
    if (!m->is_sorted && !m->has_nan)
        qsort(m->scored, m->n, sizeof *m->scored, by_score);
    m->is_sorted = true;
    *value = m->has_nan ? (double)NAN : kind == METRIC_AUC ? auc(m) : eer(m);
    return true;
}

double metrics_loss(const struct metrics *m)
{
    return m->loss / (double)m->n;
}

bool metrics_asked(const struct metrics *m, enum metric_kind kind)
{
    return m->asked[kind];
}

/* Samples whose label is among the k largest outputs. */
static size_t among_largest(const struct metrics *m, int k)
{
    size_t sum = 0;

    for (int rank = 0; rank < k; rank++)
        sum += m->n_ranked[rank];
    return sum;
}

bool metrics_value(struct metrics *m, enum metric_kind kind, double *value)
{
    double n = (double)m->n;
    int top = metric_kind_top(kind);

    if (m->n == 0 || (kind != METRIC_ACCURACY && !m->asked[kind]))
        return false;
    if (top > 0) {
        *value = (double)among_largest(m, top) / n;
        return m->has_labels;
    }
    switch (kind) {
    case METRIC_ACCURACY:
        *value = (double)m->n_right / n;
        return m->has_labels;
    case METRIC_MSE:
        *value = m->squares / n / m->k;
        return true;
    case METRIC_RMSE:
        *value = sqrt(m->squares / n / m->k);
        return true;
    case METRIC_AUC:
    case METRIC_EER:
        return of_two_classes(m, kind, value);
    default:
        return false;
    }
}

const uint64_t *metrics_confusion(const struct metrics *m, int *n_classes)
{
    *n_classes = m->n_classes;
    return m->confusion;
}

double metrics_accuracy(struct metrics *m)
{
    double value;

    return metrics_value(m, METRIC_ACCURACY, &value) ? value : NAN;
}

void metrics_sums(const struct metrics *m, double *out)
{
    size_t cells = (size_t)m->n_classes * (size_t)m->n_classes;

    *out++ = m->loss;
    *out++ = m->squares;
    *out++ = (double)m->n;
    *out++ = (double)m->n_right;
    for (int rank = 0; rank < METRIC_TOP_MAX; rank++)
        *out++ = (double)m->n_ranked[rank];
    for (size_t i = 0; m->confusion && i < cells; i++)
        *out++ = (double)m->confusion[i];
}

void metrics_set_sums(struct metrics *m, const double *sums)
{
    size_t cells = (size_t)m->n_classes * (size_t)m->n_classes;

    m->loss = *sums++;
    m->squares = *sums++;
    m->n = (size_t)*sums++;
    m->n_right = (size_t)*sums++;
    for (int rank = 0; rank < METRIC_TOP_MAX; rank++)
        m->n_ranked[rank] = (size_t)*sums++;
    for (size_t i = 0; m->confusion && i < cells; i++)
        m->confusion[i] = (uint64_t)*sums++;
}
