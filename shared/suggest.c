#include "shared/suggest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 63 };

/* Levenshtein's distance, one row at a time. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
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

const char *suggest(const char *text, const char *const *words)
{
    const char *nearest = NULL;
    size_t best = strlen(text) / 3 + 2; /* a third of the letters may be wrong, and one more */

    if (strlen(text) > WORD_MAX)
        return NULL;
    for (; *words; words++) {
        size_t d = strlen(*words) > WORD_MAX ? best : distance(text, *words);

        if (d < best) {
            best = d;
            nearest = *words;
        }
    }
    return nearest;
}

int suggest_instead(const char *text, const char *const *words, struct err *e)
{
    const char *near = suggest(text, words);
    size_t n = strlen(e->text);

    if (near)
        snprintf(e->text + n, sizeof e->text - n, "; did you mean \"%s\"?", near);
    for (int i = 0; !near && words[i] && n < sizeof e->text; n = strlen(e->text), i++)
        snprintf(e->text + n, sizeof e->text - n, "%s%s", i == 0 ? "; there are: " : ", ", words[i]);
    return e->code;
}
