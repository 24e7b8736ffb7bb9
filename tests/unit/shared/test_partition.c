#include "shared/job/partition.h"

#include "shared/job/blocks.h"
#include "tests/unit/unit.h"

enum { N = 1000, N_CLASSES = 10 };

static int32_t labels[N];
static struct err e;

static int make_labels(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        labels[i] = (int32_t)(i % N_CLASSES);
    return 0;
}

static int divide(struct partition *p, const char *rule, size_t n_blocks, size_t batch, uint64_t seed)
{
    const struct partition_set set = {.n = N, .labels = labels, .n_classes = N_CLASSES};
    struct partition_rule r;

    assert_ok(partition_rule_parse(&r, rule, &e));
    return partition_init(p, &set, &r, n_blocks, batch, seed, &e);
}

/* The sample in row r of column c. */
static uint32_t sample_at(const struct partition *p, size_t r, size_t c)
{
    return p->sample[p->start[c] + r];
}

/* Marks the samples of all columns; returns false if one occurs twice. */
static bool all_different(const struct partition *p, bool seen[N])
{
    memset(seen, 0, N * sizeof *seen);
    for (size_t i = 0; i < p->start[p->n_cols]; i++) {
        assert_true(p->sample[i] < N);
        if (seen[p->sample[i]])
            return false;
        seen[p->sample[i]] = true;
    }
    return true;
}

static const char *const every_rule[] = {
    "iid",      "label_sorted",  "true_non_iid:0", "true_non_iid:0.5", "shards:1", "shards:2",
    "shards:7", "dirichlet:0.1", "dirichlet:100",  "labels:1",         "labels:3", "labels:10"};

TEST(each_sample_is_in_one_column_and_columns_have_at_least_the_samples_of_an_epoch)
{
    static const size_t blocks[] = {1, 2, 3, 5, 10};
    bool seen[N];

    for (size_t i = 0; i < N_OF(every_rule); i++)
        for (size_t b = 0; b < N_OF(blocks); b++)
            for (size_t batch = 1; batch <= 20; batch += 6) {
                size_t n_cols = blocks[b] * batch;
                struct partition p;

                assert_ok(divide(&p, every_rule[i], blocks[b], batch, 7));
                assert_int_equal(p.n_cols, n_cols);
                if (strncmp(every_rule[i], "labels", 6) == 0)
                    assert_in_range(p.n_rows, 1, N / n_cols);
                else
                    assert_int_equal(p.n_rows, N / n_cols);
                assert_true(all_different(&p, seen));
                for (size_t c = 0; c < n_cols; c++)
                    if (strncmp(every_rule[i], "labels", 6) == 0)
                        assert_true(p.start[c + 1] - p.start[c] >= p.n_rows);
                    else
                        assert_in_range(p.start[c + 1] - p.start[c], p.n_rows, p.n_rows + 1);
                if (strncmp(every_rule[i], "labels", 6) != 0)
                    assert_int_equal(p.start[n_cols], N);
                partition_clear(&p);
            }
}

/* As with a shuffling loader that drops the last batch. */
TEST(every_sample_is_trained_on_in_some_epoch_and_each_as_often_as_its_column_allows)
{
    enum { EPOCHS = 300, BATCH = 501 };
    static int uses[N];
    struct partition p;

    assert_ok(divide(&p, "iid", 1, BATCH, 7)); /* one step; 499 columns have two samples, two have one */
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t c = 0; c < BATCH; c++) {
            uint32_t order[2];

            partition_order(order, p.start[c + 1] - p.start[c], 7, epoch, c);
            uses[sample_at(&p, order[0], c)]++;
        }
    for (size_t c = 0; c < BATCH; c++)
        for (size_t i = p.start[c]; i < p.start[c + 1]; i++)
            if (p.start[c + 1] - p.start[c] == 1)
                assert_int_equal(uses[p.sample[i]], EPOCHS);
            else
                assert_in_range(uses[p.sample[i]], EPOCHS / 3, 2 * EPOCHS / 3);
    partition_clear(&p);
}

