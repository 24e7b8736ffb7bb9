#include "shared/records/tensor_file.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* A file in memory: the header's text, then zero bytes of data. The caller frees. */
static unsigned char *make(size_t *len, const char *header, size_t data_len)
{
    size_t n = strlen(header);
    unsigned char *p = calloc(1, 8 + n + data_len);

    assert_non_null(p);
    p[0] = (unsigned char)n;
    p[1] = (unsigned char)(n >> 8);
    memcpy(p + 8, header, n);
    *len = 8 + n + data_len;
    return p;
}

static void write_example(const char *path)
{
    static const uint8_t labels[3] = {1, 2, 3};
    static const float weights[6] = {1, -2, 3.5f, 4, 5, 6};
    static const int64_t steps[1] = {-9000000000};
    static const int32_t ints[2] = {-7, 8};
    const struct tensor_view t[] = {
        {"labels", TENSOR_U8, 1, {3}, labels},  {"layer0.dense.weight", TENSOR_F32, 2, {2, 3}, weights},
        {"empty", TENSOR_F32, 2, {0, 5}, NULL}, {"step", TENSOR_I64, 0, {0}, steps},
        {"indices", TENSOR_I32, 1, {2}, ints},
    };
    const struct tensor_meta meta[] = {{"model", "m\"1\""}, {"seed", "7"}, {0}};
    struct err e;

    assert_ok(tensor_file_write(path, t, N_OF(t), meta, &e));
}

