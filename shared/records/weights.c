#include "shared/records/weights.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"

static const char checkpoint_prefix[] = "model/";

_Static_assert((int)MODEL_TENSOR_DIMS == (int)TENSOR_DIMS, "any tensor of a model fits a file");
_Static_assert(sizeof checkpoint_prefix - 1 + MODEL_TENSOR_NAME <= TENSOR_NAME, "and its name a checkpoint");
_Static_assert((int)MODEL_TENSORS_MAX < (int)TENSOR_FILE_MAX_TENSORS, "which has other vectors besides");

void weights_view(struct tensor_view *out, const struct model_tensor *t, const float *data)
{
    *out = (struct tensor_view){.type = TENSOR_F32, .n_dims = t->n_dims, .data = data};
    memcpy(out->name, t->name, sizeof t->name);
    memcpy(out->shape, t->shape, sizeof t->shape);
}

const struct tensor_view *weights_find(const struct tensor_file *f, const char *prefix, const char *name)
{
    char whole[2 * TENSOR_NAME];

    if (snprintf(whole, sizeof whole, "%s%s", prefix, name) >= (int)sizeof whole)
        return NULL; /* longer than any name in a file */
    return tensor_file_find(f, whole);
}

void weights_floats(float *out, const struct tensor_view *t)
{
    size_t n = tensor_count(t);

    if (t->type == TENSOR_F32 && n > 0)
        memcpy(out, t->data, n * sizeof *out);
    for (size_t i = 0; t->type != TENSOR_F32 && i < n; i++)
        out[i] = (float)tensor_value(t, i);
}

static bool is_transposed(const struct tensor_view *t, const struct tensor_view *expected)
{
    return t->n_dims == 2 && expected->n_dims == 2 && t->shape[0] == expected->shape[1] &&
           t->shape[1] == expected->shape[0];
}

static int check_shape(const struct tensor_view *t, const struct tensor_view *expected,
                       const struct model_spec *m, struct err *e)
{
    char here[TENSOR_SHAPE_TEXT], there[TENSOR_SHAPE_TEXT];

    if (t->n_dims == expected->n_dims &&
        memcmp(t->shape, expected->shape, (size_t)t->n_dims * sizeof *t->shape) == 0)
        return 0;
    err_set(e, ERR_CONFIG, "tensor \"%s\" has the shape %s, the model's has %s", t->name,
            tensor_shape_text(here, t), tensor_shape_text(there, expected));
    return !m->has_trainer && is_transposed(t, expected)
               ? err_hint(e, "PyTorch stores it transposed: write weight.T")
               : e->code;
}

static int check_type(const struct tensor_view *t, struct err *e)
{
    if (t->type == TENSOR_U8 || t->type == TENSOR_U16 || t->type == TENSOR_I32 || t->type == TENSOR_I64)
        return err_set(e, ERR_CONFIG, "tensor \"%s\" is %s, expected F32 (F16, BF16 and F64 are converted)",
                       t->name, tensor_type_name(t->type));
    return 0;
}

/* Of batch_norm, which takes its root. */
static bool holds_variances(const struct model_tensor *t, const struct model_spec *m)
{
    const char *last = strrchr(t->name, '.');

    return !m->has_trainer && last && strcmp(last, ".running_var") == 0;
}

static int check_values(const struct tensor_view *t, bool is_variance, struct err *e)
{
    size_t n = tensor_count(t);

    for (size_t i = 0; i < n; i++) {
        double value = tensor_value(t, i);

        if (!isfinite((float)value))
            return err_set(e, ERR_CONFIG, "tensor \"%s\": value %zu is %g, not a finite float", t->name, i,
                           err_number(value));
        if (is_variance && value < 0)
            return err_set(e, ERR_CONFIG, "tensor \"%s\": value %zu is %g, a variance is never negative",
                           t->name, i, value);
    }
    return 0;
}

static int check_tensor(const struct tensor_file *f, const char *prefix, const struct model_spec *m, int i,
                        bool with_values, struct err *e)
{
    const struct tensor_view *t = weights_find(f, prefix, m->tensors[i].name);
    struct tensor_view expected;
    char shape[TENSOR_SHAPE_TEXT];

    weights_view(&expected, &m->tensors[i], NULL);
    if (!t)
        return err_set(e, ERR_CONFIG, "tensor \"%s%s\" of shape %s is missing", prefix, expected.name,
                       tensor_shape_text(shape, &expected));
    if (check_shape(t, &expected, m, e) < 0 || check_type(t, e) < 0)
        return e->code;
    return with_values ? check_values(t, holds_variances(&m->tensors[i], m), e) : 0;
}

