#include "submit/data/layout.h"

#include <stdio.h>
#include <string.h>

const char *layout_dimension(const struct shape *s, bool are_tokens, int i)
{
    static const char *const names[SHAPE_DIMS][SHAPE_DIMS] = {
        {"values"}, {"time", "values"}, {"rows", "columns", "channels"}};

    return are_tokens ? "time" : names[s->n_dims - 1][i];
}

const char *layout_text(char out[LAYOUT_TEXT], const struct shape *s, bool are_tokens)
{
    char shape[48];
    int n = snprintf(out, LAYOUT_TEXT, "%s", shape_text(shape, s));

    for (int i = 0; i < s->n_dims; i++)
        n += snprintf(out + n, (size_t)(LAYOUT_TEXT - n), "%s%s", i ? ", " : " (",
                      layout_dimension(s, are_tokens, i));
    snprintf(out + n, (size_t)(LAYOUT_TEXT - n), ")");
    return out;
}

static bool is_same(const struct shape *a, const struct shape *b)
{
    if (a->n_dims == 1 || b->n_dims == 1)
        return true;
    if (a->n_dims != b->n_dims)
        return a->dim[0] == b->dim[0];
    return memcmp(a->dim, b->dim, (size_t)a->n_dims * sizeof *a->dim) == 0;
}

int layout_check(const char *reader, const struct shape *wanted, const struct shape *found, bool are_tokens,
                 struct err *e)
{
    char one[LAYOUT_TEXT], other[LAYOUT_TEXT];

    if (is_same(wanted, found))
        return 0;
    err_set(e, ERR_CONFIG, "%s takes samples of %s, and the data set has %s", reader,
            layout_text(one, wanted, are_tokens), layout_text(other, found, are_tokens));
    if (wanted->n_dims == 3 && found->n_dims == 3)
        return err_hint(e, "Images have their channels last: numpy.transpose(x, (0, 2, 3, 1)) turns an array "
                           "(samples, channels, rows, columns) into that; \"input\" of a model is [rows, "
                           "columns, channels].");
    if (wanted->n_dims == 2 && found->n_dims == 2)
        return err_hint(
            e, "A series has time first: numpy.transpose(x, (0, 2, 1)) turns an array (samples, values, "
               "time) into that.");
    return e->code;
}
