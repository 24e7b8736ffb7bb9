#include "shared/base/choice.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 63, PREFIX_MIN = 2, COMMON_MIN = 4, FAR = INT32_MAX };

int choice_find(const char *list, const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || strchr(text, '|')) /* "ssgd|asgd" is a substring of the list, too */
        return -1;
    for (int i = 0; list; i++, list = strchr(list, '|')) {
        list += *list == '|';
        if (strncmp(list, text, n) == 0 && (list[n] == '|' || !list[n]))
            return i;
    }
    return -1;
}

const char *choice_at(const char *list, int place, int *n)
{
    for (; place > 0; place--)
        list = strchr(list, '|') + 1;
    *n = (int)strcspn(list, "|");
    return list;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The number of edits between two texts of at most TEXT_MAX characters, where swapping two neighbours is one
 * edit: the optimal string alignment distance (Damerau 1964), computed row by row. */
static int distance(const char *a, int n_a, const char *b, int n_b)
{
    int rows[3][TEXT_MAX + 1] = {{0}};
    int *before = rows[0], *above = rows[1], *row = rows[2];

    for (int j = 0; j <= n_b; j++)
        row[j] = j;
    for (int i = 1; i <= n_a; i++) {
        int *free_row = before;

        before = above;
        above = row;
        row = free_row;
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[n_b];
}

static int common_beginning(const char *a, int n_a, const char *b, int n_b)
{
    int n = 0;

    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* How unlikely it is that the choice was meant by `text`; FAR: the text is another word. From the likeliest
 * to the least likely: the text begins the choice, it has a few wrong letters, it continues the choice, both
 * begin alike. */
static int unlikeness(const char *text, int n, const char *choice, int n_choice)
{
    int common = common_beginning(text, n, choice, n_choice), wrong;

    if (common == n && n >= PREFIX_MIN)
        return 0;
    wrong = distance(text, n, choice, n_choice);
    if (wrong <= (n < 6 ? 1 : n / 3) && wrong < n)
        return 1 + wrong;
    if (common == n_choice && n_choice >= PREFIX_MIN)
        return 2 * TEXT_MAX - common;
    return common >= COMMON_MIN && 4 * common >= 3 * n ? 3 * TEXT_MAX - common : FAR;
}

struct nearest {
    const char *choice;
    int length;
    int unlikeness; /* without a choice FAR */
};

static void consider_choice(struct nearest *best, const char *text, const char *choice, size_t length)
{
    size_t n = strlen(text);
    int u = n > TEXT_MAX || length > TEXT_MAX ? FAR : unlikeness(text, (int)n, choice, (int)length);

    if (u < best->unlikeness)
        *best = (struct nearest){choice, (int)length, u};
}

const char *choice_near(const char *text, const char *const *choices)
{
    struct nearest best = {.unlikeness = FAR};

    for (; *choices; choices++)
        consider_choice(&best, text, *choices, strlen(*choices));
    return best.choice;
}

const char *choice_near_in(const char *list, const char *text, int *n)
{
    struct nearest best = {.unlikeness = FAR};

    for (const char *p = list; p; p = strchr(p, '|')) {
        p += *p == '|';
        consider_choice(&best, text, p, strcspn(p, "|"));
    }
    *n = best.length;
    return best.choice;
}

int choice_suggest(const char *text, const char *const *choices, struct err *e)
{
    const char *near = choice_near(text, choices);
    size_t n = strlen(e->text);

    if (near)
        snprintf(e->text + n, sizeof e->text - n, "; did you mean \"%s\"?", near);
    for (int i = 0; !near && choices[i] && n < sizeof e->text; n = strlen(e->text), i++)
        snprintf(e->text + n, sizeof e->text - n, "%s%s", i == 0 ? "; there are: " : ", ", choices[i]);
    return e->code;
}