TEST(labels_divides_all_samples_of_the_labels_that_blocks_have_rare_ones_too)
{
    int32_t rare[N];
    const struct partition_set set = {.n = N, .labels = rare, .n_classes = 3};
    struct partition_rule rule = {.kind = PARTITION_LABELS, .amount = 3};
    struct partition p;

    for (int i = 0; i < N; i++)
        rare[i] = i < 2 ? 2 : i % 2;
    assert_ok(partition_init(&p, &set, &rule, 4, 5, 7, &e)); /* four blocks, and two samples of label 2 */
    assert_int_equal(p.start[20], N);
    assert_int_equal(p.n_rows, 249 / 5);
    partition_clear(&p);
    rule.amount = 1;
    assert_ok(partition_init(&p, &set, &rule, 2, 2, 7, &e)); /* two of the three labels */
    assert_true(p.start[4] == 499 + 499 || p.start[4] == 499 + 2);
    partition_clear(&p);
}

TEST(only_the_seed_determines_the_partition)
{
    for (size_t i = 0; i < N_OF(every_rule); i++) {
        struct partition a, b, c;
        size_t bytes;

        assert_ok(divide(&a, every_rule[i], 2, 5, 7));
        assert_ok(divide(&b, every_rule[i], 2, 5, 7));
        assert_ok(divide(&c, every_rule[i], 2, 5, 8));
        bytes = a.start[a.n_cols] * sizeof *a.sample;
        assert_int_equal(a.start[a.n_cols], b.start[b.n_cols]);
        assert_memory_equal(a.sample, b.sample, bytes);
        assert_memory_not_equal(a.sample, c.sample, bytes);
        partition_clear(&a);
        partition_clear(&b);
        partition_clear(&c);
    }
}

TEST(each_epoch_visits_every_sample_of_a_column_once)
{
    uint32_t order[200];
    bool seen[200] = {false};

    partition_order(order, 200, 1, 2, 3);
    for (int t = 0; t < 200; t++) {
        assert_false(seen[order[t]]);
        seen[order[t]] = true;
    }
}

TEST(epochs_columns_and_seeds_have_different_orders)
{
    static const uint64_t streams[][3] = {{1, 0, 0}, {1, 1, 0}, {1, 0, 1}, {2, 0, 0}};
    uint32_t order[N_OF(streams)][50], again[50];

    for (size_t i = 0; i < N_OF(streams); i++) {
        partition_order(order[i], 50, streams[i][0], streams[i][1], streams[i][2]);
        partition_order(again, 50, streams[i][0], streams[i][1], streams[i][2]);
        assert_memory_equal(order[i], again, sizeof again);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(order[i], order[k], sizeof again);
    }
}

/* The global batch of a step, collected node by node and block by block: out (n_blocks * batch). */
static void global_batch(uint32_t *out, const struct partition *p, const struct blocks *b, size_t batch,
                         uint64_t epoch, size_t step)
{
    uint32_t order[N];
    int held[8];

    for (int node = 0; node < b->n_nodes; node++) {
        int n = blocks_of(b, node, held);

        for (int i = 0; i < n; i++)
            for (size_t k = 0; k < batch; k++) {
                size_t col = (size_t)held[i] * batch + k;

                partition_order(order, p->start[col + 1] - p->start[col], 7, epoch, col);
                out[col] = sample_at(p, order[step], col);
            }
    }
}

TEST(the_global_batch_of_a_step_does_not_depend_on_the_number_of_nodes)
{
    static const struct {
        int nodes;
        size_t batch;
    } jobs[] = {{1, 128}, {2, 64}, {4, 32}};
    uint32_t batches[N_OF(jobs)][128];

    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (size_t step = 0; step < N / 128; step++)
            for (size_t j = 0; j < N_OF(jobs); j++) {
                struct partition p;
                struct blocks b;

                assert_ok(blocks_init(&b, BLOCKS_IID, jobs[j].nodes, 1, &e));
                assert_ok(divide(&p, "iid", (size_t)b.n_blocks, jobs[j].batch, 7));
                global_batch(batches[j], &p, &b, jobs[j].batch, epoch, step);
                assert_memory_equal(batches[j], batches[0], sizeof batches[0]);
                partition_clear(&p);
                blocks_clear(&b);
            }
}

