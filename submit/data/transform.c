#include "submit/data/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CROP_MAX = 64, TEXT_LEN = 64 };

static const char *const names[N_TRANSFORM_KINDS] = {
    [TRANSFORM_UNIT] = "unit",
    [TRANSFORM_CENTRE] = "centre",
    [TRANSFORM_STANDARD] = "standard",
};

static int parse_option(struct transform *t, const char *text, struct err *e)
{
    if (strcmp(text, "flip") == 0 ? t->flip : t->crop > 0 && strncmp(text, "crop=", 5) == 0)
        return err_set(e, ERR_CONFIG, "\"%s\": given twice", text);
    if (strcmp(text, "flip") == 0) {
        t->flip = true;
        return 0;
    }
    if (strncmp(text, "crop=", 5) != 0)
        return err_set(e, ERR_CONFIG, "\"%s\" is neither crop=N nor flip", text);
    t->crop = atoi(text + 5);
    if (strspn(text + 5, "0123456789") != strlen(text + 5) || strlen(text + 5) > 2 || t->crop < 1 ||
        t->crop > CROP_MAX)
        return err_set(e, ERR_CONFIG, "\"%s\": crop takes 1 to %d pixels", text, CROP_MAX);
    return 0;
}

int transform_parse(struct transform *t, const char *text, struct err *e)
{
    char copy[TEXT_LEN];
    char *rest = copy;
    char *one;

    if (snprintf(copy, sizeof copy, "%s", text) >= TEXT_LEN)
        return err_set(e, ERR_CONFIG, "more than %d characters", TEXT_LEN - 1);
    *t = (struct transform){.kind = N_TRANSFORM_KINDS};
    one = strsep(&rest, ",");
    for (int i = 0; i < N_TRANSFORM_KINDS; i++)
        if (strcmp(one, names[i]) == 0)
            t->kind = (enum transform_kind)i;
    if (t->kind == N_TRANSFORM_KINDS)
        return err_set(e, ERR_CONFIG,
                       "\"%s\" is none of unit, centre, standard (,crop=N and ,flip may follow)", one);
    while ((one = strsep(&rest, ",")) != NULL)
        if (parse_option(t, one, e) < 0)
            return e->code;
    return 0;
}

static int check_suits(const struct transform *t, const struct dataset *d, struct err *e)
{
    bool is_image = d->shape.n_dims == 3;

    if ((t->crop || t->flip) && !is_image)
        return err_set(e, ERR_CONFIG, "crop and flip are for images, the data set has none");
    if (t->crop >= (is_image && d->shape.dim[0] < d->shape.dim[1] ? d->shape.dim[0] : d->shape.dim[1]) &&
        t->crop)
        return err_set(e, ERR_CONFIG, "crop=%d: images are only %d x %d", t->crop, d->shape.dim[0],
                       d->shape.dim[1]);
    if (t->kind == TRANSFORM_CENTRE && (d->x_type != TENSOR_U8 || dataset_has_tokens(d)))
        return err_set(e, ERR_CONFIG, "centre is for bytes, the data set has none; standard centres floats");
    if (t->kind == TRANSFORM_STANDARD && dataset_has_tokens(d))
        return err_set(e, ERR_CONFIG, "standard is for numbers, the data set has tokens");
    return 0;
}

int transform_suits(const struct transform *t, const struct dataset *d, struct err *e)
{
    return check_suits(t, d, e) < 0 ? err_at(e, "transform") : 0;
}

/* Sums in double relative to the first value, in one pass: values far from zero keep their digits. */
static void take_moments(struct transform_moments *m, const struct dataset *d)
{
    const uint8_t *bytes = d->train_x;
    const float *floats = d->train_x;
    bool is_bytes = d->x_type == TENSOR_U8;
    size_t n_each = d->n_train * ((size_t)shape_count(&d->shape) / m->n);
    double *sums = m->mean, *squares = m->deviation;

    for (size_t i = 0, at = 0; i < n_each; i++)
        for (size_t c = 0; c < m->n; c++, at++) {
            double x = (is_bytes ? (double)bytes[at] : (double)floats[at]) -
                       (is_bytes ? (double)bytes[c] : (double)floats[c]);

            sums[c] += x;
            squares[c] += x * x;
        }
    for (size_t c = 0; c < m->n; c++) {
        double first = is_bytes ? (double)bytes[c] : (double)floats[c];
        double mean = sums[c] / (double)n_each;
        double variance = squares[c] / (double)n_each - mean * mean;

        m->mean[c] = first + mean;
        m->deviation[c] = variance > 1e-12 * mean * mean ? sqrt(variance) : 1;
    }
}

