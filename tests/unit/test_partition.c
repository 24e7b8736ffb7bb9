#include "shared/partition.h"

#include "tests/unit/unit.h"

enum { N = 1000, N_CLASSES = 10 };

static void make_labels(int32_t labels[N])
{
    for (int i = 0; i < N; i++)
        labels[i] = (int32_t)(i % N_CLASSES);
}

/* Marks what the matrix holds; returns false if anything stands in it twice. */
static bool all_different(const struct partition *p, bool seen[N])
{
    memset(seen, 0, N * sizeof *seen);
    for (size_t i = 0; i < p->n_rows * p->n_cols; i++) {
        assert_true(p->sample[i] < N);
        if (seen[p->sample[i]])
            return false;
        seen[p->sample[i]] = true;
    }
    return true;
}

TEST(each_sample_stands_once_and_what_fills_no_row_is_left_out)
{
    int32_t labels[N];
    bool seen[N];

    make_labels(labels);
    for (int non_iid = 0; non_iid < 2; non_iid++)
        for (size_t cols = 1; cols <= N; cols += 37) {
            struct partition p;
            struct err e;

            assert_ok(partition_init(&p, labels, N, cols, 7, non_iid, &e));
            assert_int_equal(p.n_rows, N / cols);
            assert_int_equal(p.n_cols, cols);
            assert_true(all_different(&p, seen));
            partition_clear(&p);
        }
}

TEST(each_epoch_sees_every_sample_of_a_column_once)
{
    uint32_t order[200];
    bool seen[200] = {false};

    partition_order(order, 200, 1, 2, 3);
    for (int t = 0; t < 200; t++) {
        assert_false(seen[order[t]]);
        seen[order[t]] = true;
    }
}

TEST(epochs_columns_and_seeds_have_orders_of_their_own)
{
    static const uint64_t who[][3] = {{1, 0, 0}, {1, 1, 0}, {1, 0, 1}, {2, 0, 0}};
    uint32_t order[N_OF(who)][50], again[50];

    for (size_t i = 0; i < N_OF(who); i++) {
        partition_order(order[i], 50, who[i][0], who[i][1], who[i][2]);
        partition_order(again, 50, who[i][0], who[i][1], who[i][2]);
        assert_memory_equal(order[i], again, sizeof again);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(order[i], order[k], sizeof again);
    }
}

/* What node by node, block by block, comes together as the global batch of a step: out (n_blocks * batch). */
static void global_batch(uint32_t *out, const struct partition *p, const struct blocks *b, size_t batch,
                         uint64_t epoch, size_t step)
{
    uint32_t *order = malloc(p->n_rows * sizeof *order);
    int held[8];

    for (int node = 0; node < b->n_nodes; node++) {
        int n = blocks_of(b, node, held);

        for (int i = 0; i < n; i++)
            for (size_t k = 0; k < batch; k++) {
                size_t col = (size_t)held[i] * batch + k;

                partition_order(order, p->n_rows, 7, epoch, col);
                out[col] = p->sample[order[step] * p->n_cols + col];
            }
    }
    free(order);
}

TEST(the_global_batch_of_a_step_does_not_depend_on_the_number_of_nodes)
{
    static const struct {
        int nodes;
        size_t batch;
    } jobs[] = {{1, 128}, {2, 64}, {4, 32}};
    int32_t labels[N];
    uint32_t batches[N_OF(jobs)][128];

    make_labels(labels);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (size_t step = 0; step < N / 128; step++)
            for (size_t j = 0; j < N_OF(jobs); j++) {
                struct partition p;
                struct blocks b;
                struct err e;

                assert_ok(blocks_init(&b, "iid", jobs[j].nodes, 1, &e));
                assert_ok(partition_init(&p, labels, N, (size_t)b.n_blocks * jobs[j].batch, 7, false, &e));
                global_batch(batches[j], &p, &b, jobs[j].batch, epoch, step);
                assert_memory_equal(batches[j], batches[0], sizeof batches[0]);
                partition_clear(&p);
                blocks_clear(&b);
            }
}

static int labels_in_block(const struct partition *p, const int32_t *labels, size_t block, size_t batch)
{
    bool has[N_CLASSES] = {false};
    int n = 0;

    for (size_t r = 0; r < p->n_rows; r++)
        for (size_t c = block * batch; c < (block + 1) * batch; c++)
            has[labels[p->sample[r * p->n_cols + c]]] = true;
    for (int k = 0; k < N_CLASSES; k++)
        n += has[k];
    return n;
}

TEST(non_iid_blocks_see_few_labels_and_iid_blocks_all)
{
    int32_t labels[N];
    struct partition p;
    struct err e;

    make_labels(labels);
    assert_ok(partition_init(&p, labels, N, 50, 7, true, &e));
    for (size_t block = 0; block < 5; block++)
        assert_in_range(labels_in_block(&p, labels, block, 10), 1, 3);
    partition_clear(&p);
    assert_ok(partition_init(&p, labels, N, 50, 7, false, &e));
    for (size_t block = 0; block < 5; block++)
        assert_int_equal(labels_in_block(&p, labels, block, 10), N_CLASSES);
    partition_clear(&p);
}

TEST(non_iid_leaves_out_samples_of_any_label)
{
    int left_out[N_CLASSES] = {0};
    int32_t labels[N];
    struct partition p;
    bool seen[N];
    int n_labels = 0;
    struct err e;

    make_labels(labels);
    assert_ok(partition_init(&p, labels, N, 501, 7, true, &e));
    assert_true(all_different(&p, seen));
    for (int i = 0; i < N; i++)
        left_out[labels[i]] += !seen[i];
    for (int k = 0; k < N_CLASSES; k++)
        n_labels += left_out[k] > 0;
    assert_int_equal(n_labels, N_CLASSES);
    partition_clear(&p);
}

TEST(the_seed_alone_decides)
{
    struct partition a, b, c;
    struct err e;

    assert_ok(partition_init(&a, NULL, N, 10, 7, false, &e));
    assert_ok(partition_init(&b, NULL, N, 10, 7, false, &e));
    assert_ok(partition_init(&c, NULL, N, 10, 8, false, &e));
    assert_memory_equal(a.sample, b.sample, N * sizeof *a.sample);
    assert_memory_not_equal(a.sample, c.sample, N * sizeof *a.sample);
    partition_clear(&a);
    partition_clear(&b);
    partition_clear(&c);
}

TEST(fewer_samples_than_a_global_batch_are_refused)
{
    struct partition p;
    struct err e;

    assert_int_equal(partition_init(&p, NULL, 127, 128, 7, false, &e), ERR_CONFIG);
    assert_says("127 samples are fewer than one global batch of 128");
    assert_int_equal(partition_init(&p, NULL, 0, 0, 7, false, &e), ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_stands_once_and_what_fills_no_row_is_left_out),
        cmocka_unit_test(each_epoch_sees_every_sample_of_a_column_once),
        cmocka_unit_test(epochs_columns_and_seeds_have_orders_of_their_own),
        cmocka_unit_test(the_global_batch_of_a_step_does_not_depend_on_the_number_of_nodes),
        cmocka_unit_test(non_iid_blocks_see_few_labels_and_iid_blocks_all),
        cmocka_unit_test(non_iid_leaves_out_samples_of_any_label),
        cmocka_unit_test(the_seed_alone_decides),
        cmocka_unit_test(fewer_samples_than_a_global_batch_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
