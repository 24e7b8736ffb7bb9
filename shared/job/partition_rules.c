#include "shared/job/partition_rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const struct deal *d, struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory to divide %zu samples", d->set->n);
}

static int by_target(const void *a, const void *b, void *arg)
{
    const struct partition_set *set = arg;
    uint32_t i = *(const uint32_t *)a;
    uint32_t j = *(const uint32_t *)b;
    float x = set->targets[(size_t)i * (size_t)set->n_targets];
    float y = set->targets[(size_t)j * (size_t)set->n_targets];

    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

/* Stable sort by label; start (n_classes + 1): where each label begins. */
static int sort_by_label(struct deal *d, size_t *start, struct err *e)
{
    size_t n = d->set->n;
    const int32_t *labels = d->set->labels;
    size_t n_classes = (size_t)d->set->n_classes;
    uint32_t *sorted = malloc(n * sizeof *sorted);
    size_t *at = malloc((n_classes + 1) * sizeof *at);

    memset(start, 0, (n_classes + 1) * sizeof *start);
    if (sorted && at) {
        for (size_t i = 0; i < n; i++)
            start[labels[d->items[i]] + 1]++;
        for (size_t k = 0; k < n_classes; k++)
            start[k + 1] += start[k];
        memcpy(at, start, (n_classes + 1) * sizeof *at);
        for (size_t i = 0; i < n; i++)
            sorted[at[labels[d->items[i]]]++] = d->items[i];
        memcpy(d->items, sorted, n * sizeof *sorted);
    }
    free(at);
    free(sorted);
    return sorted && at ? 0 : no_memory(d, e);
}

int deal_sorted(struct deal *d, struct err *e)
{
    size_t *start;
    int rc;

    if (!d->set->labels) {
        struct partition_set set = *d->set;

        qsort_r(d->items, d->set->n, sizeof *d->items, by_target, &set);
        return 0;
    }
    start = malloc(((size_t)d->set->n_classes + 1) * sizeof *start);
    rc = start ? sort_by_label(d, start, e) : no_memory(d, e);
    free(start);
    return rc;
}

static size_t block_size(const struct deal *d, size_t block)
{
    return d->begin[block + 1] - d->begin[block];
}

static void shuffle_blocks(struct deal *d)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        rng_shuffle(&d->rng, d->items + d->begin[b], block_size(d, b));
}

/* The block with the fewest samples; ERR_CONFIG: it has fewer than its batch. */
static int check_blocks(const struct deal *d, const char *why, struct err *e)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        if (block_size(d, b) < d->batch)
            return err_set(e, ERR_CONFIG, "%s a block would have fewer samples than its batch of %zu", why,
                           d->batch);
    return 0;
}

/* Cuts the sorted samples into a chunk for each (block, slot), in shuffled order. Slot i has the same
 * length in all blocks of a size, so that blocks are equally long even if N does not divide them. */
int deal_shards(struct deal *d, size_t n_shards, struct err *e)
{
    size_t per_block = block_size(d, 0), n = d->n_blocks * n_shards;
    uint32_t *order, *sorted;
    size_t from = 0;

    for (size_t b = 1; b < d->n_blocks; b++)
        per_block = block_size(d, b) < per_block ? block_size(d, b) : per_block;
    if (n_shards > per_block)
        return err_set(e, ERR_CONFIG, "%zu shards, a block has only %zu sample%s", n_shards, per_block,
                       per_block == 1 ? "" : "s");
    if (deal_sorted(d, e) < 0)
        return e->code;
    order = malloc(n * sizeof *order);
    sorted = malloc(d->set->n * sizeof *sorted);
    if (order && sorted) {
        memcpy(sorted, d->items, d->set->n * sizeof *sorted);
        for (size_t i = 0; i < n; i++)
            order[i] = (uint32_t)i;
        rng_shuffle(&d->rng, order, n);
        for (size_t i = 0; i < n; i++) {
            size_t block = order[i] / n_shards;
            size_t slot = order[i] % n_shards;
            size_t begin = slot * block_size(d, block) / n_shards;
            size_t len = (slot + 1) * block_size(d, block) / n_shards - begin;

            memcpy(d->items + d->begin[block] + begin, sorted + from, len * sizeof *sorted);
            from += len;
        }
        shuffle_blocks(d);
    }
    free(sorted);
    free(order);
    return order && sorted ? 0 : no_memory(d, e);
}

/* Uniform in (0, 1), excluding 0 because its logarithm is taken. */
static double open_uniform(struct rng *r)
{
    return ((double)(rng_u64(r) >> 12) + 0.5) * 0x1p-52;
}

/* The logarithm of a Gamma(a) variate: Marsaglia and Tsang, "A simple method for generating gamma
 * variables", 2000; for a < 1 by Gamma(a + 1) U^(1/a), which would underflow for small a without the
 * logarithm. */
