/* The files of tests/fuzz/corpus/npy were written by NumPy 1.24. */
#include "submit/data/data_formats.h"

#include <math.h>

#include "submit/data/data_open.h"
#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

static void load(char **bytes, size_t *len, const char *name)
{
    char path[256];

    assert_ok(file_join(path, sizeof path, "tests/fuzz/corpus/npy", name, &e));
    assert_ok(file_read(bytes, len, path, 1 << 20, &e));
}

/* A file with this header, as numpy pads it, and `n` bytes of data. */
static int parse_header(struct npy_array *a, const char *dictionary, size_t n)
{
    static uint8_t *bytes;
    size_t len = strlen(dictionary) + 1;

    free(bytes);
    bytes = calloc(1, 10 + len + n);
    memcpy(bytes, "\x93NUMPY\x01", 8);
    bytes[8] = (uint8_t)len;
    memcpy(bytes + 10, dictionary, len - 1);
    bytes[10 + len - 1] = '\n';
    return npy_parse(a, bytes, 10 + len + n, &e);
}

TEST(arrays_of_both_format_versions_are_read)
{
    struct npy_array a;
    char *bytes;
    size_t len;

    load(&bytes, &len, "f4.npy");
    assert_ok(npy_parse(&a, (uint8_t *)bytes, len, &e));
    assert_true(a.type == NPY_F4 && a.n_dims == 2 && a.shape[0] == 2 && a.shape[1] == 3);
    for (size_t i = 0; i < 6; i++)
        assert_true(npy_value(&a, i) == (double)i);
    free(bytes);
    load(&bytes, &len, "version2.npy");
    assert_ok(npy_parse(&a, (uint8_t *)bytes, len, &e));
    assert_true(a.type == NPY_I4 && a.n_dims == 1 && npy_integer(&a, 2) == 2);
    free(bytes);
}

TEST(truncated_or_extended_arrays_are_refused)
{
    struct npy_array a;
    char *bytes;
    size_t len;

    load(&bytes, &len, "f4.npy");
    for (size_t n = 0; n < len; n++) {
        uint8_t *part = unit_copy(bytes, n);

        assert_int_equal(npy_parse(&a, part, n, &e), ERR_CONFIG);
        free(part);
    }
    bytes = realloc(bytes, len + 1);
    bytes[len] = 0;
    assert_int_equal(npy_parse(&a, (uint8_t *)bytes, len + 1, &e), ERR_CONFIG);
    assert_error_has("24 bytes of data expected, 25 found");
    free(bytes);
}

TEST(a_malformed_header_is_refused)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "its type is |O, Python objects"},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", "its type is <U5, texts"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "its type is <c8, complex numbers"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,), }", "its type is <M8[ns], dates"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", "its type is <f16, expected bool"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (2,), }", "its type is |f4"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,), }", "its type is , expected"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", "Fortran"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "a scalar, expected an array"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "it has no samples"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,2), }", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999,), }",
         "do not fit dimension 1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "do not fit"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }", "do not fit dimension 2"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "4 bytes of data expected, 8 found"},
        {"{'descr': '<f4', 'fortran_order': False, }", "its header is not"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "its header is not"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "its header is not"},
        {"'descr'", "its header is not"},
    };
    struct npy_array a;

    assert_ok(parse_header(&a, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8));
    assert_ok(parse_header(&a, "{'shape':(2,),'fortran_order':False,'descr':'<f4'}", 8));
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse_header(&a, cases[i].text, 8), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

TEST(a_member_is_read_stored_or_deflated)
{
    static const char *const names[] = {"stored.npz", "deflated.npz"};

    for (size_t i = 0; i < N_OF(names); i++) {
        struct npy_array a;
        uint8_t *member;
        size_t len, n;
        char *bytes;

        load(&bytes, &len, names[i]);
        assert_ok(zip_member(&member, &n, (uint8_t *)bytes, len, "x_train.npy", &e));
        assert_ok(npy_parse(&a, member, n, &e));
        assert_true(a.type == NPY_U1 && a.n == 24 && npy_integer(&a, 23) == 23);
        free(member);
        assert_int_equal(zip_member(&member, &n, (uint8_t *)bytes, len, "x_train.np", &e), ERR_NOT_FOUND);
        free(bytes);
    }
}

