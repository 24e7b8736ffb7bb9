#include "shared/job/partition.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/rng.h"

/* The rules that assign samples to blocks, one function each (partition.h has their sources). Each rearranges
 * `items`, all samples in shuffled order, so that block k's are items[begin[k]] .. items[begin[k + 1] - 1];
 * items after the last block are left out. */
struct assignment {
    const struct partition_set *set;
    uint32_t *items; /* (set->n) */
    size_t n_blocks, batch;
    size_t *begin; /* (n_blocks + 1): as equal as columns are, up to set->n, or set by the rule */
    struct rng rng;
};

static int no_memory_to_divide(const struct assignment *d, struct err *e)
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
static int sort_by_label(struct assignment *d, size_t *start, struct err *e)
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
    return sorted && at ? 0 : no_memory_to_divide(d, e);
}

/* Sorted by label or by the first target. */
static int assign_sorted(struct assignment *d, struct err *e)
{
    size_t *start;
    int rc;

    if (!d->set->labels) {
        struct partition_set set = *d->set;

        qsort_r(d->items, d->set->n, sizeof *d->items, by_target, &set);
        return 0;
    }
    start = malloc(((size_t)d->set->n_classes + 1) * sizeof *start);
    rc = start ? sort_by_label(d, start, e) : no_memory_to_divide(d, e);
    free(start);
    return rc;
}

static size_t block_size(const struct assignment *d, size_t block)
{
    return d->begin[block + 1] - d->begin[block];
}

static void shuffle_blocks(struct assignment *d)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        rng_shuffle(&d->rng, d->items + d->begin[b], block_size(d, b));
}

/* The block with the fewest samples; ERR_CONFIG: it has fewer than its batch. */
static int check_blocks(const struct assignment *d, const char *why, struct err *e)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        if (block_size(d, b) < d->batch)
            return err_set(e, ERR_CONFIG, "%s a block would have fewer samples than its batch of %zu", why,
                           d->batch);
    return 0;
}

/* Cuts the sorted samples into a chunk for each (block, slot), in shuffled order. Slot i has the same
 * length in all blocks of a size, so that blocks are equally long even if N does not divide them. */
