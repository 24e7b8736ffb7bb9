/* Data that is read by a model's preprocessing record: columns by their names, and what other formats may
 * lack. */
#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"

#include <sys/stat.h>

#include "tests/unit/unit.h"

static struct err e;
static const char *folder;

static int make(void **state)
{
    (void)state;
    folder = unit_folder();
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unit_remove(folder);
    return 0;
}

static const char *put_bytes(const char *name, const void *bytes, size_t len)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_write(path, bytes, len, 0600, &e));
    return path;
}

static const char *put(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

/* The record of a set in a file or folder. */
static void learn(struct preprocessing *p, const char *name, const char *path)
{
    struct dataset d;

    assert_ok(dataset_open(&d, name, path, &e));
    assert_ok(preprocessing_learn(p, &d, name, "unit", &e));
    dataset_clear(&d);
}

static int read_as(struct dataset *d, const char *name, const char *path, const struct preprocessing *p,
                   bool is_whole)
{
    return dataset_open_as(d, name, path, &(struct data_use){.known = p, .is_whole = is_whole}, &e);
}

/* All rows of the table. */
static int read_table(struct dataset *d, const struct preprocessing *p, const char *csv)
{
    return read_as(d, "csv", put("new.csv", csv), p, true);
}

static void learn_table(struct preprocessing *p)
{
    learn(p, "csv:label=kind,test=0.5",
          put("train.csv", "a,kind,b\n1,ant,10\n2,bee,20\n3,cow,30\n4,ant,40\n"));
}

static void assert_rows(const struct dataset *d, size_t n, const float *x)
{
    assert_int_equal(d->n_train, 0);
    assert_int_equal(d->n_test, n);
    assert_memory_equal(d->test_x, x, n * 2 * sizeof *x);
}

TEST(columns_are_found_by_name_in_any_order_and_others_are_left_out)
{
    struct preprocessing p;
    struct dataset d;

    learn_table(&p);
    assert_ok(read_table(&d, &p, "b,id,kind,a\n50,7,cow,5\n60,8,bee,6\n"));
    assert_rows(&d, 2, (float[]){5, 50, 6, 60});
    assert_memory_equal(d.test_y, ((int32_t[]){2, 1}), 2 * sizeof(int32_t));
    assert_int_equal(d.n_classes, 3);
    assert_non_null(strstr(dataset_warning(&d.warnings, NULL), "column \"id\" is left out"));
    dataset_clear(&d);
    preprocessing_clear(&p);
}

/* pandas' row numbers, left out as column 1, are not in every file. */
TEST(a_column_that_was_dropped_by_its_number_may_be_missing_or_elsewhere)
{
    static const char *const files[] = {"a,b\n5,50\n6,60\n", "b,id,a\n50,7,5\n60,8,6\n",
                                        ",a,b\n0,5,50\n1,6,60\n", "kind,a,b\n,5,50\n,6,60\n"};
    struct preprocessing p;
    struct dataset d;

    learn(&p, "csv:drop=1,test=0.5",
          put("train.csv", ",a,b,kind\n0,1,10,ant\n1,2,20,bee\n2,3,30,ant\n3,4,40,bee\n"));
    for (size_t i = 0; i < N_OF(files); i++) {
        assert_ok(read_as(&d, p.dataset, put("new.csv", files[i]), &p, true));
        assert_rows(&d, 2, (float[]){5, 50, 6, 60});
        dataset_clear(&d);
    }
    preprocessing_clear(&p);
    learn(&p, "csv:drop=1,target=4,header=no,test=0.5", put("train.csv", "7,1,10,3\n8,2,20,4\n9,3,30,5\n"));
    assert_ok(read_as(&d, p.dataset, put("new.csv", "7,5,50,1\n8,6,60,2\n"), &p, true));
    assert_rows(&d, 2, (float[]){5, 50, 6, 60});
    assert_null(dataset_warning(&d.warnings, NULL));
    dataset_clear(&d);
    assert_ok(read_as(&d, p.dataset, put("new.csv", "5,50,1\n6,60,2\n"), &p, true));
    assert_rows(&d, 2, (float[]){5, 50, 6, 60});
    assert_non_null(strstr(dataset_warning(&d.warnings, NULL), "no column is left out"));
    dataset_clear(&d);
    preprocessing_clear(&p);
}

TEST(ten_thousand_columns_are_found_by_name_in_the_reverse_order)
{
    enum { N = 10000 };
    static const char *const labels[] = {"ant", "bee"};
    char *csv = calloc(3, 8 * (N + 1));
    struct preprocessing p;
    struct dataset d;
    char *to = csv;

    assert_non_null(csv);
    for (int i = 0; i < N; i++)
        to += sprintf(to, "c%d,", i);
    to += sprintf(to, "label\n");
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < N; i++)
            to += sprintf(to, "%d,", i);
        to += sprintf(to, "%s\n", labels[row]);
    }
    learn(&p, "csv:test=0.5", put("train.csv", csv));
    to = csv;
    for (int i = N - 1; i >= 0; i--)
        to += sprintf(to, "c%d%s", i, i ? "," : "\n");
    for (int i = N - 1; i >= 0; i--)
        to += sprintf(to, "%d%s", i, i ? "," : "\n");
    assert_ok(read_table(&d, &p, csv));
    for (int i = 0; i < N; i++)
        assert_float_equal(((float *)d.test_x)[i], (float)i, 0);
    dataset_clear(&d);
    preprocessing_clear(&p);
    free(csv);
}

