/* Any bytes as a table, with labels and with targets, the column by number, by name and the last. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_csv.h"
#include "submit/data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(struct csv_table *t, bool is_target, struct data_warnings *w)
{
    struct csv_classes c;
    struct err e;

    for (size_t i = 0; i < t->n_rows * t->n_values; i++)
        if (!isfinite(t->x[i]))
            abort();
    for (size_t i = 0; is_target && i < t->n_rows; i++)
        if (!isfinite(t->targets[i]))
            abort();
    if (is_target || csv_classes_find(&c, t, w, &e) < 0)
        return;
    for (size_t i = 0; i < t->n_rows; i++)
        if (csv_class_of(&c, &t->texts[i]) < 0)
            abort();
    free(c.texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct csv_form forms[] = {
        {.column = "", .header = "auto", .group = "", .drop = ""},
        {.column = "",
         .is_target = true,
         .header = "auto",
         .missing = CSV_MISSING_DROP,
         .group = "1",
         .drop = "3"},
        {.column = "2", .header = "no", .missing = CSV_MISSING_LABEL, .group = "1", .drop = ""},
        {.column = "kind", .header = "yes", .group = "", .drop = "a+2"},
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *text = malloc(len + !len);
        struct data_warnings w = {0};
        struct csv_table t;
        struct err e;

        if (!text)
            abort();
        memcpy(text, bytes, len);
        if (csv_parse(&t, text, len, &forms[i], &w, &e) == 0)
            check(&t, forms[i].is_target, &w);
        csv_clear(&t);
        data_warnings_clear(&w);
        free(text);
    }
    return 0;
}