static double log_gamma_variate(struct rng *r, double a)
{
    double boost = a < 1 ? log(open_uniform(r)) / a : 0;
    double k = (a < 1 ? a + 1 : a) - 1.0 / 3;
    double c = 1 / sqrt(9 * k);

    for (;;) {
        double z = (double)rng_normal(r);
        double v = 1 + c * z;

        v = v * v * v;
        if (v > 0 && log(open_uniform(r)) < z * z / 2 + k - k * v + k * log(v))
            return log(k * v) + boost;
    }
}

/* The logarithm of q ~ Dir(alpha p), up to a constant; p is the distribution of labels in the set. */
static void draw_dirichlet(double *log_q, struct rng *r, double alpha, const size_t *start, size_t n_classes)
{
    for (size_t k = 0; k < n_classes; k++) {
        double p = (double)(start[k + 1] - start[k]) / (double)start[n_classes];

        log_q[k] = p > 0 ? log_gamma_variate(r, alpha * p) : -INFINITY;
    }
}

/* The same as weights of the labels that have samples left, scaled so that the largest is 1; returns their
 * sum. */
static double weigh(double *w, const double *log_q, const size_t *left, size_t n_classes)
{
    double top = -INFINITY;
    double sum = 0;

    for (size_t k = 0; k < n_classes; k++)
        top = left[k] > 0 && log_q[k] > top ? log_q[k] : top;
    for (size_t k = 0; k < n_classes; k++)
        sum += w[k] = left[k] > 0 ? exp(log_q[k] - top) : 0;
    return sum;
}

/* Draws a label by its weight, among those that have samples left, of which there is at least one.
 * Recomputes the weights if all of those left are 0 relative to exhausted ones. */
static size_t draw_label(double *w, const double *log_q, const size_t *left, size_t n_classes, struct rng *r)
{
    size_t last = 0;
    double sum = 0;
    double u;

    for (size_t k = 0; k < n_classes; k++)
        sum += left[k] > 0 ? w[k] : 0;
    if (!(sum > 0))
        sum = weigh(w, log_q, left, n_classes);
    u = sum * open_uniform(r);
    for (size_t k = 0; k < n_classes && u >= 0; k++) {
        if (left[k] == 0 || w[k] == 0)
            continue;
        last = k;
        u -= w[k];
    }
    return last;
}

/* Blocks draw in turn, so that none gets only the labels left by the others. */
static void draw_all(struct deal *d, double *log_q, double *w, const uint32_t *sorted, const size_t *start,
                     size_t *left)
{
    size_t n_classes = (size_t)d->set->n_classes;

    for (size_t i = 0, most = 1; i < most; i++)
        for (size_t b = 0; b < d->n_blocks; b++) {
            size_t k;

            most = block_size(d, b) > most ? block_size(d, b) : most;
            if (i >= block_size(d, b))
                continue;
            k = draw_label(w + b * n_classes, log_q + b * n_classes, left, n_classes, &d->rng);

            d->items[d->begin[b] + i] = sorted[start[k] + --left[k]];
        }
    shuffle_blocks(d);
}

int deal_dirichlet(struct deal *d, double alpha, struct err *e)
{
    size_t n_classes = (size_t)d->set->n_classes;
    size_t *start = malloc((n_classes + 1) * sizeof *start);
    size_t *left = malloc(n_classes * sizeof *left);
    double *log_q = malloc(d->n_blocks * n_classes * sizeof *log_q);
    double *w = malloc(d->n_blocks * n_classes * sizeof *w);
    uint32_t *sorted = malloc(d->set->n * sizeof *sorted);
    int rc = start && left && log_q && w && sorted ? sort_by_label(d, start, e) : no_memory(d, e);

    if (rc == 0) {
        memcpy(sorted, d->items, d->set->n * sizeof *sorted);
        for (size_t k = 0; k < n_classes; k++)
            left[k] = start[k + 1] - start[k];
        for (size_t b = 0; b < d->n_blocks; b++) {
            draw_dirichlet(log_q + b * n_classes, &d->rng, alpha, start, n_classes);
            weigh(w + b * n_classes, log_q + b * n_classes, left, n_classes);
        }
        draw_all(d, log_q, w, sorted, start, left);
    }
    free(sorted);
    free(w);
    free(log_q);
    free(left);
    free(start);
    return rc;
}

/* Block b's i-th label is order[(b K + i) mod C]. */
struct hand {
    size_t n_labels, n_classes;
    uint32_t *order;     /* (n_classes) */
    size_t *owners, *at; /* (n_classes): blocks that still take their part of a label; its next sample */
};

static size_t label_of(const struct hand *h, size_t block, size_t i)
{
    return h->order[(block * h->n_labels + i) % h->n_classes];
}

/* Takes one block's samples: its part of each of its labels. Where owners do not divide a label's samples,
 * the first ones get one more. */