TEST(a_table_without_the_learned_column_or_with_an_empty_one_has_no_labels)
{
    static const char *const tables[] = {"b,a\n50,5\n60,6\n", "a,b\n5,50\n6,60\n", "5,50\n6,60\n",
                                         "a,kind,b\n5,,50\n6,,60\n", "kind,b,a\n?,50,5\n?,60,6\n"};
    struct preprocessing p;
    struct dataset d;

    learn_table(&p);
    for (size_t i = 0; i < N_OF(tables); i++) {
        assert_ok(read_table(&d, &p, tables[i]));
        assert_rows(&d, 2, (float[]){5, 50, 6, 60});
        assert_null(d.test_y);
        assert_int_equal(d.n_classes, 3);
        dataset_clear(&d);
    }
    preprocessing_clear(&p);
}

TEST(a_table_that_contradicts_the_record_is_refused_in_a_sentence)
{
    static const struct {
        const char *csv, *text;
    } cases[] = {
        {"a,kind\n5,ant\n", "line 1: no column is called \"b\"; the training data has one"},
        {"b\n50\n", "line 1: no column is called \"a\"; the training data has one"},
        {"50\n60\n", "line 1: 1 column, the training data has 3 with the one that is learned"},
        {"a;b\n5;50\n", "line 1: its cells are separated by semicolons, expected commas"},
        {"a,b,a\n5,50,5\n", "2 columns are called \"a\""},
        {"a,kind,b\n5,dog,50\n",
         "line 2: the label \"dog\" is none of the model's 3 classes (ant, bee, cow)"},
        {"a,kind,b\n5,ant,50\n6,,60\n", "line 3: the label or target is missing, as in 1 of 2 rows"},
        {"5,ant,50,1\n", "line 1: 4 columns, the training data has 3 with the one that is learned"},
        {"a,kind,b\n5,ant,?\n", "line 2, column 3"},
    };
    struct preprocessing p;
    struct dataset d;

    learn_table(&p);
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(read_table(&d, &p, cases[i].csv), ERR_CONFIG);
        assert_error_has(cases[i].text);
    }
    assert_int_equal(read_as(&d, "csv:target=kind", put("new.csv", "a,b\n1,2\n"), &p, true), ERR_CONFIG);
    assert_error_has("target=kind: the model predicts classes, and not values");
    assert_int_equal(read_as(&d, "csv:label=a", put("new.csv", "a,b\n1,2\n"), &p, true), ERR_CONFIG);
    assert_error_has("label=a: the model has learned column 2, \"kind\"");
    preprocessing_clear(&p);
}

TEST(rows_of_a_single_class_keep_its_number)
{
    struct preprocessing p;
    struct dataset d;

    learn_table(&p);
    assert_ok(read_table(&d, &p, "a,kind,b\n5,cow,50\n"));
    assert_int_equal(d.test_y[0], 2);
    dataset_clear(&d);
    preprocessing_clear(&p);
}

TEST(a_test_file_has_its_columns_by_name_and_its_labels)
{
    struct dataset d;

    put("test.csv", "b,kind,a\n50,bee,5\n");
    assert_ok(dataset_open(&d, "csv:label=kind,test_file=test.csv",
                           put("train.csv", "a,kind,b\n1,ant,10\n2,bee,20\n"), &e));
    assert_memory_equal(d.test_x, ((float[]){5, 50}), 2 * sizeof(float));
    assert_int_equal(d.test_y[0], 1);
    dataset_clear(&d);
    put("test.csv", "a,b\n5,50\n"); /* an evaluation needs labels */
    assert_int_equal(dataset_open(&d, "csv:label=kind,test_file=test.csv",
                                  put("train.csv", "a,kind,b\n1,ant,10\n2,bee,20\n"), &e),
                     ERR_CONFIG);
    assert_error_has("no column is called \"kind\"");
}