TEST(every_truncation_of_a_zip_file_is_refused)
{
    uint8_t *member;
    char *bytes;
    size_t len, n;

    load(&bytes, &len, "deflated.npz");
    for (size_t k = 0; k < len; k++) {
        uint8_t *part = unit_copy(bytes, k);

        assert_int_equal(zip_member(&member, &n, part, k, "y_test.npy", &e), ERR_CONFIG);
        free(part);
    }
    free(bytes);
}

TEST(a_corrupt_byte_of_a_member_is_detected)
{
    uint8_t *member;
    char *bytes;
    size_t len, n, damaged = 0;

    load(&bytes, &len, "deflated.npz");
    for (size_t k = 0; k < len; k++) {
        bytes[k] ^= 0x10;
        if (zip_member(&member, &n, (uint8_t *)bytes, len, "x_train.npy", &e) == 0)
            free(member);
        else
            damaged++;
        bytes[k] ^= 0x10;
    }
    /* x_train is the first of four members: covers most of its local file, its directory entry and the end
     * record count. */
    assert_true(damaged > len / 5);
    for (size_t k = 65; k < 85; k++) { /* inside its compressed data */
        bytes[k] ^= 0x10;
        assert_int_equal(zip_member(&member, &n, (uint8_t *)bytes, len, "x_train.npy", &e), ERR_CONFIG);
        bytes[k] ^= 0x10;
    }
    free(bytes);
}

/* Offsets in the central directory's first entry, which is x_train's. */
static size_t first_entry(const char *bytes, size_t len)
{
    uint32_t at;

    memcpy(&at, bytes + len - 22 + 16, 4);
    return at;
}

TEST(absurd_sizes_and_offsets_are_refused)
{
    static const struct {
        size_t field;
        uint32_t value;
    } cases[] = {{20, 0xffffffff}, {24, 0xffffffff}, {42, 0xffffffff}, {42, 1}, {28, 0xffff}, {24, 0}};
    uint8_t *member;
    char *bytes;
    size_t len, n;

    for (size_t i = 0; i < N_OF(cases); i++) {
        load(&bytes, &len, "deflated.npz");
        memcpy(bytes + first_entry(bytes, len) + cases[i].field, &cases[i].value,
               cases[i].field == 28 ? 2 : 4);
        assert_int_equal(zip_member(&member, &n, (uint8_t *)bytes, len, "x_train.npy", &e), ERR_CONFIG);
        free(bytes);
    }
}

TEST(keras_arrays_form_a_data_set)
{
    struct dataset d;

    assert_ok(dataset_open(&d, "npz", "tests/fuzz/corpus/npy/deflated.npz", &e));
    assert_int_equal(d.n_train, 4);
    assert_int_equal(d.n_test, 2);
    assert_int_equal(d.x_type, TENSOR_U8);
    assert_int_equal(d.shape.n_dims, 3);
    assert_int_equal(d.shape.dim[1], 3);
    assert_int_equal(d.n_classes, 3);
    assert_int_equal(((uint8_t *)d.test_x)[11], 111);
    assert_int_equal(d.test_y[0], 2);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "npz:classes=2", "tests/fuzz/corpus/npy/stored.npz", &e), ERR_CONFIG);
    assert_error_has("y_train: label 2 of sample 3, expected 0 to 1");
}

TEST(x_and_y_alone_are_split_and_floats_are_targets)
{
    struct dataset d;

    assert_ok(dataset_open(&d, "npz:test=0.4", "tests/fuzz/corpus/npy/floats.npz", &e));
    assert_int_equal(d.n_train, 3);
    assert_int_equal(d.n_test, 2);
    assert_int_equal(d.n_targets, 1);
    for (int i = 0; i < 3; i++) /* x is (2i, 2i + 1) / 4, y is i / 2 */
        assert_true(((float *)d.train_x)[2 * i] == d.train_t[i]);
    dataset_clear(&d);
}

