/* Data sets of CSV files: how they are split, and the columns of a second file. */
#include <zlib.h>

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

static const char *put(const char *dir, const char *name, const char *csv)
{
    static char path[256];

    assert_ok(file_join(path, sizeof path, dir, name, &e));
    assert_ok(file_write(path, csv, strlen(csv), 0600, &e));
    return path;
}

TEST(one_file_is_split_the_same_way_for_the_same_seed)
{
    const char *dir = unit_folder();
    char csv[4000] = "a,b,kind\n";
    bool seen[100] = {false};
    struct dataset d, again, other;
    const char *path;

    for (int i = 0; i < 100; i++)
        sprintf(csv + strlen(csv), "%d,0,%s\n", i, i % 2 ? "odd" : "even");
    path = put(dir, "all.csv", csv);
    assert_ok(dataset_open(&d, "csv:test=0.3", path, &e));
    assert_ok(dataset_open(&again, "csv:test=0.3,seed=1", path, &e));
    assert_ok(dataset_open(&other, "csv:test=0.3,seed=2", path, &e));
    assert_int_equal(d.n_train, 70);
    assert_int_equal(d.n_test, 30);
    assert_int_equal(d.n_classes, 2);
    assert_memory_equal(d.class_names, "even\0odd", 9);
    for (size_t i = 0; i < 100; i++) {
        const float *x = i < 70 ? (float *)d.train_x + 2 * i : (float *)d.test_x + 2 * (i - 70);

        assert_false(seen[(int)x[0]]);
        seen[(int)x[0]] = true;
        assert_int_equal((int)x[0] % 2, i < 70 ? d.train_y[i] : d.test_y[i - 70]);
    }
    assert_memory_equal(d.test_x, again.test_x, 60 * sizeof(float));
    assert_memory_not_equal(d.test_x, other.test_x, 60 * sizeof(float));
    dataset_clear(&d);
    dataset_clear(&again);
    dataset_clear(&other);
    unit_remove(dir);
}

TEST(a_second_file_is_the_test_split_and_may_not_add_labels)
{
    const char *dir = unit_folder();
    struct dataset d;

    put(dir, "test.csv", "5,x\n");
    assert_ok(dataset_open(&d, "csv:test_file=test.csv", put(dir, "train.csv", "1,x\n2,y\n3,z\n"), &e));
    assert_int_equal(d.n_train, 3);
    assert_int_equal(d.n_test, 1);
    dataset_clear(&d);
    assert_ok(dataset_open(&d, "csv", dir, &e));
    assert_int_equal(d.n_classes, 3);
    assert_int_equal(d.test_y[0], 0);
    dataset_clear(&d);
    put(dir, "test.csv", "5,x\n6,w\n");
    assert_int_equal(dataset_open(&d, "csv", dir, &e), ERR_CONFIG);
    assert_error_has("test.csv: line 2: label \"w\" is not one of the 3 labels of the training file");
    put(dir, "test.csv", "5,6,x\n");
    assert_int_equal(dataset_open(&d, "csv", dir, &e), ERR_CONFIG);
    assert_error_has("3 columns, the training data has 2");
    unit_remove(dir);
}

TEST(groups_of_the_training_half_are_numbered_and_those_of_the_test_half_dropped)
{
    const char *dir = unit_folder();
    char csv[4000] = "user,a,kind\n", name[64];
    struct dataset d;

    for (int i = 0; i < 100; i++)
        sprintf(csv + strlen(csv), "u%d,%d,%s\n", i % 7, i % 7, i % 2 ? "odd" : "even");
    snprintf(name, sizeof name, "csv:test=0.3");
    assert_ok(dataset_group_by(name, sizeof name, "user", &e));
    assert_string_equal(name, "csv:test=0.3,group=user");
    assert_ok(dataset_group_by(name, sizeof name, "user", &e));
    assert_string_equal(name, "csv:test=0.3,group=user");
    assert_int_equal(dataset_group_by(name, sizeof name, "writer", &e), ERR_CONFIG);
    assert_error_has("two columns to group samples by");
    assert_int_equal(dataset_group_by(name, 8, "user", &e), 0); /* it is there */
    assert_ok(dataset_open(&d, name, put(dir, "all.csv", csv), &e));
    assert_int_equal(d.n_groups, 7);
    assert_int_equal(d.shape.dim[0], 1);
    for (size_t i = 0; i < d.n_train; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(d.train_groups[i] == d.train_groups[k],
                             ((float *)d.train_x)[i] == ((float *)d.train_x)[k]);
    dataset_clear(&d);
    snprintf(name, sizeof name, "digits");
    assert_int_equal(dataset_group_by(name, sizeof name, "user", &e), ERR_CONFIG);
    assert_error_has("data set digits has no columns to group samples by");
    snprintf(name, sizeof name, "csv");
    assert_int_equal(dataset_group_by(name, 12, "user", &e), ERR_CONFIG);
    assert_error_has("more than 11 characters");
    assert_int_equal(dataset_group_by(name, sizeof name, "a,b", &e), ERR_CONFIG);
    unit_remove(dir);
}

TEST(a_target_column_makes_a_regression)
{
    const char *dir = unit_folder();
    struct dataset d;

    assert_ok(dataset_open(&d, "csv:target=y,test=0.5", put(dir, "a.csv", "y,a\n1.5,1\n2.5,2\n"), &e));
    assert_int_equal(d.n_targets, 1);
    assert_null(d.train_y);
    assert_true(d.train_t[0] == ((float *)d.train_x)[0] + .5f);
    assert_true(d.test_t[0] == ((float *)d.test_x)[0] + .5f);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "csv:target=y,label=a", dir, &e), ERR_CONFIG);
    assert_error_has("exclude each other");
    unit_remove(dir);
}

TEST(every_truncation_of_a_gzipped_table_is_refused)
{
    static const char csv[] = "a,b,kind\n1,2,c\n3.5,4,d\n5,6,c\n";
    const char *dir = unit_folder();
    char path[256], *packed;
    struct dataset d;
    size_t len;
    gzFile f;

    assert_ok(file_join(path, sizeof path, dir, "a.csv.gz", &e));
    f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, csv, sizeof csv - 1), sizeof csv - 1);
    assert_int_equal(gzclose(f), Z_OK);
    assert_ok(dataset_open(&d, "csv", path, &e));
    assert_int_equal(d.n_train + d.n_test, 3);
    dataset_clear(&d);
    assert_ok(file_read(&packed, &len, path, 1000, &e));
    for (size_t k = 0; k < len; k++) {
        assert_ok(file_write(path, packed, k, 0600, &e));
        assert_int_equal(dataset_open(&d, "csv", path, &e), ERR_CONFIG);
    }
    free(packed);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_is_split_the_same_way_for_the_same_seed),
        cmocka_unit_test(a_second_file_is_the_test_split_and_may_not_add_labels),
        cmocka_unit_test(groups_of_the_training_half_are_numbered_and_those_of_the_test_half_dropped),
        cmocka_unit_test(a_target_column_makes_a_regression),
        cmocka_unit_test(every_truncation_of_a_gzipped_table_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