TEST(tensors_and_metadata_survive_serialization)
{
    const char *dir = unit_folder();
    const struct tensor_view *t;
    struct tensor_file f;
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f.safetensors", &e));
    write_example(path);
    assert_ok(tensor_file_open(&f, path, &e));
    assert_int_equal(f.n, 5);
    t = tensor_file_find(&f, "layer0.dense.weight");
    assert_non_null(t);
    assert_int_equal(t->type, TENSOR_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_true(((const float *)t->data)[2] == 3.5f);
    assert_memory_equal(tensor_file_find(&f, "labels")->data, "\1\2\3", 3);
    assert_true(*(const int64_t *)tensor_file_find(&f, "step")->data == -9000000000);
    assert_int_equal(tensor_count(tensor_file_find(&f, "step")), 1);
    assert_int_equal(tensor_count(tensor_file_find(&f, "empty")), 0);
    assert_int_equal(*(const int32_t *)tensor_file_find(&f, "indices")->data, -7);
    assert_null(tensor_file_find(&f, "layer0"));
    assert_string_equal(tensor_file_meta(&f, "model"), "m\"1\"");
    assert_null(tensor_file_meta(&f, "none"));
    tensor_file_close(&f);
    tensor_file_close(&f);
    unit_remove(dir);
}

TEST(every_tensor_is_aligned_whatever_the_order_of_writing)
{
    const char *dir = unit_folder();
    struct tensor_file f;
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    write_example(path);
    assert_ok(tensor_file_open(&f, path, &e));
    assert_int_equal((uintptr_t)tensor_file_find(&f, "step")->data % 8, 0);
    assert_int_equal((uintptr_t)tensor_file_find(&f, "layer0.dense.weight")->data % 4, 0);
    assert_int_equal((uintptr_t)tensor_file_find(&f, "indices")->data % 4, 0);
    tensor_file_close(&f);
    unit_remove(dir);
}

TEST(the_bytes_are_those_of_the_format)
{
    const float one = 1;
    const struct tensor_view t = {"w", TENSOR_F32, 1, {1}, &one};
    const char *header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    const char *dir = unit_folder();
    char path[256];
    size_t len, header_len = (strlen(header) + 7) / 8 * 8;
    char *bytes;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(tensor_file_write(path, &t, 1, NULL, &e));
    assert_ok(file_read(&bytes, &len, path, 1000, &e));
    assert_int_equal(len, 8 + header_len + 4);
    assert_int_equal(bytes[0], header_len);
    assert_memory_equal(bytes + 1, "\0\0\0\0\0\0\0", 7);
    assert_memory_equal(bytes + 8, header, strlen(header));
    assert_memory_equal(bytes + 8 + header_len, "\0\0\x80\x3f", 4);
    free(bytes);
    unit_remove(dir);
}

/* The example's bytes, which the caller frees. */
static char *example_bytes(size_t *len)
{
    const char *dir = unit_folder();
    char path[256];
    char *bytes;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    write_example(path);
    assert_ok(file_read(&bytes, len, path, 10000, &e));
    unit_remove(dir);
    return bytes;
}

TEST(truncated_or_extended_files_are_refused)
{
    size_t len;
    char *bytes = example_bytes(&len);
    struct err e;

    for (size_t n = 0; n <= len + 1; n++) {
        char *part = unit_copy(bytes, n < len ? n : len);
        struct tensor_file f;

        if (n > len)
            part = realloc(part, n);
        if (n > len)
            part[len] = 0;
        if (n == len) {
            assert_ok(tensor_file_parse(&f, part, n, "part", &e));
            tensor_file_close(&f);
        } else {
            assert_int_equal(tensor_file_parse(&f, part, n, "part", &e), ERR_CONFIG);
            assert_error_has("part: ");
        }
        free(part);
    }
    free(bytes);
}

TEST(a_corrupt_header_byte_never_leads_outside_the_file)
{
    size_t len;
    char *bytes = example_bytes(&len);
    struct err e;

    for (size_t i = 0; i < len * 8; i++) {
        char *copy = unit_copy(bytes, len);
        struct tensor_file f;

        copy[i / 8] = (char)(copy[i / 8] ^ (1 << i % 8));
        if (tensor_file_parse(&f, copy, len, "copy", &e) == 0) {
            for (size_t k = 0; k < f.n; k++)
                assert_true((const char *)f.tensors[k].data >= copy &&
                            (const char *)f.tensors[k].data <= copy + len);
            tensor_file_close(&f);
        }
        free(copy);
    }
    free(bytes);
}

#define T(name, dtype, shape, offsets)                                                                       \
    "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

TEST(a_header_is_read_without_values_and_a_file_cut_off_meanwhile_is_refused)
{
    const char *dir = unit_folder();
    struct tensor_file f;
    char path[256];
    struct err e;
    size_t len;
    int fd;

    assert_ok(file_join(path, sizeof path, dir, "f.safetensors", &e));
    write_example(path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    len = (size_t)lseek(fd, 0, SEEK_END);
    assert_ok(tensor_file_read_header(&f, fd, len, "f", &e));
    assert_int_equal(f.n, 5);
    assert_string_equal(tensor_file_meta(&f, "seed"), "7");
    assert_true(tensor_value(tensor_file_find(&f, "layer0.dense.weight"), 1) == 0);
    tensor_file_close(&f);
    assert_int_equal(tensor_file_read_header(&f, fd, len + 1, "f", &e), ERR_CONFIG);
    for (off_t n = 0; n < 64; n += 4) {
        assert_int_equal(ftruncate(fd, n), 0);
        assert_int_equal(tensor_file_read_header(&f, fd, len, "f", &e), ERR_CONFIG);
        assert_int_equal(tensor_file_read_header(&f, fd, (size_t)n, "f", &e), ERR_CONFIG);
    }
    close(fd);
    assert_int_equal(tensor_file_read_header(&f, fd, len, "f", &e), ERR_IO);
    unit_remove(dir);
}

TEST(an_inconsistent_header_is_refused)
{
    static const struct {
        const char *header;
        size_t data_len;
        const char *expected;
    } cases[] = {
        {"", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"{", 0, "header:1:"},
        {"{} x", 0, "header:1:"},
        {"{}", 1, "0 bytes of data expected, 1 found"},
        {"{" T("a", "F32", "[1]", "[0, 4]") ", " T("a", "F32", "[1]", "[4, 8]") "}", 8, "duplicate"},
        {"{" T("", "U8", "[1]", "[0, 1]") "}", 1, "name has 0 bytes"},
        {"{" T("a\\u001b[2J", "U8", "[1]", "[0, 1]") "}", 1, "name has control characters"},
        {"{" T("a\\u009b2J", "U8", "[1]", "[0, 1]") "}", 1, "name has control characters"},
        {"{\"__metadata__\": {\"a\\u009b2J\": \"b\"}}", 0, "/__metadata__: a key has control characters"},
        {"{" T("a", "F8", "[1]", "[0, 1]") "}", 1,
         "/a/dtype: expected F32, U8, U16, I32, I64, F16, BF16 or F64, found F8"},
        {"{" T("a", "F32", "1", "[0, 4]") "}", 4, "/a/shape"},
        {"{" T("a", "F32", "[1.0]", "[0, 4]") "}", 4, "/a/shape/0: not a size"},
        {"{" T("a", "F32", "[-1]", "[0, 4]") "}", 4, "/a/shape/0: not a size"},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0, 1]") "}", 1, "/a/shape: not an array of at most 8"},
        {"{" T("a", "F32", "[4294967296, 4294967296]", "[0, 0]") "}", 0, "more bytes than memory can have"},
        {"{" T("a", "F32", "[4611686018427387904]", "[0, 0]") "}", 0, "more bytes than memory can have"},
        {"{" T("a", "F32", "[1]", "[0, 8]") "}", 8, "its shape needs 4 bytes, its offsets span 8"},
        {"{" T("a", "F32", "[1]", "[0, 4]") "}", 3, "are not within the file's 3 bytes"},
        {"{" T("a", "F32", "[1]", "[4, 0]") "}", 8, "are not within"},
        {"{" T("a", "F32", "[1]", "[0]") "}", 4, "not two offsets"},
        {"{" T("a", "F32", "[1]", "[-4, 0]") "}", 4, "not two offsets"},
        {"{" T("a", "U8", "[1]", "[1, 2]") "}", 2, "a hole"},
        {"{" T("a", "U8", "[2]", "[0, 2]") ", " T("b", "U8", "[2]", "[1, 3]") "}", 3, "an overlap"},
        {"{" T("a", "U8", "[1]", "[0, 1]") ", " T("b", "U8", "[1]", "[0, 1]") "}", 1, "an overlap"},
        {"{" T("a", "U8", "[1]", "[0, 1]") ", " T("b", "U8", "[1]", "[2, 3]") "}", 3, "a hole"},
        {"{" T("a", "U8", "[1]", "[0, 1]") "}", 2, "1 bytes of data expected, 2 found"},
        {"{" T("abc", "F32", "[1]", "[0, 4]") "}", 4, "is not aligned for F32"},
        {"{\"a\": 3}", 0, "/a: not an object"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [], \"offsets\": [0, 1]}}", 1, "/a/offsets: unknown key"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": []}}", 0, "/a/data_offsets"},
        {"{\"__metadata__\": {\"a\": 1}}", 0, "/__metadata__/a: not a string"},
        {"{\"__metadata__\": []}", 0, "/__metadata__: not an object"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t len;
        unsigned char *bytes = make(&len, cases[i].header, cases[i].data_len);
        struct tensor_file f;
        struct err e;

        assert_int_equal(tensor_file_parse(&f, bytes, len, "f", &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        free(bytes);
    }
}

TEST(an_absurd_header_length_is_refused)
{
    static const unsigned char top[] = {0, 0, 0, 0x80, 0xff};

    for (size_t i = 0; i < N_OF(top); i++) {
        unsigned char *bytes = calloc(1, 64);
        struct tensor_file f;
        struct err e;

        bytes[7] = top[i];
        bytes[3] = (unsigned char)(i + 1);
        assert_int_equal(tensor_file_parse(&f, bytes, 64, "f", &e), ERR_CONFIG);
        free(bytes);
    }
}

TEST(a_missing_empty_or_special_file_is_refused)
{
    const char *dir = unit_folder();
    struct tensor_file f;
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_int_equal(tensor_file_open(&f, path, &e), ERR_NOT_FOUND);
    assert_int_equal(tensor_file_open(&f, dir, &e), ERR_IO);
    assert_ok(file_write(path, "", 0, 0600, &e));
    assert_int_equal(tensor_file_open(&f, path, &e), ERR_CONFIG);
    assert_error_has("at least 8 bytes expected, 0 found");
    assert_ok(file_write(path, "index,label\n", 12, 0600, &e));
    assert_int_equal(tensor_file_open(&f, path, &e), ERR_CONFIG);
    assert_error_has("not a safetensors file: its first 8 bytes are not the length of a header");
    unit_remove(dir);
}

TEST(names_that_could_not_be_read_are_not_written)
{
    static const char *const bad[] = {"", "__metadata__", "twice"};
    const uint8_t byte = 1;
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    for (size_t i = 0; i < N_OF(bad); i++) {
        struct tensor_view t[2] = {{"twice", TENSOR_U8, 0, {0}, &byte}, {"", TENSOR_U8, 0, {0}, &byte}};

        snprintf(t[1].name, sizeof t[1].name, "%s", bad[i]);
        assert_int_equal(tensor_file_write(path, t, 2, NULL, &e), ERR_INTERNAL);
        assert_int_equal(access(path, F_OK), -1);
    }
    unit_remove(dir);
    assert_int_equal(tensor_file_write(path, NULL, 0, NULL, &e), ERR_IO); /* nor where there is no folder */
    assert_memory_equal(e.text, path, strlen(path));
    assert_null(strstr(e.text + 1, path)); /* which is reported once */
}

TEST(a_value_of_every_type_is_read_as_a_number)
{
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x3555, 0x0001, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x8000};
    static const double half_values[] = {1,     -2,       0.333251953125, 0x1p-24, 0x1p-14,
                                         65504, INFINITY, -INFINITY,      -0.0};
    static const uint16_t brain[] = {0x3f80, 0xc049, 0x7f80};
    static const double brain_values[] = {1, -3.140625, INFINITY};
    static const uint16_t nan_half = 0x7e00;
    const struct tensor_view h = {"h", TENSOR_F16, 1, {N_OF(halves)}, halves};
    const struct tensor_view b = {"b", TENSOR_BF16, 1, {N_OF(brain)}, brain};
    const struct tensor_view d = {"d", TENSOR_F64, 0, {0}, &half_values[2]};
    const struct tensor_view i = {"i", TENSOR_I64, 0, {0}, &(int64_t){-9000000000}};
    const struct tensor_view u = {"u", TENSOR_U8, 0, {0}, &(uint8_t){200}};
    const struct tensor_view n = {"n", TENSOR_F16, 0, {0}, &nan_half};
    const struct tensor_view w = {"w", TENSOR_U16, 0, {0}, &(uint16_t){50256}};

    for (size_t k = 0; k < N_OF(halves); k++)
        assert_memory_equal(&(double){tensor_value(&h, k)}, &half_values[k], sizeof(double));
    for (size_t k = 0; k < N_OF(brain); k++)
        assert_true(tensor_value(&b, k) == brain_values[k]);
    assert_true(tensor_value(&d, 0) == 0.333251953125);
    assert_true(tensor_value(&i, 0) == -9e9);
    assert_true(tensor_value(&u, 0) == 200);
    assert_true(tensor_value(&w, 0) == 50256);
    assert_true(isnan(tensor_value(&n, 0)));
}

static size_t n_releases;

static void count_release(const void *owner)
{
    assert_non_null(owner);
    n_releases++;
}

/* More rows than one call of the system writes. */
TEST(rows_that_lie_anywhere_are_written_in_their_order)
{
    enum { N = 3000, WIDTH = 3, STRIDE = 5 };
    static uint8_t bytes[N * STRIDE];
    static uint32_t number[N];
    const char *dir = unit_folder();
    const float more[] = {1, 2};
    const struct tensor_view t[] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {N, WIDTH}, .data = bytes},
        {.name = "y", .type = TENSOR_F32, .n_dims = 1, .shape = {2}, .data = more}};
    const struct tensor_rows rows[] = {
        {.number = number, .stride = STRIDE, .release = count_release, .owner = bytes}, {0}};
    struct tensor_file f;
    char path[128];
    struct err e;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 % 251);
    for (uint32_t i = 0; i < N; i++)
        number[i] = i * 7 % N;
    snprintf(path, sizeof path, "%s/rows", dir);
    n_releases = 0;
    assert_ok(tensor_file_write_rows(path, t, rows, 2, NULL, &e));
    assert_in_range(n_releases, N / 256, N / 2); /* now and then: a text may be larger than the memory */
    assert_ok(tensor_file_open(&f, path, &e));
    for (size_t i = 0; i < N; i++)
        assert_memory_equal((const uint8_t *)tensor_file_find(&f, "x")->data + i * WIDTH,
                            bytes + number[i] * STRIDE, WIDTH);
    assert_memory_equal(tensor_file_find(&f, "y")->data, more, sizeof more);
    tensor_file_close(&f);
    unit_remove(dir);
}

