#include "submit/data/data_formats.h"

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

static char *text; /* the table's, of exactly its length */

static int parse(struct data_table *t, const char *rows, struct libsvm_form form)
{
    size_t n_values, n_rows;

    free(text);
    text = unit_copy(rows, strlen(rows));
    if (libsvm_scan(&n_values, &n_rows, text, strlen(rows), &form, &e) < 0)
        return e.code;
    form.n_values = form.n_values ? form.n_values : n_values;
    return libsvm_parse(t, text, strlen(rows), &form, &e);
}

static int drop_text(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

TEST(rows_are_dense_with_zeros_where_nothing_is)
{
    static const float x[] = {0.5f, 0, -2, 0, 1000, 4, 0, 0, 0};
    static const char *const labels[] = {"+1", "-1", "0"};
    struct data_table t;

    assert_ok(parse(&t, "\xef\xbb\xbf+1 1:0.5 3:-2 # a comment 9:9\n\n  # none\n-1\t2:1e3  3:4 \r\n0 \n",
                    (struct libsvm_form){.first = 1}));
    assert_true(t.n_rows == 3 && t.n_values == 3 && t.has_truth && !t.targets);
    assert_memory_equal(t.x, x, sizeof x);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(t.texts[i].len, strlen(labels[i]));
        assert_memory_equal(t.texts[i].at, labels[i], strlen(labels[i]));
    }
    table_clear(&t);
}

TEST(labels_are_targets_and_qid_is_a_group_with_these_options)
{
    static const float x[] = {1, 2, 0, 1}, targets[] = {2.5f, -3};
    struct data_table t;

    assert_ok(parse(&t, "2.5 qid:7 0:1 1:2\n-3 qid:8 1:1\n",
                    (struct libsvm_form){.first = 0, .is_target = true, .has_groups = true}));
    assert_memory_equal(t.x, x, sizeof x);
    assert_memory_equal(t.targets, targets, sizeof targets);
    assert_true(t.groups[0].at[0] == '7' && t.groups[1].at[0] == '8');
    table_clear(&t);
    assert_ok(parse(&t, "1 qid:7 1:1\n2 1:1\n", (struct libsvm_form){.first = 1})); /* else it is skipped */
    assert_int_equal(t.n_values, 1);
    table_clear(&t);
}

TEST(rows_without_labels_are_read_where_they_may_be)
{
    struct data_table t;

    assert_ok(parse(&t, "1:2 2:3\n2:1\n", (struct libsvm_form){.first = 1, .may_lack = true}));
    assert_true(!t.has_truth && !t.texts && t.n_rows == 2 && t.x[1] == 3);
    table_clear(&t);
    assert_int_equal(parse(&t, "1:2\n1 2:1\n", (struct libsvm_form){.first = 1, .may_lack = true}),
                     ERR_CONFIG);
    assert_error_has("line 2: it begins with a label, and lines before it without one");
}

TEST(malformed_rows_are_refused_with_their_line)
{
    static const struct {
        const char *rows, *texts;
    } cases[] = {
        {"", "the file has no rows"},
        {"# only\n\n", "the file has no rows"},
        {"1\n2\n", "its rows have labels and no values"},
        {"1:2\n", "line 1: it begins without a label"},
        {"1 2:3\n1:2\n", "line 2: it begins without a label"},
        {"1,2 1:1\n", "line 1: \"1,2\", expected one label"},
        {"1,2,cat\n", "expected one label"},
        {"1 2\n", "line 1: \"2\" is no INDEX:VALUE"},
        {"1 2:\n", "line 1: \"2:\" is no INDEX:VALUE"},
        {"1 a:1\n", "line 1: \"a:1\" is no INDEX:VALUE"},
        {"1 -1:1\n", "\"-1:1\" is no INDEX:VALUE"},
        {"1 :1\n", "\":1\" is no INDEX:VALUE"},
        {"1 9999999999:1\n", "is no INDEX:VALUE"},
        {"1 99999999:1\n", "at most 16777216 values"},
        {"1 0:1\n", "line 1: index 0, expected 1 or more"},
        {"1 2:1 1:1\n", "line 1: index 1 is not larger than the one before it"},
        {"1 2:1 2:1\n", "index 2 is not larger"},
        {"1 1:x\n", "line 1: \"1:x\" is not a number"},
        {"1 1:nan\n", "\"1:nan\" is not a number"},
        {"1 1:1e99\n", "\"1:1e99\" is not a number"},
        {"NaN 1:1\n", "line 1: the label is missing"},
        {"PK\3\4", "it is packed by zip"},
        {"caf\xe9 1:1\n", "line 1: the label is not UTF-8"},
    };
    struct data_table t;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse(&t, cases[i].rows, (struct libsvm_form){.first = 1}), ERR_CONFIG);
        assert_error_has(cases[i].texts);
    }
    assert_int_equal(parse(&t, "1 3:1\n", (struct libsvm_form){.first = 1, .n_values = 2}), ERR_CONFIG);
    assert_error_has("line 1: index 3, expected 2 at most");
    assert_int_equal(parse(&t, "x 1:1\n", (struct libsvm_form){.first = 1, .is_target = true}), ERR_CONFIG);
    assert_error_has("\"x\" is not a number");
    assert_int_equal(parse(&t, "1 1:1\n", (struct libsvm_form){.first = 1, .has_groups = true}), ERR_CONFIG);
    assert_error_has("no qid:N behind the label");
}