TEST(integers_are_tokens_if_a_vocabulary_is_given)
{
    struct dataset d;

    assert_ok(dataset_open(&d, "npz:vocab=5", "tests/fuzz/corpus/npy/tokens.npz", &e));
    assert_int_equal(d.x_type, TENSOR_I32);
    assert_int_equal(d.vocab, 5);
    assert_int_equal(d.shape.dim[0], 3);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "npz:vocab=4", "tests/fuzz/corpus/npy/tokens.npz", &e), ERR_CONFIG);
    assert_error_has("token 4 of sample 4, expected 0 to 3");
    assert_ok(dataset_open(&d, "npz", "tests/fuzz/corpus/npy/tokens.npz", &e));
    assert_int_equal(d.x_type, TENSOR_F32);
    dataset_clear(&d);
}

TEST(a_folder_of_npy_files_is_read_the_same_way)
{
    static const char *const names[] = {"x_train", "y_train", "x_test", "y_test"};
    const char *dir = unit_folder();
    struct dataset d, other;
    char *zip;
    size_t zip_len;

    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.hint, "x_train, y_train"));
    load(&zip, &zip_len, "stored.npz");
    for (size_t i = 0; i < N_OF(names); i++) {
        char name[32], path[256];
        uint8_t *bytes;
        size_t len;

        snprintf(name, sizeof name, "%s.npy", names[i]);
        assert_ok(zip_member(&bytes, &len, (uint8_t *)zip, zip_len, name, &e));
        assert_ok(file_join(path, sizeof path, dir, name, &e));
        assert_ok(file_write(path, bytes, len, 0600, &e));
        free(bytes);
    }
    {
        /* The label of one sample only. */
        static const char one[] = "\x93NUMPY\x01\0\x76\0"
                                  "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }                 "
                                  "                                           \n\x07";
        char path[256], hidden[256];

        assert_ok(file_join(path, sizeof path, dir, "y_train.npy", &e));
        assert_ok(file_join(hidden, sizeof hidden, dir, "hidden", &e));
        assert_int_equal(rename(path, hidden), 0);
        assert_ok(file_write(path, one, sizeof one - 1, 0600, &e));
        assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
        assert_error_has("y_train has 1");
        assert_int_equal(rename(hidden, path), 0);
    }
    assert_ok(dataset_open(&d, "npy", dir, &e));
    assert_ok(dataset_open(&other, "npz", "tests/fuzz/corpus/npy/stored.npz", &e));
    assert_memory_equal(d.train_x, other.train_x, 24);
    assert_memory_equal(d.test_y, other.test_y, 2 * sizeof *d.test_y);
    dataset_clear(&d);
    dataset_clear(&other);
    free(zip);
    unit_remove(dir);
}

/* Writes NAME.npy: `n` values of `type`, with the dimensions `shape`. */
static void put_array(const char *dir, const char *name, const char *type, const char *shape,
                      const void *values, size_t bytes)
{
    char head[160], path[256], file[32];
    uint8_t all[512];
    int n;

    n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
    memcpy(all, "\x93NUMPY\x01\0", 8);
    all[8] = (uint8_t)n;
    all[9] = 0;
    memcpy(all + 10, head, (size_t)n);
    memcpy(all + 10 + n, values, bytes);
    snprintf(file, sizeof file, "%s.npy", name);
    assert_ok(file_join(path, sizeof path, dir, file, &e));
    assert_ok(file_write(path, (char *)all, 10 + (size_t)n + bytes, 0600, &e));
}