static bool is_known(const struct model_spec *m, const char *name)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* Checks that the file has no tensor with this prefix but those of the model, all of which it has. */
static int check_surplus(const struct tensor_file *f, const char *prefix, const struct model_spec *m,
                         struct err *e)
{
    size_t n_prefix = strlen(prefix), n_own = 0;
    char shape[TENSOR_SHAPE_TEXT];

    for (size_t i = 0; i < f->n; i++)
        n_own += strncmp(f->tensors[i].name, prefix, n_prefix) == 0;
    for (size_t i = 0; n_own > (size_t)m->n_tensors && i < f->n; i++) {
        const char *name = f->tensors[i].name;

        if (strncmp(name, prefix, n_prefix) == 0 && !is_known(m, name + n_prefix))
            return err_set(e, ERR_CONFIG, "tensor \"%s\" of shape %s does not belong to model \"%s\"", name,
                           tensor_shape_text(shape, &f->tensors[i]), m->name);
    }
    return 0;
}

static int check_weights(const struct tensor_file *f, const char *prefix, const struct model_spec *m,
                         bool with_values, struct err *e)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (check_tensor(f, prefix, m, i, with_values, e) < 0)
            return e->code;
    return check_surplus(f, prefix, m, e);
}

int weights_check(const struct tensor_file *f, const char *prefix, const struct model_spec *m, struct err *e)
{
    return check_weights(f, prefix, m, true, e);
}

int weights_check_shapes(const struct tensor_file *f, const char *prefix, const struct model_spec *m,
                         struct err *e)
{
    return check_weights(f, prefix, m, false, e);
}

bool weights_sha256(uint8_t out[SHA256_BYTES], const struct model_spec *m, const float *params)
{
    struct sha256_sum *sum = sha256_start();

    for (int i = 0; sum && i < m->n_tensors; i++)
        if (!m->tensors[i].is_statistic)
            sha256_add(sum, params + m->tensors[i].offset, m->tensors[i].n * sizeof *params);
    sha256_end(sum, out);
    return sum != NULL;
}

bool weights_is_checkpoint(const struct tensor_file *f)
{
    const char *format = tensor_file_meta(f, "format");

    return format && strcmp(format, CHECKPOINT_FORMAT) == 0;
}

const char *weights_prefix(const struct tensor_file *f)
{
    return weights_is_checkpoint(f) ? checkpoint_prefix : "";
}

int weights_meta(const char **out, const struct tensor_file *f, const char *key, struct err *e)
{
    *out = tensor_file_meta(f, key);
    return *out ? 0 : err_set(e, ERR_CONFIG, "its metadata has no \"%s\"", key);
}

int weights_check_node(const struct tensor_file *f, int node, struct err *e)
{
    const char *format, *version, *owner;
    char own[16];

    if (weights_meta(&format, f, "format", e) < 0)
        return e->code;
    if (!weights_is_checkpoint(f))
        return err_set(e, ERR_CONFIG, "its format is \"%.64s\", expected " CHECKPOINT_FORMAT, format);
    if (weights_meta(&version, f, "version", e) < 0)
        return e->code;
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return err_set(e, ERR_CONFIG, "it has version \"%.64s\", this psgd reads " CHECKPOINT_VERSION,
                       version);
    if (weights_meta(&owner, f, "node", e) < 0)
        return e->code;
    snprintf(own, sizeof own, "%d", node);
    return strcmp(owner, own) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "it belongs to node %.16s, not to node %s", owner, own);
}

int weights_check_codec(const struct tensor_file *f, const char *codec, const char *sha256, struct err *e)
{
    const char *text;

    if (weights_meta(&text, f, "codec_sha256", e) < 0)
        return e->code;
    if (strcmp(text, sha256) == 0)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "it was written by another build of codec %s (SHA-256 %.64s, now %s), which may lay out "
                   "its state differently",
                   codec, text, sha256);
}

int weights_read_preprocessing(char **out, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    size_t len;

    *out = NULL;
    if (file_join(path, sizeof path, folder, PREPROCESSING_FILE, e) < 0)
        return e->code;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(out, &len, path, PREPROCESSING_MAX, e) < 0)
        return e->code;
    if (utf8_is_all(*out))
        return 0;
    free(*out);
    *out = NULL;
    return err_set(e, ERR_CONFIG, "%s: not UTF-8", path);
}
