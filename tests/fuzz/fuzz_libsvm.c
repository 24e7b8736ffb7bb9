/* Any bytes as rows of LIBSVM: with labels, with targets and groups, without either. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_formats.h"
#include "submit/data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const struct data_table *t, const struct libsvm_form *form, size_t n_rows)
{
    if (t->n_rows != n_rows || t->n_values != form->n_values || t->has_truth != (t->texts || t->targets) ||
        (form->has_groups && !t->groups) || (!t->has_truth && !form->may_lack))
        abort();
    for (size_t i = 0; i < t->n_rows * t->n_values; i++)
        if (!isfinite(t->x[i]))
            abort();
    for (size_t i = 0; t->targets && i < t->n_rows; i++)
        if (!isfinite(t->targets[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct libsvm_form forms[] = {
        {.first = 1}, {.first = 0, .is_target = true, .has_groups = true}, {.first = 1, .may_lack = true}};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct libsvm_form form = forms[i];
        char *text = malloc(len + !len);
        struct data_table t;
        size_t n_rows;
        struct err e;

        if (!text)
            abort();
        memcpy(text, bytes, len);
        /* A few rows of 65536 values would only cost time. */
        if (libsvm_scan(&form.n_values, &n_rows, text, len, &form, &e) == 0 && form.n_values < 1000) {
            if (libsvm_parse(&t, text, len, &form, &e) == 0)
                check(&t, &form, n_rows);
            table_clear(&t);
        }
        free(text);
    }
    return 0;
}