TEST(columns_of_the_same_name_are_told_apart_by_their_order_only)
{
    struct preprocessing p;
    struct dataset d;

    learn(&p, "csv:label=kind", put("train.csv", "v,v,kind\n1,10,ant\n2,20,bee\n3,30,ant\n"));
    assert_ok(read_table(&d, &p, "v,v\n5,50\n"));
    assert_rows(&d, 1, (float[]){5, 50});
    dataset_clear(&d);
    assert_int_equal(read_table(&d, &p, "kind,v,v\nant,5,50\n"), ERR_CONFIG);
    assert_error_has("two columns of the training data have the same name");
    preprocessing_clear(&p);
}

TEST(a_regression_takes_targets_or_none)
{
    struct preprocessing p;
    struct dataset d;

    learn(&p, "csv:target=y", put("train.csv", "y,a,b\n0.5,1,10\n1.5,2,20\n"));
    assert_ok(read_table(&d, &p, "a,b,y\n5,50,2.5\n"));
    assert_rows(&d, 1, (float[]){5, 50});
    assert_true(d.test_t[0] == 2.5f && d.n_targets == 1);
    dataset_clear(&d);
    assert_ok(read_table(&d, &p, "a,b\n5,50\n"));
    assert_true(!d.test_t && d.n_targets == 1 && d.n_classes == 0);
    dataset_clear(&d);
    preprocessing_clear(&p);
}

/* A folder of texts, whose files are "NAME\0LINES\0" pairs. */
static const char *put_texts(const char *dir, int n, const char *const *files)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < n; i++) {
        char name[64];

        snprintf(name, sizeof name, "%s/%s", dir, files[2 * i]);
        put(name, files[2 * i + 1]);
    }
    return path;
}

TEST(words_keep_their_numbers_and_others_are_1)
{
    static const char *const train[] = {"neg", "bad bad bad film\nbad film\n", "pos",
                                        "good good film\ngood\n"};
    static const char *const new[] = {"pos", "film good\nnever seen\n", "neg", "film bad\n"};
    static const char *const other[] = {"x1", "film\r\n\r\nbad", "x2", "good\n"};
    static const char *const mixed[] = {"neg", "bad\n", "dog", "wuff\n"};
    struct preprocessing p;
    struct dataset d;
    long bad, good, film;

    learn(&p, "text:length=3,test=0.3", put_texts("train", 2, train));
    bad = names_find(&p.words, "bad", 3) + 2;
    good = names_find(&p.words, "good", 4) + 2;
    film = names_find(&p.words, "film", 4) + 2;
    assert_ok(read_as(&d, "text", put_texts("new", 2, new), &p, true)); /* length is the record's */
    assert_int_equal(d.n_test, 3);
    assert_memory_equal(d.test_x, ((int32_t[]){(int)film, (int)bad, 0, (int)film, (int)good, 0, 1, 1, 0}),
                        9 * sizeof(int32_t));
    assert_memory_equal(d.test_y, ((int32_t[]){0, 1, 1}), 3 * sizeof(int32_t));
    dataset_clear(&d);
    assert_ok(read_as(&d, "text", put_texts("other", 2, other), &p, true)); /* every line is a row */
    assert_int_equal(d.n_test, 4);
    assert_null(d.test_y);
    assert_memory_equal(d.test_x, ((int32_t[]){(int)film, 0, 0, 1, 0, 0, (int)bad, 0, 0, (int)good, 0, 0}),
                        12 * sizeof(int32_t));
    assert_non_null(strstr(dataset_warning(&d.warnings, NULL), "its lines have no labels"));
    dataset_clear(&d);
    assert_ok(read_as(&d, "text", put("lines", "film\nbad\n"), &p, true)); /* a single file */
    assert_true(d.n_test == 2 && !d.test_y && d.n_classes == 2);
    dataset_clear(&d);
    assert_int_equal(read_as(&d, "text",
                             put_bytes("wide",
                                       "\xff\xfe"
                                       "a",
                                       4),
                             &p, true),
                     ERR_CONFIG);
    assert_error_has("wide: it is UTF-16");
    assert_null(strstr(strstr(e.text, "wide") + 1, "wide")); /* the file is named once */
    assert_int_equal(read_as(&d, "text", put_texts("mixed", 2, mixed), &p, true), ERR_CONFIG);
    assert_error_has("the label \"dog\" is none of the model's 2 classes (neg, pos)");
    assert_int_equal(read_as(&d, "text:length=4", folder, &p, true), ERR_CONFIG);
    assert_error_has("length=4: the model was trained with length=3");
    preprocessing_clear(&p);
}