TEST(a_table_that_memory_should_not_hold_is_refused_before_it_is_made)
{
    size_t n = 5000; /* rows of 65536 values are 1.3 GB */
    char *rows = malloc(16 * n);
    struct data_table t;

    assert_non_null(rows);
    for (size_t i = 0; i < n; i++)
        memcpy(rows + 10 * i, "1 65536:1\n", 10);
    rows[10 * n] = '\0';
    assert_int_equal(parse(&t, rows, (struct libsvm_form){.first = 1}), ERR_CONFIG);
    assert_error_has("5000 rows of 65536 values are more than 1073741824 bytes");
    free(rows);
}

static const char *put(const char *dir, const char *name, const char *rows)
{
    static char path[256];

    assert_ok(file_join(path, sizeof path, dir, name, &e));
    assert_ok(file_write(path, rows, strlen(rows), 0600, &e));
    return path;
}

TEST(both_files_have_the_values_of_the_larger_index_or_as_many_as_are_named)
{
    const char *dir = unit_folder();
    struct dataset d;

    put(dir, "test.libsvm", "+1 5:1\n");
    put(dir, "train.libsvm", "-1 1:1\n+1 3:1\n");
    assert_ok(dataset_open(&d, "libsvm", dir, &e));
    assert_true(d.n_train == 2 && d.n_test == 1 && d.shape.dim[0] == 5 && d.n_classes == 2);
    assert_memory_equal(d.class_names, "-1\0+1", 6);
    assert_int_equal(d.test_y[0], 1);
    assert_true(((float *)d.train_x)[7] == 1 && ((float *)d.test_x)[4] == 1);
    dataset_clear(&d);
    assert_ok(dataset_open(&d, "libsvm:values=9", dir, &e));
    assert_int_equal(d.shape.dim[0], 9);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "libsvm:values=4", dir, &e), ERR_CONFIG);
    assert_error_has("test.libsvm: line 1: index 5, expected 4 at most");
    put(dir, "test.libsvm", "+2 1:1\n");
    assert_int_equal(dataset_open(&d, "libsvm", dir, &e), ERR_CONFIG);
    assert_error_has("label \"+2\" is not one of the 2 labels of the training file");
    assert_int_equal(dataset_open(&d, "libsvm", put(dir, "one.t", "1 1:1\n1 1:3\n"), &e), ERR_CONFIG);
    assert_error_has("1 different label, expected 2");
    assert_non_null(strstr(e.hint, "of LIBSVM target=yes"));
    assert_ok(dataset_open(&d, "libsvm:target=yes,test=0.5,group=qid",
                           put(dir, "a.t", "1.5 qid:4 1:1\n2 qid:4 1:3\n"), &e));
    assert_true(d.n_targets == 1 && d.n_train == 1 && d.n_test == 1 && d.n_groups == 1);
    assert_true(d.train_t[0] == 1.5f ? ((float *)d.train_x)[0] == 1 : ((float *)d.train_x)[0] == 3);
    dataset_clear(&d);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_dense_with_zeros_where_nothing_is),
        cmocka_unit_test(labels_are_targets_and_qid_is_a_group_with_these_options),
        cmocka_unit_test(rows_without_labels_are_read_where_they_may_be),
        cmocka_unit_test(malformed_rows_are_refused_with_their_line),
        cmocka_unit_test(a_table_that_memory_should_not_hold_is_refused_before_it_is_made),
        cmocka_unit_test(both_files_have_the_values_of_the_larger_index_or_as_many_as_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, drop_text);
}
