#include "shared/trainer/trainer_shard.h"

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

TEST(each_row_is_in_the_part_of_one_worker)
{
    struct settings set = settings_of("iid");
    int seen[ROWS] = {0};

    for (int node = 0; node < WORKERS; node++) {
        uint32_t *index;
        size_t n;

        assert_ok(trainer_shard_make(&index, &n, &set, node, ROWS, NULL, &e));
        assert_in_range(n, ROWS / WORKERS, ROWS / WORKERS + 1);
        for (size_t i = 0; i < n; i++)
            seen[index[i]]++;
        free(index);
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
}

TEST(the_order_depends_on_the_seed_alone)
{
    struct settings set = settings_of("iid");
    uint32_t *a, *b, *other;
    size_t n, m;

    assert_ok(trainer_shard_make(&a, &n, &set, 2, ROWS, NULL, &e));
    assert_ok(trainer_shard_make(&b, &m, &set, 2, ROWS, NULL, &e));
    set.seed = 2;
    assert_ok(trainer_shard_make(&other, &m, &set, 2, ROWS, NULL, &e));
    assert_memory_equal(a, b, n * sizeof *a);
    assert_memory_not_equal(a, other, (n < m ? n : m) * sizeof *a);
    free(a);
    free(b);
    free(other);
}

TEST(labels_divide_the_rows_by_the_rule)
{
    struct settings set = settings_of("labels:1");
    int32_t labels[ROWS];
    uint32_t *index;
    size_t n;

    for (int i = 0; i < ROWS; i++)
        labels[i] = i % WORKERS;
    assert_ok(trainer_shard_make(&index, &n, &set, 1, ROWS, labels, &e));
    for (size_t i = 1; i < n; i++)
        assert_int_equal(labels[index[i]], labels[index[0]]);
    free(index);
}

TEST(rows_that_cannot_be_divided_are_refused)
{
    struct settings set = settings_of("dirichlet:0.1");
    int32_t labels[ROWS] = {[7] = -1};
    uint32_t *index;
    size_t n;

    assert_int_equal(trainer_shard_make(&index, &n, &set, 0, ROWS, NULL, &e), ERR_TRAINER);
    assert_error_has("shard() got none");
    assert_int_equal(trainer_shard_make(&index, &n, &set, 0, ROWS, labels, &e), ERR_TRAINER);
    assert_error_has("the label of row 7 is -1");
    assert_int_equal(trainer_shard_make(&index, &n, &set, 0, 3, labels, &e), ERR_TRAINER);
    assert_error_has("3 rows, and the job 4 workers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_in_the_part_of_one_worker),
        cmocka_unit_test(the_order_depends_on_the_seed_alone),
        cmocka_unit_test(labels_divide_the_rows_by_the_rule),
        cmocka_unit_test(rows_that_cannot_be_divided_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
