#include "shared/partition.h"

#include <stdlib.h>
#include <string.h>

#include "shared/partition_rules.h"
#include "shared/suggest.h"

/* Random streams, separate from each other and from all others of the job's seed. */
static const uint64_t stream_shuffle = 0x656c6666756873; /* "shuffle" */
static const uint64_t stream_order = 0x726564726f;       /* "order" */
static const uint64_t stream_rule = 0x656c7572;          /* "rule" */

static const struct {
    const char *name, *form; /* form: its syntax, with a letter for the number */
    double min, max;         /* of its number; both 0: no number */
    bool is_whole;
} rules[N_PARTITION_KINDS] = {
    [PARTITION_IID] = {.name = "iid", .form = "iid"},
    [PARTITION_LABEL_SORTED] = {.name = "label_sorted", .form = "label_sorted"},
    [PARTITION_TRUE_NON_IID] = {"true_non_iid", "true_non_iid:D", 0, 1, false},
    [PARTITION_SHARDS] = {"shards", "shards:N", 1, 1e6, true},
    [PARTITION_DIRICHLET] = {"dirichlet", "dirichlet:A", 1e-6, 1e6, false},
    [PARTITION_LABELS] = {"labels", "labels:K", 1, 65536, true},
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
        if (rules[i].max == 0)
            return text[n]
                       ? err_set(e, ERR_CONFIG, "%s takes no number, found \"%s\"", rules[i].name, text + n)
                       : 0;
        if (!text[n])
            return err_set(e, ERR_CONFIG, "%s needs a number: %s", text, rules[i].form);
        return parse_amount(r, text + n + 1, e);
    }
    return no_such_rule(text, e);
}

/* items (n_cols, n_rows) -> p->sample (n_rows, n_cols) */
static void fill_by_column(struct partition *p, const uint32_t *items)
{
    for (size_t c = 0; c < p->n_cols; c++)
        for (size_t r = 0; r < p->n_rows; r++)
            p->sample[r * p->n_cols + c] = items[c * p->n_rows + r];
}

/* items: all samples, shuffled. */
static int apply(struct partition *p, uint32_t *items, const struct partition_set *set,
                 const struct partition_rule *rule, size_t n_blocks, uint64_t seed, struct err *e)
{
    struct deal d = {.set = set,
                     .items = items,
                     .n_blocks = n_blocks,
                     .per_block = p->n_rows * (p->n_cols / n_blocks),
                     .unit = p->n_cols / n_blocks};
    size_t used = p->n_rows * p->n_cols;

    rng_init(&d.rng, seed, stream_rule, 0);
    switch (rule->kind) {
    case PARTITION_SHARDS:
        if (deal_shards(&d, (size_t)rule->amount, e) < 0)
            return e->code;
        break;
    case PARTITION_DIRICHLET:
        if (deal_dirichlet(&d, rule->amount, e) < 0)
            return e->code;
        break;
    case PARTITION_LABELS:
        if (deal_labels(&d, (size_t)rule->amount, e) < 0)
            return e->code;
        p->n_rows = d.per_block / d.unit;
        break;
    default:
        /* Excludes the remainder before sorting, so that it is not all of the last label. */
        if (deal_sorted(&d, used, e) < 0)
            return e->code;
        break;
    }
    fill_by_column(p, items);
    if (rule->kind == PARTITION_TRUE_NON_IID)
        rng_shuffle(&d.rng, p->sample, (size_t)((double)used * rule->amount));
    return 0;
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
    if (!set->labels && rule->kind != PARTITION_IID && rule->kind != PARTITION_LABEL_SORTED)
        return err_set(e, ERR_CONFIG,
                       "partition %s divides by labels, the data set has targets: use iid or label_sorted",
                       rules[rule->kind].name);
    *p = (struct partition){.n_rows = set->n / n_cols, .n_cols = n_cols};
    items = malloc(set->n * sizeof *items);
    p->sample = malloc(set->n * sizeof *p->sample);
    if (!items || !p->sample) {
        free(items);
        partition_clear(p);
        return err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", set->n);
    }
    for (size_t i = 0; i < set->n; i++)
        items[i] = (uint32_t)i;
    rng_init(&r, seed, stream_shuffle, 0);
    rng_shuffle(&r, items, set->n);
    if (rule->kind == PARTITION_IID)
        memcpy(p->sample, items, p->n_rows * p->n_cols * sizeof *items);
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
    *p = (struct partition){0};
}

void partition_order(uint32_t *order, size_t n_rows, uint64_t seed, uint64_t epoch, uint64_t col)
{
    struct rng r;

    for (size_t i = 0; i < n_rows; i++)
        order[i] = (uint32_t)i;
    rng_init(&r, seed ^ stream_order, epoch, col);
    rng_shuffle(&r, order, n_rows);
}
