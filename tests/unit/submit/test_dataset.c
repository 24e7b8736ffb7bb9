#include "submit/data/dataset.h"

#include <zlib.h>

#include "nn/metrics.h"
#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/json.h"
#include "shared/job/partition.h"
#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

enum { IMAGE = 28 * 28 };

/* Two images of 2 x 3, and their labels. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};

static void put(const char *dir, const char *name, const void *bytes, size_t len)
{
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, name, &e));
    assert_ok(file_write(path, bytes, len, 0600, &e));
}

/* Returns the path. */
static const char *put_gz(const char *dir, const char *name, const void *bytes, size_t len)
{
    static char path[256];
    struct err e;
    gzFile f;

    assert_ok(file_join(path, sizeof path, dir, name, &e));
    f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)len), len);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

static void put_mnist(const char *dir)
{
    put(dir, "train-images-idx3-ubyte", images, sizeof images);
    put_gz(dir, "train-labels-idx1-ubyte.gz", labels, sizeof labels);
    put_gz(dir, "t10k-images-idx3-ubyte.gz", images, sizeof images);
    put(dir, "t10k-labels-idx1-ubyte", labels, sizeof labels);
}

TEST(idx_files_are_read_plain_and_gzipped)
{
    const char *dir = unit_folder();
    struct dataset d;
    struct err e;

    put_mnist(dir);
    assert_ok(dataset_open(&d, "mnist", dir, &e));
    assert_int_equal(d.n_train, 2);
    assert_int_equal(d.n_test, 2);
    assert_int_equal(d.shape.dim[0], 2);
    assert_int_equal(d.shape.dim[1], 3);
    assert_int_equal(d.n_classes, 10);
    assert_memory_equal(d.train_x, images + 16, 12);
    assert_memory_equal(d.test_x, images + 16, 12);
    for (int i = 0; i < 2; i++)
        assert_true(d.train_y[i] == labels[8 + i] && d.test_y[i] == labels[8 + i]);
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(a_missing_file_is_reported_with_a_way_to_get_it)
{
    const char *dir = unit_folder();
    struct dataset d;
    struct err e;

    assert_int_equal(dataset_open(&d, "mnist", dir, &e), ERR_NOT_FOUND);
    assert_error_has("train-images-idx3-ubyte: not found, neither plain nor with .gz");
    assert_non_null(strstr(e.hint, "\"digits\" needs no file"));
    unit_remove(dir);
}

TEST(inconsistent_files_are_refused)
{
    const uint8_t one_label[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    const uint8_t label_10[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 10};
    uint8_t turned[sizeof images];
    const char *dir = unit_folder();
    struct dataset d;
    struct err e;

    put_mnist(dir);
    put(dir, "t10k-labels-idx1-ubyte", one_label, sizeof one_label);
    assert_int_equal(dataset_open(&d, "mnist", dir, &e), ERR_CONFIG);
    assert_error_has("1 labels for 2 images");
    put(dir, "t10k-labels-idx1-ubyte", label_10, sizeof label_10);
    assert_int_equal(dataset_open(&d, "mnist", dir, &e), ERR_CONFIG);
    assert_error_has("test label 1 is 10, expected 0 to 9");
    put_mnist(dir);
    memcpy(turned, images, sizeof images);
    turned[11] = 3;
    turned[15] = 2;
    put_gz(dir, "t10k-images-idx3-ubyte.gz", turned, sizeof turned);
    assert_int_equal(dataset_open(&d, "mnist", dir, &e), ERR_CONFIG);
    assert_error_has("test images are 3 x 2, training images 2 x 3");
    unit_remove(dir);
}

TEST(truncated_or_extended_files_are_refused)
{
    uint32_t dims[3];
    struct err e;

    assert_int_equal(idx_check_header(images, sizeof images, 0x803, dims, &e), 16);
    assert_int_equal(idx_check_header(labels, sizeof labels, 0x801, dims, &e), 8);
    for (size_t n = 0; n <= sizeof images + 1; n++) {
        uint8_t *part = calloc(1, n ? n : 1);

        memcpy(part, images, n < sizeof images ? n : sizeof images);
        if (n != sizeof images)
            assert_int_equal(idx_check_header(part, n, 0x803, dims, &e), ERR_CONFIG);
        free(part);
    }
    assert_int_equal(idx_check_header(images, sizeof images - 1, 0x803, dims, &e), ERR_CONFIG);
    assert_error_has("28 bytes expected");
    assert_error_has("27 bytes found");
}

TEST(every_truncation_of_a_gzipped_file_is_refused)
{
    const char *dir = unit_folder();
    const char *path = put_gz(dir, "images.gz", images, sizeof images);
    uint8_t *pixels;
    int rows, cols;
    char *packed;
    size_t len, n;
    struct err e;

    assert_ok(file_read(&packed, &len, path, 1000, &e));
    assert_ok(idx_read_images(&pixels, &n, &rows, &cols, path, &e));
    free(pixels);
    for (size_t k = 0; k < len; k++) {
        assert_ok(file_write(path, packed, k, 0600, &e));
        assert_int_equal(idx_read_images(&pixels, &n, &rows, &cols, path, &e), ERR_CONFIG);
        assert_error_has(path);
    }
    packed[len / 2] = (char)~packed[len / 2];
    assert_ok(file_write(path, packed, len, 0600, &e));
    assert_int_equal(idx_read_images(&pixels, &n, &rows, &cols, path, &e), ERR_CONFIG);
    free(packed);
    unit_remove(dir);
}

TEST(a_header_with_absurd_sizes_is_refused)
{
    static const uint8_t counts[][12] = {
        {0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0, 0, 0, 0x10, 0}, /* 2^32 - 1 images of 4096 x 4096 */
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 6}, /* 2 x 2^31 x 6 */
        {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3},
        {0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3},
    };
    uint32_t dims[3];
    struct err e;

    for (size_t i = 0; i < N_OF(counts); i++) {
        uint8_t bytes[sizeof images];

        memcpy(bytes, images, sizeof images);
        memcpy(bytes + 4, counts[i], 12);
        assert_int_equal(idx_check_header(bytes, sizeof bytes, 0x803, dims, &e), ERR_CONFIG);
    }
    assert_int_equal(idx_check_header(labels, sizeof labels, 0x803, dims, &e), ERR_CONFIG);
    assert_int_equal(idx_check_header(images, sizeof images, 0x801, dims, &e), ERR_CONFIG);
    assert_error_has("it has 3 dimensions of unsigned bytes, expected 1 of unsigned bytes for labels");
}

TEST(an_unknown_data_set_is_reported_with_the_known_ones)
{
    struct dataset d;
    struct err e;

    assert_int_equal(dataset_open(&d, "imagenet", ".", &e), ERR_CONFIG);
    assert_error_has("no data set is called \"imagenet\"; there are: digits, mnist, ");
    for (size_t i = 0; dataset_name(i); i++)
        assert_error_has(dataset_name(i));
    assert_int_equal(dataset_open(&d, "digit", ".", &e), ERR_CONFIG);
    assert_error_has("no data set is called \"digit\"; did you mean \"digits\"?");
    assert_int_equal(dataset_open(&d, "digits:x", ".", &e), ERR_CONFIG);
    assert_error_has("digits:x: /seed: not an integer");
    assert_int_equal(dataset_open(&d, "digits:", ".", &e), ERR_CONFIG);
    assert_int_equal(dataset_open(&d, "digits:train=24001", ".", &e), ERR_CONFIG);
    assert_error_has("digits:train=24001: /train: 24001 is not between 1 and 24000");
    assert_int_equal(dataset_open(&d, "mnist:1", ".", &e), ERR_CONFIG);
}

TEST(any_digit_can_be_drawn_independently_and_reproducibly)
{
    uint8_t a[IMAGE], b[IMAGE];
    int32_t label;
    struct dataset d;
    struct err e;

    assert_ok(dataset_open(&d, "digits:5", NULL, &e));
    for (size_t i = 0; i < d.n_train; i += 997) {
        digits_draw(a, &label, 5, i);
        assert_memory_equal(a, (uint8_t *)d.train_x + i * IMAGE, IMAGE);
        assert_int_equal(label, d.train_y[i]);
    }
    digits_draw(a, &label, 5, d.n_train + 3);
    assert_memory_equal(a, (uint8_t *)d.test_x + 3 * IMAGE, IMAGE);
    digits_draw(b, &label, 6, d.n_train + 3);
    assert_memory_not_equal(a, b, IMAGE);
    dataset_clear(&d);
}

TEST(a_part_of_the_digits_is_the_first_of_each_half)
{
    struct dataset all, part;
    struct err e;

    assert_ok(dataset_open(&all, "digits", NULL, &e));
    assert_ok(dataset_open(&part, "digits:train=777,test=33", NULL, &e));
    assert_int_equal(part.n_train, 777);
    assert_int_equal(part.n_test, 33);
    assert_memory_equal(part.train_x, all.train_x, 777 * IMAGE);
    assert_memory_equal(part.test_x, all.test_x, 33 * IMAGE);
    assert_memory_equal(part.train_y, all.train_y, 777 * sizeof *all.train_y);
    assert_memory_equal(part.test_y, all.test_y, 33 * sizeof *all.test_y);
    dataset_clear(&part);
    dataset_clear(&all);
}

/* gcc and clang agree on this checksum. A change of it changes the data set of every user, and their
 * results. */
TEST(the_same_bytes_are_drawn_on_every_machine)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    uint8_t pixels[IMAGE];
    int32_t label;

    for (uint64_t i = 0; i < 200; i++) {
        digits_draw(pixels, &label, 1, i);
        for (int k = 0; k < IMAGE; k++)
            sum = (sum ^ pixels[k]) * 1099511628211u;
    }
    assert_true(sum == 0xb822b75995903287u);
}

