#include "shared/trainer/trainer_shard.h"

#include "shared/job/partition.h"
#include "tests/unit/unit.h"

enum { ROWS = 1003, WORKERS = 4 };

static struct err e;

static struct settings settings_of(const char *partition)
{
    struct settings set;

    settings_default(&set);
    set.node_count = WORKERS;
    snprintf(set.partition, sizeof set.partition, "%s", partition);
    return set;
}

static void make(uint32_t **index, size_t *n, const struct settings *set, int node, struct shard_request q)
{
    assert_ok(trainer_shard_make(index, n, set, node, &q, &e));
}

TEST(each_row_is_in_the_part_of_one_worker)
{
    struct settings set = settings_of("iid");
    int seen[ROWS] = {0};

    for (int node = 0; node < WORKERS; node++) {
        uint32_t *index;
        size_t n;

        make(&index, &n, &set, node, (struct shard_request){.n_rows = ROWS});
        assert_in_range(n, ROWS / WORKERS, ROWS / WORKERS + 1);
        for (size_t i = 0; i < n; i++)
            seen[index[i]]++;
        free(index);
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
}

TEST(the_order_depends_on_the_seed_and_the_epoch_alone)
{
    struct settings set = settings_of("iid");
    const struct shard_request q = {.n_rows = ROWS}, later = {.n_rows = ROWS, .epoch = 1};
    uint32_t *a, *b, *c, *other;
    size_t n, m;

    make(&a, &n, &set, 2, q);
    make(&b, &m, &set, 2, q);
    make(&c, &m, &set, 2, later);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_memory_not_equal(a, c, n * sizeof *a);
    set.seed = 2;
    make(&other, &m, &set, 2, q);
    assert_memory_not_equal(a, other, (n < m ? n : m) * sizeof *a);
    free(a);
    free(b);
    free(c);
    free(other);
}

/* As runner/loader.c reads it. */
TEST(batches_are_those_of_the_loader)
{
    enum { BATCH = 7, NODE = 1, EPOCH = 3 };
    struct settings set = settings_of("iid");
    struct partition_rule rule = {.kind = PARTITION_IID};
    struct partition p;
    uint32_t *index, order[ROWS];
    size_t n;

    make(&index, &n, &set, NODE, (struct shard_request){.n_rows = ROWS, .batch = BATCH, .epoch = EPOCH});
    assert_ok(partition_init(&p, &(struct partition_set){.n = ROWS}, &rule, WORKERS, BATCH, set.seed, &e));
    assert_int_equal(n, p.n_rows * BATCH);
    for (size_t c = 0; c < BATCH; c++) {
        size_t col = NODE * BATCH + c;

        partition_order(order, p.start[col + 1] - p.start[col], set.seed, EPOCH, col);
        for (size_t step = 0; step < p.n_rows; step++)
            assert_int_equal(index[step * BATCH + c], p.sample[p.start[col] + order[step]]);
    }
    free(index);
    partition_clear(&p);
}

TEST(labels_divide_the_rows_by_the_rule)
{
    struct settings set = settings_of("labels:1");
    int32_t labels[ROWS];
    uint32_t *index;
    size_t n;

    for (int i = 0; i < ROWS; i++)
        labels[i] = i % WORKERS;
    make(&index, &n, &set, 1, (struct shard_request){.n_rows = ROWS, .labels = labels});
    for (size_t i = 1; i < n; i++)
        assert_int_equal(labels[index[i]], labels[index[0]]);
    free(index);
}

TEST(rows_that_cannot_be_divided_are_refused)
{
    struct settings set = settings_of("dirichlet:0.1");
    int32_t labels[ROWS] = {[7] = -1};
    const struct {
        struct shard_request q;
        const char *why;
    } cases[] = {{{.n_rows = ROWS}, "shard() got none"},
                 {{.n_rows = ROWS, .labels = labels}, "the label of row 7 is -1"},
                 {{.n_rows = 3, .labels = labels}, "3 rows, and the job 4 workers"},
                 {{.n_rows = ROWS, .labels = labels, .batch = 251},
                  "250 rows for each of 4 workers, less than a batch of 251"},
                 {{.n_rows = ROWS, .labels = labels, .batch = SIZE_MAX}, "less than a batch"}};
    uint32_t *index;
    size_t n;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(trainer_shard_make(&index, &n, &set, 0, &cases[i].q, &e), ERR_TRAINER);
        assert_error_has(cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_in_the_part_of_one_worker),
        cmocka_unit_test(the_order_depends_on_the_seed_and_the_epoch_alone),
        cmocka_unit_test(batches_are_those_of_the_loader),
        cmocka_unit_test(labels_divide_the_rows_by_the_rule),
        cmocka_unit_test(rows_that_cannot_be_divided_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
