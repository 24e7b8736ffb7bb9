#include "submit/data/data_formats.h"

#include <zlib.h>

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

enum { PLANE = 1024, PIXELS = 3072, RECORD = PIXELS + 1 };

static const struct cifar_form ten = {.label_bytes = 1, .label_at = 0, .n_classes = 10};
static struct err e;

/* Record i: label i, red i, green i + 50, blue i + 100, except the first pixel: 1, 2, 3. */
static void make_record(uint8_t *r, int i)
{
    *r++ = (uint8_t)i;
    for (int c = 0; c < 3; c++, r += PLANE) {
        memset(r, i + 50 * c, PLANE);
        r[0] = (uint8_t)(c + 1);
    }
}

static void put(const char *dir, const char *name, int first, int n, bool packed)
{
    uint8_t *bytes = malloc((size_t)n * RECORD);
    char path[256];
    gzFile f;

    for (int i = 0; i < n; i++)
        make_record(bytes + i * RECORD, first + i);
    assert_ok(file_join(path, sizeof path, dir, name, &e));
    if (packed) {
        f = gzopen(path, "wb");
        assert_int_equal(gzwrite(f, bytes, (unsigned)(n * RECORD)), n * RECORD);
        assert_int_equal(gzclose(f), Z_OK);
    } else {
        assert_ok(file_write(path, bytes, (size_t)(n * RECORD), 0600, &e));
    }
    free(bytes);
}

TEST(color_planes_become_channels)
{
    uint8_t record[RECORD], x[PIXELS];
    int32_t y;

    make_record(record, 7);
    assert_ok(cifar_unpack(x, &y, record, 1, &ten, &e));
    assert_int_equal(y, 7);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(x[c], c + 1);
        assert_int_equal(x[3 * (PLANE - 1) + c], 7 + 50 * c);
    }
}

TEST(files_of_a_split_are_found_by_name_plain_or_gzipped_without_duplicates)
{
    const char *dir = unit_folder();
    struct dataset d;

    put(dir, "data_batch_2.bin.gz", 3, 2, true);
    put(dir, "data_batch_1.bin", 0, 3, false);
    put(dir, "data_batch_1.bin.gz", 0, 3, true); /* the same file again */
    put(dir, "data_batch_3.bin.part", 0, 1, false);
    put(dir, "test_batch.bin", 9, 1, false);
    assert_ok(dataset_open(&d, "cifar10", dir, &e));
    assert_int_equal(d.n_train, 5);
    assert_int_equal(d.n_test, 1);
    assert_int_equal(d.n_classes, 10);
    assert_int_equal(d.shape.dim[2], 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(d.train_y[i], i);
        assert_int_equal(((uint8_t *)d.train_x)[i * PIXELS + 3], i);
    }
    assert_int_equal(d.test_y[0], 9);
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(cifar100_has_fine_and_coarse_labels)
{
    uint8_t record[RECORD + 1];
    const char *dir = unit_folder();
    char path[256];
    struct dataset d;

    record[0] = 19;
    make_record(record + 1, 0);
    record[1] = 99;
    for (int i = 0; i < 2; i++) {
        assert_ok(file_join(path, sizeof path, dir, i ? "test.bin" : "train.bin", &e));
        assert_ok(file_write(path, record, sizeof record, 0600, &e));
    }
    assert_ok(dataset_open(&d, "cifar100", dir, &e));
    assert_true(d.n_classes == 100 && d.train_y[0] == 99);
    dataset_clear(&d);
    assert_ok(dataset_open(&d, "cifar100:labels=coarse", dir, &e));
    assert_true(d.n_classes == 20 && d.train_y[0] == 19);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "cifar100:labels=rough", dir, &e), ERR_CONFIG);
    assert_error_has("cifar100:labels=rough: /labels: \"rough\" is not one of fine|coarse");
    unit_remove(dir);
}

TEST(files_that_are_not_whole_records_are_refused)
{
    size_t n;

    for (size_t len = 0; len <= 3 * RECORD; len++)
        assert_int_equal(cifar_count(&n, len, &ten, &e), len > 0 && len % RECORD == 0 ? 0 : ERR_CONFIG);
    assert_int_equal(cifar_count(&n, RECORD + 1, &ten, &e), ERR_CONFIG);
    assert_error_has("3074 bytes are not a whole number of records of 3073 bytes");
}

TEST(an_invalid_label_is_reported_with_its_file_and_record)
{
    const char *dir = unit_folder();
    struct dataset d;

    put(dir, "data_batch_1.bin", 8, 3, false);
    put(dir, "test_batch.bin", 0, 1, false);
    assert_int_equal(dataset_open(&d, "cifar10", dir, &e), ERR_CONFIG);
    assert_error_has("data_batch_1.bin: record 2: label 10, expected 0 to 9");
    unit_remove(dir);
}

TEST(a_folder_without_the_files_is_reported_with_their_download)
{
    const char *dir = unit_folder();
    struct dataset d;

    assert_int_equal(dataset_open(&d, "cifar10", dir, &e), ERR_NOT_FOUND);
    assert_error_has("no file data_batch*.bin");
    assert_non_null(strstr(e.hint, "https://"));
    put(dir, "data_batch_1.bin", 0, 1, false);
    assert_int_equal(dataset_open(&d, "cifar10", dir, &e), ERR_NOT_FOUND);
    assert_error_has("no file test_batch*.bin");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(color_planes_become_channels),
        cmocka_unit_test(files_of_a_split_are_found_by_name_plain_or_gzipped_without_duplicates),
        cmocka_unit_test(cifar100_has_fine_and_coarse_labels),
        cmocka_unit_test(files_that_are_not_whole_records_are_refused),
        cmocka_unit_test(an_invalid_label_is_reported_with_its_file_and_record),
        cmocka_unit_test(a_folder_without_the_files_is_reported_with_their_download),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