int transform_learn(struct transform_moments *m, const struct transform *t, const struct dataset *d,
                    struct err *e)
{
    *m = (struct transform_moments){0};
    if (transform_suits(t, d, e) < 0)
        return e->code;
    if (t->kind != TRANSFORM_STANDARD)
        return 0;
    m->n = (size_t)d->shape.dim[d->shape.n_dims - 1];
    m->mean = calloc(2 * m->n, sizeof *m->mean);
    if (!m->mean)
        return err_set(e, ERR_NOMEM, "no memory for the means of %zu columns", m->n);
    m->deviation = m->mean + m->n;
    take_moments(m, d);
    return 0;
}

void transform_moments_clear(struct transform_moments *m)
{
    free(m->mean);
    *m = (struct transform_moments){0};
}

int transform_scale_of(struct transform_scale *s, const struct transform *t,
                       const struct transform_moments *m, enum tensor_type type, struct err *e)
{
    bool is_standard = t->kind == TRANSFORM_STANDARD;
    size_t n = is_standard ? m->n : 1;

    *s = (struct transform_scale){0};
    if (!is_standard && type != TENSOR_U8)
        return 0;
    s->scale = malloc(2 * n * sizeof *s->scale);
    if (!s->scale)
        return err_set(e, ERR_NOMEM, "no memory for the scales of %zu columns", n);
    s->n = n;
    s->shift = s->scale + n;
    s->scale[0] = 1.0f / 255.0f;
    s->shift[0] = t->kind == TRANSFORM_CENTRE ? -0.5f : 0;
    for (size_t c = 0; is_standard && c < n; c++) {
        s->scale[c] = (float)(1 / m->deviation[c]);
        s->shift[c] = (float)(-m->mean[c] * (1 / m->deviation[c]));
    }
    return 0;
}

void transform_scale_clear(struct transform_scale *s)
{
    free(s->scale);
    *s = (struct transform_scale){0};
}

static bool is_square(int n)
{
    int side = (int)lround(sqrt(n));

    return side * side == n;
}

/* Could a sample be an image, of at least 8 x 8 pixels? A row of a table may be one, as in Kaggle's MNIST, if
 * it has as many values as a square one, gray or of three colours. */
static bool may_be_image(const struct shape *s)
{
    enum { LEAST_SIDE = 8 };
    int n = s->dim[0];

    if (s->n_dims > 1)
        return s->dim[0] >= LEAST_SIDE && s->dim[1] >= LEAST_SIDE;
    return n >= LEAST_SIDE * LEAST_SIDE && (is_square(n) || (n % 3 == 0 && is_square(n / 3)));
}

/* Stops at the first value that is no pixel. */
static bool are_pixels(const float *x, size_t n)
{
    float max = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= 0 && x[i] <= 255 && x[i] == floorf(x[i])))
            return false;
        max = x[i] > max ? x[i] : max;
    }
    return max > 1;
}

void transform_warn_of_pixels(struct dataset *d, const char *text)
{
    struct transform t;
    struct err ignored;

    if (transform_parse(&t, text, &ignored) == 0 && t.kind == TRANSFORM_UNIT && d->x_type == TENSOR_F32 &&
        may_be_image(&d->shape) && are_pixels(d->train_x, d->n_train * (size_t)shape_count(&d->shape)))
        dataset_warn(
            &d->warnings,
            "samples are whole numbers from 0 to 255 that --transform unit does not divide, as they are "
            "no bytes; if they are pixels, give --transform standard, or save them as uint8, "
            "x.astype(\"u1\")");
}