/* Runs of rows that follow each other, a row twice, and a run that ends with the last row. */
TEST(rows_that_follow_each_other_are_written_together)
{
    enum { N = 9, WIDTH = 4 };
    static const uint32_t number[N] = {2, 3, 4, 4, 1, 0, 6, 7, 8};
    uint8_t bytes[N * WIDTH];
    const char *dir = unit_folder();
    const struct tensor_view t = {
        .name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {N, WIDTH}, .data = bytes};
    const struct tensor_rows rows = {.number = number, .stride = WIDTH};
    struct tensor_file f;
    char path[128];
    struct err e;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    snprintf(path, sizeof path, "%s/rows", dir);
    assert_ok(tensor_file_write_rows(path, &t, &rows, 1, NULL, &e));
    assert_ok(tensor_file_open(&f, path, &e));
    for (size_t i = 0; i < N; i++)
        assert_memory_equal((const uint8_t *)tensor_file_find(&f, "x")->data + i * WIDTH,
                            bytes + number[i] * WIDTH, WIDTH);
    tensor_file_close(&f);
    unit_remove(dir);
}

TEST(a_shape_with_the_longest_numbers_fits_its_text)
{
    struct tensor_view t = {.n_dims = TENSOR_DIMS};
    char text[TENSOR_SHAPE_TEXT];

    for (int i = 0; i < TENSOR_DIMS; i++)
        t.shape[i] = SIZE_MAX;
    assert_int_equal(strlen(tensor_shape_text(text, &t)), 8 * 20 + 7 * 2 + 2);
    t.n_dims = 0;
    assert_string_equal(tensor_shape_text(text, &t), "()");
}