/* An IDX file: n items of `size` bytes each, 0, 1, 2, ...; rows 0: labels. */
static void put_idx(const char *name, uint8_t n, uint8_t rows, uint8_t cols)
{
    uint8_t bytes[256] = {0, 0, 8, rows ? 3 : 1, 0, 0, 0, n, 0, 0, 0, rows, 0, 0, 0, cols};
    size_t head = rows ? 16 : 8, len = head + (size_t)n * (rows ? (size_t)rows * cols : 1);

    for (size_t i = head; i < len; i++)
        bytes[i] = (uint8_t)((i - head) % 3);
    put_bytes(name, bytes, len);
}

TEST(images_need_no_labels)
{
    struct preprocessing p;
    struct dataset d;
    char path[256];

    put_idx("train-images-idx3-ubyte", 4, 2, 3);
    put_idx("train-labels-idx1-ubyte", 4, 0, 0);
    put_idx("t10k-images-idx3-ubyte", 3, 2, 3);
    put_idx("t10k-labels-idx1-ubyte", 3, 0, 0);
    learn(&p, "idx", folder);
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", folder);
    assert_ok(read_as(&d, "idx", path, &p, true));
    assert_true(d.n_test == 3 && d.n_train == 0 && !d.test_y && d.n_classes == 3);
    dataset_clear(&d);
    assert_ok(read_as(&d, "idx", folder, &p, true)); /* the half, with its labels */
    assert_true(d.n_test == 3 && d.test_y && d.test_y[2] == 2);
    dataset_clear(&d);
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", folder);
    assert_int_equal(unlink(path), 0);
    assert_ok(read_as(&d, "idx", folder, &p, true));
    assert_true(d.n_test == 3 && !d.test_y);
    dataset_clear(&d);
    preprocessing_clear(&p);
}

/* An .npy file of n bytes of a shape, "3, 2". */
static void put_npy(const char *name, const char *type, const char *shape, const void *values, size_t len)
{
    uint8_t bytes[512] = "\x93NUMPY\1";
    int n = sprintf((char *)bytes + 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }\n", type,
                    shape);

    bytes[8] = (uint8_t)n;
    memcpy(bytes + 10 + n, values, len);
    put_bytes(name, bytes, 10 + (size_t)n + len);
}

TEST(arrays_need_no_labels_and_are_taken_whole)
{
    static const uint8_t x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t y[] = {0, 2, 1, 2};
    struct preprocessing p;
    struct dataset d;
    char path[256];

    put_npy("x.npy", "|u1", "4, 2", x, 8);
    put_npy("y.npy", "|u1", "4", y, 4);
    learn(&p, "npy:test=0.5", folder);
    assert_ok(read_as(&d, "npy", folder, &p, true));
    assert_int_equal(d.n_test, 4);
    assert_memory_equal(d.test_x, x, sizeof x);
    assert_memory_equal(d.test_y, ((int32_t[]){0, 2, 1, 2}), 16);
    dataset_clear(&d);
    snprintf(path, sizeof path, "%s/y.npy", folder);
    assert_int_equal(unlink(path), 0);
    assert_ok(read_as(&d, "npy", folder, &p, true));
    assert_true(d.n_test == 4 && !d.test_y && d.n_classes == 3);
    dataset_clear(&d);
    put_npy("y.npy", "|u1", "4", "\0\1\3\1", 4);
    assert_int_equal(read_as(&d, "npy", folder, &p, true), ERR_CONFIG);
    assert_error_has("sample 3: the label \"3\" is none of the model's 3 classes (0 to 2)");
    preprocessing_clear(&p);
}

int main(void)
{
#define TEST_IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make, clean)
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(a_column_that_was_dropped_by_its_number_may_be_missing_or_elsewhere),
        TEST_IN_FOLDER(ten_thousand_columns_are_found_by_name_in_the_reverse_order),
        TEST_IN_FOLDER(columns_are_found_by_name_in_any_order_and_others_are_left_out),
        TEST_IN_FOLDER(a_table_without_the_learned_column_or_with_an_empty_one_has_no_labels),
        TEST_IN_FOLDER(a_table_that_contradicts_the_record_is_refused_in_a_sentence),
        TEST_IN_FOLDER(rows_of_a_single_class_keep_its_number),
        TEST_IN_FOLDER(a_test_file_has_its_columns_by_name_and_its_labels),
        TEST_IN_FOLDER(columns_of_the_same_name_are_told_apart_by_their_order_only),
        TEST_IN_FOLDER(a_regression_takes_targets_or_none),
        TEST_IN_FOLDER(words_keep_their_numbers_and_others_are_1),
        TEST_IN_FOLDER(images_need_no_labels),
        TEST_IN_FOLDER(arrays_need_no_labels_and_are_taken_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