/* The number of samples of each label that a block has. */
static void count_labels(size_t counts[N_CLASSES], const struct partition *p, size_t block, size_t batch)
{
    memset(counts, 0, N_CLASSES * sizeof *counts);
    for (size_t r = 0; r < p->n_rows; r++)
        for (size_t c = block * batch; c < (block + 1) * batch; c++)
            counts[labels[sample_at(p, r, c)]]++;
}

static int labels_in_block(const struct partition *p, size_t block, size_t batch)
{
    size_t counts[N_CLASSES];
    int n = 0;

    count_labels(counts, p, block, batch);
    for (int k = 0; k < N_CLASSES; k++)
        n += counts[k] > 0;
    return n;
}

TEST(label_sorted_blocks_see_few_labels_and_iid_blocks_all)
{
    struct partition p;

    assert_ok(divide(&p, "label_sorted", 5, 10, 7));
    for (size_t block = 0; block < 5; block++)
        assert_in_range(labels_in_block(&p, block, 10), 1, 3);
    partition_clear(&p);
    assert_ok(divide(&p, "iid", 5, 10, 7));
    for (size_t block = 0; block < 5; block++)
        assert_int_equal(labels_in_block(&p, block, 10), N_CLASSES);
    partition_clear(&p);
}

TEST(true_non_iid_mixes_the_first_part_of_the_global_batches_and_sorts_the_rest)
{
    struct partition sorted, mixed;
    size_t half;
    int same = 0;

    assert_ok(divide(&sorted, "label_sorted", 5, 10, 7));
    assert_ok(divide(&mixed, "true_non_iid:0.5", 5, 10, 7));
    half = sorted.n_rows * sorted.n_cols / 2;
    for (size_t i = 0; i < 2 * half; i++) {
        uint32_t a = sample_at(&sorted, i / 50, i % 50), b = sample_at(&mixed, i / 50, i % 50);

        if (i >= half)
            assert_int_equal(a, b);
        else
            same += labels[a] == labels[b];
    }
    assert_in_range(same, half / 20, half / 5); /* a tenth by chance */
    partition_clear(&sorted);
    partition_clear(&mixed);
}

TEST(a_block_of_two_shards_sees_at_most_four_labels_unlike_its_neighbors)
{
    struct partition p, sorted;
    bool differs = false;

    assert_ok(divide(&p, "shards:2", 10, 5, 7));
    assert_ok(divide(&sorted, "label_sorted", 10, 5, 7));
    for (size_t block = 0; block < 10; block++) {
        size_t a[N_CLASSES], b[N_CLASSES];

        assert_in_range(labels_in_block(&p, block, 5), 1, 4); /* a shard may span two labels */
        count_labels(a, &p, block, 5);
        count_labels(b, &sorted, block, 5);
        differs |= memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differs);
    partition_clear(&p);
    partition_clear(&sorted);
}

/* The largest label's fraction of a block, over the blocks: 0.1 is even. */
static double skew(const char *rule)
{
    struct partition p;
    double sum = 0;

    assert_ok(divide(&p, rule, 5, 10, 7));
    for (size_t block = 0; block < 5; block++) {
        size_t counts[N_CLASSES];
        size_t max = 0;

        count_labels(counts, &p, block, 10);
        for (int k = 0; k < N_CLASSES; k++)
            max = counts[k] > max ? counts[k] : max;
        sum += (double)max / (double)(p.n_rows * 10);
    }
    partition_clear(&p);
    return sum / 5;
}

TEST(dirichlet_is_more_even_for_larger_alpha)
{
    double far = skew("dirichlet:0.1");
    double middle = skew("dirichlet:10");
    double near = skew("dirichlet:1e5");

    print_message("largest label's fraction: %.3f, %.3f, %.3f; iid %.3f\n", far, middle, near, skew("iid"));
    assert_true(far > 0.4 && far > middle + 0.1 && middle > near + 0.03 && near < 0.16);
}

TEST(dirichlet_accepts_any_alpha)
{
    struct partition p;
    bool seen[N];

    assert_ok(divide(&p, "dirichlet:1e-6", 5, 10, 7));
    assert_true(all_different(&p, seen));
    partition_clear(&p);
    assert_ok(divide(&p, "dirichlet:1e6", 5, 10, 7));
    assert_true(all_different(&p, seen));
    partition_clear(&p);
    assert_true(skew("dirichlet:1e-6") > 0.4); /* the label drawn first, 100 of 200, or the remainder of it */
}