static size_t take_hand(struct hand *h, const size_t *start, const uint32_t *sorted, uint32_t *to,
                        size_t block)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_labels; i++) {
        size_t k = label_of(h, block, i);
        size_t part = (start[k + 1] - h->at[k] + h->owners[k] - 1) / h->owners[k];

        memcpy(to + n, sorted + h->at[k], part * sizeof *to);
        h->at[k] += part;
        h->owners[k]--;
        n += part;
    }
    return n;
}

static int deal_hands(struct deal *d, struct hand *h, const size_t *start, uint32_t *sorted, struct err *e)
{
    char why[48];

    for (size_t k = 0; k < h->n_classes; k++) {
        h->order[k] = (uint32_t)k;
        h->owners[k] = 0;
        h->at[k] = start[k];
    }
    rng_shuffle(&d->rng, h->order, h->n_classes);
    for (size_t i = 0; i < d->n_blocks * h->n_labels; i++)
        h->owners[h->order[i % h->n_classes]]++;
    memcpy(sorted, d->items, d->set->n * sizeof *sorted);
    for (size_t b = 0; b < d->n_blocks; b++)
        d->begin[b + 1] = d->begin[b] + take_hand(h, start, sorted, d->items + d->begin[b], b);
    shuffle_blocks(d);
    snprintf(why, sizeof why, "with %zu label%s", h->n_labels, h->n_labels == 1 ? "" : "s");
    return check_blocks(d, why, e);
}

int deal_labels(struct deal *d, size_t n_labels, struct err *e)
{
    size_t n_classes = (size_t)d->set->n_classes;
    size_t *numbers;
    struct hand h = {.n_labels = n_labels, .n_classes = n_classes};
    uint32_t *sorted;
    int rc;

    if (n_labels > n_classes)
        return err_set(e, ERR_CONFIG, "%zu labels per block, but the data set has %zu", n_labels, n_classes);
    numbers = malloc((3 * n_classes + 1) * sizeof *numbers); /* start, owners, at */
    sorted = malloc(d->set->n * sizeof *sorted);
    h.order = malloc(n_classes * sizeof *h.order);
    if (numbers && sorted && h.order) {
        h.owners = numbers + n_classes + 1;
        h.at = h.owners + n_classes;
        rc = sort_by_label(d, numbers, e);
        if (rc == 0)
            rc = deal_hands(d, &h, numbers, sorted, e);
    } else {
        rc = no_memory(d, e);
    }
    free(h.order);
    free(sorted);
    free(numbers);
    return rc;
}

struct group {
    size_t n; /* samples */
    size_t block;
};

static int by_size(const void *a, const void *b, void *arg)
{
    const struct group *groups = arg;
    const struct group *x = &groups[*(const uint32_t *)a], *y = &groups[*(const uint32_t *)b];

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : (x > y) - (x < y);
}

/* Gives each group a block, and blocks their sizes. */
static void choose_blocks(struct deal *d, struct group *groups, uint32_t *order, size_t *sizes)
{
    size_t n = d->set->n_groups;

    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, by_size, groups);
    for (size_t b = 0; b < d->n_blocks; b++)
        sizes[b] = 0;
    for (size_t i = 0; i < n; i++) {
        struct group *g = &groups[order[i]];

        for (size_t b = g->block = 0; b < d->n_blocks; b++)
            g->block = sizes[b] < sizes[g->block] ? b : g->block;
        sizes[g->block] += g->n;
    }
    d->begin[0] = 0;
    for (size_t b = 0; b < d->n_blocks; b++)
        d->begin[b + 1] = d->begin[b] + sizes[b];
}

/* Items are shuffled, and stay so within a block. */
static void fill_groups(struct deal *d, const struct group *groups, const uint32_t *items, size_t *at)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        at[b] = d->begin[b];
    for (size_t i = 0; i < d->set->n; i++)
        d->items[at[groups[d->set->groups[items[i]]].block]++] = items[i];
}

int deal_groups(struct deal *d, struct err *e)
{
    size_t n = d->set->n_groups;
    struct group *groups;
    uint32_t *order, *items;
    size_t *sizes;
    int rc = 0;

    if (n < d->n_blocks)
        return err_set(e, ERR_CONFIG, "%zu group%s for %zu blocks, and a block has whole groups", n,
                       n == 1 ? "" : "s", d->n_blocks);
    groups = calloc(n, sizeof *groups);
    order = malloc(n * sizeof *order);
    items = malloc(d->set->n * sizeof *items);
    sizes = malloc(d->n_blocks * sizeof *sizes);
    if (groups && order && items && sizes) {
        for (size_t i = 0; i < d->set->n; i++)
            groups[d->set->groups[i]].n++;
        memcpy(items, d->items, d->set->n * sizeof *items);
        choose_blocks(d, groups, order, sizes);
        fill_groups(d, groups, items, sizes);
        rc = check_blocks(d, "with whole groups", e);
    } else {
        rc = no_memory(d, e);
    }
    free(sizes);
    free(items);
    free(order);
    free(groups);
    return rc;
}