TEST(a_file_without_tensors_is_valid)
{
    const char *dir = unit_folder();
    struct tensor_file f;
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(tensor_file_write(path, NULL, 0, NULL, &e));
    assert_ok(tensor_file_open(&f, path, &e));
    assert_int_equal(f.n, 0);
    assert_null(tensor_file_meta(&f, "a"));
    tensor_file_close(&f);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_metadata_survive_serialization),
        cmocka_unit_test(every_tensor_is_aligned_whatever_the_order_of_writing),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(truncated_or_extended_files_are_refused),
        cmocka_unit_test(a_corrupt_header_byte_never_leads_outside_the_file),
        cmocka_unit_test(a_header_is_read_without_values_and_a_file_cut_off_meanwhile_is_refused),
        cmocka_unit_test(an_inconsistent_header_is_refused),
        cmocka_unit_test(an_absurd_header_length_is_refused),
        cmocka_unit_test(a_missing_empty_or_special_file_is_refused),
        cmocka_unit_test(names_that_could_not_be_read_are_not_written),
        cmocka_unit_test(a_value_of_every_type_is_read_as_a_number),
        cmocka_unit_test(rows_that_lie_anywhere_are_written_in_their_order),
        cmocka_unit_test(rows_that_follow_each_other_are_written_together),
        cmocka_unit_test(a_shape_with_the_longest_numbers_fits_its_text),
        cmocka_unit_test(a_file_without_tensors_is_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