TEST(every_block_sees_the_same_number_of_labels_and_every_label_is_used_equally_often)
{
    for (size_t k = 1; k <= N_CLASSES; k++) {
        int served[N_CLASSES] = {0};
        char rule[16];
        struct partition p;

        snprintf(rule, sizeof rule, "labels:%zu", k);
        assert_ok(divide(&p, rule, 10, 2, 7));
        for (size_t block = 0; block < 10; block++) {
            size_t counts[N_CLASSES];

            assert_int_equal(labels_in_block(&p, block, 2), k);
            count_labels(counts, &p, block, 2);
            for (int c = 0; c < N_CLASSES; c++)
                served[c] += counts[c] > 0;
        }
        for (int c = 0; c < N_CLASSES; c++)
            assert_int_equal(served[c], k);
        assert_int_equal(p.n_rows, 100 / k * k / 2); /* a label's 100 samples divided by k */
        partition_clear(&p);
    }
}

TEST(column_gives_a_block_whole_groups_and_all_samples_a_place)
{
    static const size_t blocks[] = {1, 2, 5, 13};
    uint32_t groups[N];
    const struct partition_set set = {
        .n = N, .labels = labels, .n_classes = N_CLASSES, .groups = groups, .n_groups = 13};
    struct partition_rule rule;
    struct partition p, again;
    bool seen[N];

    for (int i = 0; i < N; i++) /* group 0 has 400 samples, the others 50 */
        groups[i] = i < 400 ? 0 : 1 + (uint32_t)(i % 12);
    assert_ok(partition_rule_parse(&rule, "column:user", &e));
    assert_string_equal(rule.name, "user");
    for (size_t b = 0; b < N_OF(blocks); b++) {
        size_t block_of[13], least = N;

        assert_ok(partition_init(&p, &set, &rule, blocks[b], 4, 7, &e));
        assert_ok(partition_init(&again, &set, &rule, blocks[b], 4, 7, &e));
        assert_int_equal(p.start[p.n_cols], N);
        assert_true(all_different(&p, seen));
        assert_memory_equal(p.sample, again.sample, N * sizeof *p.sample);
        memset(block_of, 0xff, sizeof block_of);
        for (size_t c = 0; c < p.n_cols; c++)
            for (size_t i = p.start[c]; i < p.start[c + 1]; i++) {
                size_t *of = &block_of[groups[p.sample[i]]];

                assert_true(*of == SIZE_MAX || *of == c / 4);
                *of = c / 4;
            }
        for (size_t k = 0; k < blocks[b]; k++) {
            size_t n = p.start[4 * (k + 1)] - p.start[4 * k];

            least = n < least ? n : least;
        }
        assert_int_equal(p.n_rows, least / 4);
        partition_clear(&p);
        partition_clear(&again);
    }
    assert_int_equal(partition_init(&p, &set, &rule, 14, 4, 7, &e), ERR_CONFIG);
    assert_error_has("13 groups for 14 blocks");
    assert_int_equal(partition_init(&p, &set, &rule, 13, 51, 7, &e), ERR_CONFIG);
    assert_error_has("with whole groups a block would have fewer samples than its batch of 51");
    assert_int_equal(divide(&p, "column:user", 2, 4, 7), ERR_CONFIG);
    assert_error_has("the data set has no groups");
}

TEST(targets_are_sorted_if_there_are_no_labels)
{
    float targets[N];
    const struct partition_set set = {.n = N, .targets = targets, .n_targets = 1};
    struct partition_rule rule = {.kind = PARTITION_LABEL_SORTED};
    struct partition p;

    for (int i = 0; i < N; i++)
        targets[i] = (float)(i * 7919 % N);
    assert_ok(partition_init(&p, &set, &rule, 2, 5, 7, &e));
    for (size_t r = 0; r < p.n_rows; r++)
        for (size_t c = 0; c < 10; c++)
            assert_true((targets[sample_at(&p, r, c)] < 500) == (c < 5));
    partition_clear(&p);
    rule.kind = PARTITION_SHARDS;
    rule.amount = 2;
    assert_int_equal(partition_init(&p, &set, &rule, 2, 5, 7, &e), ERR_CONFIG);
    assert_error_has("partition shards divides by labels, the data set has targets");
}

