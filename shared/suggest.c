#include "shared/suggest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 63 };

/* Levenshtein distance, computed row by row. */
static size_t distance(const char *a, const char *b)
{
    size_t row[TEXT_MAX + 1];
    size_t n_b = strlen(b);

    for (size_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

const char *suggest(const char *text, const char *const *choices)
{
    const char *nearest = NULL;
    size_t best = strlen(text) / 3 + 2; /* a third of the characters may be wrong, and one more */

    if (strlen(text) > TEXT_MAX)
        return NULL;
    for (; *choices; choices++) {
        size_t d = strlen(*choices) > TEXT_MAX ? best : distance(text, *choices);

        if (d < best) {
            best = d;
            nearest = *choices;
        }
    }
    return nearest;
}

int suggest_instead(const char *text, const char *const *choices, struct err *e)
{
    const char *near = suggest(text, choices);
    size_t n = strlen(e->text);

    if (near)
        snprintf(e->text + n, sizeof e->text - n, "; did you mean \"%s\"?", near);
    for (int i = 0; !near && choices[i] && n < sizeof e->text; n = strlen(e->text), i++)
        snprintf(e->text + n, sizeof e->text - n, "%s%s", i == 0 ? "; there are: " : ", ", choices[i]);
    return e->code;
}