/* The labels 0, 1, 2, 1 in every type, and x of every type. */
TEST(labels_and_values_are_of_any_integer_or_float_type_and_order_of_bytes)
{
#define BYTES(...)                                                                                           \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[])                                                  \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
    static const int32_t expected[] = {0, 1, 2, 1};
    const struct {
        const char *type;
        const uint8_t *bytes;
        size_t len;
    } cases[] = {
        {"|u1", BYTES(0, 1, 2, 1)},
        {"|i1", BYTES(0, 1, 2, 1)},
        {"<u2", BYTES(0, 0, 1, 0, 2, 0, 1, 0)},
        {"<i2", BYTES(0, 0, 1, 0, 2, 0, 1, 0)},
        {">i2", BYTES(0, 0, 0, 1, 0, 2, 0, 1)},
        {"<u4", BYTES(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0)},
        {">i4", BYTES(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1)},
        {"<u8", BYTES(0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
                      0, 0, 0)},
        {"<f2", BYTES(0, 0, 0, 0x3c, 0, 0x40, 0, 0x3c)},
        {">f2", BYTES(0, 0, 0x3c, 0, 0x40, 0, 0x3c, 0)},
        {"<f4", BYTES(0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3f)},
        {">f4", BYTES(0, 0, 0, 0, 0x3f, 0x80, 0, 0, 0x40, 0, 0, 0, 0x3f, 0x80, 0, 0)},
    };
    const char *dir = unit_folder();

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct dataset d;

        put_array(dir, "x_train", cases[i].type, "(4, 1)", cases[i].bytes, cases[i].len);
        put_array(dir, "y_train", cases[i].type, "(4,)", cases[i].bytes, cases[i].len);
        put_array(dir, "x_test", cases[i].type, "(4, 1)", cases[i].bytes, cases[i].len);
        put_array(dir, "y_test", cases[i].type, "(4, 1)", cases[i].bytes, cases[i].len);
        assert_ok(dataset_open(&d, "npy", dir, &e));
        if (d.train_t) {
            assert_true(d.may_be_labels);
            assert_ok(dataset_take_labels(&d, &e));
        }
        assert_int_equal(d.n_classes, 3);
        assert_memory_equal(d.train_y, expected, sizeof expected);
        assert_memory_equal(d.test_y, expected, sizeof expected);
        for (size_t k = 0; k < 4; k++)
            assert_true((d.x_type == TENSOR_U8 ? (float)((uint8_t *)d.train_x)[k]
                                               : ((float *)d.train_x)[k]) == (float)expected[k]);
        dataset_clear(&d);
    }
    unit_remove(dir);
}

TEST(half_floats_have_their_values)
{
    static const struct {
        uint8_t bytes[2];
        double v;
    } cases[] = {{{0, 0xc0}, -2},
                 {{0xff, 0x7b}, 65504},
                 {{1, 0}, 0x1p-24},
                 {{0xff, 0x03}, 1023 * 0x1p-24},
                 {{0x55, 0x35}, 0.333251953125}};
    struct npy_array a = {.type = NPY_F2, .n = 1};

    for (size_t i = 0; i < N_OF(cases); i++) {
        a.data = cases[i].bytes;
        assert_true(npy_value(&a, 0) == cases[i].v);
    }
    a.data = (const uint8_t[]){0, 0x7c};
    assert_true(isinf(npy_value(&a, 0)));
}