TEST(an_impossible_partition_is_refused_with_the_reason)
{
    struct partition p;

    assert_int_equal(divide(&p, "iid", 1, 1001, 7), ERR_CONFIG);
    assert_error_has("1000 samples are fewer than one global batch of 1001");
    assert_int_equal(
        partition_init(&p, &(struct partition_set){.n = 1}, &(struct partition_rule){0}, 1, 2, 7, &e),
        ERR_CONFIG);
    assert_error_has("1 sample is fewer than one global batch of 2");
    assert_int_equal(divide(&p, "iid", 0, 0, 7), ERR_CONFIG);
    assert_int_equal(divide(&p, "labels:11", 2, 5, 7), ERR_CONFIG);
    assert_error_has("partition labels: 11 labels per block, but the data set has 10");
    assert_int_equal(divide(&p, "labels:1", 10, 100, 7), 0);
    partition_clear(&p);
    assert_int_equal(divide(&p, "labels:1", 3, 101, 7), ERR_CONFIG);
    assert_error_has("with 1 label a block would have fewer samples than its batch of 101");
    assert_int_equal(divide(&p, "shards:300", 4, 5, 7), ERR_CONFIG);
    assert_error_has("300 shards, a block has only 250 samples");
}

TEST(an_unknown_partition_rule_is_refused)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "there are: iid"},
        {"sorted", "no partition is called \"sorted\""},
        {"iid:1", "iid takes no number"},
        {"sorted", "iid, label_sorted, true_non_iid:D, shards:N, dirichlet:A, labels:K, column:NAME"},
        {"column", "column needs a name: column:NAME"},
        {"column:", "column: needs a name"},
        {"shards", "shards needs a number: shards:N"},
        {"true_non_iid", "true_non_iid needs a number: true_non_iid:D"},
        {"shards:", "is not a whole number"},
        {"shards:1.5", "is not a whole number"},
        {"shards:0", "not between 1 and"},
        {"dirichlet:0", "not between"},
        {"dirichlet:nan", "is not a number"},
        {"dirichlet:inf", "is not a number"},
        {"true_non_iid:1.1", "not between 0 and 1"},
        {"true_non_iid:-0.1", "not between 0 and 1"},
        {"labels:x", "is not a whole number"},
    };
    struct partition_rule r;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(partition_rule_parse(&r, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_is_in_one_column_and_columns_have_at_least_the_samples_of_an_epoch),
        cmocka_unit_test(only_the_seed_determines_the_partition),
        cmocka_unit_test(each_epoch_visits_every_sample_of_a_column_once),
        cmocka_unit_test(epochs_columns_and_seeds_have_different_orders),
        cmocka_unit_test(the_global_batch_of_a_step_does_not_depend_on_the_number_of_nodes),
        cmocka_unit_test(label_sorted_blocks_see_few_labels_and_iid_blocks_all),
        cmocka_unit_test(every_sample_is_trained_on_in_some_epoch_and_each_as_often_as_its_column_allows),
        cmocka_unit_test(labels_divides_all_samples_of_the_labels_that_blocks_have_rare_ones_too),
        cmocka_unit_test(true_non_iid_mixes_the_first_part_of_the_global_batches_and_sorts_the_rest),
        cmocka_unit_test(a_block_of_two_shards_sees_at_most_four_labels_unlike_its_neighbors),
        cmocka_unit_test(dirichlet_is_more_even_for_larger_alpha),
        cmocka_unit_test(dirichlet_accepts_any_alpha),
        cmocka_unit_test(every_block_sees_the_same_number_of_labels_and_every_label_is_used_equally_often),
        cmocka_unit_test(column_gives_a_block_whole_groups_and_all_samples_a_place),
        cmocka_unit_test(targets_are_sorted_if_there_are_no_labels),
        cmocka_unit_test(an_impossible_partition_is_refused_with_the_reason),
        cmocka_unit_test(an_unknown_partition_rule_is_refused),
    };

    return cmocka_run_group_tests(tests, make_labels, NULL);
}