TEST(labels_are_balanced)
{
    size_t n_train[10] = {0}, n_test[10] = {0};
    struct dataset d;
    struct err e;

    assert_ok(dataset_open(&d, "digits", NULL, &e));
    assert_int_equal(d.n_train, 24000);
    assert_int_equal(d.n_test, 4000);
    for (size_t i = 0; i < d.n_train; i++)
        n_train[d.train_y[i]]++;
    for (size_t i = 0; i < d.n_test; i++)
        n_test[d.test_y[i]]++;
    for (int k = 0; k < 10; k++) {
        assert_int_equal(n_train[k], 2400);
        assert_int_equal(n_test[k], 400);
    }
    dataset_clear(&d);
}

static void load(float *x, const uint8_t *pixels)
{
    for (int i = 0; i < IMAGE; i++)
        x[i] = (float)pixels[i] * (1 / 255.f);
}

/* Trains as a job would: Adam, 1e-3, batches of 64. Returns the fraction of test samples that are
 * classified correctly. */
static double train(const struct dataset *d, const char *path, int epochs)
{
    enum { BATCH = 64 };
    static float x[BATCH * IMAGE];
    struct net_score score = {0};
    struct model_spec spec;
    struct partition p;
    struct optimizer *o;
    struct metrics *m;
    struct net *net;
    double accuracy;
    json_t *doc;
    struct err e;

    assert_ok(json_read(&doc, path, 1 << 16, &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    assert_ok(net_new(&net, &spec, BATCH, &e));
    assert_ok(optimizer_new(&o, &(struct optimizer_config){.kind = OPTIMIZER_ADAM}, net_n_params(net), &e));
    assert_ok(partition_init(&p,
                             &(struct partition_set){.n = d->n_train, .labels = d->train_y, .n_classes = 10},
                             &(struct partition_rule){.kind = PARTITION_IID}, 1, BATCH, 1, &e));
    net_init(net, 1);
    for (int epoch = 0; epoch < epochs; epoch++)
        for (size_t row = 0; row < p.n_rows; row++) {
            int32_t y[BATCH];

            for (size_t k = 0; k < BATCH; k++) {
                size_t i = p.sample[p.start[k] + row];

                load(x + k * IMAGE, (uint8_t *)d->train_x + i * IMAGE);
                y[k] = d->train_y[i];
            }
            net_train(net, &(struct net_batch){.x = x, .truth = {.labels = y}, .n = BATCH}, &score);
            optimizer_step(o, net_params(net), net_grads(net), 1e-3f, 1);
        }
    assert_ok(metrics_new(&m, &spec, true, d->n_test, &e));
    for (size_t i = 0; i < d->n_test; i++) {
        load(x, (uint8_t *)d->test_x + i * IMAGE);
        metrics_add(m, net_forward(net, x, 1), &(struct truth){.labels = &d->test_y[i]}, 1);
    }
    assert_true(metrics_value(m, METRIC_ACCURACY, &accuracy));
    metrics_free(m);
    partition_clear(&p);
    optimizer_free(o);
    net_free(net);
    model_spec_clear(&spec);
    json_decref(doc);
    return accuracy;
}

TEST(digits_are_hard_for_a_linear_model_and_learned_by_a_small_mlp)
{
    double linear, mlp;
    struct dataset d;
    struct err e;

    assert_ok(dataset_open(&d, "digits", NULL, &e));
    linear = train(&d, "nn/models/softmax.json", 5);
    mlp = train(&d, "nn/models/mlp-tutorial.json", 5);
    print_message("linear %.3f, mlp-tutorial %.3f\n", linear, mlp);
    assert_true(linear > 0.80 && linear < 0.92);
    assert_true(mlp > 0.97);
    dataset_clear(&d);
}

TEST(a_file_is_read_up_to_a_limit_and_no_further)
{
    static const char *const names[] = {"plain", "packed.gz"};
    const uint8_t bytes[1000] = {0}; /* so few compressed bytes that the buffer has to be doubled */
    const char *dir = unit_folder();
    struct err e;

    put(dir, names[0], bytes, sizeof bytes);
    put_gz(dir, names[1], bytes, sizeof bytes);
    for (size_t i = 0; i < N_OF(names); i++) {
        char path[256];
        uint8_t *read;
        size_t len;

        assert_ok(file_join(path, sizeof path, dir, names[i], &e));
        assert_ok(data_read_at_most(&read, &len, sizeof bytes, path, &e));
        assert_int_equal(len, sizeof bytes);
        free(read);
        assert_int_equal(data_read_at_most(&read, &len, sizeof bytes - 1, path, &e), ERR_CONFIG);
        assert_error_has("more than 999 bytes");
    }
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_files_are_read_plain_and_gzipped),
        cmocka_unit_test(a_missing_file_is_reported_with_a_way_to_get_it),
        cmocka_unit_test(inconsistent_files_are_refused),
        cmocka_unit_test(truncated_or_extended_files_are_refused),
        cmocka_unit_test(every_truncation_of_a_gzipped_file_is_refused),
        cmocka_unit_test(a_file_is_read_up_to_a_limit_and_no_further),
        cmocka_unit_test(a_header_with_absurd_sizes_is_refused),
        cmocka_unit_test(an_unknown_data_set_is_reported_with_the_known_ones),
        cmocka_unit_test(any_digit_can_be_drawn_independently_and_reproducibly),
        cmocka_unit_test(a_part_of_the_digits_is_the_first_of_each_half),
        cmocka_unit_test(the_same_bytes_are_drawn_on_every_machine),
        cmocka_unit_test(labels_are_balanced),
        cmocka_unit_test(digits_are_hard_for_a_linear_model_and_learned_by_a_small_mlp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
