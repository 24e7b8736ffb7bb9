#include "submit/results/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"

struct prediction_table {
    size_t n;
    const int32_t *labels, *classes; /* (n); NULL: no labels; values instead of classes */
    const float *probability;        /* (n); NULL: there is none */
    const float *targets, *values;   /* (n, n_targets); NULL: no targets; classes instead of values */
    int n_targets;
    const char **names; /* (n_classes); NULL: none */
};

/* The tensor of this shape; n_dims 2: (n, k). */
static const void *find_tensor(const struct tensor_file *f, const char *name, enum tensor_type type,
                               int n_dims, size_t n, size_t k)
{
    const struct tensor_view *t = tensor_file_find(f, name);
    bool fits = t && t->type == type && t->n_dims == n_dims && t->shape[0] == n &&
                (n_dims < 2 || t->shape[1] == k);

    return fits ? t->data : NULL;
}

static bool are_classes(const int32_t *classes, size_t n, int n_classes)
{
    for (size_t i = 0; i < n; i++)
        if (classes[i] < 0 || classes[i] >= n_classes)
            return false;
    return true;
}

static int open_table(struct prediction_table *t, const struct dataset *d, const char *half,
                      const struct tensor_file *f, struct err *e)
{
    bool is_test = strcmp(half, "test") == 0;
    bool fits;

    *t = (struct prediction_table){.n = is_test ? d->n_test : d->n_train,
                                   .labels = is_test ? d->test_y : d->train_y,
                                   .targets = is_test ? d->test_t : d->train_t,
                                   .n_targets = d->n_targets};
    t->classes = find_tensor(f, "class", TENSOR_I32, 1, t->n, 0);
    t->probability = find_tensor(f, "probability", TENSOR_F32, 1, t->n, 0);
    t->values = find_tensor(f, "values", TENSOR_F32, 2, t->n, (size_t)d->n_targets);
    fits = d->n_classes > 0 ? t->classes && are_classes(t->classes, t->n, d->n_classes) : t->values != NULL;
    return fits ? 0 : err_set(e, ERR_PROTOCOL, "the predictions are not those of these samples");
}

static int list_names(struct prediction_table *t, const struct dataset *d, struct err *e)
{
    const char *name = d->class_names;

    if (!name)
        return 0;
    t->names = malloc((size_t)d->n_classes * sizeof *t->names);
    if (!t->names)
        return err_set(e, ERR_NOMEM, "no memory for the names of %d classes", d->n_classes);
    for (int k = 0; k < d->n_classes; k++, name += strlen(name) + 1)
        t->names[k] = name;
    return 0;
}

/* RFC 4180: a field with a comma, a quotation mark or a line break is quoted, and its marks are doubled. */
static void put_text(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fprintf(out, ",%s", text);
        return;
    }
    fputs(",\"", out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"%c" : "%c", *text);
    fputc('"', out);
}

static void put_class(FILE *out, const struct prediction_table *t, size_t i)
{
    fprintf(out, "%zu,", i);
    if (t->labels)
        fprintf(out, "%d,", t->labels[i]);
    fprintf(out, "%d,", t->classes[i]);
    if (t->probability)
        fprintf(out, "%.9g", err_number((double)t->probability[i]));
    if (t->names && t->labels)
        put_text(out, t->names[t->labels[i]]);
    if (t->names)
        put_text(out, t->names[t->classes[i]]);
}

static void put_vector(FILE *out, const float *v, int n)
{
    for (int j = 0; j < n; j++)
        fprintf(out, ",%.9g", err_number((double)v[j]));
}

/* ",target", or ",target_0,target_1,..." of several. */
static void put_numbered(FILE *out, const char *name, int n)
{
    if (n == 1)
        fprintf(out, ",%s", name);
    for (int j = 0; n > 1 && j < n; j++)
        fprintf(out, ",%s_%d", name, j);
}

static void put_header(FILE *out, const struct prediction_table *t)
{
    fputs("index", out);
    if (t->classes) {
        fprintf(out, "%s,predicted,probability", t->labels ? ",label" : "");
        fprintf(out, "%s%s", t->names && t->labels ? ",label_name" : "", t->names ? ",predicted_name" : "");
        return;
    }
    if (t->targets)
        put_numbered(out, "target", t->n_targets);
    put_numbered(out, "predicted", t->n_targets);
}

static void put_row(FILE *out, const struct prediction_table *t, size_t i)
{
    size_t k = (size_t)t->n_targets;

    if (t->classes) {
        put_class(out, t, i);
        return;
    }
    fprintf(out, "%zu", i);
    if (t->targets)
        put_vector(out, t->targets + i * k, t->n_targets);
    put_vector(out, t->values + i * k, t->n_targets);
}

static int write_table(const char *path, const struct prediction_table *t, struct err *e)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool failed = !out;
    int rc;

    if (out) {
        put_header(out, t);
        fputc('\n', out);
        for (size_t i = 0; i < t->n; i++) {
            put_row(out, t, i);
            fputc('\n', out);
        }
        failed = ferror(out);
        failed |= fclose(out) != 0;
    }
    rc = failed ? err_set(e, ERR_NOMEM, "no memory for a table of %zu samples", t->n)
                : file_write(path, text, len, 0644, e);
    free(text);
    return rc;
}

/* The samples with a probability or value that is not finite. */
static size_t count_not_finite(const struct prediction_table *t)
{
    size_t k = t->classes ? 1 : (size_t)t->n_targets, n = 0;
    const float *v = t->classes ? t->probability : t->values;

    for (size_t i = 0; v && i < t->n; i++) {
        bool is_finite = true;

        for (size_t j = 0; j < k; j++)
            is_finite &= isfinite(v[i * k + j]);
        n += !is_finite;
    }
    return n;
}

/* The begin of each table of predictions. */
static const char first_column[] = "index,";

int predictions_check_path(const char *path, struct err *e)
{
    char begin[sizeof first_column] = "";
    bool is_other;
    FILE *f;

    if (file_check_replaceable(path, e) < 0) /* opening a pipe would wait for a writer */
        return e->code;
    f = fopen(path, "re");
    is_other = f && fread(begin, 1, sizeof begin - 1, f) > 0 && strcmp(begin, first_column) != 0;
    if (f)
        fclose(f);
    if (!is_other)
        return 0; /* predictions_write() finds out whether it can be written */
    err_set(e, ERR_CONFLICT, "%s exists and is no table of predictions", path);
    return err_hint(e, "Name another file: -o FILE.");
}

int predictions_write(const char *path, const struct dataset *d, const char *half,
                      const struct tensor_file *f, struct dataset_warnings *w, struct err *e)
{
    struct prediction_table t;
    size_t n_bad;
    int rc;

    if (open_table(&t, d, half, f, e) < 0 || list_names(&t, d, e) < 0)
        return e->code;
    rc = write_table(path, &t, e);
    n_bad = count_not_finite(&t);
    if (rc == 0 && n_bad > 0)
        dataset_warn(
            w,
            "the model's outputs of %zu of %zu samples are not finite, so their predictions mean nothing: a "
            "weight is not finite, or a value of the sample is too large",
            n_bad, t.n);
    free(t.names);
    return rc;
}
