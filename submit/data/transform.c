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

static int suits(const struct transform *t, const struct dataset *d, struct err *e)
{
    bool is_image = d->shape.n_dims == 3;

    if ((t->crop || t->flip) && !is_image)
        return err_set(e, ERR_CONFIG, "crop and flip are for images, the data set has none");
    if (t->crop >= (is_image && d->shape.dim[0] < d->shape.dim[1] ? d->shape.dim[0] : d->shape.dim[1]) &&
        t->crop)
        return err_set(e, ERR_CONFIG, "crop=%d: images are only %d x %d", t->crop, d->shape.dim[0],
                       d->shape.dim[1]);
    if (t->kind == TRANSFORM_CENTRE && d->x_type != TENSOR_U8)
        return err_set(e, ERR_CONFIG, "centre is for bytes, the data set has none; standard centres floats");
    if (t->kind == TRANSFORM_STANDARD && d->x_type == TENSOR_I32)
        return err_set(e, ERR_CONFIG, "standard is for numbers, the data set has tokens");
    return 0;
}

/* Sums in double relative to the first value, in one pass: values far from zero keep their digits. */
static void moments(struct transform_scale *s, const struct dataset *d, double *sums)
{
    const uint8_t *bytes = d->train_x;
    const float *floats = d->train_x;
    bool is_bytes = d->x_type == TENSOR_U8;
    size_t n_each = d->n_train * ((size_t)shape_count(&d->shape) / s->n);

    for (size_t i = 0, at = 0; i < n_each; i++)
        for (size_t c = 0; c < s->n; c++, at++) {
            double x = (is_bytes ? (double)bytes[at] : (double)floats[at]) -
                       (is_bytes ? (double)bytes[c] : (double)floats[c]);

            sums[2 * c] += x;
            sums[2 * c + 1] += x * x;
        }
    for (size_t c = 0; c < s->n; c++) {
        double first = is_bytes ? (double)bytes[c] : (double)floats[c];
        double mean = sums[2 * c] / (double)n_each;
        double variance = sums[2 * c + 1] / (double)n_each - mean * mean;
        double scale = variance > 1e-12 * mean * mean ? 1 / sqrt(variance) : 1;

        s->scale[c] = (float)scale;
        s->shift[c] = (float)(-(first + mean) * scale);
    }
}

int transform_fit(struct transform_scale *s, const struct transform *t, const struct dataset *d,
                  struct err *e)
{
    bool is_bytes = d->x_type == TENSOR_U8;
    double *sums;

    *s = (struct transform_scale){0};
    if (suits(t, d, e) < 0)
        return err_at(e, "transform");
    if (t->kind != TRANSFORM_STANDARD && !is_bytes)
        return 0;
    s->n = t->kind == TRANSFORM_STANDARD ? (size_t)d->shape.dim[d->shape.n_dims - 1] : 1;
    s->scale = malloc(2 * s->n * sizeof *s->scale);
    sums = calloc(2 * s->n, sizeof *sums);
    if (s->scale && sums) {
        s->shift = s->scale + s->n;
        s->scale[0] = 1.0f / 255.0f;
        s->shift[0] = t->kind == TRANSFORM_CENTRE ? -0.5f : 0;
        if (t->kind == TRANSFORM_STANDARD)
            moments(s, d, sums);
    } else {
        transform_scale_clear(s);
        err_set(e, ERR_NOMEM, "no memory for the means of %d columns", d->shape.dim[d->shape.n_dims - 1]);
        free(sums);
        return e->code;
    }
    free(sums);
    return 0;
}

void transform_scale_clear(struct transform_scale *s)
{
    free(s->scale);
    *s = (struct transform_scale){0};
}
