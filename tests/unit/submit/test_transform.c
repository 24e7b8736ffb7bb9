#include "submit/data/transform.h"

#include <math.h>

#include "tests/unit/unit.h"

static struct err e;

TEST(transforms_and_options_are_parsed)
{
    struct transform t;

    assert_ok(transform_parse(&t, "unit", &e));
    assert_true(t.kind == TRANSFORM_UNIT && t.crop == 0 && !t.flip);
    assert_ok(transform_parse(&t, "standard,crop=4,flip", &e));
    assert_true(t.kind == TRANSFORM_STANDARD && t.crop == 4 && t.flip);
}

TEST(invalid_transforms_are_refused)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "none of unit, centre, standard"},
        {"centered", "\"centered\" is none of"},
        {"flip", "\"flip\" is none of"},
        {"unit,", "\"\" is neither crop=N nor flip"},
        {"unit,crop=0", "crop takes 1 to 64"},
        {"unit,crop=", "crop takes 1 to 64"},
        {"unit,crop=2,crop=3", "\"crop=3\": given twice"},
        {"unit,flip,flip", "\"flip\": given twice"},
        {"unit,crop=65", "crop takes 1 to 64"},
        {"unit,crop=-1", "crop takes 1 to 64"},
        {"unit,crop=4294967300", "crop takes 1 to 64"},
        {"unit,flop", "neither"},
    };
    struct transform t;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(transform_parse(&t, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

static int fit(struct transform_scale *s, const char *text, const struct dataset *d)
{
    struct transform_moments m;
    struct transform t;
    int rc;

    assert_ok(transform_parse(&t, text, &e));
    if (transform_learn(&m, &t, d, &e) < 0)
        return e.code;
    rc = transform_scale_of(s, &t, &m, d->x_type, &e);
    transform_moments_clear(&m);
    return rc;
}

TEST(bytes_are_scaled_to_0_to_1_or_centered)
{
    uint8_t x[4] = {0};
    const struct dataset d = {.n_train = 1, .shape = {3, {2, 2, 1}}, .x_type = TENSOR_U8, .train_x = x};
    struct transform_scale s;

    assert_ok(fit(&s, "unit", &d));
    assert_true(s.n == 1 && s.scale[0] == 1 / 255.f && s.shift[0] == 0);
    transform_scale_clear(&s);
    assert_ok(fit(&s, "centre", &d));
    assert_true(s.n == 1 && s.scale[0] == 1 / 255.f && s.shift[0] == -.5f);
    transform_scale_clear(&s);
}

/* Applies the scale to all samples: by channel, mean 0 and deviation 1 are expected. */
static void check_standard(const struct dataset *d, const struct transform_scale *s)
{
    size_t n = d->n_train * (size_t)shape_count(&d->shape) / s->n;

    for (size_t c = 0; c < s->n; c++) {
        double sum = 0, square = 0;

        for (size_t i = 0; i < n; i++) {
            double x = d->x_type == TENSOR_U8 ? (double)((uint8_t *)d->train_x)[i * s->n + c]
                                              : (double)((float *)d->train_x)[i * s->n + c];

            x = x * (double)s->scale[c] + (double)s->shift[c];
            sum += x;
            square += x * x;
        }
        assert_true(fabs(sum / (double)n) < 1e-3);
        assert_true(fabs(square / (double)n - 1) < 1e-3);
    }
}

TEST(standardization_is_by_channel_of_images_and_by_column_of_tables)
{
    uint8_t bytes[50 * 12];
    float floats[50 * 2];
    const struct dataset images = {
        .n_train = 50, .shape = {3, {2, 2, 3}}, .x_type = TENSOR_U8, .train_x = bytes};
    const struct dataset table = {.n_train = 50, .shape = {1, {2}}, .x_type = TENSOR_F32, .train_x = floats};
    struct transform_scale s;

    for (int i = 0; i < 600; i++)
        bytes[i] = (uint8_t)(i % 3 * 60 + i * 7919 % 64);
    for (int i = 0; i < 100; i++) /* small compared with their mean */
        floats[i] = (float)(i % 2 ? 1e4 : -3) + (float)(i * 7919 % 100) / 10;
    assert_ok(fit(&s, "standard", &images));
    assert_int_equal(s.n, 3);
    check_standard(&images, &s);
    transform_scale_clear(&s);
    assert_ok(fit(&s, "standard", &table));
    assert_int_equal(s.n, 2);
    check_standard(&table, &s);
    transform_scale_clear(&s);
}

TEST(a_constant_column_becomes_0)
{
    float x[] = {0.1f, 1, 0.1f, 2, 0.1f, 3};
    const struct dataset d = {.n_train = 3, .shape = {1, {2}}, .x_type = TENSOR_F32, .train_x = x};
    struct transform_scale s;

    assert_ok(fit(&s, "standard", &d));
    assert_true(s.scale[0] == 1 && s.shift[0] == -0.1f);
    transform_scale_clear(&s);
}

TEST(floats_and_tokens_are_unchanged)
{
    float x[2] = {0};
    struct dataset d = {.n_train = 1, .shape = {1, {2}}, .x_type = TENSOR_F32, .train_x = x};
    struct transform_scale s;

    assert_ok(fit(&s, "unit", &d));
    assert_int_equal(s.n, 0);
    assert_int_equal(fit(&s, "centre", &d), ERR_CONFIG);
    assert_error_has("centre is for bytes");
    d.x_type = TENSOR_I32;
    d.vocab = 2;
    assert_ok(fit(&s, "unit", &d));
    assert_int_equal(s.n, 0);
    assert_int_equal(fit(&s, "standard", &d), ERR_CONFIG);
    assert_error_has("standard is for numbers");
}

/* Four samples of this shape, all values of which are `value`, but for the last one. */
static bool is_warned(struct shape shape, float value, float last, const char *transform)
{
    size_t n = 4 * (size_t)shape_count(&shape);
    struct dataset d = {
        .n_train = 4, .shape = shape, .x_type = TENSOR_F32, .train_x = malloc(n * sizeof(float))};
    float *x = d.train_x;
    bool has_warning;

    for (size_t i = 0; i < n; i++)
        x[i] = i + 1 < n ? value : last;
    transform_warn_of_pixels(&d, transform);
    has_warning = dataset_warning(&d.warnings, NULL) != NULL;
    if (has_warning)
        assert_non_null(
            strstr(dataset_warning(&d.warnings, NULL), "give --transform standard, or save them as uint8"));
    dataset_clear(&d);
    return has_warning;
}

TEST(whole_numbers_to_255_of_another_type_than_bytes_cause_a_warning_where_a_sample_may_be_an_image)
{
    static const struct shape images[] = {{3, {28, 28, 1}},
                                          {3, {32, 32, 3}},
                                          {2, {28, 28}},
                                          {1, {784}},
                                          {1, {3072}}},
                              others[] = {{1, {4}}, {1, {785}}, {2, {100, 4}}};

    for (size_t k = 0; k < N_OF(images); k++) {
        assert_true(is_warned(images[k], 0, 255, "unit"));
        assert_true(is_warned(images[k], 3, 2, "unit,flip"));
        assert_false(is_warned(images[k], 0, 255, "standard"));
        assert_false(is_warned(images[k], 0, 1, "unit"));
        assert_false(is_warned(images[k], 0, 256, "unit"));
        assert_false(is_warned(images[k], 7, 0.5f, "unit"));
        assert_false(is_warned(images[k], 7, -1, "unit"));
        assert_false(is_warned(images[k], 7, NAN, "unit"));
    }
    for (size_t k = 0; k < N_OF(others); k++)
        assert_false(is_warned(others[k], 0, 255, "unit"));
}

TEST(crop_and_flip_need_images_that_are_large_enough)
{
    uint8_t x[12] = {0};
    struct dataset d = {.n_train = 1, .shape = {3, {2, 6, 1}}, .x_type = TENSOR_U8, .train_x = x};
    struct transform_scale s;

    assert_ok(fit(&s, "unit,crop=1,flip", &d));
    transform_scale_clear(&s);
    assert_int_equal(fit(&s, "unit,crop=2", &d), ERR_CONFIG);
    assert_error_has("crop=2: images are only 2 x 6");
    d.shape = (struct shape){1, {12}};
    assert_int_equal(fit(&s, "unit,flip", &d), ERR_CONFIG);
    assert_error_has("crop and flip are for images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_and_options_are_parsed),
        cmocka_unit_test(invalid_transforms_are_refused),
        cmocka_unit_test(bytes_are_scaled_to_0_to_1_or_centered),
        cmocka_unit_test(standardization_is_by_channel_of_images_and_by_column_of_tables),
        cmocka_unit_test(a_constant_column_becomes_0),
        cmocka_unit_test(floats_and_tokens_are_unchanged),
        cmocka_unit_test(
            whole_numbers_to_255_of_another_type_than_bytes_cause_a_warning_where_a_sample_may_be_an_image),
        cmocka_unit_test(crop_and_flip_need_images_that_are_large_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
