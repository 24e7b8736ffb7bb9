#include "shared/job/partition.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/suggest.h"
#include "shared/job/partition_rules.h"

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
    return suggest_instead(text, forms, e);
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

/* Columns as long as they can be: n_rows samples each, and the remainder, which fills no row, spread over the
 * columns, one each. */
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
static void fill_blocks(struct partition *p, const struct deal *d)
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

static int deal(struct partition *p, struct deal *d, const struct partition_rule *rule, struct err *e)
{
    for (size_t b = 0; b <= d->n_blocks; b++)
        d->begin[b] = p->start[b * d->batch];
    switch (rule->kind) {
    case PARTITION_SHARDS:
        return deal_shards(d, (size_t)rule->amount, e);
    case PARTITION_DIRICHLET:
        return deal_dirichlet(d, rule->amount, e);
    case PARTITION_LABELS:
        return deal_labels(d, (size_t)rule->amount, e);
    case PARTITION_COLUMN:
        return deal_groups(d, e);
    default:
        return deal_sorted(d, e);
    }
}

/* items: all samples, shuffled. */
static int apply(struct partition *p, uint32_t *items, const struct partition_set *set,
                 const struct partition_rule *rule, size_t n_blocks, uint64_t seed, struct err *e)
{
    struct deal d = {.set = set,
                     .items = items,
                     .n_blocks = n_blocks,
                     .batch = p->n_cols / n_blocks,
                     .begin = malloc((n_blocks + 1) * sizeof *d.begin)};
    int rc = d.begin ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu blocks", n_blocks);

    rng_init(&d.rng, seed, stream_rule, 0);
    if (rc == 0)
        rc = deal(p, &d, rule, e);
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
        rc = apply(p, items, set, rule, n_blocks, seed, e);
    free(items);
    if (rc < 0) {
        partition_clear(p);
        return err_at(e, "partition %s", rules[rule->kind].name);
    }
    return 0;
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