TEST(bools_and_rows_with_a_single_1_are_labels_and_other_rows_are_refused)
{
    static const uint8_t bools[] = {1, 0, 0, 1}, hot[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0};
    static const int32_t of_bools[] = {1, 0, 0, 1}, of_hot[] = {2, 0, 2, 0};
    float floats[12], whole[] = {0, 1, 0.5f, 1};
    uint8_t twice[12];
    const char *dir = unit_folder();
    struct dataset d;

    memcpy(twice, hot, sizeof hot);
    twice[4] = 1;
    for (int i = 0; i < 12; i++)
        floats[i] = hot[i];
    put_array(dir, "x_train", "|u1", "(4, 3)", hot, 12);
    put_array(dir, "x_test", "|u1", "(4, 3)", hot, 12);
    put_array(dir, "y_test", "|b1", "(4,)", bools, 4);
    put_array(dir, "y_train", "|b1", "(4,)", bools, 4);
    assert_ok(dataset_open(&d, "npy", dir, &e));
    assert_int_equal(d.n_classes, 2);
    assert_memory_equal(d.train_y, of_bools, sizeof of_bools);
    dataset_clear(&d);
    put_array(dir, "y_train", "|u1", "(4, 3)", hot, 12);
    put_array(dir, "y_test", "|u1", "(4, 3)", hot, 12);
    assert_ok(dataset_open(&d, "npy", dir, &e));
    assert_int_equal(d.n_classes, 3);
    assert_memory_equal(d.train_y, of_hot, sizeof of_hot);
    dataset_check_classes(&d);
    assert_string_equal(dataset_warning(&d.warnings, NULL), "no training sample has the class 1");
    dataset_clear(&d);
    put_array(dir, "y_train", "|u1", "(4, 3)", twice, 12);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("those of sample 2 are not a single 1 among zeros");
    put_array(dir, "y_train", "<f4", "(4, 3)", floats, sizeof floats);
    put_array(dir, "y_test", "<f4", "(4, 3)", floats, sizeof floats);
    assert_ok(dataset_open(&d, "npy", dir, &e)); /* targets, unless the loss is for classes */
    assert_int_equal(d.n_targets, 3);
    assert_ok(dataset_take_labels(&d, &e));
    assert_true(d.n_classes == 3 && d.n_targets == 0 && !d.train_t);
    assert_memory_equal(d.train_y, of_hot, sizeof of_hot);
    dataset_clear(&d);
    put_array(dir, "y_train", "<f4", "(4,)", whole, sizeof whole);
    put_array(dir, "y_test", "<f4", "(4,)", whole, sizeof whole);
    assert_ok(dataset_open(&d, "npy", dir, &e));
    assert_int_equal(dataset_take_labels(&d, &e), ERR_CONFIG);
    assert_error_has("the target of sample 3, 0.5, is no class");
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(arrays_that_do_not_match_are_refused_with_the_difference)
{
    static const float x[] = {0, 1, 0.5f, 1, 2, 3};
    static const double large[] = {0, 1, 2, 3, 1e300, 5}, nan[] = {0, 1, 2, 3, 4, NAN};
    static const uint8_t bytes[] = {0, 1, 1, 0, 1, 1};
    const char *dir = unit_folder();
    struct dataset d;

    put_array(dir, "x_train", "<f4", "(3, 2)", x, sizeof x);
    put_array(dir, "y_train", "|u1", "(3,)", bytes, 3);
    put_array(dir, "y_test", "|u1", "(3,)", bytes, 3);
    put_array(dir, "x_test", "|u1", "(3, 2)", bytes, 6);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("training samples are floats, and test samples bytes");
    put_array(dir, "x_test", "<f4", "(3, 1)", x, 12);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("training samples are of (2) values, and test samples of (1)");
    put_array(dir, "x_test", "<f4", "(3, 2)", x, sizeof x);
    put_array(dir, "y_test", "<f4", "(3,)", x, 12);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("y of the training half are labels, and of the test half floats");
    put_array(dir, "y_train", "<f4", "(3, 2)", x, sizeof x);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("a training sample has 2 targets, and a test sample 1");
    put_array(dir, "x_test", "<f8", "(3, 2)", large, sizeof large);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("x_test: sample 3: 1e+300 is beyond what a float can hold");
    put_array(dir, "x_test", "<f8", "(3, 2)", nan, sizeof nan);
    assert_int_equal(dataset_open(&d, "npy", dir, &e), ERR_CONFIG);
    assert_error_has("x_test: sample 3: nan is not a finite number");
    unit_remove(dir);
}

TEST(floats_are_labels_for_a_model_with_a_loss_for_classes_and_targets_for_others)
{
    static const float x[] = {1, 2, 3, 4}, y[] = {0, 1, 1, 0}, likely[] = {0, 1, .5f, 0};
    struct model_spec *m = calloc(1, sizeof *m);
    const char *dir = unit_folder();
    struct dataset d = {0};

    assert_non_null(m);
    m->n_in = 1;
    m->n_out = 2;
    m->loss = LOSS_SOFTMAX_CROSS_ENTROPY;
    put_array(dir, "x", "<f4", "(4, 1)", x, sizeof x);
    put_array(dir, "y", "<f4", "(4,)", y, sizeof y);
    assert_ok(data_open(&d, "npy:test=0.25", dir, m, &(struct data_use){0}, false, &e));
    assert_true(d.n_classes == 2 && d.train_y && !d.train_t);
    dataset_clear(&d);
    m->loss = LOSS_MSE;
    m->n_out = 1;
    assert_ok(data_open(&d, "npy:test=0.25", dir, m, &(struct data_use){0}, false, &e));
    assert_true(d.n_targets == 1 && d.train_t && !d.train_y);
    dataset_clear(&d);
    m->loss = LOSS_SIGMOID_CROSS_ENTROPY;
    assert_ok(data_open(&d, "npy:test=0.25", dir, m, &(struct data_use){0}, false, &e));
    assert_true(d.n_classes == 2 && d.train_y && !d.train_t);
    dataset_clear(&d);
    put_array(dir, "y", "<f4", "(4,)", likely, sizeof likely);
    assert_ok(data_open(&d, "npy:test=0.25", dir, m, &(struct data_use){0}, false, &e));
    assert_true(d.n_targets == 1 && d.train_t && !d.train_y);
    dataset_clear(&d);
    free(m);
    unit_remove(dir);
}

TEST(an_array_of_integers_groups_the_training_samples)
{
    static const float x[] = {1, 2, 1, 4};
    static const uint8_t y[] = {0, 1, 1, 0};
    static const int8_t users[] = {-5, 7, -5, 9};
    const char *dir = unit_folder();
    struct dataset d;

    put_array(dir, "x_train", "<f4", "(4, 1)", x, sizeof x);
    put_array(dir, "y_train", "|u1", "(4,)", y, sizeof y);
    put_array(dir, "x_test", "<f4", "(4, 1)", x, sizeof x);
    put_array(dir, "y_test", "|u1", "(4,)", y, sizeof y);
    put_array(dir, "user", "|i1", "(4,)", users, sizeof users);
    assert_ok(dataset_open(&d, "npy:group=user", dir, &e));
    assert_int_equal(d.n_groups, 3);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(d.train_groups[i] == d.train_groups[k], users[i] == users[k]);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "npy:group=writer", dir, &e), ERR_NOT_FOUND);
    assert_error_has("writer.npy");
    assert_int_equal(dataset_open(&d, "npy:group=x_train", dir, &e), ERR_CONFIG);
    assert_error_has("expected an integer for each sample, its group");
    put_array(dir, "user", "|i1", "(3,)", users, 3);
    assert_int_equal(dataset_open(&d, "npy:group=user", dir, &e), ERR_CONFIG);
    assert_error_has("user has 3 groups, of 4 training samples");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_both_format_versions_are_read),
        cmocka_unit_test(truncated_or_extended_arrays_are_refused),
        cmocka_unit_test(a_malformed_header_is_refused),
        cmocka_unit_test(a_member_is_read_stored_or_deflated),
        cmocka_unit_test(every_truncation_of_a_zip_file_is_refused),
        cmocka_unit_test(a_corrupt_byte_of_a_member_is_detected),
        cmocka_unit_test(absurd_sizes_and_offsets_are_refused),
        cmocka_unit_test(keras_arrays_form_a_data_set),
        cmocka_unit_test(labels_and_values_are_of_any_integer_or_float_type_and_order_of_bytes),
        cmocka_unit_test(half_floats_have_their_values),
        cmocka_unit_test(bools_and_rows_with_a_single_1_are_labels_and_other_rows_are_refused),
        cmocka_unit_test(arrays_that_do_not_match_are_refused_with_the_difference),
        cmocka_unit_test(floats_are_labels_for_a_model_with_a_loss_for_classes_and_targets_for_others),
        cmocka_unit_test(an_array_of_integers_groups_the_training_samples),
        cmocka_unit_test(x_and_y_alone_are_split_and_floats_are_targets),
        cmocka_unit_test(integers_are_tokens_if_a_vocabulary_is_given),
        cmocka_unit_test(a_folder_of_npy_files_is_read_the_same_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