static int assign_shards(struct assignment *d, size_t n_shards, struct err *e)
{
    size_t per_block = block_size(d, 0), n = d->n_blocks * n_shards;
    uint32_t *order, *sorted;
    size_t from = 0;

    for (size_t b = 1; b < d->n_blocks; b++)
        per_block = block_size(d, b) < per_block ? block_size(d, b) : per_block;
    if (n_shards > per_block)
        return err_set(e, ERR_CONFIG, "%zu shards, a block has only %zu sample%s", n_shards, per_block,
                       per_block == 1 ? "" : "s");
    if (assign_sorted(d, e) < 0)
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
    return order && sorted ? 0 : no_memory_to_divide(d, e);
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

/* Writes q as weights of the labels that have samples left, scaled so that the largest is 1. Returns their
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

/* Draws a label by its weight, among the labels that have samples left, of which there is at least one.
 * Recomputes the weights if all of these are 0 relative to the weights of exhausted labels. */
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

/* Blocks draw in turn, so that no block gets only the labels that the others have left. */
static void draw_all(struct assignment *d, double *log_q, double *w, const uint32_t *sorted,
                     const size_t *start, size_t *left)
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

static int assign_dirichlet(struct assignment *d, double alpha, struct err *e)
{
    size_t n_classes = (size_t)d->set->n_classes;
    size_t *start = malloc((n_classes + 1) * sizeof *start);
    size_t *left = malloc(n_classes * sizeof *left);
    double *log_q = malloc(d->n_blocks * n_classes * sizeof *log_q);
    double *w = malloc(d->n_blocks * n_classes * sizeof *w);
    uint32_t *sorted = malloc(d->set->n * sizeof *sorted);
    int rc = start && left && log_q && w && sorted ? sort_by_label(d, start, e) : no_memory_to_divide(d, e);

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
struct label_parts {
    size_t n_labels, n_classes;
    uint32_t *order;     /* (n_classes) */
    size_t *owners, *at; /* (n_classes): blocks that still take their part of a label; its next sample */
};

static size_t label_of(const struct label_parts *h, size_t block, size_t i)
{
    return h->order[(block * h->n_labels + i) % h->n_classes];
}

/* Takes one block's samples: its part of each of its labels. If the number of a label's owners does not
 * divide the number of its samples, the first owners get one more. */
static size_t take_parts(struct label_parts *h, const size_t *start, const uint32_t *sorted, uint32_t *to,
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

static int assign_parts(struct assignment *d, struct label_parts *h, const size_t *start, uint32_t *sorted,
                        struct err *e)
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
        d->begin[b + 1] = d->begin[b] + take_parts(h, start, sorted, d->items + d->begin[b], b);
    shuffle_blocks(d);
    snprintf(why, sizeof why, "with %zu label%s", h->n_labels, h->n_labels == 1 ? "" : "s");
    return check_blocks(d, why, e);
}

/* Sets `begin`: a block has samples of its labels. ERR_CONFIG: more labels than exist, or a block shorter
 * than a batch. */
static int assign_labels(struct assignment *d, size_t n_labels, struct err *e)
{
    size_t n_classes = (size_t)d->set->n_classes;
    size_t *numbers;
    struct label_parts h = {.n_labels = n_labels, .n_classes = n_classes};
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
            rc = assign_parts(d, &h, numbers, sorted, e);
    } else {
        rc = no_memory_to_divide(d, e);
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
static void choose_group_blocks(struct assignment *d, struct group *groups, uint32_t *order, size_t *sizes)
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

/* Keeps the order of `items`, which is shuffled, within a block. */
static void fill_groups(struct assignment *d, const struct group *groups, const uint32_t *items, size_t *at)
{
    for (size_t b = 0; b < d->n_blocks; b++)
        at[b] = d->begin[b];
    for (size_t i = 0; i < d->set->n; i++)
        d->items[at[groups[d->set->groups[items[i]]].block]++] = items[i];
}

/* Sets `begin`: blocks have whole groups. ERR_CONFIG: fewer groups than blocks, or a block shorter than a
 * batch. */
static int assign_groups(struct assignment *d, struct err *e)
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
        choose_group_blocks(d, groups, order, sizes);
        fill_groups(d, groups, items, sizes);
        rc = check_blocks(d, "with whole groups", e);
    } else {
        rc = no_memory_to_divide(d, e);
    }
    free(sizes);
    free(items);
    free(order);
    free(groups);
    return rc;
}

/* Random streams, separate from each other and from all others of the job's seed. */
static const uint64_t stream_shuffle = 0x656c6666756873; /* "shuffle" */
static const uint64_t stream_order = 0x726564726f;       /* "order" */
static const uint64_t stream_rule = 0x656c7572;          /* "rule" */

static const struct {
    const char *name, *form; /* form: its syntax, with a letter for the number */
    double min, max;         /* of its number; both 0: no number */
    bool is_whole;
    bool is_name; /* a name instead of a number */
} rules[N_PARTITION_KINDS] = {
    [PARTITION_IID] = {.name = "iid", .form = "iid"},
    [PARTITION_LABEL_SORTED] = {.name = "label_sorted", .form = "label_sorted"},
    [PARTITION_TRUE_NON_IID] = {"true_non_iid", "true_non_iid:D", 0, 1, false, false},
    [PARTITION_SHARDS] = {"shards", "shards:N", 1, 1e6, true, false},
    [PARTITION_DIRICHLET] = {"dirichlet", "dirichlet:A", 1e-6, 1e6, false, false},
    [PARTITION_LABELS] = {"labels", "labels:K", 1, 65536, true, false},
    [PARTITION_COLUMN] = {.name = "column", .form = "column:NAME", .is_name = true},
};

static int parse_amount(struct partition_rule *r, const char *text, struct err *e)
{
    const char *name = rules[r->kind].name;
    char *end;

    r->amount = strtod(text, &end);
    if (end == text || *end || strspn(text, "0123456789.eE-") != strlen(text) ||
        (rules[r->kind].is_whole && strspn(text, "0123456789") != strlen(text)))
        return err_set(e, ERR_CONFIG, "%s: \"%s\" is not %s number", name, text,
                       rules[r->kind].is_whole ? "a whole" : "a");
    if (!(r->amount >= rules[r->kind].min && r->amount <= rules[r->kind].max))
        return err_set(e, ERR_CONFIG, "%s: %s is not between %g and %g", name, text, rules[r->kind].min,
                       rules[r->kind].max);
    return 0;
}

static int no_such_rule(const char *text, struct err *e)
{
    const char *forms[N_PARTITION_KINDS + 1] = {0};

    for (int i = 0; i < N_PARTITION_KINDS; i++)
        forms[i] = rules[i].form;
    err_set(e, ERR_CONFIG, "no partition is called \"%s\"", text);
    return choice_suggest(text, forms, e);
}

int partition_rule_parse(struct partition_rule *r, const char *text, struct err *e)
{
    size_t n = strcspn(text, ":");

    for (int i = 0; i < N_PARTITION_KINDS; i++) {
        if (strlen(rules[i].name) != n || memcmp(rules[i].name, text, n) != 0)
            continue;
        *r = (struct partition_rule){.kind = (enum partition_kind)i};
        if (rules[i].is_name && text[n] && text[n + 1]) {
            r->name = text + n + 1;
            return 0;
        }
        if (rules[i].max == 0 && !rules[i].is_name)
            return text[n]
                       ? err_set(e, ERR_CONFIG, "%s takes no number, found \"%s\"", rules[i].name, text + n)
                       : 0;
        if (!text[n] || rules[i].is_name)
            return err_set(e, ERR_CONFIG, "%s needs a %s: %s", text, rules[i].is_name ? "name" : "number",
                           rules[i].form);
        return parse_amount(r, text + n + 1, e);
    }
    return no_such_rule(text, e);
}

/* Sets where columns begin. Each has n_rows samples; the remainder, which does not fill a row, is spread
 * evenly over the columns. */
static void spread_columns(struct partition *p, size_t n)
{
    size_t more = n - p->n_rows * p->n_cols;

    p->start[0] = 0;
    for (size_t c = 0; c < p->n_cols; c++)
        p->start[c + 1] = p->n_rows;
    for (size_t i = 0; i < more; i++)
        p->start[i * p->n_cols / more + 1]++;
    for (size_t c = 0; c < p->n_cols; c++)
        p->start[c + 1] += p->start[c];
}

/* Shuffled samples row by row, and then the remainder. */
static void fill_rows(struct partition *p, const uint32_t *items)
{
    const uint32_t *more = items + p->n_rows * p->n_cols;

    for (size_t c = 0; c < p->n_cols; c++) {
        for (size_t r = 0; r < p->n_rows; r++)
            p->sample[p->start[c] + r] = items[r * p->n_cols + c];
        if (p->start[c + 1] - p->start[c] > p->n_rows)
            p->sample[p->start[c + 1] - 1] = *more++;
    }
}

/* Divides each block's items among its columns. */
static void fill_blocks(struct partition *p, const struct assignment *d)
{
    p->n_rows = SIZE_MAX;
    for (size_t b = 0; b < d->n_blocks; b++) {
        size_t n = d->begin[b + 1] - d->begin[b];

        for (size_t k = 0; k < d->batch; k++)
            p->start[b * d->batch + k + 1] = p->start[b * d->batch + k] + n / d->batch + (k < n % d->batch);
        p->n_rows = n / d->batch < p->n_rows ? n / d->batch : p->n_rows;
    }
    memcpy(p->sample, d->items, p->start[p->n_cols] * sizeof *d->items);
}

/* Shuffles the samples of the first rows among themselves. */
static int mix_rows(struct partition *p, struct rng *rng, double share, struct err *e)
{
    size_t n = (size_t)((double)(p->n_rows * p->n_cols) * share);
    uint32_t *flat = malloc((n + 1) * sizeof *flat);

    if (!flat)
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", n);
    for (size_t i = 0; i < n; i++)
        flat[i] = p->sample[p->start[i % p->n_cols] + i / p->n_cols];
    rng_shuffle(rng, flat, n);
    for (size_t i = 0; i < n; i++)
        p->sample[p->start[i % p->n_cols] + i / p->n_cols] = flat[i];
    free(flat);
    return 0;
}

static int assign_blocks(struct partition *p, struct assignment *d, const struct partition_rule *rule,
                         struct err *e)
{
    for (size_t b = 0; b <= d->n_blocks; b++)
        d->begin[b] = p->start[b * d->batch];
    switch (rule->kind) {
    case PARTITION_SHARDS:
        return assign_shards(d, (size_t)rule->amount, e);
    case PARTITION_DIRICHLET:
        return assign_dirichlet(d, rule->amount, e);
    case PARTITION_LABELS:
        return assign_labels(d, (size_t)rule->amount, e);
    case PARTITION_COLUMN:
        return assign_groups(d, e);
    default:
        return assign_sorted(d, e);
    }
}

/* items: all samples, shuffled. */
static int apply_rule(struct partition *p, uint32_t *items, const struct partition_set *set,
                      const struct partition_rule *rule, size_t n_blocks, uint64_t seed, struct err *e)
{
    struct assignment d = {.set = set,
                           .items = items,
                           .n_blocks = n_blocks,
                           .batch = p->n_cols / n_blocks,
                           .begin = malloc((n_blocks + 1) * sizeof *d.begin)};
    int rc = d.begin ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu blocks", n_blocks);

    rng_init(&d.rng, seed, stream_rule, 0);
    if (rc == 0)
        rc = assign_blocks(p, &d, rule, e);
    if (rc == 0 && (rule->kind == PARTITION_LABELS || rule->kind == PARTITION_COLUMN))
        fill_blocks(p, &d);
    else if (rc == 0)
        memcpy(p->sample, items, set->n * sizeof *items);
    if (rc == 0 && rule->kind == PARTITION_TRUE_NON_IID)
        rc = mix_rows(p, &d.rng, rule->amount, e);
    free(d.begin);
    return rc;
}

int partition_init(struct partition *p, const struct partition_set *set, const struct partition_rule *rule,
                   size_t n_blocks, size_t batch, uint64_t seed, struct err *e)
{
    size_t n_cols = n_blocks * batch;
    uint32_t *items;
    struct rng r;
    int rc = 0;

    *p = (struct partition){0};
    if (n_cols == 0 || set->n < n_cols)
        return err_set(e, ERR_CONFIG, "%zu sample%s fewer than one global batch of %zu", set->n,
                       set->n == 1 ? " is" : "s are", n_cols);
    if (set->n > UINT32_MAX)
        return err_set(e, ERR_CONFIG, "%zu samples, at most %u", set->n, UINT32_MAX);
    if (rule->kind == PARTITION_COLUMN && !set->groups)
        return err_set(e, ERR_CONFIG, "partition column: the data set has no groups");
    if (!set->labels && rule->kind != PARTITION_IID && rule->kind != PARTITION_LABEL_SORTED &&
        rule->kind != PARTITION_COLUMN)
        return err_set(e, ERR_CONFIG,
                       "partition %s divides by labels, the data set has targets: use iid or label_sorted",
                       rules[rule->kind].name);
    *p = (struct partition){.n_rows = set->n / n_cols, .n_cols = n_cols};
    items = malloc(set->n * sizeof *items);
    p->sample = malloc(set->n * sizeof *p->sample);
    p->start = malloc((n_cols + 1) * sizeof *p->start);
    if (!items || !p->sample || !p->start) {
        free(items);
        partition_clear(p);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", set->n);
    }
    for (size_t i = 0; i < set->n; i++)
        items[i] = (uint32_t)i;
    rng_init(&r, seed, stream_shuffle, 0);
    rng_shuffle(&r, items, set->n);
    spread_columns(p, set->n);
    if (rule->kind == PARTITION_IID)
        fill_rows(p, items);
    else
        rc = apply_rule(p, items, set, rule, n_blocks, seed, e);
    free(items);
    if (rc < 0) {
        partition_clear(p);
        return err_at(e, "partition %s", rules[rule->kind].name);
    }
    return 0;
}

size_t partition_longest(const struct partition *p, size_t first, size_t n_cols)
{
    size_t n = 0;

    for (size_t c = first; c < first + n_cols; c++)
        n = p->start[c + 1] - p->start[c] > n ? p->start[c + 1] - p->start[c] : n;
    return n;
}

void partition_clear(struct partition *p)
{
    free(p->sample);
    free(p->start);
    *p = (struct partition){0};
}

void partition_order(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch, uint64_t col)
{
    struct rng r;

    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    rng_init(&r, seed ^ stream_order, epoch, col);
    rng_shuffle(&r, order, n);
}
