/* Any bytes as a table, with labels and with targets, the column by number, by name and the last; also
 * read like another table, by names and by places. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv.h"
#include "submit/data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(struct data_table *t, bool is_target, struct dataset_warnings *w)
{
    struct table_classes c;
    struct err e;

    for (size_t i = 0; i < t->n_rows * t->n_values; i++)
        if (!isfinite(t->x[i]))
            abort();
    if (!t->has_truth && (t->targets || t->texts))
        abort();
    for (size_t i = 0; is_target && t->has_truth && i < t->n_rows; i++)
        if (!isfinite(t->targets[i]))
            abort();
    if (is_target || !t->has_truth || table_classes_find(&c, t, w, &e) < 0)
        return;
    for (size_t i = 0; i < t->n_rows; i++)
        if (table_class_of(&c, &t->texts[i]) < 0)
            abort();
    free(c.texts);
}

static void try_form(const uint8_t *bytes, size_t len, const struct csv_form *form)
{
    char *text = malloc(len + !len);
    struct dataset_warnings w = {0};
    struct data_table t;
    struct err e;

    if (!text)
        abort();
    memcpy(text, bytes, len);
    if (csv_parse(&t, text, len, form, &w, &e) == 0)
        check(&t, form->is_target, &w);
    table_clear(&t);
    dataset_warnings_clear(&w);
    free(text);
}

/* Three columns, of which the second is learned, or the one that the form names. */
static void try_known(const uint8_t *bytes, size_t len)
{
    struct names named = {0}, none = {0};
    struct err e;

    if (names_copy(&named, "a\0kind\0b", 3, &e) < 0)
        abort();
    for (int i = 0; i < 8; i++) {
        const struct csv_known known = {.n_values = 2,
                                        .names = i & 1 ? &named : &none,
                                        .learned_at = i & 1 || i & 2 ? 2 : 0,
                                        .may_lack_truth = i & 4};
        const struct csv_form form = {
            .column = "", .is_target = i & 2, .header = "auto", .group = "", .drop = "", .known = &known};

        try_form(bytes, len, &form);
    }
    names_clear(&named);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct csv_form forms[] = {
        {.column = "", .header = "auto", .group = "", .drop = ""},
        {.column = "",
         .is_target = true,
         .header = "auto",
         .missing = TABLE_MISSING_DROP,
         .group = "1",
         .drop = "3"},
        {.column = "2", .header = "no", .missing = TABLE_MISSING_LABEL, .group = "1", .drop = ""},
        {.column = "kind", .header = "yes", .group = "", .drop = "a+2"},
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        try_form(bytes, len, &forms[i]);
    try_known(bytes, len);
    return 0;
}
